"""Which model of reports predicts left-out reports better: the choice of `reports_model="auto"`.

Both models are fitted to the same reports less a random third, and predict that third; then the other two thirds in
turn, until the choice is clear or enough reports were left out. Nothing is approximated beside the fits themselves.

Only reports that name a state are left out, and what counts is which of the states they name: a map shows states, and a
model must not be chosen because it predicts where people say "bad imagery".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from crowdfield.errors import NumericalError
from crowdfield.inference import confusion, lengthscale_selection, selection, solvers
from crowdfield.inference.data import contrast
from crowdfield.inference.fields.basis import Basis
from crowdfield.inference.fields.features import FeatureEngine
from crowdfield.inference.fields.seen import seen_part
from crowdfield.inference.instrument import bases, left_out
from crowdfield.inference.instrument import model as instrument
from crowdfield.inference.instrument.fitting import Variances
from crowdfield.inference.instrument.iterate import Policy
from crowdfield.inference.instrument.model import Problem
from crowdfield.inference.instrument.selection import Reported
from crowdfield.inference.kernels import Kernel
from crowdfield.inference.posed import Posed
from crowdfield.inference.predict import FieldPredictor
from crowdfield.inference.quadrature import rate_moments
from crowdfield.inference.sites import Sites
from crowdfield.inference.solvers import Solver
from crowdfield.models import inexact
from crowdfield.models.base import Array, find_sites
from crowdfield.models.instrument import InstrumentSetup
from crowdfield.models.learned import FitInput
from crowdfield.models.problem import pose

if TYPE_CHECKING:
    from crowdfield.models.heatmap_bcc import HeatmapBCC

FEWEST_REPORTS = 100  # that can tell two models apart at all; with fewer it is the paper's
# `partial_fit` compares again when there are this many times the reports of the last comparison.
GROWTH_BEFORE_COMPARING_AGAIN = 1.25
PARTS = 3  # a third of the reports is left out at a time
COMPARED_PLACES = (1_000, 4_000)  # at most, with all their reports; more where fewer leave the choice open
FEATURES = bases.Size(exact=150, cheap=150, spectral=200, inducing=150)  # of either model: the same, and few
COMPARED_SWEEPS, COMPARED_TOL = (
    30,
    2e-2,
)  # of the fits that are compared: with 5e-3, left-out reports differ by .0005 bits
COMPARED_POLICY = Policy(
    max_iter=COMPARED_SWEEPS, tol=COMPARED_TOL, variance_sweeps=15, variance_tol=0.05, unsure_variances=False
)
# Another model is chosen over the one-state model if it predicts better by more than two standard errors, and by so
# many bits per report: a smaller difference does not visibly change a map.
CLEAR_STANDARD_ERRORS, NOTICEABLE_BITS = 2.0, 0.01
# The comparison ends early if the difference is this many standard errors away from the value at which the other model
# would be chosen, and at least this many reports were left out: with fewer, the standard error itself is uncertain.
# `benchmarks/thirds.py` checks that all thirds would not have chosen otherwise.
EARLY_STOP_STANDARD_ERRORS, FEWEST_LEFT_OUT = 2.0, 60


class Difference(NamedTuple):
    """How much better one model predicts left-out reports than another."""

    bits: float  # per report; −∞ if the one cannot be fitted, ∞ if the other cannot
    standard_error: float

    @property
    def beyond(self) -> float:
        """Bits per report by which the one predicts better than it must to be chosen."""
        if not np.isfinite(self.bits):
            return self.bits
        return self.bits - max(CLEAR_STANDARD_ERRORS * self.standard_error, NOTICEABLE_BITS)

    @property
    def is_clear(self) -> bool:
        """Whether further left-out reports would hardly change which is chosen."""
        return abs(self.beyond) > EARLY_STOP_STANDARD_ERRORS * self.standard_error


class Comparison(NamedTuple):
    """Mean log2 P of left-out reports under each model, and under each source's label frequencies ("habits")."""

    instrument: float
    one_state: float  # with what the settings say about the sources; by default, a prior that is learned from the crowd
    separate: float  # one state, but confusion matrices that have nothing in common
    habits: float
    separate_gain: Difference  # of separate matrices over the one-state model as it is set
    instrument_gain: Difference  # of the instrument model over the better of these two

    @property
    def better(self) -> str:
        """The instrument model or separate matrices where they predict left-out reports clearly better."""
        if self.instrument_gain.beyond > 0.0:
            return "instrument"
        return self.better_one_state

    @property
    def better_one_state(self) -> str:
        """Which one-state model the instrument model is compared with."""
        return "separate" if self.separate_gain.beyond > 0.0 else "one_state"

    @property
    def is_clear(self) -> bool:
        """Whether further left-out reports would hardly change which model is chosen."""
        return self.instrument_gain.is_clear and (self.better == "instrument" or self.separate_gain.is_clear)


