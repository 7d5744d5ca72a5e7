"""Worlds whose truth is known, of any size: smooth fields, good and useless sources."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class World(NamedTuple):
    X: NDArray[np.float64]  # [R, 2] in length-scales
    label: NDArray[np.int64]
    source: NDArray[np.int64]
    truth: NDArray[np.bool_]  # at every report
    rate: NDArray[np.float64]  # that it was drawn with


def field(reports: int, sources: int, extent: float = 10.0, seed: int = 0) -> World:
    """One report at each of `reports` places; half of the sources are right nine times in ten, half toss a coin."""
    rng = np.random.default_rng(seed)
    X = rng.random((reports, 2)) * extent
    # Student-t frequencies with 3 degrees of freedom are those of a Matérn 3/2 field of length-scale 1.
    waves, phase = rng.standard_t(3, (400, 2)), rng.random(400) * 2 * np.pi
    height = 1.2 * rng.standard_normal(400) * np.sqrt(2 / 400)
    parts = np.array_split(X, max(1, reports // 20_000))
    f = np.concatenate([np.cos(part @ waves.T + phase) @ height for part in parts])
    rate = 1 / (1 + np.exp(-f))
    truth = rng.random(reports) < rate
    source = rng.integers(0, sources, reports)
    right = rng.random(reports) < np.where(source < (sources + 1) // 2, 0.9, 0.5)
    return World(X, np.where(right, truth, ~truth).astype(np.int64), source, truth, rate)


def items(reports: int, sources: int, seed: int = 0) -> World:
    """Five reports for each of reports/5 items that have nothing to do with each other."""
    rng = np.random.default_rng(seed)
    n = reports // 5
    state = rng.random(n) < 0.5
    item = np.repeat(np.arange(n), 5)
    source = rng.integers(0, sources, 5 * n)
    right = rng.random(5 * n) < rng.uniform(0.5, 0.95, sources)[source]
    truth = state[item]
    label = np.where(right, truth, ~truth).astype(np.int64)
    return World(item[:, None].astype(float), label, source, truth, truth.astype(float))
