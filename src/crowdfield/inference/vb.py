"""Mean-field variational Bayes, the paper's Algorithm 1: one sweep over the sites, and the map from state to state.

The state of the iteration is global only: pseudo-counts of every source, the field's additive statistics, and E[ς].
A sweep assembles q from it and passes over the sites in blocks; each block computes q(t) and its Gaussian sites and
adds up new counts and statistics. Nothing else crosses from one iteration to the next, so the same code runs over
blocks of one array, over files, and over machines. `settle` repeats it until nothing moves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np

from crowdfield.errors import NumericalError
from crowdfield.inference import bound as bound_
from crowdfield.inference import communities as communities_
from crowdfield.inference import confusion, linearise, newton, quadrature, scale
from crowdfield.inference.bound import Bound
from crowdfield.inference.communities import Communities
from crowdfield.inference.data import Block
from crowdfield.inference.fields.base import Array, Engine, Statistics
from crowdfield.inference.fields.features import FeatureEngine
from crowdfield.inference.scale import Gamma
from crowdfield.inference.sites import ForeignField, Sites, moments_at, over_blocks, rule_out, sum_over_blocks

LEAST_SHARE = 0.1  # smallest share of the information that a step is assumed to see
ROUNDING = 1e-9  # relative fall of the bound that is rounding, not a fall


class State(NamedTuple):
    """The state of the iteration: small, and additive over sites (except E[ς])."""

    counts: Array  # [S, J, L]
    statistics: tuple[Statistics, ...]  # F
    precision: float  # E[ς]
    communities: Communities | None = None

    def pack(self) -> Array:
        """The state as one vector, for acceleration."""
        parts = [self.counts.ravel(), np.log([self.precision])]
        if self.communities is not None:
            parts.append(communities_.pack(self.communities))
        for s in self.statistics:
            parts += [s.linear.ravel(), s.quadratic.ravel()]
        return np.concatenate([p.view(np.float64) if np.iscomplexobj(p) else p for p in parts])

    def unpack(self, z: Array) -> State:
        """The state that a vector of this state's layout describes."""
        at = 0

        def take(like: Array) -> Array:
            nonlocal at
            count = like.size * (2 if np.iscomplexobj(like) else 1)
            part = z[at : at + count].copy()
            at += count
            return part.view(like.dtype).reshape(like.shape)

        counts, log_precision = take(self.counts), float(take(np.empty(1))[0])
        communities = self.communities
        if communities is not None:
            communities = communities_.unpack(communities, take(communities_.pack(communities)))
        statistics = tuple(Statistics(take(s.linear), take(s.quadratic)) for s in self.statistics)
        return State(counts, statistics, float(np.exp(log_precision)), communities)


class Posterior(NamedTuple):
    """q, assembled from a state."""

    alpha: Array  # [S, J, L] of q(π)
    alpha0: Array  # [S, J, L] of p(π)
    fields: tuple[Any, ...]  # F: Field, or ForeignField at the start
    scale: Gamma  # q(ς)


class Summary(NamedTuple):
    """The sums of one pass over some sites."""

    counts: Array
    missing: Array  # [S, L, J, J] derivative of the counts, for Newton steps
    statistics: tuple[Statistics, ...]
    targets: float  # the sites' share of the bound
    probe: Array  # [P, J] state probabilities at the watched sites
    information: Array  # [2, F] at the watched sites: `linearise.observed_share`
    second_derivatives: tuple[
        newton.SecondDerivatives, ...
    ]  # of every block; none where sources and field step separately

    def __add__(self, other: Summary) -> Summary:  # type: ignore[override]
        return Summary(
            self.counts + other.counts,
            self.missing + other.missing,
            tuple(a + b for a, b in zip(self.statistics, other.statistics, strict=True)),
            self.targets + other.targets,
            np.concatenate([self.probe, other.probe]),
            self.information + other.information,
            self.second_derivatives + other.second_derivatives,
        )


class Scheme(NamedTuple):
    """A linearisation of the sites' likelihood, and how much its objective may fall in a step."""

    local: Callable[[Sites, Posterior, Block, Array, Array], linearise.Local]
    mixing: float  # length of a plain step
    slack: float  # relative fall of the objective that a jump may cost: infinite where the objective need not rise
    extrapolate: Callable[[Iteration, State, Posterior, Summary, State], Ahead]

    def sweep(self, sites: Sites, q: Posterior) -> Summary:
        """One pass over the sites."""
        return sweep(sites, self, q)

    def responsibilities(self, sites: Sites, q: Posterior) -> Array:
        """q(t) at all sites: [N, J]."""
        return responsibilities(sites, self, q)


def _mean_field_likelihood(q: Posterior, block: Block) -> Array:
    """Σ_s E[log π_{j, c}] at each site, [n, J]."""
    table = confusion.by_report(confusion.expected_log_pi(q.alpha))
    return rule_out(confusion.likelihood_by_site(block, table), block.known)


