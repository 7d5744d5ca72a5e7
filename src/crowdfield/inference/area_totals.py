"""Totals of areas over joint draws of the states of all places, streamed: no draw of the whole map is ever held.

A total is of *states*, not of rates: Σ_i w_i t_i, where t_i is one of the states, drawn with the rate of its place in
the same draw. A building with ρ = 0.3 is not three tenths damaged: of ten such buildings, five may be.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from crowdfield.inference.fields.base import Array
from crowdfield.inference.quadrature import softmax
from crowdfield.inference.rate_draws import BLOCK_ENTRIES, RateDraws, probabilities
from crowdfield.inference.reported_draws import shifted_to_mean


class DrawsAtReports(Protocol):
    """Draws of the states of everything that was reported on."""

    def logits(self, rows: slice, rng: np.random.Generator) -> Array:
        """Logits of a block of things in every draw; up to a shift, if their mean is given: [J, m, n]."""
        ...


class Reported(NamedTuple):
    """Things that were reported on."""

    draws: DrawsAtReports
    mean: Array | None  # [P, J] their state probabilities in the map; None: the draws are from the joint posterior
    weights: sp.csr_matrix  # [A, P]


def amounts(
    draws: RateDraws, X: Array, weights: sp.csr_matrix, states: int, reported: Reported | None, rng: np.random.Generator
) -> Array:
    """How much of each area is in which state, in every draw.   X [M, D], weights [A, M] -> [A, J, n]"""
    A, n = weights.shape[0], draws.size
    used = np.flatnonzero(weights.getnnz(axis=0))
    # Only places that some area counts, in their order: rows of a grid stay rows.
    by_place = weights[:, used].tocsc()

    def elsewhere(part: slice, own: np.random.Generator) -> Array:
        return _sums(by_place[:, part], states_from(draws.log_odds(X[used[part]], own), own))

    parts = [_added(elsewhere, len(used), n, (A, states - 1, n), rng)]
    everything = np.asarray(weights.sum(axis=1)).ravel()
    if reported is not None:
        things, counted = reported, reported.weights.tocsc()

        def here(part: slice, own: np.random.Generator) -> Array:
            logits = things.draws.logits(part, own)
            p = softmax(logits, axis=0) if things.mean is None else shifted_to_mean(logits, things.mean[part])
            return _sums(counted[:, part], drawn_states(p, own))

        parts.append(_added(here, counted.shape[1], n, (A, states - 1, n), rng))
        everything = everything + np.asarray(things.weights.sum(axis=1)).ravel()
    rest = sum(parts)
    first = everything[:, None] - np.sum(rest, axis=1)
    return np.concatenate([first[:, None], rest], axis=1)


def _added(
    work: Callable[[slice, np.random.Generator], Array],
    places: int,
    draws: int,
    shape: tuple[int, ...],
    rng: np.random.Generator,
) -> Array:
    """The sum of `work` over blocks of places, on all cores. Each block has its own generator, so that the answer does
    not depend on how many cores there are.
    """
    rows = max(1, BLOCK_ENTRIES // draws)
    blocks = [slice(start, min(start + rows, places)) for start in range(0, places, rows)]
    out = np.zeros(shape)
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for found in pool.map(work, blocks, rng.spawn(len(blocks))):
            out += found
    return out


def states_from(log_odds: Array, rng: np.random.Generator) -> NDArray[np.float32]:
    """Drawn states, as `drawn_states` gives them.   [F, m, n] -> [J − 1, m, n]"""
    if len(log_odds) > 1:
        return drawn_states(probabilities(log_odds), rng)
    odds = log_odds[0].astype(np.float32)  # single precision is several times faster, and enough for a random draw
    np.negative(odds, out=odds)
    with np.errstate(over="ignore"):
        np.exp(odds, out=odds)
    odds += np.float32(1.0)
    odds *= rng.random(odds.shape, dtype=np.float32)  # u < 1 / (1 + e^−x)
    return np.asarray(np.less(odds, 1.0, out=odds)[None], dtype=np.float32)


def drawn_states(p: Array, rng: np.random.Generator) -> NDArray[np.float32]:
    """States with these probabilities, as indicators of all but the first.   [J, m, n] -> [J − 1, m, n]"""
    u = rng.random(p.shape[1:], dtype=np.float32)
    out = np.empty((len(p) - 1, *p.shape[1:]), dtype=np.float32)
    above = np.zeros(p.shape[1:])
    for j in range(len(p) - 1, 0, -1):
        below, above = above, above + p[j]
        out[j - 1] = (u < above) & (u >= below)
    return out


def interval(draws: Array, level: float) -> Array:
    """Both ends of the central interval of draws along the last axis.   [..., n] -> [..., 2]

    Quantiles of the mid-distribution (each value counts half below and half above itself; linear between values).
    Where totals are counts, the ends of the plain quantiles are too wide by half a count on each side.
    """
    flat = draws.reshape(-1, draws.shape[-1])
    wanted = np.array([(1.0 - level) / 2.0, (1.0 + level) / 2.0])
    out = np.empty((len(flat), 2))
    for row, values in enumerate(flat):
        distinct, count = np.unique(values, return_counts=True)
        middle = (np.cumsum(count) - 0.5 * count) / len(values)
        out[row] = np.interp(wanted, middle, distinct)
    return out.reshape(*draws.shape[:-1], 2)


def _sums(weights: sp.csc_matrix, states: NDArray[np.float32]) -> Array:
    """Weighted sums of states over places.   [A, m], [J − 1, m, n] -> [A, J − 1, n]"""
    return np.stack([weights @ indicator for indicator in states], axis=1)