def compare(model: HeatmapBCC, setup: InstrumentSetup, given: FitInput) -> tuple[Comparison, Kernel]:
    """The comparison, with one kernel for both models, which is given back."""
    for most in COMPARED_PLACES:
        compared = Compared.on(model, setup, given, most)
        for found, left_out_so_far in compared.after_every_part():
            if left_out_so_far >= FEWEST_LEFT_OUT and found.is_clear:
                break
        if found.is_clear or len(setup.problem.X) <= most:
            break
    return found, compared.kernel


class Compared(NamedTuple):
    """The places on which models are compared, with all their reports, and what the fits to parts of these share."""

    part: Problem
    rows: NDArray[np.int64]  # the reports of `part`, in its order
    trusted: NDArray[np.int64]  # the reports of trusted sources about these places, which are not left out
    n_states: int
    kernel: Kernel
    basis: Basis  # of the instrument model's fits
    one_state: _OneState
    communities: Any

    @classmethod
    def on(cls, model: HeatmapBCC, setup: InstrumentSetup, given: FitInput, most: int) -> Compared:
        """On at most so many places."""
        part, kept = instrument.part_of(setup.problem, most)
        here = np.isin(setup.thing, kept)
        rows, trusted = np.flatnonzero(setup.crowd & here), np.flatnonzero(~setup.crowd & here)
        every, size = np.r_[rows, trusted], FEATURES.shared_by(part.functions)
        kernel = _shared_kernel(model, given, every, partial(_with_few_features, size))
        basis = _features(part.engine, kernel, part.X, part.rng(), size)
        one_state = _OneState.on(model, given, kernel, every, size)
        part = part._replace(kernel=kernel)
        return cls(part, rows, trusted, len(given.states), kernel, basis, one_state, given.posed.communities)

    def after_every_part(self) -> Iterator[tuple[Comparison, int]]:
        """The comparison after each part that was left out, and how many reports were left out so far."""
        reported, n_labels = self.part.reported, len(self.part.observed.scores)
        names_state = np.flatnonzero(reported.label < self.n_states)
        predicted = np.empty((0, 5))
        variances: Variances | None = None
        for left_out_part in _parts(len(names_state), self.part.rng()):
            hidden = np.zeros(len(self.rows), dtype=bool)
            hidden[names_state[left_out_part]] = True
            new = reported.take(hidden)
            read, variances = _by_instruments(self.part, self.basis, hidden, variances, self.n_states)
            by_one_state = partial(self.one_state.log_p, np.r_[self.rows[~hidden], self.trusted], self.rows[hidden])
            one_state = by_one_state(self.communities)
            separate = one_state if self.communities is None else by_one_state(None)
            habits = _by_habits(reported, hidden, self.part.observed.n_sources, n_labels)
            every = [
                _log_p_given_a_state(log_p[:, : self.n_states], new.label)
                for log_p in (read, one_state, separate, habits)
            ]
            predicted = np.vstack([predicted, np.column_stack([*every, new.multiplicity])])
            yield _summarised(predicted), len(predicted)


def _summarised(predicted: Array) -> Comparison:
    """The comparison of log P of left-out reports under instruments, one state, separate matrices and habits, and their
    counts: [R, 5].
    """
    *logs, count = predicted.T
    bits = [float((count * each).sum() / max(count.sum(), 1)) / np.log(2.0) for each in logs]
    instrument_, one_state, separate, habits = bits

    def difference(one: int, other: int) -> Difference:
        if not np.isfinite([bits[one], bits[other]]).all():
            return Difference(-np.inf if np.isneginf(bits[one]) else np.inf, 0.0)
        mean = bits[one] - bits[other]
        # A row that counts several times is predicted as a whole.
        spread = count * ((logs[one] - logs[other]) / np.log(2.0) - mean)
        return Difference(mean, float(np.sqrt((spread**2).sum()) / max(count.sum(), 1)))

    gain = difference(2, 1)
    return Comparison(instrument_, one_state, separate, habits, gain, difference(0, 2 if gain.beyond > 0.0 else 1))


def _shared_kernel(model: HeatmapBCC, given: FitInput, rows: NDArray[np.int64], lay_out: selection.LayOut) -> Kernel:
    """The kernel that was given, or one with the length-scale that the one-state model learns from these reports,
    which is the quicker of the two to learn.
    """
    if not given.posed.free:
        return given.posed.kernel
    posed = pose(model, given.reports.take(rows), given.states, given.gold)
    try:
        return lengthscale_selection.learn(posed, None, lay_out).posed.kernel
    except NumericalError:
        return given.posed.kernel  # the one-state model cannot be fitted here, and will predict nothing