def _local_polya_gamma(sites: Sites, q: Posterior, block: Block, mean: Array, variance: Array) -> linearise.Local:
    """The Pólya-Gamma sites of a block."""
    return linearise.polya_gamma(mean, variance, _mean_field_likelihood(q, block), sites.C)


def _local_ekf(sites: Sites, q: Posterior, block: Block, mean: Array, variance: Array) -> linearise.Local:
    """The sites of a block by the paper's extended Kalman filter."""
    mu = block.mean[:1] if block.mean.strides[0] == 0 else block.mean
    prior_variance = np.broadcast_to(sites.prior.rate / sites.prior.shape, mu.shape)
    rho, sd = quadrature.rate_moments(mu, prior_variance, sites.C)
    nu0 = linearise.beta_prior(rho @ sites.C, sd @ sites.C)
    return linearise.ekf(mean, variance, _mean_field_likelihood(q, block), sites.C, nu0)


def sweep(sites: Sites, scheme: Scheme, q: Posterior, only: Sequence[int] | None = None) -> Summary:
    """One pass over the sites, or over the blocks named: q(t), Gaussian sites, and what they add up to."""
    return sum_over_blocks(partial(_pass_over, sites, q, scheme), range(len(sites.blocks)) if only is None else only)


def responsibilities(sites: Sites, scheme: Scheme, q: Posterior) -> Array:
    """q(t) at all sites: [N, J]."""
    return np.concatenate(over_blocks(lambda b: local(sites, scheme, q, sites.blocks[b]).r, range(len(sites.blocks))))


def local(sites: Sites, scheme: Scheme, q: Posterior, block: Block) -> linearise.Local:
    """q(t) and the Gaussian sites of one block."""
    return scheme.local(sites, q, block, *moments_at(sites, q.fields, block))


def _pass_over(sites: Sites, q: Posterior, scheme: Scheme, b: int) -> Summary:
    """The sums of one block of sites."""
    data, engine, block = sites.data, sites.engine, sites.blocks[b]
    mean, variance = moments_at(sites, q.fields, block)
    local = scheme.local(sites, q, block, mean, variance)
    # Engines see g = f − μ: exp(η f − ½ λ f²) ∝ exp((η − λμ) g − ½ λ g²).
    eta = local.eta - local.lam * block.mean
    watched = sites.watched(block)
    met = None if np.isinf(scheme.slack) else sites.reports_by_cell  # a joint step needs a bound to judge it
    at_sites = (mean[:, 0], variance[:, 0], local.lam[:, 0], local.missing[:, 0])
    return Summary(
        counts=confusion.counts(block, local.r, data.n_sources, data.n_labels),
        missing=confusion.missing(block, local.r, data.n_sources, data.n_labels),
        statistics=tuple(engine.summarise(block.sites, eta[:, j], local.lam[:, j]) for j in range(eta.shape[1])),
        targets=local.bound,
        probe=quadrature.softmax(mean[watched] @ sites.C.T),
        information=np.stack(linearise.observed_share(mean[watched], variance[watched], local.r[watched], sites.C)),
        second_derivatives=() if met is None else (met[b].second_derivatives(*at_sites),),
    )


# Sources and field each step with the other held, or both take one Newton step.
StepKind = Literal["in turn", "joint Newton"]


class Ahead(NamedTuple):
    """A state to go to, and the readouts of its fields."""

    state: State
    readouts: tuple[Array, ...]  # F
    kind: StepKind = "in turn"


class Evaluated(NamedTuple):
    """A state, its q and bound, and the next states."""

    state: State
    q: Posterior
    summary: Summary
    bound: Bound
    image: State  # the state after one plain update
    ahead: Ahead  # after a Newton update: the input of acceleration


