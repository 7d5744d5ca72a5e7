"""Algorithm 1: what is learned, one sweep over the sites, and the map from a state to the next.

The state of the iteration is global only: pseudo-counts of every source, the field's additive statistics, and E[ς].
A sweep assembles q from it and passes over the sites in blocks; each block computes q(t) and its Gaussian sites and
adds up new counts and statistics. Nothing else crosses from one iteration to the next, so the same code runs over
blocks of one array, over files, and over machines. `settle` repeats it until nothing moves.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial, reduce
from operator import add
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crowdfield.errors import NumericalError
from crowdfield.inference import bound as bound_
from crowdfield.inference import communities as communities_
from crowdfield.inference import confusion, coupling, linearise, quadrature, scale
from crowdfield.inference.bound import Bound
from crowdfield.inference.communities import Communities
from crowdfield.inference.coupling import Coupling, Joint
from crowdfield.inference.data import Block, Data, Prior, blocks, contrast
from crowdfield.inference.fields.base import Array, Engine, FeatureField, Field, Statistics
from crowdfield.inference.scale import Gamma

PROBES = 2048  # sites at which convergence is watched
AHEAD = 0.05  # of a confusion matrix, that a Newton step may move where no bound judges it
LEAST_SHARE = 0.1  # of the information that a step is believed to see
OPENING = 6  # sweeps from the prior before ς is let go


class State(NamedTuple):
    """What the iteration carries: small, and additive over sites (but for E[ς])."""

    counts: Array  # [S, J, L]
    statistics: tuple[Statistics, ...]  # F
    precision: float  # E[ς]; where ς is integrated, the centre of its grid
    communities: Communities | None = None
    coupling: Coupling | None = None  # where sources and field are unsure together

    def pack(self) -> Array:
        parts = [self.counts.ravel(), np.log([self.precision])]
        if self.communities is not None:
            parts.append(communities_.pack(self.communities))
        if self.coupling is not None:
            parts += [self.coupling.missing.ravel(), self.coupling.projected.ravel()]
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
        coupling = self.coupling
        if coupling is not None:
            coupling = Coupling(take(coupling.missing), take(coupling.projected))
        statistics = tuple(Statistics(take(s.linear), take(s.quadratic)) for s in self.statistics)
        return State(counts, statistics, float(np.exp(log_precision)), communities, coupling)


class Posterior(NamedTuple):
    """q, assembled from a state."""

    alpha: Array  # [S, J, L] of q(π)
    alpha0: Array  # [S, J, L] of p(π)
    fields: tuple[Field, ...]  # F
    scale: Gamma  # q(ς); where ς is integrated, its geometric mean as a gamma of shape 1
    joint: Joint | None = None  # sources and field together, where they are coupled


class Summary(NamedTuple):
    """What one pass over some sites adds up to."""

    counts: Array
    missing: Array  # [S, L, J, J], how the counts would answer, where steps look ahead
    statistics: tuple[Statistics, ...]
    targets: float  # the sites' share of the bound
    probe: Array  # [P, J] state probabilities at the watched sites
    information: Array  # [2, F] at the watched sites: `linearise.observed_share`, where a bound judges the steps
    coupling: Coupling | None

    def __add__(self, other: Summary) -> Summary:  # type: ignore[override]
        return Summary(
            self.counts + other.counts,
            self.missing + other.missing,
            tuple(a + b for a, b in zip(self.statistics, other.statistics, strict=True)),
            self.targets + other.targets,
            np.concatenate([self.probe, other.probe]),
            self.information + other.information,
            None if self.coupling is None or other.coupling is None else self.coupling + other.coupling,
        )


@dataclass
class Sites:
    """Some of the sites: their engine, their reports in blocks, and q(t) of the last sweep.

    Where they are a part of more sites, `first` and `total` say which part, so that the same sites are watched.
    `couples` asks for what a joint q of sources and field needs.
    """

    data: Data
    prior: Prior
    engine: Engine
    first: int = 0
    total: int | None = None
    couples: bool = False
    blocks: list[Block] = field(init=False)
    r: list[Array | None] = field(init=False)  # [n, J] block by block; None before the first sweep
    designs: list[coupling.Design] = field(init=False)  # where they couple

    def __post_init__(self) -> None:
        self.blocks = blocks(self.data, self.prior.mean, self.engine.blocks)
        self.r = [None] * len(self.blocks)
        self.designs = []
        if self.couples:
            engine = coupling.able(self.engine)
            self.designs = [coupling.design(engine.features(b.sites), b) for b in self.blocks]

    @property
    def C(self) -> Array:
        return contrast(self.data.n_states)

    def watched(self, block: Block) -> slice:
        """Which sites of a block show whether the iteration moves: every so many of all sites, wherever they are."""
        stride = max(1, (self.data.n_sites if self.total is None else self.total) // PROBES)
        return slice(-(self.first + block.sites.start) % stride, None, stride)

    @property
    def targets(self) -> Array:
        """q(t) at all sites, [N, J]."""
        return np.concatenate([r for r in self.r if r is not None])


class Latent(NamedTuple):
    """q(f) at the sites of a block."""

    mean: Array  # [n, F]
    variance: Array  # [n, F]
    added: Array | None  # [n] what not knowing the sources adds, where they are coupled with the field


def latent(sites: Sites, q: Posterior, b: int, foreign: bool = False) -> Latent:
    """`foreign` says that q was learned by another engine (a warm start): its fields are asked for the places anew."""
    block, X = sites.blocks[b], sites.data.X
    if foreign:
        moments = [f.as_sites(X[block.sites]) for f in q.fields]
    else:
        moments = [sites.engine.at_sites(f, block.sites) for f in q.fields]
    added = None
    if q.joint is not None:
        (field,) = q.fields
        if foreign and isinstance(field, FeatureField):
            design = coupling.design(field.basis.features(X[block.sites]), block)
        else:
            design = sites.designs[b]
        added = coupling.added_variance(q.joint, block, design)
    mean = block.mean + np.stack([m for m, _ in moments], 1)
    return Latent(mean, np.stack([v for _, v in moments], 1), added)


class Scheme(NamedTuple):
    """Which inference: how a block of sites is summed up, and how q follows from a state."""

    local: Callable[[Sites, Posterior, int, Latent], linearise.Local]
    integrates_scale: bool
    mixing: tuple[float, float]  # length of a plain step, with one latent function and with several
    guarded: bool  # does the objective rise, so that a jump can be judged by it?
    ahead: float  # how far a source's Newton step may move its confusion matrix


def _rule_out(log_likelihood: Array, known: NDArray[np.int32]) -> Array:
    """Where the state is known, every other state has no likelihood."""
    rows = np.flatnonzero(known >= 0)
    if len(rows):
        kept = log_likelihood[rows, known[rows]]
        log_likelihood[rows] = -np.inf
        log_likelihood[rows, known[rows]] = kept
    return log_likelihood


def _mean_field_likelihood(q: Posterior, block: Block) -> Array:
    """Σ_s E[log π_{j, c}] at each site, [n, J]."""
    table = confusion.by_report(confusion.expected_log_pi(q.alpha))
    return _rule_out(confusion.sum_by_site(block, table[block.key]), block.known)


def _local_polya_gamma(sites: Sites, q: Posterior, b: int, f: Latent) -> linearise.Local:
    return linearise.polya_gamma(f.mean, f.variance, _mean_field_likelihood(q, sites.blocks[b]), sites.C)


def _local_ekf(sites: Sites, q: Posterior, b: int, f: Latent) -> linearise.Local:
    block = sites.blocks[b]
    mu = block.mean[:1] if block.mean.strides[0] == 0 else block.mean
    prior_variance = np.broadcast_to(sites.prior.rate / sites.prior.shape, mu.shape)
    rho, sd = quadrature.rate_moments(mu, prior_variance, sites.C)
    nu0 = linearise.beta_prior(rho @ sites.C, sd @ sites.C)
    return linearise.ekf(f.mean, f.variance, _mean_field_likelihood(q, block), sites.C, nu0)


def left_out_likelihood(q: Posterior, block: Block, r: Array | None, n_labels: int) -> Array:
    """Σ_s log E[π_{j, c}] at each site, with the site's own reports left out of their sources' counts; [n, J]."""
    numerator = confusion.by_report(q.alpha)[block.key]
    source = block.key // n_labels
    denominator = q.alpha.sum(-1)[source]
    if r is not None:
        own = r[block.site]
        same, all_ = (1, 1) if block.repeats is None else (block.repeats[:, :1], block.repeats[:, 1:])
        # Counts and r come from neighbouring sweeps; what is left out cannot leave less than the prior.
        numerator = np.maximum(numerator - same * own, confusion.by_report(q.alpha0)[block.key])
        denominator = np.maximum(denominator - all_ * own, q.alpha0.sum(-1)[source])
    return _rule_out(confusion.sum_by_site(block, np.log(numerator / denominator)), block.known)


def _local_collapsed(sites: Sites, q: Posterior, b: int, f: Latent) -> linearise.Local:
    block = sites.blocks[b]
    if q.joint is None:
        likelihood = left_out_likelihood(q, block, sites.r[b], sites.data.n_labels)
    else:
        table = confusion.by_report(q.joint.log_pi)
        likelihood = _rule_out(confusion.sum_by_site(block, table[block.key]), block.known)
    return linearise.collapsed(f.mean, f.variance, likelihood, sites.C, f.added)


SCHEMES = {
    "polya_gamma": Scheme(_local_polya_gamma, integrates_scale=False, mixing=(1.0, 1.0), guarded=True, ahead=1.0),
    "ekf": Scheme(_local_ekf, integrates_scale=False, mixing=(0.7, 0.7), guarded=False, ahead=0.0),
    # Each function's own curvature is as little as half of that along the difference of two: full steps overshoot.
    "collapsed": Scheme(_local_collapsed, integrates_scale=True, mixing=(0.8, 0.5), guarded=False, ahead=AHEAD),
}


def sweep(
    sites: Sites, q: Posterior, scheme: Scheme, foreign: bool = False, only: Sequence[int] | None = None
) -> Summary:
    """One pass over the sites: q(t), Gaussian sites, and what they add up to.

    `foreign` says that q was learned by another engine; `only` names the blocks to pass over, where not all.
    """
    chosen = range(len(sites.blocks)) if only is None else only
    one = partial(_pass_over, sites, q, scheme, foreign)
    if len(chosen) < 2:
        return one(chosen[0])
    # Blocks are independent, and NumPy and FINUFFT leave Python alone while they work. Sums keep the order of the
    # blocks, so that the answer does not depend on who was faster.
    with ThreadPoolExecutor(min(os.cpu_count() or 1, len(chosen))) as pool:
        parts = pool.map(one, chosen)
        return reduce(add, parts)


def _pass_over(sites: Sites, q: Posterior, scheme: Scheme, foreign: bool, b: int) -> Summary:
    data, engine, block = sites.data, sites.engine, sites.blocks[b]
    f = latent(sites, q, b, foreign)
    local = scheme.local(sites, q, b, f)
    sites.r[b] = local.r
    # Engines see g = f − μ: exp(η f − ½ λ f²) ∝ exp((η − λμ) g − ½ λ g²).
    eta = local.eta - local.lam * block.mean
    watched = sites.watched(block)
    missing, information = np.zeros(0), np.zeros(0)
    if scheme.ahead:
        missing = confusion.missing(block, local.r, data.n_sources, data.n_labels, local.doubt)
    if scheme.guarded:
        share = linearise.observed_share(f.mean[watched], f.variance[watched], local.r[watched], sites.C)
        information = np.stack(share)
    return Summary(
        counts=confusion.counts(block, local.r, data.n_sources, data.n_labels),
        missing=missing,
        statistics=tuple(engine.summarise(block.sites, eta[:, j], local.lam[:, j]) for j in range(eta.shape[1])),
        targets=local.bound,
        probe=quadrature.softmax(f.mean[watched] @ sites.C.T),
        information=information,
        coupling=coupling.of(data, block, sites.designs[b], local.doubt) if sites.couples else None,
    )


def _sweep_here(sites: Sites, scheme: Scheme, q: Posterior, foreign: bool) -> Summary:
    """`sweep` with its sites first, so that an iteration over them can be pickled with them."""
    return sweep(sites, q, scheme, foreign)


class Evaluated(NamedTuple):
    state: State
    q: Posterior
    summary: Summary
    bound: Bound
    image: State  # the state after one plain update
    ahead: State  # after one that looks ahead: what acceleration starts from


@dataclass(frozen=True)
class Iteration:
    """The fixed-point map state → state, over sites that may be anywhere."""

    engine: Engine  # turns statistics into fields; need not hold any sites itself
    scheme: Scheme
    alpha0: Array  # [S, J, L]; with communities, of the sources that have a prior of their own
    scale_prior: Gamma
    functions: int  # F
    sweep: Callable[[Posterior, bool], Summary]
    communities: Communities | None = None  # to start with
    base: Array | None = None  # [J, L] the prior that communities start from
    couples: bool = False  # are sources and field unsure together? Then the sites must sum up what that needs

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
            sweep=partial(_sweep_here, sites, scheme),
            communities=communities,
            base=base,
            couples=sites.couples,
        )

    @property
    def guarded(self) -> bool:
        """May a falling objective reject a jump? It leaves out what learned communities add to it."""
        return self.scheme.guarded and self.communities is None

    def dirichlet(self, state: State) -> tuple[Array, Array]:
        """α of q(π) and of its prior."""
        if np.any(state.counts < -1e-9 * (1.0 + np.abs(state.counts).max(initial=0.0))):
            raise NumericalError("a pseudo-count is negative.")
        counts = np.maximum(state.counts, 0.0)
        alpha0 = self.alpha0
        if state.communities is not None:
            alpha0 = communities_.alpha0(state.communities, counts, self.alpha0)
        return alpha0 + counts, alpha0

    def assemble(self, state: State, hold: bool = False) -> Posterior:
        """`hold` takes ς for the number that the state names."""
        alpha, alpha0 = self.dirichlet(state)
        if state.coupling is not None:
            given = coupling.given_field(alpha, state.coupling)
            field = coupling.able(self.engine).posterior_relieved(
                state.statistics[0],
                given.relief(state.coupling),
                None if hold else self.scale_prior,
                near=state.precision,
            )
            joint = coupling.with_field(alpha, given, field.covariance)
            return Posterior(alpha, alpha0, (field,), Gamma(1.0, 1.0 / field.scale.geometric_mean), joint)
        fields: Sequence[Field]
        if hold:
            fields = [self.engine.posterior(statistics, state.precision) for statistics in state.statistics]
            q_scale = Gamma(1.0, 1.0 / state.precision)
        elif self.scheme.integrates_scale:
            fields = self.engine.posterior_integrated(state.statistics, *self.scale_prior, near=state.precision)
            q_scale = Gamma(1.0, 1.0 / fields[0].scale.geometric_mean)
        else:
            fields = [self.engine.posterior(statistics, state.precision) for statistics in state.statistics]
            q_scale = scale.update(self.scale_prior, self._size, sum(f.energy for f in fields))
        return Posterior(alpha, alpha0, tuple(fields), q_scale)

    @property
    def _size(self) -> int:
        """The number of Gaussian variables of all functions together."""
        return self.functions * self.engine.size

    def readouts(self, state: State) -> list[Array]:
        """Of the fields that `assemble` would make."""
        return [self.engine.readout(s, state.precision) for s in state.statistics]

    def start(self) -> State:
        """No reports yet: the prior."""
        nothing = tuple(self.engine.empty() for _ in range(self.functions))
        S, _, L = self.alpha0.shape
        none_yet = Coupling(np.zeros((S, L)), np.zeros((S, L, self.engine.size))) if self.couples else None
        return State(np.zeros_like(self.alpha0), nothing, self.scale_prior.mean, self.communities, none_yet)

    @property
    def opening_sweeps(self) -> int:
        return OPENING if self.scheme.integrates_scale else 0

    def opening(self) -> State:
        """Some sweeps from the prior with ς as it is, where ς is integrated.

        Before sources and map have found each other, sites of small λ promise endless gain to a field of any size; ς
        would fall by orders of magnitude and take the map to a worse fixed point, or many sweeps to come back.
        """
        state = self.start()
        for _ in range(self.opening_sweeps):
            summary = self.sweep(self.assemble(state, hold=True), False)
            state = self._after(state.communities, summary, state.precision)
        return state

    def evaluate(self, state: State) -> Evaluated:
        q = self.assemble(state)
        summary = self.sweep(q, False)
        image = self._after(state.communities, summary, self._next_precision(state, q))
        return Evaluated(
            state, q, summary, self.objective(q, summary), image, self._look_ahead(state, q, summary, image)
        )

    def _look_ahead(self, state: State, q: Posterior, summary: Summary, image: State) -> State:
        """Updates creep where much of t is unknown. Newton steps, of every source and of the field, do not; they have
        the same fixed points. How sources and field answer each other is left to the acceleration.

        Where no bound judges the step, only short ones of the sources: long ones of many sources with few reports each
        ended at a map of one state, whose objective was far below that of the right one. And the field needs none
        where t is summed out, for its sites hold the observed information already.
        """
        if not self.scheme.ahead:
            return image
        counts = confusion.newton(state.counts, summary.counts, q.alpha0, summary.missing, self.scheme.ahead)
        if not self.guarded:
            return image._replace(counts=counts)
        observed, complete = summary.information
        share = np.clip(observed / np.maximum(complete, 1e-300), LEAST_SHARE, 1.0)
        statistics = tuple(
            self.engine.look_ahead(s, image.precision, f, float(c)) if c < 1.0 else s
            for s, f, c in zip(image.statistics, q.fields, share, strict=True)
        )
        return image._replace(counts=counts, statistics=statistics)

    def _after(self, communities: Communities | None, summary: Summary, precision: float) -> State:
        """The state that a sweep leads to."""
        if communities is not None and self.base is not None:
            communities = communities_.update(communities, summary.counts, self.base)
        coupling = summary.coupling if self.couples else None
        return State(summary.counts, summary.statistics, precision, communities, coupling)

    def _next_precision(self, state: State, q: Posterior) -> float:
        if self.scheme.integrates_scale:
            return q.scale.mean
        informed, energy = sum(f.informed for f in q.fields), sum(f.energy for f in q.fields)
        return scale.next_mean(self.scale_prior, self._size, informed, energy, state.precision)

    def warm_start(self, q: Posterior) -> State:
        """The state that a q learned elsewhere (fewer reports, another engine) implies for these sites."""
        summary = self.sweep(q, True)
        return self._after(self.communities, summary, q.scale.mean)

    def objective(self, q: Posterior, summary: Summary) -> Bound:
        if self.scheme.integrates_scale:
            # t is summed out: its term is inside the first (docs/inference.md).
            return Bound(summary.targets, -sum(f.kl for f in q.fields), -q.fields[0].scale.kl, 0.0)
        return bound_.of(summary.targets, q.fields, self.engine.size, q.scale, self.scale_prior, q.alpha, q.alpha0)
