"""The reports of two states or of grades: how often every source gave every label at every place, scores, checks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from crowdfield.inference.instrument import link, passes, scoring
from crowdfield.inference.instrument.grid import Array
from crowdfield.inference.instrument.joint_information import Information, LocalInformation
from crowdfield.inference.instrument.linear import Design
from crowdfield.inference.instrument.link import Checks, Link
from crowdfield.inference.instrument.passes import Sums
from crowdfield.inference.instrument.scoring import Readings

if TYPE_CHECKING:
    from crowdfield.inference.instrument.fitting import State

BLOCK = 1 << 16  # places processed at a time


class Observed(NamedTuple):
    """The reports as counts of every source's labels at every place, with scores and checks."""

    votes: Any  # sparse [N, S·L]
    scores: Array  # [L]
    n_sources: int
    checks: Checks
    state_scores: Array = link.SCORES  # [J]
    readings: Readings | None = None  # reports that are scores

    @classmethod
    def of(
        cls,
        site: NDArray[np.int64],
        source: NDArray[np.int64],
        label: NDArray[np.int64],
        multiplicity: NDArray[np.int64],
        n_sites: int,
        n_sources: int,
        scores: Array,
        checks: Checks,
        state_scores: Array = link.SCORES,
        readings: Readings | None = None,
    ) -> Observed:
        """From reports, one row each; `multiplicity` [R]: how often each counts."""
        columns = source * len(scores) + label
        shape = (n_sites, n_sources * len(scores))
        votes = sp.csr_matrix((multiplicity.astype(np.float64), (site, columns)), shape=shape)
        return cls(votes, scores, n_sources, checks, state_scores, readings)

    @property
    def n_sites(self) -> int:
        """The number of things reported on."""
        return int(self.votes.shape[0])

    @property
    def pairs(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The place and the column of every entry of `votes`: [R], [R]."""
        votes = self.votes
        return np.repeat(np.arange(self.n_sites), np.diff(votes.indptr)), votes.indices.astype(np.int64)

    def votes_at(self, rows: slice) -> Any:
        """The votes at some places, sparse [n, S·L]; slicing takes as long as a product with few places."""
        return self.votes if rows == slice(0, self.n_sites) else self.votes[rows]

    @property
    def n_reports(self) -> int:
        """The number of labels and scores; equal labels by one source about one place may count as one."""
        return int(self.votes.nnz) + (0 if self.readings is None else len(self.readings.site))

    def with_reports(
        self,
        site: NDArray[np.int64],
        source: NDArray[np.int64],
        label: NDArray[np.int64],
        multiplicity: NDArray[np.int64],
    ) -> Observed:
        """Other reports about the same places by the same sources."""
        return Observed.of(
            site,
            source,
            label,
            multiplicity,
            self.n_sites,
            self.n_sources,
            self.scores,
            self.checks,
            self.state_scores,
            self.readings,
        )

    def at_places(self, kept: NDArray[np.int64], reported: Any, checks: Checks) -> Observed:
        """The reports about some places, which are renumbered."""
        position = np.full(self.n_sites, -1)
        position[kept] = np.arange(len(kept))
        readings = None if self.readings is None else self.readings.at_places(position)
        return self._replace(votes=self.votes[kept], checks=checks, readings=readings)

    def at_rows(self, rows: NDArray[np.int64]) -> Observed:
        """All reports about some places, which are renumbered; rows in rising order."""
        position = np.full(self.n_sites, -1)
        position[rows] = np.arange(len(rows))
        here = position[self.checks.site] >= 0
        checks = Checks(position[self.checks.site[here]], self.checks.said[here])
        readings = None if self.readings is None else self.readings.at_places(position)
        return self._replace(votes=self.votes[rows], checks=checks, readings=readings)

    @property
    def functions(self) -> int:
        """The number of latent functions: one."""
        return 1

    def blocks(self) -> list[slice]:
        """Slices that cut the places into blocks, of which one is processed at a time."""
        return [slice(start, min(start + BLOCK, self.n_sites)) for start in range(0, self.n_sites, BLOCK)]

    @property
    def parameters(self) -> int:
        """The number of parameters of every source."""
        return len(self.scores) + (0 if self.readings is None else scoring.PARAMETERS)

    def likelihood(self, rows: slice, table: Array, truth_link: Link, theta: Array) -> Array:
        """ℓ(g) at some places: [n, K].   table [S·L, K]"""
        out = np.asarray(self.votes_at(rows) @ table)
        if self.readings is not None:
            out += scoring.log_likelihood(self.readings.within(rows), theta[:, len(self.scores) :], len(out))
        checks = self.checks.within(rows)
        if len(checks.site):
            out[checks.site] += link.log_likelihood(truth_link, checks)
        return out

    # --- what a fit asks of the places: sums over them, so that runs of places may be kept anywhere -------------------

    def pass_over(self, state: State, mean: Array, variance: Array, nugget: Array) -> Sums:
        """The sums of one pass over the places (`passes.pass_over`)."""
        return passes.pass_over(self, state, mean, variance, nugget)

    def at_sites(
        self, state: State, mean: Array, variance: Array, nugget: Array, truth_link: Link
    ) -> tuple[Array, Array]:
        """P(t) and the moments of the appearance of every place (`passes.at_sites`)."""
        return passes.at_sites(self, state, mean, variance, nugget, truth_link)

    def information(self, design: Design, state: State, nugget: Array, appearances: Array) -> Information:
        """The joint information of the reports (`joint_information`)."""
        return LocalInformation(self, design, state, nugget, appearances)
