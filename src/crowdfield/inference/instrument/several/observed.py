"""The reports on states without an order, report by report."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from crowdfield.inference.instrument.grid import Array
from crowdfield.inference.instrument.link import Checks
from crowdfield.inference.instrument.several import scoring
from crowdfield.inference.instrument.several.scoring import Vectors


@dataclass(frozen=True)
class Observed:
    """The reports, one row each, with probability vectors and checks."""

    site: NDArray[np.int64]  # [R]
    source: NDArray[np.int64]
    label: NDArray[np.int64]
    multiplicity: NDArray[np.int64]  # how many reports each row stands for
    n_sites: int
    n_sources: int
    scores: Array  # [L, F]
    checks: Checks
    state_scores: Array  # [J, F]
    vectors: Vectors | None = None  # reports that are probability vectors

    @property
    def functions(self) -> int:
        """F, the number of contrasts."""
        return int(self.scores.shape[1])

    @property
    def label_parameters(self) -> int:
        """The number of a source's parameters for labels, which come first: sensitivity, and a lean to every label."""
        return 1 + len(self.scores)

    @property
    def parameters(self) -> int:
        """The number of parameters of every source."""
        return self.label_parameters + (0 if self.vectors is None else scoring.parameters(self.functions))

    @cached_property
    def said(self) -> Array:
        """The labels as indicators: [R, L]."""
        return np.eye(len(self.scores))[self.label]

    @cached_property
    def by_site(self) -> Any:
        """A sparse matrix [N, R] that sums values of reports over each place, times how often each report counts."""
        return _sums(self.site, self.multiplicity, self.n_sites)

    @cached_property
    def by_source(self) -> Any:
        """A sparse matrix [S, R] that sums values of reports over each source, times how often each report counts."""
        return _sums(self.source, self.multiplicity, self.n_sources)

    def with_reports(self, site: Any, source: Any, label: Any, multiplicity: Any) -> Observed:
        """Other reports about the same places by the same sources."""
        return replace(self, site=site, source=source, label=label, multiplicity=multiplicity)

    def at_places(self, kept: NDArray[np.int64], reported: Any, checks: Checks) -> Observed:
        """The reports about some places, which are renumbered."""
        position = np.full(self.n_sites, -1)
        position[kept] = np.arange(len(kept))
        vectors = None if self.vectors is None else self.vectors.at_places(position)
        return replace(self.with_reports(*reported), n_sites=len(kept), checks=checks, vectors=vectors)


def _sums(index: NDArray[np.int64], multiplicity: NDArray[np.int64], size: int) -> Any:
    """A sparse matrix that sums reports by index, times their counts.   [size, R]"""
    rows = np.arange(len(index))
    return sp.csr_matrix((multiplicity.astype(np.float64), (index, rows)), shape=(size, len(index)))