def _parts(count: int, rng: np.random.Generator) -> list[NDArray[np.bool_]]:
    """Which reports are left out, part by part."""
    part = rng.permutation(count) % PARTS
    return [part == k for k in range(PARTS)]


def _log_p_given_a_state(log_p: Array, label: NDArray[np.int64]) -> Array:
    """log P(label | the report names a state), from the log P of every label that names one.   [R, J], [R] -> [R]"""
    if np.isneginf(log_p).all():
        return np.full(len(label), -np.inf)  # a model that could not be fitted
    return np.asarray(log_p[np.arange(len(label)), label] - logsumexp(log_p, axis=1))


def _by_instruments(
    part: Problem, basis: Basis, hidden: NDArray[np.bool_], near: Variances | None, n_states: int
) -> tuple[Array, Variances | None]:
    """log P of every state's label in the left-out reports [R, J], and the variances that were learned; `near`: where
    to start to learn them."""
    seen, new = part.reported.take(~hidden), part.reported.take(hidden)
    problem = part._replace(reported=seen, observed=part.observed.with_reports(*seen))
    try:
        start = problem.start() if near is None else problem.start()._replace(variances=near)
        fitted = instrument.fit(problem, start, COMPARED_POLICY, basis=basis)
    except (NumericalError, np.linalg.LinAlgError):
        return np.full((len(new.label), n_states), -np.inf), near  # a model that cannot be fitted predicts nothing
    every = Reported(*(np.tile(column, n_states) for column in new))
    every = every._replace(label=np.repeat(np.arange(n_states), len(new.label)))
    return fitted.log_probabilities(every).reshape(n_states, -1).T, fitted.state.variances


class _OneState(NamedTuple):
    """Fits of the one-state model to parts of the reports."""

    model: HeatmapBCC
    given: FitInput
    kernel: Kernel
    lay_out: selection.LayOut

    @classmethod
    def on(
        cls, model: HeatmapBCC, given: FitInput, kernel: Kernel, rows: NDArray[np.int64], size: bases.Size
    ) -> _OneState:
        """Fits to parts of these reports, all with the features that suit their places."""
        posed = pose(model, given.reports.take(rows), given.states, given.gold).with_kernel(kernel)
        basis = _features(posed.engine_name, posed.field_kernel, posed.data.X, posed.rng(), size)
        return cls(model, given, kernel, partial(_over, basis))

    def log_p(self, seen: NDArray[np.int64], hidden: NDArray[np.int64], communities: Any) -> Array:
        """log P of every state's label in the reports that were left out: [R, J]."""
        reports, states = self.given.reports, self.given.states
        posed = pose(self.model, reports.take(seen), states, self.given.gold).with_kernel(self.kernel)
        posed = replace(posed, communities=communities)
        try:
            solver, fit = selection.solve(posed, None, max_iter=COMPARED_SWEEPS, tol=COMPARED_TOL, lay_out=self.lay_out)
        except NumericalError:
            return np.full((len(hidden), len(states)), -np.inf)  # a model that cannot be fitted predicts nothing
        places = inexact.sites_of(reports.take(hidden))
        C = contrast(len(states))
        predictor = FieldPredictor(fit.q.fields, posed.mean_at, C, reports.places.shape[1])
        probability = rate_moments(*inexact.latent_at(predictor, posed, places), C)[0]
        where = find_sites(posed.data.X, inexact.with_site_columns(posed.data.X, places))
        probability[where >= 0] = solver.responsibilities(fit.q)[where[where >= 0]]
        named = [reports.labels.index(state) for state in states]
        said = confusion.expected_pi(fit.q.alpha)[reports.source[hidden]][:, :, named]
        return np.asarray(np.log(np.einsum("rj,rjl->rl", probability, said)))


def _features(engine: str, kernel: Kernel, X: Array, rng: np.random.Generator, size: bases.Size) -> Basis:
    """Few features for places: those of a basis that the places see, where these are fewer."""
    basis = bases.choose(engine, kernel, X, rng, size)
    return seen_part(basis, basis.locate(X), len(X)) or basis


def _over(basis: Basis, posed: Posed) -> Solver:
    return solvers.over(posed, Sites(posed.data, posed.prior, FeatureEngine(basis, posed.data.X)))


def _with_few_features(size: bases.Size, posed: Posed) -> Solver:
    return _over(bases.choose(posed.engine_name, posed.field_kernel, posed.data.X, posed.rng(), size), posed)


def _by_habits(reported: Reported, hidden: NDArray[np.bool_], n_sources: int, n_labels: int) -> Array:
    """log P of every label in the left-out reports: [R, L]."""
    seen, new = reported.take(~hidden), reported.take(hidden)
    habits = left_out.Habits.learn(seen, n_sources, n_labels, seen.multiplicity)
    return np.stack([habits.further(new._replace(label=np.full_like(new.label, code))) for code in range(n_labels)], 1)
