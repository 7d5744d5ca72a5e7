"""Sites with their engine and their reports in blocks: what a pass over them needs, without any state.

Blocks are independent. NumPy and FINUFFT leave Python alone while they work, so that threads share the blocks; sums
keep the order of the blocks, so that the answer does not depend on who was faster.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property, reduce
from operator import add
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from crowdfield.inference.blur import flattening
from crowdfield.inference.data import Block, Data, Prior, blocks, contrast
from crowdfield.inference.fields.base import Array, Engine, Field
from crowdfield.inference.fields.cells import Cells
from crowdfield.inference.fields.features import FeatureEngine
from crowdfield.inference.fields.spectral import SpectralBasis
from crowdfield.inference.newton import ReportsByCell

PROBES = 2048  # sites at which convergence is watched

Part = TypeVar("Part")
Sum = TypeVar("Sum", bound=Any)


class Kept(dict[Any, Any]):
    """What was prepared and can be prepared again: it stays in its process."""

    def __reduce__(self) -> tuple[type[Kept], tuple[()]]:
        return Kept, ()


@dataclass(frozen=True)
class Sites:
    """The sites of this process: their reports, their priors and the engine of the field, cut into blocks.

    When they are one partition of a larger set, `first` and `total` say which part of it, so that convergence is
    monitored at the same sites.
    """

    data: Data
    prior: Prior
    engine: Engine
    first: int = 0
    total: int | None = None
    blocks: list[Block] = field(init=False)
    kept: Kept = field(init=False, repr=False, compare=False)  # what a pass has prepared for the next, and its q(t)
    flat: Array | None = field(init=False)  # [N, 1] the share κ of f in the log odds of the state of inexact places

    def __post_init__(self) -> None:
        flat = flattening(self.engine.kernel, self.data.X, self.prior.rate / self.prior.shape)
        object.__setattr__(self, "flat", None if flat is None else flat[:, None])
        object.__setattr__(self, "kept", Kept())
        object.__setattr__(self, "blocks", blocks(self.data, self.prior.mean, self.engine.blocks))

    @property
    def C(self) -> Array:
        """The contrast of states and functions: [J, F]."""
        return contrast(self.data.n_states)

    @cached_property
    def reports_by_cell(self) -> list[ReportsByCell] | None:
        """Which source said what in which cell, block by block: two states, on Fourier features, all sites here."""
        engine = self.engine
        if self.total is not None or self.data.n_states != 2 or not isinstance(engine, FeatureEngine):
            return None
        if type(engine.basis) is not SpectralBasis or any(engine.points(b).decay is not None for b in engine.blocks):
            return None
        cells, keys = Cells(engine.basis), self.data.n_sources * self.data.n_labels
        return [ReportsByCell.of(cells, engine.points(block.sites), block, keys) for block in self.blocks]

    def watched(self, block: Block) -> slice:
        """Which sites of a block are used to monitor convergence: an even subset of all sites."""
        stride = max(1, (self.data.n_sites if self.total is None else self.total) // PROBES)
        return slice(-(self.first + block.sites.start) % stride, None, stride)


class ForeignField(NamedTuple):
    """A field of another engine (a warm start), which must be evaluated at the places of the sites."""

    field: Field


def moments_at(sites: Sites, fields: Sequence[Field | ForeignField], block: Block) -> tuple[Array, Array]:
    """Mean and variance of f at the sites of a block: [n, F] each."""
    moments = [
        f.field.as_sites(sites.data.X[block.sites])
        if isinstance(f, ForeignField)
        else sites.engine.at_sites(f, block.sites)
        for f in fields
    ]
    return block.mean + np.stack([m for m, _ in moments], 1), np.stack([v for _, v in moments], 1)


def over_blocks(one: Callable[[Part], Sum], chosen: Sequence[Part]) -> list[Sum]:
    """`one` of every block chosen, on all cores; results in their order."""
    if len(chosen) < 2:
        return [one(b) for b in chosen]
    with ThreadPoolExecutor(min(os.cpu_count() or 1, len(chosen))) as pool:
        return list(pool.map(one, chosen))


def over_rows(one: Callable[[slice], Sum], n: int, size: int) -> list[Sum]:
    """`one` of rows 0 to n, `size` of them at a time, on all cores; results in their order."""
    return over_blocks(one, [slice(start, min(start + size, n)) for start in range(0, n, size)])


def sum_over_blocks(one: Callable[[int], Sum], chosen: Sequence[int]) -> Sum:
    """The sum of a function of blocks over the chosen ones, in their order, so that equal inputs give equal sums."""
    return reduce(add, over_blocks(one, chosen))


def rule_out(log_likelihood: Array, known: NDArray[np.int32]) -> Array:
    """Where the state is known, every other state has no likelihood."""
    rows = np.flatnonzero(known >= 0)
    if len(rows):
        kept = log_likelihood[rows, known[rows]]
        log_likelihood[rows] = -np.inf
        log_likelihood[rows, known[rows]] = kept
    return log_likelihood
