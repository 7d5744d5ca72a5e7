"""A few more reports in a fit of many: only what they move is computed again.

A fit that has converged stays stationary in everything that new reports do not touch. So the update keeps the sites of
all places but those where something changed: places with new reports, all places of the sources that sent them, and
places where f has moved by more than MOVED since their sites were computed. The posterior of the field is then exact
given the sites, by sums over all places that take little time. A site that is kept errs by half the third derivative
of its log likelihood times the squared move of f: for one report at most .05 · MOVED², 2e-5 of a logit.

Parameters of sources that sent nothing, and the variances, stay; MOST_NEW bounds how much may come before all reports
are passed over again. The joint precision changes by the information of the places with new reports, linearised where
the others were.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crowdfield.inference.blur import coordinates
from crowdfield.inference.instrument import coupled, linear, link, places, responses
from crowdfield.inference.instrument.coupled import Blocks
from crowdfield.inference.instrument.fitting import Evaluated, State
from crowdfield.inference.instrument.grid import APPEARANCES, Array
from crowdfield.inference.instrument.iterate import Policy, Settled
from crowdfield.inference.instrument.kept import Kept, Linearised, Moments
from crowdfield.inference.instrument.linear import Design
from crowdfield.inference.instrument.model import AnyFitted, Fitted, Problem, extended
from crowdfield.inference.instrument.observed import Observed
from crowdfield.inference.instrument.responses import Population

# Logits by which f (and squared, its variance) may move at a place before its site is computed again; and before the
# probability of its state is: a thousandth of a logit is less than 3e-4 in probability.
MOVED, SHOWN = 0.02, 1e-3
# The share of the reports that may be new since all of them were passed over.
MOST_NEW = 0.005


class News(NamedTuple):
    """What is new in a problem."""

    position: NDArray[np.int64]  # [N_old] the new number of every place of before
    site: NDArray[np.int64]  # [n] the place of every new report
    source: NDArray[np.int64]  # [n] and its source

    def carried(self, values: Array, total: int, fill: float) -> Array:
        """Values of the places of before [N_old, ...] at their new numbers, the new places filled: [N, ...]."""
        out = np.full((total, *values.shape[1:]), fill)
        out[self.position] = values
        return out


def update(before: AnyFitted, problem: Problem, news: News, policy: Policy) -> Fitted | None:
    """The fit with some new reports; None where all reports should be passed over again."""
    if not isinstance(before, Fitted) or before.kept is None or not _few(before, before.kept, problem, news):
        return None
    design = Design(before.design.basis, problem.columns, problem.X)
    iteration = _Update(before, problem, design, news)
    settled, local = iteration.run(policy)
    return _finished(before, before.kept, iteration, settled, local)


def _few(before: Fitted, kept: Kept, problem: Problem, news: News) -> bool:
    """Whether the new reports are few, of the same kind as the others, and within reach of the basis."""
    observed, old = problem.observed, before.problem.observed
    if not isinstance(observed, Observed) or observed.readings is not None or (news.position < 0).any():
        return False
    if kept.added + len(news.site) > MOST_NEW * len(problem.reported.site):
        return False
    if observed.n_sources * observed.parameters + len(observed.state_scores) > coupled.MOST_PARAMETERS:
        return False
    assert isinstance(old, Observed)
    if old.readings is not None or not np.array_equal(observed.scores, old.scores):
        return False
    if problem.kernel != before.problem.kernel:
        return False
    was, now = (coordinates(problem.kernel, p.X) for p in (before.problem, problem))
    # Features repeat themselves beyond the places that they were laid for.
    return bool((now.min(0) >= was.min(0)).all() and (now.max(0) <= was.max(0)).all())


class Local(NamedTuple):
    """What the last pass found at places with new reports."""

    appearances: Array  # [N] E[g]; only computed where reports are new
    gained: float  # by how much the new reports change Σ E[log L]


class _Update:
    """The iteration: sites, sources and link where reports are new, and the field everywhere."""

    def __init__(self, before: Fitted, problem: Problem, design: Design, news: News):
        at: Evaluated = before.settled.at
        self.before, self.problem, self.design, self.news, self.at = before, problem, design, news, at
        self.observed, N = problem.one_appearance, len(problem.X)
        self.state: State = extended(at.image, news.position, N, self.observed.n_sources)
        self.nugget = design.nuggets(at.state.variances.smooth, at.state.variances.nugget)
        assert before.kept is not None
        # The moments of f for which the sites of `state` were computed; NaN for new places, which have none.
        self.seen = Moments(*(news.carried(values, N, np.nan) for values in before.kept.seen))
        self.sources = np.unique(news.source)
        self.changed = np.unique(news.site)
        self.always = self._always()
        self.spread = at.covariance[:0]  # Cov(θ) of the sources of new reports, if all appearances were known

    def _always(self) -> NDArray[np.bool_]:
        """The places that every pass computes: those of new reports and of their sources, and checks if one is new."""
        out = np.zeros(self.observed.n_sites, dtype=bool)
        out[self.changed] = True
        reports = self.problem.reported
        out[reports.site[np.isin(reports.source, self.sources)]] = True
        checks = self.observed.checks.site
        self.checked = bool(np.isin(checks, self.changed).any())
        if self.checked:
            out[checks] = True
        return out

    def run(self, policy: Policy) -> tuple[Settled, Local]:
        """Iterate to convergence; the fit's result, and what was found where reports are new. The sites found in the
        last pass are the image of the fit's state, as in `fitting.evaluate`."""
        q, shown, n, change = self.at.q, None, 0, np.inf
        while True:
            mean, variance = self.design.moments(q)
            step = np.inf if shown is None else float(np.abs(np.tanh(0.5 * mean) - np.tanh(0.5 * shown)).max())
            used, shown = self.state, mean
            moved = self._pass(mean, variance)
            n, change = n + 1, max(step, moved)
            if n > 1 and (change < policy.tol or n >= policy.max_iter):
                break
            q = linear.posterior(self.design, self.state.eta, self.state.lam, self.state.variances.smooth)
        local = self._local(mean, variance)
        converged = bool(self.before.settled.converged and change < policy.tol)
        at = self._evaluated(used, q, mean, variance, local)
        return Settled(at, [at.objective], n, converged, change), local

    def _pass(self, mean: Array, variance: Array) -> float:
        """Renew the sites where something moved, and the sources of the new reports; how far these moved."""
        open_ = self.always.copy()
        for now, seen in zip((mean, variance), self.seen, strict=True):
            open_ |= ~(np.abs(now - seen) <= MOVED)  # not >: NaN where there was no place
        rows = np.flatnonzero(open_)
        observed, table = self.observed.at_rows(rows), self._table()
        likelihood = observed.likelihood(slice(0, len(rows)), table, self.state.link, self.state.theta)
        found = places.integrate(likelihood, mean[rows], variance[rows], self.nugget[rows])
        eta, lam = self.state.eta.copy(), self.state.lam.copy()
        eta[rows], lam[rows] = found.eta, found.lam
        self.seen.mean[rows], self.seen.variance[rows] = mean[rows], variance[rows]
        before = self.state
        theta, truth_link = self._theta(observed, found.posterior), before.link
        if self.checked:
            population = before.variances.population
            answers = link.answers(truth_link, observed.checks, found.posterior[observed.checks.site])
            truth_link = link.update(truth_link, answers, population)
        self.state = before._replace(eta=eta, lam=lam, theta=theta, link=truth_link)
        moved = 0.25 * np.abs(theta - before.theta).max(initial=0.0)
        return float(max(moved, np.abs(truth_link.theta - before.link.theta).max()))

    def _table(self) -> Array:
        return responses.log_responses(self.state.theta, self.observed.scores).reshape(-1, len(APPEARANCES))

    def _theta(self, observed: Observed, posterior: Array) -> Array:
        """The parameters of all sources, updated for those of the new reports: all of their places are at hand."""
        L, theta = len(self.observed.scores), self.state.theta.copy()
        columns = (self.sources[:, None] * L + np.arange(L)).ravel()
        answers = (observed.votes.tocsc()[:, columns].T @ posterior).reshape(len(self.sources), L, -1)
        population: Population = self.state.variances.population
        theta[self.sources], self.spread = responses.maximise(
            theta[self.sources], self.observed.scores, answers, population
        )
        return theta

    def _local(self, mean: Array, variance: Array) -> Local:
        rows, news = self.changed, self.news
        appearances = np.full(len(mean), np.nan)
        gained = 0.0
        table = self._table()
        old = np.full(len(mean), -1)
        old[news.position] = np.arange(len(news.position))
        at = mean[rows], variance[rows], self.nugget[rows]
        observed = self.observed.at_rows(rows)
        likelihood = observed.likelihood(slice(0, len(rows)), table, self.state.link, self.state.theta)
        found = places.integrate(likelihood, *at)
        appearances[rows] = found.posterior @ APPEARANCES
        gained = found.expected
        known = old[rows] >= 0
        if known.any():
            earlier = self.before.problem.one_appearance.at_rows(old[rows[known]])
            old_table = responses.log_responses(self.at.state.theta, earlier.scores).reshape(-1, len(APPEARANCES))
            likelihood = earlier.likelihood(slice(0, int(known.sum())), old_table, self.at.state.link, self.at.state.theta)
            gained -= places.integrate(likelihood, *(values[known] for values in at)).expected
        return Local(appearances, gained)

    def _evaluated(self, used: State, q: linear.Weights, mean: Array, variance: Array, local: Local) -> Evaluated:
        """The last state, as a fit's result. What sums over all places is that of before, with what was gained."""
        at, d = self.at, self.state.theta.shape[1]
        prior = np.diag(self.state.variances.population.variance)
        new = len(self.state.theta) - len(at.covariance)
        covariance = np.concatenate([at.covariance, np.tile(prior, (new, 1, 1))])
        covariance[self.sources] = self.spread
        return at._replace(
            state=used, q=q, mean=mean, variance=variance, nugget=self.nugget,
            objective=at.objective + local.gained, evidence=at.evidence + local.gained,
            image=self.state, covariance=covariance, gradient=np.zeros(len(covariance) * d + len(used.link.theta)),
        )  # fmt: skip


