"""A fit of the instrument model from start to finish, and the predictions of the fitted model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crowdfield.inference.fields.basis import Basis
from crowdfield.inference.instrument import (
    bases,
    coupled,
    iterate,
    left_out,
    methods,
    places,
    responses,
    scoring,
    selection,
    unsure_variances,
)
from crowdfield.inference.instrument.coupled import Coupled
from crowdfield.inference.instrument.fitting import Observed, Prior, Progress, State
from crowdfield.inference.instrument.grid import APPEARANCES, Array
from crowdfield.inference.instrument.iterate import Policy, Settled
from crowdfield.inference.instrument.joint_information import LocalInformation
from crowdfield.inference.instrument.kept import Kept, Moments
from crowdfield.inference.instrument.linear import Columns, Design, Surface
from crowdfield.inference.instrument.link import Link
from crowdfield.inference.instrument.methods import AnyObserved, method_for
from crowdfield.inference.instrument.selection import Reported
from crowdfield.inference.instrument.several import model as several
from crowdfield.inference.instrument.several.model import FittedStates
from crowdfield.inference.instrument.several.observed import Observed as SeveralObserved
from crowdfield.inference.instrument.unsure_variances import Unsure
from crowdfield.inference.kernels import Kernel
from crowdfield.inference.softmax_moments import softmax_moments

G_GRID: Array = np.linspace(-20.0, 20.0, 401)  # on which the link is tabulated
F_NODES, F_WEIGHTS = np.polynomial.hermite_e.hermegauss(9)
F_WEIGHTS = F_WEIGHTS / F_WEIGHTS.sum()


class Problem(NamedTuple):
    """An instrument model to be fitted: reports, places, kernel, covariates and priors."""

    X: Array  # [N, D] the place of every thing that was reported on
    reported: Reported
    observed: AnyObserved
    columns: Columns
    prior: Prior
    kernel: Kernel
    engine: str
    seed: Any

    @property
    def one_appearance(self) -> Observed:
        """The reports, of a problem of two states or ordered ones."""
        assert isinstance(self.observed, Observed)
        return self.observed

    @property
    def functions(self) -> int:
        """The number of latent functions: one for two states and ordered ones, else one fewer than states."""
        return self.observed.functions

    def rng(self) -> np.random.Generator:
        """The generator that samples places and reports for searches; with a fixed seed unless one is given."""
        return np.random.default_rng(0 if self.seed is None else self.seed)

    def start(self) -> State:
        """The state before any step."""
        return methods.start(self.observed, self.prior)


@dataclass(frozen=True)
class Fitted:
    """A fitted instrument model of two states, or of ordered ones."""

    problem: Problem
    design: Design
    settled: Settled
    held: Coupled  # with the variances held
    joint: Coupled  # including the uncertainty of the variances
    site_states: Array  # [N, J] P(t = j) of everything reported on
    appearances: Array  # [N, 2] mean and variance of g there
    kept: Kept | None = None  # what an update with few new reports need not compute again

    @property
    def state(self) -> State:
        """The state in which the iteration converged."""
        state: State = self.settled.at.state
        return state

    @property
    def link(self) -> Link:
        """The link to the truth, with its joint covariance."""
        return self.joint.link

    @property
    def site_truth(self) -> Array:
        """P of the second state of everything reported on: [N]."""
        return self.site_states[:, 1]

    @cached_property
    def surface(self) -> Surface:
        """q(f) as a function of places."""
        return Surface(self.design.basis, self.problem.columns, self.joint.q, self.joint.variances.smooth)

    # --- the predictor of a map ---------------------------------------------------------------------------------

    def latent(self, X: Array) -> tuple[Array, Array]:
        """Mean and variance of the log odds a f + c at places: both [M, 1]. With grades, of the last against the first,
        per unit of score.
        """
        mean, variance = self.surface.at(X)
        reach = self.link.scores[-1] - self.link.scores[0]
        a, c = self.link.theta[0], self.link.theta[-1] / reach
        V = self.link.covariance[np.ix_([0, -1], [0, -1])] / np.array([[1.0, reach], [reach, reach**2]])
        total = variance * (a**2 + V[0, 0]) + V[0, 0] * mean**2 + 2.0 * V[0, 1] * mean + V[1, 1]
        return (a * mean + c)[:, None], total[:, None]

    def rate(self, X: Array) -> tuple[Array, Array]:
        """E[ρ] and its standard deviation, both [M, J]. ρ is the state probability at the place itself: the deviation
        includes the uncertainty of the field, of the place's own nugget and of the link.
        """
        mean, variance = self.surface.at(X)
        return self.state_moments(mean, variance + self.joint.variances.nugget)

    def state_moments(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        """Mean and standard deviation of P(t | g) where g has this mean and variance [M]: [M, J], [M, J]."""
        g = mean[:, None] + np.sqrt(variance)[:, None] * F_NODES
        one, two = (
            np.stack([np.interp(g, G_GRID, column) @ F_WEIGHTS for column in table], axis=1)
            for table in self._states_of_g
        )
        one /= one.sum(1, keepdims=True)  # interpolation and rounding
        return one, np.sqrt(np.maximum(two - one**2, 0.0))

    def prior_rate_sds(self) -> Array:
        """Standard deviation of ρ far from all reports: the level is as uncertain as all reports leave it, the rest has
        its prior variance.   [J]"""
        variances, q, level = self.joint.variances, self.joint.q, self.design.basis.size
        variance = q.covariance[level, level] + variances.smooth + variances.nugget
        return np.asarray(self.state_moments(q.mean[[level]], np.array([variance]))[1][0])

    def prior_rate_sd(self) -> float:
        """Standard deviation of ρ of the second state, far from all reports."""
        return float(self.prior_rate_sds()[1])

    def covariance(self, X: Array) -> list[Array]:
        """Joint covariance of the log odds at places: one matrix [M, M]."""
        return [self.link.theta[0] ** 2 * self.surface.covariance_at(X)]

    @cached_property
    def _states_of_g(self) -> tuple[Array, Array]:
        """E[P(t = j | g)] and E[P²] under the posterior of the link, as functions of g: [J, 401] each."""
        first, sd = softmax_moments(*self.link.logits(G_GRID))
        return first.T, (sd**2 + first**2).T

    def covariate_weights(self) -> tuple[Array, Array]:
        """Mean and standard deviation of the weights of the covariates: [C], [C]."""
        first, q = self.design.basis.size + 1, self.joint.q  # after the smooth part's features and the intercept
        return q.mean[first:], np.sqrt(np.diag(q.covariance)[first:])

    # --- sources ------------------------------------------------------------------------------------------------

    @cached_property
    def confusion(self) -> Array:
        """The confusion matrices that the responses imply on this map: [S, J, L]."""
        return self.implied_confusion(self.state.theta)

    def implied_confusion(self, theta: Array) -> Array:
        """The confusion matrices that other parameters of the sources [S, d] imply: [S, J, L]."""
        density, observed = self._common_appearances, self.problem.one_appearance
        out = responses.implied_confusion(theta, observed.scores, density, self.link.truth)
        scoring_only = self.scores_only
        if scoring_only.any():
            L = len(observed.scores)
            out[scoring_only] = 0.0
            scores, crowd = observed.state_scores, self.state.variances.population.mean
            offsets = responses.lean_design(scores) @ crowd[1 : len(scores)]  # thresholds of the average member
            own = scoring.implied_confusion(theta[scoring_only, L:], density, self.link.truth, scores, offsets)
            out[scoring_only, :, : len(scores)] = own
        return out

    @cached_property
    def _common_appearances(self) -> Array:
        """How common each appearance is on this map: [K]."""
        return places.mean_marginal(*self.settled_moments, self.settled.at.nugget)

    @property
    def scores_only(self) -> NDArray[np.bool_]:
        """The sources that gave scores and no label: [S]."""
        observed = self.problem.one_appearance
        if observed.readings is None:
            return np.zeros(observed.n_sources, dtype=bool)
        labelled = np.bincount(self.problem.reported.source, minlength=observed.n_sources) > 0
        return ~labelled & (np.bincount(observed.readings.source, minlength=observed.n_sources) > 0)

    @property
    def settled_moments(self) -> tuple[Array, Array]:
        """Mean and variance of f at everything reported on, at convergence."""
        return self.settled.at.mean, self.settled.at.variance

    def leans(self) -> tuple[Array, Array]:
        """The lean of every source from the first state to the last, and its standard deviation: [S], [S]."""
        column = np.where(self.scores_only, len(self.problem.observed.scores) + 1, len(self.link.scores) - 1)
        value, sd = self._estimates(column)
        reach = self.link.scores[-1] - self.link.scores[0]
        unit = np.where(self.scores_only, reach, 1.0)  # a score leans in units of g
        return value * unit, sd * unit

    def sensitivities(self) -> tuple[Array, Array]:
        """The sensitivity of every source (the gain of one that gives scores), and its standard deviation."""
        return self._estimates(np.where(self.scores_only, len(self.problem.observed.scores), 0))

    def _estimates(self, column: NDArray[np.int64]) -> tuple[Array, Array]:
        """One parameter of every source, and its standard deviation: [S], [S]."""
        rows = np.arange(len(column))
        return self.state.theta[rows, column], np.sqrt(self.joint.sources[rows, column, column])

    def noises(self) -> Array:
        """The standard deviation of every source's scores, in logits; NaN where it gave none: [S]."""
        observed = self.problem.one_appearance
        out = np.full(observed.n_sources, np.nan)
        if observed.readings is not None:
            given = np.unique(observed.readings.source)
            out[given] = np.exp(0.5 * self.state.theta[given, -1])
        return out

    @cached_property
    def site_sds(self) -> Array:
        """The standard deviation of P(t = j) of everything reported on: [N, J]."""
        return self.state_moments(*self.appearances.T)[1]

    def left_out(self) -> Array:
        """log P of every report given all others: [R]. Uses the joint covariance, because a report influences the field
        through its source too.
        """
        mean, variance = self.design.moments(self.held.q)
        at = self.settled.at._replace(mean=mean, variance=variance, covariance=self.held.sources)
        return left_out.log_probabilities(self.problem.one_appearance, at, *self.problem.reported[:3])

    def log_probabilities(self, new: Reported) -> Array:
        """log P of labels that some sources would give at the places of the problem, in further reports: [R]."""
        observed, state = self.problem.one_appearance, self.state
        logs = responses.log_responses(state.theta, observed.scores)
        table = logs.reshape(-1, len(APPEARANCES))
        mean, variance = self.design.moments(self.joint.q)
        out = np.empty(len(new.site))
        for rows in observed.blocks():
            likelihood = observed.likelihood(rows, table, state.link, state.theta)
            nugget = self.settled.at.nugget[rows]
            posterior = places.integrate(likelihood, mean[rows], variance[rows], nugget).posterior
            here = np.flatnonzero((new.site >= rows.start) & (new.site < rows.stop))
            said = np.exp(logs[new.source[here], new.label[here]])
            out[here] = np.log(np.einsum("rk,rk->r", posterior[new.site[here] - rows.start], said))
        return out


