"""A fit from reports to everything a map asks: the steps of the package in their order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crowdfield.inference.instrument import (
    bases,
    coupled,
    fitting,
    iterate,
    left_out,
    link,
    places,
    responses,
    selection,
    unsure_variances,
)
from crowdfield.inference.instrument.coupled import Coupled
from crowdfield.inference.instrument.fitting import Observed, Prior, Progress, State
from crowdfield.inference.instrument.grid import APPEARANCES, Array
from crowdfield.inference.instrument.iterate import Policy, Settled
from crowdfield.inference.instrument.linear import Columns, Design, Surface
from crowdfield.inference.instrument.link import Link
from crowdfield.inference.instrument.selection import Reported
from crowdfield.inference.kernels import Kernel

G_GRID: Array = np.linspace(-20.0, 20.0, 401)  # on which the link is tabulated
F_NODES, F_WEIGHTS = np.polynomial.hermite_e.hermegauss(9)
F_WEIGHTS = F_WEIGHTS / F_WEIGHTS.sum()


class Problem(NamedTuple):
    """What is to be fitted."""

    X: Array  # [N, D] the place of every thing that was reported on
    reported: Reported
    observed: Observed
    columns: Columns
    prior: Prior
    kernel: Kernel
    engine: str
    seed: Any

    def rng(self) -> np.random.Generator:
        """Which places and reports are looked at in a search is drawn alike every time, unless somebody seeds it."""
        return np.random.default_rng(0 if self.seed is None else self.seed)

    def start(self) -> State:
        return fitting.start(self.observed, self.prior, len(self.observed.scores))


@dataclass(frozen=True)
class Fitted:
    problem: Problem
    design: Design
    settled: Settled
    held: Coupled  # with the variances held
    joint: Coupled  # with what is not known of the variances
    site_truth: Array  # [N] P(t = 1) of everything reported on
    appearances: Array  # [N, 2] mean and variance of g there

    @property
    def state(self) -> State:
        return self.settled.at.state

    @property
    def link(self) -> Link:
        return self.joint.link

    @cached_property
    def surface(self) -> Surface:
        return Surface(self.design.basis, self.problem.columns, self.joint.q, self.joint.variances.smooth)

    # --- the predictor of a map ---------------------------------------------------------------------------------

    def latent(self, X: Array) -> tuple[Array, Array]:
        """Mean and variance of the log odds a f + c at places: both [M, 1]."""
        mean, variance = self.surface.at(X)
        (a, c), V = self.link.theta, self.link.covariance
        total = variance * (a**2 + V[0, 0]) + V[0, 0] * mean**2 + 2.0 * V[0, 1] * mean + V[1, 1]
        return (a * mean + c)[:, None], total[:, None]

    def rate(self, X: Array) -> tuple[Array, Array]:
        """E[ρ] and its standard deviation, both [M, 2]. ρ is the state probability of the very place: what is not known
        of its appearance (the field there, and its own nugget) and of the link is in the deviation.
        """
        mean, variance = self.surface.at(X)
        one, sd = self.truth_moments(mean, variance + self.joint.variances.nugget)
        return np.stack([1.0 - one, one], axis=1), np.stack([sd, sd], axis=1)

    def truth_moments(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        """Mean and standard deviation of σ(a g + c) where g has this mean and variance: [M], [M]."""
        first, second = self._truth_of_g
        g = mean[:, None] + np.sqrt(variance)[:, None] * F_NODES
        one = np.interp(g, G_GRID, first) @ F_WEIGHTS
        two = np.interp(g, G_GRID, second) @ F_WEIGHTS
        return one, np.sqrt(np.maximum(two - one**2, 0.0))

    @property
    def site_sd(self) -> Array:
        """[N] of P(t = 1) of everything reported on: what is not known of its appearance and of the link."""
        return self.truth_moments(*self.appearances.T)[1]

    def prior_rate_sd(self) -> float:
        """Of ρ at a place that nobody has heard of: the level is known, the rest is as the variances have it."""
        variances, level = self.joint.variances, float(self.joint.q.mean[self.design.basis.size])
        g = level + np.sqrt(variances.smooth + variances.nugget) * F_NODES
        first, second = (float(np.interp(g, G_GRID, table) @ F_WEIGHTS) for table in self._truth_of_g)
        return float(np.sqrt(max(second - first**2, 0.0)))

    def covariance(self, X: Array) -> list[Array]:
        return [self.link.theta[0] ** 2 * self.surface.covariance_at(X)]

    @cached_property
    def _truth_of_g(self) -> tuple[Array, Array]:
        """E[σ(a g + c)] and E[σ²] over what is not known of the link, as functions of g."""
        mean = self.link.theta[0] * G_GRID + self.link.theta[1]
        V = self.link.covariance
        sd = np.sqrt(V[0, 0] * G_GRID**2 + 2.0 * V[0, 1] * G_GRID + V[1, 1])
        rho = 0.5 * (1.0 + np.tanh(0.5 * (mean[:, None] + sd[:, None] * F_NODES)))
        return rho @ F_WEIGHTS, rho**2 @ F_WEIGHTS

    def sample_rate(self, X: Array, size: int, rng: np.random.Generator) -> Array:
        """Joint draws of ρ of the second state: [size, M]."""
        g = self.surface.sample(X, size, rng) + np.sqrt(self.joint.variances.nugget) * rng.standard_normal(
            (size, len(X))
        )
        drawn = rng.multivariate_normal(self.link.theta, self.link.covariance, size=size, method="eigh")
        return np.asarray(0.5 * (1.0 + np.tanh(0.5 * (drawn[:, :1] * g + drawn[:, 1:]))))

    # --- sources ------------------------------------------------------------------------------------------------

    @cached_property
    def confusion(self) -> Array:
        """The confusion matrices that the responses imply on this map: [S, 2, L]."""
        density = places.marginal(*self.settled_moments, self.state.variances.nugget).mean(0)
        return responses.implied_confusion(self.state.theta, self.problem.observed.scores, density, self.link.truth)

    @property
    def settled_moments(self) -> tuple[Array, Array]:
        return self.settled.at.mean, self.settled.at.variance

    def left_out(self) -> Array:
        """log P of every report given all others: [R]. With the joint covariance: what a report did to its source, and
        through it to the field, is as large as both are unsure together.
        """
        mean, variance = self.design.moments(self.held.q)
        at = self.settled.at._replace(mean=mean, variance=variance, covariance=self.held.sources)
        return left_out.log_probabilities(self.problem.observed, at, *self.problem.reported)

    def log_probabilities(self, new: Reported) -> Array:
        """log P of labels that some sources would give at the places of the problem, in further reports: [R]."""
        observed, state = self.problem.observed, self.state
        logs = responses.log_responses(state.theta, observed.scores)
        table = logs.reshape(-1, len(APPEARANCES))
        mean, variance = self.design.moments(self.joint.q)
        out = np.empty(len(new.site))
        for rows in observed.blocks():
            likelihood = observed.likelihood(rows, table, state.link)
            posterior = places.integrate(likelihood, mean[rows], variance[rows], state.variances.nugget).posterior
            here = np.flatnonzero((new.site >= rows.start) & (new.site < rows.stop))
            said = np.exp(logs[new.source[here], new.label[here]])
            out[here] = np.log(np.einsum("rk,rk->r", posterior[new.site[here] - rows.start], said))
        return out


def fit(
    problem: Problem,
    start: State | None,
    policy: Policy,
    *,
    learn_variances: bool = True,
    progress: Progress | None = None,
    size: bases.Size = bases.FINAL,
) -> Fitted:
    """With the problem's length-scale."""
    basis = bases.choose(problem.engine, problem.kernel, problem.X, problem.rng(), size)
    design = Design(basis, problem.columns, problem.X)
    first = problem.start() if start is None else start
    settled = iterate.run(
        problem.observed, design, problem.prior, first, policy, learn=learn_variances, progress=progress
    )
    return finished(problem, design, settled, policy)