def _finished(before: Fitted, kept: Kept, done: _Update, settled: Settled, local: Local) -> Fitted:
    """The joint covariance and the states of everything reported on, from those of before."""
    problem, design, news = done.problem, done.design, done.news
    at, N, S = settled.at, len(problem.X), len(settled.at.state.theta)
    linearised = _linearised(kept, news, settled.at, local)
    blocks = _blocks(before, kept, problem, design, linearised, news)
    held = coupled.solved(at, *blocks)
    unsure = None if kept.unsure is None else kept.unsure.for_sources(S)
    joint = held if unsure is None else unsure.widened(held)
    mean, variance = design.moments(joint.q)
    shown = Moments(*(news.carried(values, N, np.nan) for values in kept.shown))
    moved = ~(np.abs(mean - shown.mean) <= SHOWN) | ~(np.abs(variance - shown.variance) <= SHOWN)
    rows = np.flatnonzero(moved | done.always)
    states = news.carried(before.site_states, N, np.nan)
    appearances = news.carried(before.appearances, N, np.nan)
    some = mean[rows], variance[rows], at.nugget[rows]
    states[rows], appearances[rows] = problem.one_appearance.at_rows(rows).at_sites(at.state, *some, joint.link)
    shown.mean[rows], shown.variance[rows] = mean[rows], variance[rows]
    again = Kept(blocks, linearised, unsure, done.seen, shown, kept.added + len(news.site))
    return Fitted(problem, design, settled, held, joint, states, appearances, again)