AnyFitted = Fitted | FittedStates


def fit(
    problem: Problem,
    start: State | None,
    policy: Policy,
    *,
    learn_variances: bool = True,
    progress: Progress | None = None,
    basis: Basis | None = None,
) -> AnyFitted:
    """Fit with the problem's length-scale; basis: the features, where they were chosen before."""
    if basis is None:
        size = bases.FINAL.shared_by(problem.functions)
        basis = bases.choose(problem.engine, problem.kernel, problem.X, problem.rng(), size)
    design = Design(basis, problem.columns, problem.X)
    first = problem.start() if start is None else start
    method = method_for(problem.observed, design, problem.prior)
    settled = iterate.run(method, first, policy, learn=learn_variances, progress=progress)
    return finished(problem, design, settled, policy, progress=progress)


def finished(
    problem: Problem,
    design: Design,
    settled: Settled,
    policy: Policy,
    unsure: Unsure | None = None,
    progress: Progress | None = None,
) -> AnyFitted:
    """Complete a converged fit: the joint covariance, and the state probabilities of everything reported on. unsure:
    what the uncertainty of the variances adds, where it is known from before.
    """
    if isinstance(problem.observed, SeveralObserved):
        return several.finished(problem, design, settled)
    at = settled.at
    known = blocks = None
    held, before = coupled.held(at), coupled.expected_appearances(at)
    if not coupled.too_many(at.state):
        known = problem.observed.information(design, at.state, at.nugget, before)
        blocks = coupled.blocks(known, design, at)
        held = coupled.solved(at, *blocks)
    if policy.unsure_variances and unsure is None:
        unsure = unsure_variances.find(problem.observed, design, problem.prior, at, held, policy, progress)
    joint = held if unsure is None else unsure.widened(held)
    mean, variance = design.moments(joint.q)
    truth, appearances = problem.observed.at_sites(at.state, mean, variance, at.nugget, joint.link)
    kept = None
    if blocks is not None and isinstance(known, LocalInformation) and not design.is_dense:
        kept = Kept.of(at, before, blocks, known.by_place, unsure, Moments(mean, variance))
    return Fitted(problem, design, settled, held, joint, truth, appearances, kept)


