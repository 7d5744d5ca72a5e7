"""Do the intervals of spot checks hold? Many samples of maps that are right, biased or nearly perfect.

python -m benchmarks spot-checks --samples 1000
python -m benchmarks spot-checks --samples 1000 --worlds 10      (each row: the lowest, mean and highest of ten worlds)
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import numpy as np

from crowdfield.inference import stratified
from crowdfield.inference.stratified import Predicted, Sample

CELLS = 20_000
MAPS = ("calibrated", "biased", "nearly perfect", "useless")


def world(name: str, states: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """The states of all cells [N], and what a map says of them [N, J]."""
    logits = rng.normal(0.0, 1.5, (CELLS, states)) + np.linspace(1.0, -1.0, states)
    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    if name == "nearly perfect":
        p = p**6 / (p**6).sum(1, keepdims=True)
    truth = (rng.random((CELLS, 1)) > p.cumsum(1)).sum(1).clip(max=states - 1)
    if name == "biased":  # far too sure, and of the last state
        logits = 2.5 * logits
        logits[:, -1] += 2.0
        p = np.exp(logits - logits.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
    if name == "useless":
        p = rng.permutation(p)
    return truth, p


def strata_of(p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mapped state and certainty, as `assess plan` cuts them."""
    mapped, sure = p.argmax(1), p.max(1) >= 0.8
    codes, stratum = np.unique(2 * mapped + sure, return_inverse=True)
    return codes // 2, stratum.ravel()


def held(name: str, size: int, samples: int, states: int = 2, level: float = 0.95, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng([seed, size, states])
    truth, p = world(name, states, rng)
    mapped, stratum = strata_of(p)
    cells = np.bincount(stratum)
    everywhere = np.stack([np.bincount(stratum, p[:, j]) / cells for j in range(states)], axis=1)
    last, H = states - 1, len(cells)
    right = truth == p.argmax(1)
    real = {
        "area": (truth == last).mean(),
        "accuracy": right.mean(),
        "user's": right[p.argmax(1) == last].mean() if (mapped == last).any() else np.nan,
        "producer's": right[truth == last].mean(),
        "prediction-powered area": (truth == last).mean(),
    }
    spread = np.sqrt(np.clip(np.bincount(stratum, p.max(1)) / cells, 0.5, 0.9) * 0.3)
    give = stratified.allocate(cells, spread, size, 10)
    members = [np.flatnonzero(stratum == h) for h in range(H)]
    hits: dict[str, list[bool]] = {what: [] for what in real}
    widths: dict[str, list[float]] = {what: [] for what in real}
    for _ in range(samples):
        rows = np.concatenate([rng.choice(m, n, replace=False) for m, n in zip(members, give, strict=True)])
        counts = np.zeros((H, states), dtype=np.int64)
        np.add.at(counts, (stratum[rows], truth[rows]), 1)
        sample = Sample(cells, mapped, counts)
        told = Predicted(stratum[rows], (truth[rows] == last).astype(float), p[rows, last], everywhere[:, last])
        found = {
            "area": stratified.area(sample, last, level),
            "accuracy": stratified.accuracy(sample, level),
            "user's": stratified.users(sample, last, level),
            "producer's": stratified.producers(sample, last, level),
            "prediction-powered area": stratified.prediction_powered(sample, told, level),
        }
        for what, estimate in found.items():
            if estimate is not None:
                hits[what].append(bool(estimate.low <= real[what] <= estimate.high))
                widths[what].append(estimate.high - estimate.low)
    return {
        "map": name,
        "states": states,
        "checks": int(give.sum()),
        "samples": samples,
        "held": {what: round(float(np.mean(h)), 3) for what, h in hits.items() if h},
        "mean width": {what: round(float(np.mean(w)), 3) for what, w in widths.items() if w},
    }


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks spot-checks", description=__doc__)
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--checks", type=int, nargs="*", default=[60, 150, 400])
    parser.add_argument("--worlds", type=int, default=1, help="more than one: other worlds than that of one")
    given = parser.parse_args(arguments)
    for name in MAPS:
        for size, states in [*((size, 2) for size in given.checks), (150, 3)]:
            if given.worlds == 1:
                print(json.dumps(held(name, size, given.samples, states)), flush=True)
            else:
                print(json.dumps(over_worlds(name, size, given.samples, states, given.worlds)), flush=True)
    return 0


def over_worlds(name: str, size: int, samples: int, states: int, worlds: int) -> dict[str, Any]:
    """The lowest, mean and highest part of intervals that held, of several worlds."""
    rows = [held(name, size, samples, states, seed=seed)["held"] for seed in range(1, worlds + 1)]
    figures = {what: [row[what] for row in rows if what in row] for what in rows[0]}
    held_in = {what: [min(v), round(float(np.mean(v)), 3), max(v)] for what, v in figures.items()}
    return {"map": name, "states": states, "checks": size, "samples": samples, "worlds": worlds, "held": held_in}