@dataclass(frozen=True)
class Iteration:
    """The fixed-point map state → state, over sites that may be anywhere."""

    engine: Engine  # turns statistics into fields; need not hold any sites itself
    scheme: Scheme
    alpha0: Array  # [S, J, L]; with communities, of the sources that have a prior of their own
    scale_prior: Gamma
    functions: int  # F
    sweep: Callable[[Posterior], Summary]
    communities: Communities | None = None  # to start with
    base: Array | None = None  # [J, L] the prior that communities start from

    @classmethod
    def over(
        cls, sites: Sites, scheme: Scheme, communities: Communities | None = None, base: Array | None = None
    ) -> Iteration:
        """All sites in this process."""
        prior = sites.prior
        return cls(
            engine=sites.engine,
            scheme=scheme,
            alpha0=prior.alpha0,
            scale_prior=Gamma(prior.shape, prior.rate),
            functions=prior.mean.shape[1],
            sweep=partial(sweep, sites, scheme),
            communities=communities,
            base=base,
        )

    @property
    def slack(self) -> float:
        """How far the bound may fall in an accelerated step, relative to its size, before the step is refused.

        Infinite with communities: the bound lacks their terms, so that it cannot judge a step.
        """
        return self.scheme.slack if self.communities is None else np.inf

    def dirichlet(self, state: State) -> tuple[Array, Array]:
        """α of q(π) and of its prior."""
        if np.any(state.counts < -1e-9 * (1.0 + np.abs(state.counts).max(initial=0.0))):
            raise NumericalError("a pseudo-count is negative.")
        counts = np.maximum(state.counts, 0.0)
        alpha0 = self.alpha0
        if state.communities is not None:
            alpha0 = communities_.alpha0(state.communities, counts, self.alpha0)
        return alpha0 + counts, alpha0

    def assemble(self, state: State) -> Posterior:
        """The q of a state."""
        alpha, alpha0 = self.dirichlet(state)
        fields = [self.engine.posterior(statistics, state.precision) for statistics in state.statistics]
        q_scale = scale.update(self.scale_prior, self._size, sum(f.energy for f in fields))
        return Posterior(alpha, alpha0, tuple(fields), q_scale)

    @property
    def _size(self) -> int:
        """The number of Gaussian variables of all functions together."""
        return self.functions * self.engine.size

    def ahead(self, state: State) -> Ahead:
        """A state with the readouts of the fields that `assemble` would make."""
        return Ahead(state, tuple(self.engine.readout(s, state.precision) for s in state.statistics))

    def start(self) -> State:
        """No reports yet: the prior."""
        nothing = tuple(self.engine.empty() for _ in range(self.functions))
        return State(np.zeros_like(self.alpha0), nothing, self.scale_prior.mean, self.communities)

    def evaluate(self, state: State) -> Evaluated:
        """A state, its q and bound, and the state after one update."""
        q = self.assemble(state)
        summary = self.sweep(q)
        image = self._after(state.communities, summary, self._next_precision(state, q))
        ahead = self.scheme.extrapolate(self, state, q, summary, image)
        return Evaluated(state, q, summary, self.objective(q, summary), image, ahead)

    def _after(self, communities: Communities | None, summary: Summary, precision: float) -> State:
        """The state that a sweep leads to."""
        if communities is not None and self.base is not None:
            communities = communities_.update(communities, summary.counts, self.base)
        return State(summary.counts, summary.statistics, precision, communities)

    def _next_precision(self, state: State, q: Posterior) -> float:
        """E[ς] after the update of q(ς)."""
        informed, energy = sum(f.informed for f in q.fields), sum(f.energy for f in q.fields)
        return scale.next_mean(self.scale_prior, self._size, informed, energy, state.precision)

    def warm_start(self, q: Posterior) -> State:
        """The state that a q learned elsewhere (fewer reports, another engine) implies for these sites."""
        summary = self.sweep(q._replace(fields=tuple(ForeignField(f) for f in q.fields)))
        return self._after(self.communities, summary, q.scale.mean)

    def objective(self, q: Posterior, summary: Summary) -> Bound:
        """The evidence lower bound of a q, as named terms."""
        return bound_.mean_field(
            summary.targets, q.fields, self.engine.size, q.scale, self.scale_prior, q.alpha, q.alpha0
        )


def _newton_update(iteration: Iteration, state: State, q: Posterior, summary: Summary, image: State) -> Ahead:
    """A Newton step, because plain updates converge slowly where much of t is unknown; the fixed points are the same.

    It is joint for sources and field where the sites give their second derivatives, else separate for each.
    """
    sources = confusion.response(state.counts, summary.counts, q.alpha0, summary.missing)
    ahead = image._replace(counts=sources.replace_impossible(state.counts + sources.step, image.counts))
    if np.isinf(iteration.slack):  # no bound judges the step: only the sources'
        return iteration.ahead(ahead)
    observed, complete = summary.information
    share = np.clip(observed / np.maximum(complete, 1e-300), LEAST_SHARE, 1.0)
    if summary.second_derivatives and isinstance(iteration.engine, FeatureEngine):
        newton_step = partial(newton.step, summary.second_derivatives, sources)
        found = iteration.engine.newton(image.statistics[0], image.precision, q.fields[0], float(share[0]), newton_step)
        if found is not None:
            of_field, mean, counts = found
            both = ahead._replace(counts=sources.replace_impossible(counts, ahead.counts), statistics=(of_field,))
            return Ahead(both, (mean,), kind="joint Newton")
    statistics = tuple(
        iteration.engine.extrapolate(s, image.precision, f, float(c)) if c < 1.0 else s
        for s, f, c in zip(image.statistics, q.fields, share, strict=True)
    )
    return iteration.ahead(ahead._replace(statistics=statistics))


def _plain_update(iteration: Iteration, state: State, q: Posterior, summary: Summary, image: State) -> Ahead:
    """The plain update, where there is no Newton step."""
    return iteration.ahead(image)


SCHEMES = {
    "polya_gamma": Scheme(_local_polya_gamma, mixing=1.0, slack=ROUNDING, extrapolate=_newton_update),
    "ekf": Scheme(_local_ekf, mixing=0.7, slack=np.inf, extrapolate=_plain_update),
}