def with_learned_lengthscale(
    problem: Problem,
    start: State | None,
    bounds: tuple[float, float] | None,
    log_prior: Callable[[float], float] | None,
) -> tuple[Problem, selection.Learned]:
    """The problem with the length-scale that predicts left-out reports best, and the search."""
    first = problem.start() if start is None else start
    found = selection.learn(problem, first, bounds, log_prior, problem.rng())
    return problem._replace(kernel=problem.kernel.with_lengthscale(found.lengthscale)), found


def part_of(problem: Problem, most: int) -> tuple[Problem, NDArray[np.int64]]:
    """The problem on about `most` places (random ones and their neighbours) with all their reports, and which they
    are."""
    kept = selection.thinned(problem.observed, problem.X, problem.rng(), most)
    reported, observed = selection.at_places(problem.observed, problem.reported, kept)
    return problem._replace(X=problem.X[kept], reported=reported, observed=observed), kept


def extended(state: State, position: NDArray[np.int64], n_sites: int, n_sources: int) -> State:
    """A state rearranged for more places and sources: `position` [N_old] is the new number of each old place."""
    eta, lam = (np.zeros((n_sites, *part.shape[1:])) for part in (state.eta, state.lam))
    kept = position >= 0
    eta[position[kept]], lam[position[kept]] = state.eta[kept], state.lam[kept]
    new = np.tile(state.variances.population.mean, (n_sources - len(state.theta), 1))
    return state._replace(eta=eta, lam=lam, theta=np.concatenate([state.theta, new]))
