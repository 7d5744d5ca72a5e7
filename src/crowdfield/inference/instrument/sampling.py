"""The exact posterior of the instrument model: many sweeps of `gibbs`, how well they mixed, predictions from draws."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crowdfield.inference.instrument import bases, places, responses
from crowdfield.inference.instrument.draws import InstrumentDraws
from crowdfield.inference.instrument.gibbs import Info, Sampler, State
from crowdfield.inference.instrument.grid import APPEARANCES, Array
from crowdfield.inference.instrument.linear import Design
from crowdfield.inference.instrument.model import F_NODES, F_WEIGHTS, Problem
from crowdfield.inference.instrument.responses import logistic
from crowdfield.inference.instrument.weights_sampling import field_at_places
from crowdfield.inference.sampling import TRACED_SOURCES, Diagnostics, diagnose, warmed_up

CHAINS = 4
WARM_UP, SWEEPS, DRAWS = 300, 1000, 800
FIRST_STEP = 0.5  # first size of the Metropolis steps of log variances
BLOCK_ENTRIES = 1 << 20  # entries of a block of predictions


class Draws(NamedTuple):
    """D draws, chain after chain."""

    weights: Array  # w, β [D, m + c]
    smooth: Array  # v [D]
    nugget: Array  # τ² [D]
    theta: Array  # [D, S, d]
    link: Array  # [D, 2]
    appearances: Array  # how common each appearance is on this map [D, K]


@dataclass(frozen=True)
class Sampled:
    """A sampled posterior with the interface of `model.Fitted`: predictions, and the parameters of the sources."""

    problem: Problem
    design: Design
    draws: Draws
    site_truth: Array  # [N] P(t = 1) of everything reported on
    site_sd: Array  # [N] its standard deviation, due to the uncertainty of the appearance and the link
    diagnostics: Diagnostics
    chains: int

    @property
    def site_states(self) -> Array:
        """P of both states of everything reported on: [N, 2]."""
        return np.stack([1.0 - self.site_truth, self.site_truth], axis=1)

    @property
    def site_sds(self) -> Array:
        """Standard deviations of P of both states of everything reported on: [N, 2]."""
        return np.stack([self.site_sd, self.site_sd], axis=1)

    # --- the predictor of a map -------------------------------------------------------------------------------------

    def latent(self, X: Array) -> tuple[Array, Array]:
        """Mean and variance of the log odds a f + c at places: both [M, 1]."""
        mean, variance = np.empty(len(X)), np.empty(len(X))
        (a, c), draws = self.draws.link.T[:, :, None], self.draws
        for rows in self._blocks(len(X)):
            log_odds = a * self._field(X[rows]) + c
            left_out = (a[:, 0] ** 2 * draws.smooth).mean() * self.design.basis.residual(X[rows])
            mean[rows], variance[rows] = log_odds.mean(0), log_odds.var(0) + left_out
        return mean[:, None], variance[:, None]

    def rate(self, X: Array) -> tuple[Array, Array]:
        """E[ρ] and its standard deviation at the places themselves, their nugget included: both [M, 2]."""
        first, second = np.empty(len(X)), np.empty(len(X))
        (a, c), draws = self.draws.link.T[:, :, None], self.draws
        for rows in self._blocks(len(X)):
            f, left_out = self._field(X[rows]), self.design.basis.residual(X[rows])
            sd = np.sqrt(draws.smooth[:, None] * left_out + draws.nugget[:, None])
            rho = [logistic(a * (f + sd * x) + c) for x in F_NODES]
            first[rows] = sum(w * r.mean(0) for w, r in zip(F_WEIGHTS, rho, strict=True))
            second[rows] = sum(w * (r**2).mean(0) for w, r in zip(F_WEIGHTS, rho, strict=True))
        sd = np.sqrt(np.maximum(second - first**2, 0.0))
        return np.stack([1.0 - first, first], axis=1), np.stack([sd, sd], axis=1)

    def covariance(self, X: Array) -> list[Array]:
        """The covariance of the log odds between places: one matrix [M, M]."""
        (a, c), residual = self.draws.link.T[:, :, None], np.diag(self.design.basis.residual(X))
        joint = np.cov(a * self._field(X) + c, rowvar=False, bias=True).reshape(len(X), len(X))
        return [joint + (a[:, 0] ** 2 * self.draws.smooth).mean() * residual]

    def sample_rate(self, X: Array, size: int, rng: np.random.Generator) -> Array:
        """Joint draws of ρ of the second state: [size, M]."""
        chosen = rng.choice(len(self.draws.link), size, replace=size > len(self.draws.link))
        (a, c), noise = self.draws.link[chosen].T[:, :, None], rng.standard_normal((size, len(X)))
        variance = self.draws.smooth[chosen, None] * self.design.basis.residual(X) + self.draws.nugget[chosen, None]
        return logistic(a * (self._field(X)[chosen] + np.sqrt(variance) * noise) + c)

    def prior_rate_sd(self) -> float:
        """Standard deviation of ρ far from all reports: the level is that of the draws, the rest has its prior
        variance."""
        draws, (a, c) = self.draws, self.draws.link.T[:, :, None]
        sd = np.sqrt(draws.smooth + draws.nugget)[:, None]
        rho = logistic(a * (draws.weights[:, self.design.basis.size, None] + sd * F_NODES) + c) @ np.diag(F_WEIGHTS)
        square = logistic(a * (draws.weights[:, self.design.basis.size, None] + sd * F_NODES) + c) ** 2 @ F_WEIGHTS
        return float(np.sqrt(max(square.mean() - rho.sum(1).mean() ** 2, 0.0)))

    def prior_rate_sds(self) -> Array:
        """Standard deviation of ρ of both states, far from all reports: [2]."""
        return np.full(2, self.prior_rate_sd())

    def _field(self, X: Array) -> Array:
        """f of every draw without what the basis leaves out: [D, M]."""
        m, columns = self.design.basis.size, self.problem.columns
        weights = self.draws.weights
        smooth = self.design.basis.evaluate(self.design.basis.locate(X), np.ascontiguousarray(weights[:, :m].T))
        return np.asarray(smooth.T + weights[:, m:] @ columns.at(X).T + columns.offset_at(X))

    def _blocks(self, places_: int) -> list[slice]:
        """Slices of places, so that a block of predictions fits into memory."""
        rows = max(1, BLOCK_ENTRIES // len(self.draws.link))
        return [slice(start, min(start + rows, places_)) for start in range(0, places_, rows)]

    # --- sources ----------------------------------------------------------------------------------------------------

    @cached_property
    def confusion_draws(self) -> Array:
        """The confusion matrices that the responses of every draw imply on this map: [D, S, 2, L]."""
        draws, scores = self.draws, self.problem.observed.scores
        second = logistic(draws.link[:, :1] * APPEARANCES + draws.link[:, 1:])
        truth = np.stack([1.0 - second, second], axis=1)  # [D, 2, K]
        each = zip(draws.theta, draws.appearances, truth, strict=True)
        return np.stack([responses.implied_confusion(theta, scores, density, t) for theta, density, t in each])

    @property
    def confusion(self) -> Array:
        """The mean of the confusion matrices over the draws: [S, 2, L]."""
        return np.asarray(self.confusion_draws.mean(0))

    def reports_given_draws(self) -> InstrumentDraws:
        """The draws with the reports that they refer to."""
        draws, m = self.draws, self.design.basis.size
        return InstrumentDraws(
            self.problem,
            field_at_places(self.design, draws.weights),
            draws.theta,
            draws.link,
            draws.weights[:, m:],
            draws.nugget,
            1.0 / draws.smooth,
            self.chains,
        )


def run(
    problem: Problem,
    *,
    chains: int = CHAINS,
    warm_up: int = WARM_UP,
    sweeps: int = SWEEPS,
    draws: int = DRAWS,
    size: bases.Size = bases.FINAL,
) -> Sampled:
    """Sample `sweeps` per chain after `warm_up`, keep about `draws`, and say how well the chains mixed."""
    rng = problem.rng()
    design = Design(bases.choose(problem.engine, problem.kernel, problem.X, rng, size), problem.columns, problem.X)
    sampler = Sampler(problem.one_appearance, problem.reported, design, problem.prior)
    state, step_size = warmed_up(sampler, chains, warm_up, rng, FIRST_STEP)
    record = _Record.of(problem, max(1, chains * sweeps // draws))
    for sweep in range(sweeps):
        state, info = sampler.step(state, rng, step_size)
        record.add(sweep, state, info)
    first, second = record.rho / sweeps
    return Sampled(
        problem,
        design,
        record.kept(),
        np.clip(record.truth / sweeps, 0.0, 1.0),
        np.sqrt(np.maximum(second - first**2, 0.0)),
        diagnose(record.names(), np.stack(record.traces, axis=1)),
        chains,
    )


@dataclass
class _Record:
    """A record of the sweeps: sums, thinned draws, and traces of some quantities."""

    watched: NDArray[np.int64]  # sources that are traced
    level: int  # position of the intercept among the weights
    thin: int
    truth: Array  # [N] sums of P(t = 1)
    rho: Array  # [2, N] sums of ρ and ρ²
    states: list[tuple[State, Array]] = field(default_factory=list)
    traces: list[Array] = field(default_factory=list)

    @classmethod
    def of(cls, problem: Problem, thin: int) -> _Record:
        """An empty record."""
        busiest = np.argsort(-np.bincount(problem.reported.source, minlength=problem.observed.n_sources), kind="stable")
        n = problem.observed.n_sites
        return cls(np.sort(busiest[:TRACED_SOURCES]), -1 - problem.columns.count, thin, np.zeros(n), np.zeros((2, n)))

    def add(self, sweep: int, state: State, info: Info) -> None:
        """Record one sweep: sums, traces and, now and then, a whole draw."""
        crowd, g = state.crowd, APPEARANCES[info.appearance]
        rho = logistic(crowd.link[:, :1] * g + crowd.link[:, 1:])
        self.truth += info.truth.mean(0)
        self.rho += rho.mean(0), (rho**2).mean(0)
        watched = crowd.theta[:, self.watched, :2].reshape(len(g), -1)
        variances = np.log(np.column_stack([state.smooth, state.nugget, crowd.variance]))
        level = state.weights[:, self.level]
        self.traces.append(np.column_stack([info.truth.mean(1), level, variances, watched]))
        if sweep % self.thin == 0:
            density = np.stack(
                [places.marginal(f, np.zeros_like(f), nugget).mean(0) for f, nugget in zip(*state[1:4:2], strict=True)]
            )
            self.states.append((state, density))

    def names(self) -> tuple[str, ...]:
        """The names of the traced quantities, for diagnostics."""
        parts = self.states[0][0].crowd.variance.shape[1]
        variances = ["sensitivity", *(f"lean {i}" for i in range(1, parts))]
        sources = [f"{part} of source {s}" for s in self.watched for part in ("sensitivity", "lean")]
        return (
            "mean probability of the second state",
            "intercept",
            "log variance of the smooth part",
            "log variance of the nugget",
            *(f"log variance of the population's {name}" for name in variances),
            *sources,
        )

    def kept(self) -> Draws:
        """The thinned draws, chain after chain."""

        def by_chain(values: list[Array]) -> Array:
            stacked = np.stack(values, axis=1)  # [C, sweeps, ...]
            return stacked.reshape(-1, *stacked.shape[2:])

        states = [state for state, _ in self.states]
        return Draws(
            by_chain([s.weights for s in states]),
            by_chain([s.smooth for s in states]),
            by_chain([s.nugget for s in states]),
            by_chain([s.crowd.theta for s in states]),
            by_chain([s.crowd.link for s in states]),
            by_chain([density for _, density in self.states]),
        )