def finished(problem: Problem, design: Design, settled: Settled, policy: Policy) -> Fitted:
    """The joint covariance, and what is known of every place reported on."""
    at = settled.at
    before = _at_sites(problem.observed, at.state, at.mean, at.variance, at.state.link)
    held = coupled.join(problem.observed, design, at, before[1][:, 0])
    joint = held
    if policy.unsure_variances:
        joint = unsure_variances.widen(problem.observed, design, problem.prior, at, held, policy)
    mean, variance = design.moments(joint.q)
    truth, appearances = _at_sites(problem.observed, at.state, mean, variance, joint.link)
    return Fitted(problem, design, settled, held, joint, truth, appearances)


def _at_sites(observed: Observed, state: State, mean: Array, variance: Array, truth_link: Link) -> tuple[Array, Array]:
    """P(t = 1) [N], and mean and variance of the appearance [N, 2]."""
    table = responses.log_responses(state.theta, observed.scores).reshape(-1, len(APPEARANCES))
    truth, appearances = np.empty(len(mean)), np.empty((len(mean), 2))
    by_appearance = truth_link.truth
    for rows in observed.blocks():
        likelihood = observed.likelihood(rows, table, state.link)
        posterior = places.integrate(likelihood, mean[rows], variance[rows], state.variances.nugget).posterior
        truth[rows], appearances[rows] = posterior @ by_appearance, coupled.appearance_moments(posterior)
        checks = observed.checks.within(rows)
        known = link.state_given_appearance(state.link, checks)
        settled = np.where(checks.log_ratio > 0.0, 1.0, 0.0)  # gold is certain, whatever rounding says
        truth[rows.start + checks.site] = np.where(
            np.isinf(checks.log_ratio), settled, (posterior[checks.site] * known).sum(1)
        )
    return truth, appearances


def with_learned_lengthscale(
    problem: Problem,
    start: State | None,
    bounds: tuple[float, float] | None,
    log_prior: Callable[[float], float] | None,
) -> tuple[Problem, State, selection.Learned]:
    found = selection.learn(
        problem.observed,
        problem.reported,
        problem.X,
        problem.columns,
        problem.prior,
        problem.kernel,
        problem.engine,
        problem.start() if start is None else start,
        bounds,
        log_prior,
        problem.rng(),
    )
    return problem._replace(kernel=problem.kernel.with_lengthscale(found.lengthscale)), found.state, found


def part_of(problem: Problem, most: int) -> tuple[Problem, NDArray[np.int64]]:
    """The problem on about so many places with all their reports (random ones and their neighbours), and which."""
    kept = selection.thinned(problem.observed, problem.X, problem.rng(), most)
    reported, observed = selection.at_places(problem.observed, problem.reported, kept)
    return problem._replace(X=problem.X[kept], reported=reported, observed=observed), kept


def extended(state: State, position: NDArray[np.int64], n_sites: int, n_sources: int) -> State:
    """A state laid out for more places and sources: `position` [N_old] is where each old place is now."""
    eta, lam = np.zeros(n_sites), np.zeros(n_sites)
    kept = position >= 0
    eta[position[kept]], lam[position[kept]] = state.eta[kept], state.lam[kept]
    new = np.tile(state.variances.population.mean, (n_sources - len(state.theta), 1))
    return state._replace(eta=eta, lam=lam, theta=np.concatenate([state.theta, new]))
