"""Newton's step of sources and field together, for mean-field VB of two states.

A field of larger amplitude with less skilled sources explains most reports nearly as well. Along that ridge,
alternating updates of sources and field converge slowly. The bound's second derivatives account for it: with κ = r(1 −
r) at a site, K the sums of κ over the reports of every source and label in every cell of a map, and h the curvature of
a site with q(t) at its optimum,

    (ςI + Φᵀ h Φ) δw − Φᵀ Kᵀ E (sources' own step + K Φ δw) = gradient in w,

where E is the response of a source's E[log π] to its counts, with q(t) at its optimum. K is sparse, Φ is a Fourier
transform over the cells, and conjugate gradients need some ten products with both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from crowdfield.arrays import Array
from crowdfield.inference import confusion, linearise
from crowdfield.inference.data import Block, Codes
from crowdfield.inference.fields.cells import Cells
from crowdfield.inference.fields.spectral import Points

MOST_PRODUCTS = 30  # products with the second derivatives in one step
FARTHEST = 1.0  # largest change of the log odds in a step: the linearisation holds only nearby
ACCURATE = 0.02  # relative residual: the cells themselves are accurate to some percent only


class SecondDerivatives(NamedTuple):
    """Second derivatives of the bound at the sites of a block, with q(t) at its optimum: sums over cells."""

    cells: Cells
    curvature: Array  # [cells] Σ h
    missing: csr_array  # K [S · L, cells] Σ κ


@dataclass(frozen=True)
class ReportsByCell:
    """Which source said which label in which cell: the sparsity pattern of K, which no sweep changes."""

    cells: Cells
    cell: Codes  # [n] of every site
    site: Codes  # [Rb] sites in order of their reports' keys
    column: Codes  # [Rb] their cells
    start: Codes  # [S · L + 1]
    multiplicity: Array | None  # [Rb] how often each report counts; None where all are 1

    @classmethod
    def of(cls, cells: Cells, points: Points, block: Block, keys: int) -> ReportsByCell:
        """The reports of a block, by cell and key."""
        cell, order = cells.of(points), np.argsort(block.key, kind="stable")
        site = block.site[order]
        start = np.concatenate([[0], np.cumsum(np.bincount(block.key, minlength=keys))])
        multiplicity = None if block.multiplicity is None else block.multiplicity[order]
        return cls(cells, cell, site, cell[site], start.astype(np.int32), multiplicity)

    def second_derivatives(self, mean: Array, variance: Array, lam: Array, missing: Array) -> SecondDerivatives:
        """Sum the curvatures and missing information of the sites over cells. All arguments: [n]."""
        curvature = linearise.own_curvature(mean, variance, lam) - missing
        each = missing[self.site] if self.multiplicity is None else missing[self.site] * self.multiplicity
        K = csr_array((each, self.column, self.start), shape=(len(self.start) - 1, self.cells.count))
        by_cell = np.bincount(self.cell, curvature, self.cells.count).astype(np.float64, copy=False)
        return SecondDerivatives(self.cells, by_cell, K)


class Step(NamedTuple):
    """The result of Newton's step."""

    field: Array  # [m] change of the mean of the weights
    counts: Array  # [S, J, L] pseudo-counts


def step(
    second_derivatives: tuple[SecondDerivatives, ...],
    sources: confusion.Response,
    gradient: Array,
    precision: float,
    precondition: Callable[[Array], Array],
) -> Step | None:
    """Newton's step to a stationary point of sources and field; None where the bound is not concave.

    gradient [m] of the bound in the weights; `precondition` solves roughly for a step of the field alone.
    """
    cells, curvature = second_derivatives[0].cells, np.sum([a.curvature for a in second_derivatives], axis=0)

    def sum_by_key(values: Array) -> Array:  # K g  [cells] -> [S · L]
        return np.asarray(np.sum([a.missing @ values for a in second_derivatives], axis=0))

    def sum_by_cell(by_key: Array) -> Array:  # Kᵀ u  [S · L] -> [cells]
        return np.asarray(np.sum([by_key @ a.missing for a in second_derivatives], axis=0))

    def product(w: Array) -> Array:
        g = cells.evaluate(w)
        released = sum_by_cell(sources.log_odds(sources.counts_for(sum_by_key(g))))
        return np.asarray(precision * w + cells.project(curvature * g - released))

    alone = sources.step
    right = gradient + cells.project(sum_by_cell(sources.log_odds(alone)))
    field = conjugate_gradients(product, right, precondition)
    if field is None:
        return None
    moved = cells.evaluate(field)
    counts = sources.counts + alone + sources.counts_for(sum_by_key(moved))
    return None if np.abs(moved).max() > FARTHEST else Step(field, counts)


def conjugate_gradients(
    product: Callable[[Array], Array], right: Array, precondition: Callable[[Array], Array]
) -> Array | None:
    """x with A x ≈ b; the last x before a direction along which A is not positive, None if that is the first."""
    x, left = np.zeros_like(right), right.copy()
    z = precondition(left)
    direction, power = z, float(left @ z)
    enough = ACCURATE**2 * power
    for _ in range(MOST_PRODUCTS):
        moved = product(direction)
        bend = float(direction @ moved)
        if bend <= 0.0:
            return None
        length = power / bend
        x += length * direction
        left -= length * moved
        z = precondition(left)
        power, before = float(left @ z), power
        if power <= enough:
            break
        direction = z + (power / before) * direction
    return x