def _linearised(kept: Kept, news: News, at: Evaluated, local: Local) -> Linearised:
    """Where the information of each place was computed: old places stay where they were."""
    old = kept.linearised
    new = len(at.state.theta) - len(old.state.theta)
    theta = np.concatenate([old.state.theta, at.state.theta[len(at.state.theta) - new :]])
    g = news.carried(old.appearances, len(at.mean), np.nan)
    fresh = np.isnan(g)
    g[fresh] = local.appearances[fresh]
    return Linearised(old.state._replace(theta=theta), g, at.nugget)


def _blocks(before: Fitted, kept: Kept, problem: Problem, design: Design, now: Linearised, news: News) -> Blocks:
    """The joint precision: that of before, with the information of the places with new reports in place of theirs."""
    S, d = now.state.theta.shape
    A, B, C = _for_sources(kept.blocks, now.state, S)
    rows = np.unique(news.site)
    old = np.full(len(now.appearances), -1)
    old[news.position] = np.arange(len(news.position))
    earlier = rows[old[rows] >= 0]
    for sign, source, places_, index in ((1.0, problem, rows, rows), (-1.0, before.problem, earlier, old[earlier])):
        if not len(places_):
            continue
        part = source.one_appearance.at_rows(index)._replace(n_sources=S)
        some = Design(design.basis, design.columns, problem.X[places_])
        known = part.information(some, now.state, now.nugget[places_], now.appearances[places_])
        A, B, C = A + sign * known.gram(), B + sign * known.projected(), C + sign * known.parameters
    return Blocks(A, B, C)


def _for_sources(blocks: Blocks, state: State, sources: int) -> Blocks:
    """The same blocks with room for new sources, of which the population's prior is known."""
    A, B, C = blocks
    J, d = len(state.link.theta), state.theta.shape[1]
    first = len(C) - J
    new = sources * d - first
    if not new:
        return blocks
    at = np.concatenate([np.arange(first), np.arange(first + new, first + new + J)])
    wide, square = np.zeros((len(B), len(C) + new)), np.zeros((len(C) + new, len(C) + new))
    wide[:, at] = B
    square[np.ix_(at, at)] = C
    own = np.arange(first, first + new)
    square[own, own] = np.tile(state.variances.population.precision, new // d)
    return Blocks(A, wide, square)
