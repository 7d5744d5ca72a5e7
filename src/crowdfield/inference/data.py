"""The reports and the prior as arrays, the form in which all of inference takes them.

Axes: N sites, R reports, S sources, J states, L labels, F latent functions (docs/notation.md).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crowdfield.arrays import Array as Array

Codes = NDArray[np.int32]


class Data(NamedTuple):
    """A long table of reports, sorted by site. A missing report is simply absent."""

    X: Array  # [N, D] distinct places
    site: Codes  # [R] ascending
    source: Codes  # [R]
    label: Codes  # [R]
    n_sources: int
    n_labels: int
    n_states: int
    known: Codes  # [N] the state where it is known (gold), else −1
    repeats: Codes | None  # [R] reports of this source at this site with this label; None where all are 1
    multiplicity: Array | None = None  # [R] how often each report counts; None where all are 1

    @property
    def n_sites(self) -> int:
        """The number of sites."""
        return len(self.X)


class Prior(NamedTuple):
    """The priors, as arrays."""

    alpha0: Array  # [S, J, L] Dirichlet rows of every source's confusion matrix
    shape: float  # a0 of ς
    rate: float  # b0 of ς
    mean: Array  # [N, F] μ at the sites


class Block(NamedTuple):
    """The sites of one slice, and their reports numbered from the slice's first site."""

    sites: slice
    site: Codes  # [Rb] 0 … n−1
    key: NDArray[np.int64]  # [Rb] source · L + label: a row of a table [S·L, J]
    known: Codes  # [n]
    mean: Array  # [n, F] μ
    repeats: Codes | None
    multiplicity: Array | None = None

    def times(self, values: Array) -> Array:
        """Values of reports, as often as each report counts.   [Rb, …] -> [Rb, …]"""
        return values if self.multiplicity is None else (values.T * self.multiplicity).T

    @property
    def n(self) -> int:
        """The number of sites of the block."""
        return int(self.sites.stop - self.sites.start)


def contrast(n_states: int) -> Array:
    """C [J, F] with logits = f Cᵀ. Two states need one function, the log odds of the second; J > 2 have one each."""
    return np.array([[0.0], [1.0]]) if n_states == 2 else np.eye(n_states)


def arrange(
    X: Array,
    site: NDArray[np.int64],
    source: NDArray[np.int64],
    label: NDArray[np.int64],
    *,
    n_sources: int,
    n_labels: int,
    n_states: int,
    known: NDArray[np.int64] | None = None,
    count: NDArray[np.int64] | None = None,
) -> Data:
    """Sort reports by site (stable, so that equal inputs give equal sums) and count repeats."""
    # A stable sort of rows by site, as one of numbers that hold both: ten times faster than sorting indices.
    count_of_rows = max(len(site), 1)
    order = np.sort(site.astype(np.int64) * count_of_rows + np.arange(len(site))) % count_of_rows
    site32 = site[order].astype(np.int32)
    source32, label32 = source[order].astype(np.int32), label[order].astype(np.int32)
    multiplicity = None if count is None else count[order].astype(np.float64)
    return Data(
        X=X,
        site=site32,
        source=source32,
        label=label32,
        n_sources=n_sources,
        n_labels=n_labels,
        n_states=n_states,
        known=np.full(len(X), -1, np.int32) if known is None else known.astype(np.int32),
        repeats=_repeats(site32, source32, label32, multiplicity),
        multiplicity=multiplicity,
    )


def _repeats(site: Codes, source: Codes, label: Codes, count: Array | None) -> Codes | None:
    """The number of reports with the same site, source and label as each report; None if none is repeated.   [R]"""
    if len(site) == 0:
        return None
    # Most often no report is repeated, and sorting numbers alone, which is fast, shows it.
    kinds = int(source.max()) + 1, int(label.max()) + 1
    keys = np.sort((site.astype(np.int64) * kinds[0] + source) * kinds[1] + label)
    if count is None and (keys[1:] != keys[:-1]).all():
        return None
    order = np.lexsort((label, source, site))
    same = (np.diff(site[order]) == 0) & (np.diff(source[order]) == 0) & (np.diff(label[order]) == 0)
    if not same.any() and count is None:
        return None
    group = np.concatenate([[0], np.cumsum(~same)])
    out = np.empty(len(site), np.int32)
    out[order] = np.bincount(group, None if count is None else count[order])[group]
    return out


def blocks(data: Data, prior_mean: Array, slices: list[slice]) -> list[Block]:
    """Cut the table along runs of sites. Views and small integers only: no copy of the coordinates."""
    cut = np.searchsorted(data.site, [s.start for s in slices] + [slices[-1].stop if slices else 0])
    out = []
    for s, first, last in zip(slices, cut[:-1], cut[1:], strict=True):
        rows = slice(int(first), int(last))
        out.append(
            Block(
                sites=s,
                site=data.site[rows] - np.int32(s.start),
                key=data.source[rows].astype(np.int64) * data.n_labels + data.label[rows],
                known=data.known[s],
                mean=prior_mean[s],
                repeats=None if data.repeats is None else data.repeats[rows],
                multiplicity=None if data.multiplicity is None else data.multiplicity[rows],
            )
        )
    return out
