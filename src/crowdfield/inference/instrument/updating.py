"""A few more reports in a fit of many: only what they move is computed again.

A fit that has converged stays stationary in everything that new reports do not touch. So the update keeps the sites of
all places but those where something changed: places with new reports, all places of the sources that sent them, and
places where f has moved by more than MOVED since their sites were computed. The posterior of the field is then exact
given the sites, by sums over all places that take little time. A site that is kept errs by half the third derivative
of its log likelihood times the squared move of f: for one report at most .05 · MOVED², 2e-5 of a logit.

Field, sources and link then take a joint step of Newton's method, as in `coupled.image`. The gradient is exact for the
sources of new reports; that of the others is the gradient of the last fit, and linear around it in the weights w of the
field and in the parameters θ: ∇₀ − Bᵀ(w − w₀) − C(θ − θ₀), with B and C the blocks of the joint precision. These change
by the information of the places with new reports, linearised where the others were.

The variances stay; MOST_NEW bounds how much may come before all reports are passed over again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.linalg as sla
import scipy.sparse as sp
from numpy.typing import NDArray

from crowdfield.errors import NumericalError
from crowdfield.inference.blur import coordinates
from crowdfield.inference.fields.base import cholesky
from crowdfield.inference.instrument import coupled, fitting, linear, link, places, responses, scoring
from crowdfield.inference.instrument.coupled import Blocks
from crowdfield.inference.instrument.fitting import Evaluated, State
from crowdfield.inference.instrument.grid import APPEARANCES, Array
from crowdfield.inference.instrument.iterate import Policy, Settled
from crowdfield.inference.instrument.joint_information import LocalInformation
from crowdfield.inference.instrument.kept import Gradient, Kept, News, parameters
from crowdfield.inference.instrument.linear import Design, Weights
from crowdfield.inference.instrument.model import AnyFitted, Fitted, Problem, extended
from crowdfield.inference.instrument.observed import Observed

# Logits by which f (and squared, its variance) may move at a place before its site is computed again; and before the
# probability of its state is: a thousandth of a logit is less than 3e-4 in probability.
MOVED, SHOWN = 0.02, 1e-3
# Passes that new reports need to be taken in: the first makes their sites, the second knows what these move.
TAKEN_IN = 2
# The share of the reports that may be new since all of them were passed over.
MOST_NEW = 0.002


def update(before: AnyFitted, problem: Problem, news: News, policy: Policy) -> Fitted | None:
    """The fit with some new reports; None where all reports should be passed over again."""
    if not isinstance(before, Fitted) or before.kept is None or not _few(before, before.kept, problem, news):
        return None
    design = Design(before.design.basis, problem.columns, problem.X)
    try:
        return _Update(before, before.kept, problem, design, news).run(policy)
    except NumericalError:
        return None  # so far from the last fit the quadratic model has no maximum


def _few(before: Fitted, kept: Kept, problem: Problem, news: News) -> bool:
    """Whether the new reports are few, of the same kind as the others, and within reach of the basis."""
    observed, old = problem.observed, before.problem.observed
    if not isinstance(observed, Observed) or not isinstance(old, Observed) or (news.position < 0).any():
        return False
    if kept.added + len(news.site) > MOST_NEW * observed.n_reports:
        return False
    if observed.n_sources * observed.parameters + len(observed.state_scores) > coupled.MOST_PARAMETERS:
        return False
    if observed.parameters != old.parameters or not np.array_equal(observed.scores, old.scores):
        return False
    if problem.kernel != before.problem.kernel:
        return False
    was, now = (coordinates(problem.kernel, p.X) for p in (before.problem, problem))
    # Features of inexact places know the accuracies that they were made for.
    D = now.shape[1]
    levels, others = (np.unique(p.X[:, D:], axis=0) for p in (before.problem, problem))
    if levels.shape != others.shape or not np.array_equal(levels, others):
        return False
    # Features repeat themselves beyond the places that they were laid for.
    return bool((now.min(0) >= was.min(0)).all() and (now.max(0) <= was.max(0)).all())


class Found(NamedTuple):
    """What one pass found."""

    state: State  # with the new sites
    gradient: Array  # [p] in sources and link
    spread: Array  # [n, d, d] Cov(θ) of the sources of new reports, if all appearances were known
    appearances: Array  # E[g] at the places with new reports


class Curvature(NamedTuple):
    """What a joint step needs of the joint precision."""

    smoothed: Array  # A⁻¹B [m + C, p]
    root: Array  # of C − BᵀA⁻¹B, of the parameters that move


class _Update:
    """The iteration: sites where something moved, and the field, the sources and the link everywhere."""

    def __init__(self, before: Fitted, kept: Kept, problem: Problem, design: Design, news: News):
        at: Evaluated = before.settled.at
        self.before, self.problem, self.design, self.news, self.at = before, problem, design, news, at
        self.observed, N = problem.one_appearance, len(problem.X)
        self.first: State = extended(at.image, news.position, N, self.observed.n_sources)
        self.kept = self.earlier = kept.for_news(news, N, self.first)
        self.nugget = design.nuggets(at.state.variances.smooth, at.state.variances.nugget)
        self.sources, self.changed = np.unique(news.source), np.unique(news.site)
        self.always = self._always()
        self.moving = self._moving()

    def _moving(self) -> NDArray[np.int64]:
        """The parameters that move: all, but around a fit that had not converged only those with an exact gradient."""
        p, (S, d) = self.kept.cross.shape[1], self.first.theta.shape
        if self.before.settled.converged:
            return np.arange(p)
        own = (self.sources[:, None] * d + np.arange(d)).ravel()
        return np.concatenate([own, np.arange(S * d, p)]) if self.checked else own

    def _always(self) -> NDArray[np.bool_]:
        """The places that every pass computes: those of new reports and of their sources, and checks if one is new."""
        out = np.zeros(self.observed.n_sites, dtype=bool)
        out[self.changed] = True
        reports, readings = self.problem.reported, self.observed.readings
        out[reports.site[np.isin(reports.source, self.sources)]] = True
        if readings is not None:
            out[readings.site[np.isin(readings.source, self.sources)]] = True
        checks = self.observed.checks.site
        self.checked = bool(np.isin(checks, self.changed).any())
        if self.checked:
            out[checks] = True
        return out

    def run(self, policy: Policy) -> Fitted:
        """Iterate to convergence. The sites of the last pass are the image of the fit's state, as in
        `fitting.evaluate`."""
        state, q, shown, n, first = self.first, self.at.q, None, 0, np.inf
        # Around a fit that had not converged new reports are only taken in; the rest is for passes over all reports.
        most = policy.max_iter if self.before.settled.converged else TAKEN_IN
        while True:
            mean, variance = self.design.moments(q)
            found = self._pass(state, mean, variance, q)
            if not n:
                self.kept = _with_information(self.kept, self, found.appearances)
                curvature = self._curvature()
            image = self._stepped(found, mean, q, curvature)
            change = _moved(state, image)
            if shown is not None:
                change = max(change, float(np.abs(np.tanh(0.5 * mean) - np.tanh(0.5 * shown)).max()))
            first = change if n < 2 else first  # the second is the first that knows the new reports
            if change > max(first, policy.tol):
                raise NumericalError("the steps grow: the last fit is too far away.")
            n, shown = n + 1, mean
            if n > 1 and (change < policy.tol or n >= most):
                break
            state = image
            q = linear.posterior(self.design, state.eta, state.lam, state.variances.smooth)
        at = self._evaluated(state, image, q, found, mean, variance)
        converged = bool(self.before.settled.converged and change < policy.tol)
        return _finished(self, Settled(at, [at.objective], n, converged, change))

    def _pass(self, state: State, mean: Array, variance: Array, q: Weights) -> Found:
        """Renew the sites where something moved, and the gradient."""
        open_, seen = self.always.copy(), self.kept.seen
        for now, then in zip((mean, variance), seen, strict=True):
            open_ |= ~(np.abs(now - then) <= MOVED)  # not >: NaN where there was no place
        rows = np.flatnonzero(open_)
        observed = self.observed.at_rows(rows)
        local = places.integrate(_likelihood(observed, state), mean[rows], variance[rows], self.nugget[rows])
        eta, lam = state.eta.copy(), state.lam.copy()
        eta[rows], lam[rows] = local.eta, local.lam
        seen.mean[rows], seen.variance[rows] = mean[rows], variance[rows]
        gradient, spread = self._gradient(state, observed, local.posterior, q)
        appearances = local.posterior[np.searchsorted(rows, self.changed)] @ APPEARANCES
        return Found(state._replace(eta=eta, lam=lam), gradient, spread, appearances)

    def _gradient(self, state: State, observed: Observed, posterior: Array, q: Weights) -> tuple[Array, Array]:
        """The gradient in sources and link [p]: linear, but exact for the sources of new reports, and for the link
        where checks are new; and the covariance of these sources."""
        _, B, C = self.earlier.blocks
        (S, d), last = state.theta.shape, self.earlier.gradient
        out = last.value - B.T @ (q.mean - last.weights) - C @ (parameters(state) - last.parameters)
        crowd, L, own = state.variances.population, len(observed.scores), self.sources
        columns = (own[:, None] * L + np.arange(L)).ravel()
        answers = (observed.votes.tocsc()[:, columns].T @ posterior).reshape(len(own), L, -1)
        scored = np.zeros((S, 6))
        if observed.readings is not None:
            scored = scoring.moments(observed.readings, posterior, S)
        given = state.theta[own], observed.scores, answers, scored[own], crowd
        out[: S * d].reshape(S, d)[own] = fitting.slope(*given)
        if self.checked:
            checked = link.answers(state.link, observed.checks, posterior[observed.checks.site])
            out[S * d :] = link.slope(state.link, checked, crowd)
        return out, fitting.maximised(*given)[1]

    def _curvature(self) -> Curvature:
        """C − BᵀA⁻¹B: the joint precision of sources and link, with the field marginalised."""
        A, B, C = self.kept.blocks
        root = cholesky(A, "the precision of the map with the sources held")
        smoothed = np.asarray(sla.cho_solve((root, True), B, check_finite=False))
        curvature = C[np.ix_(self.moving, self.moving)] - B[:, self.moving].T @ smoothed[:, self.moving]
        return Curvature(smoothed, cholesky(curvature, "the joint precision of the sources"))

    def _stepped(self, found: Found, mean: Array, q: Weights, curvature: Curvature) -> State:
        """The state after a joint step of field, sources and link."""
        state = found.state
        pull = self.design.project(state.eta - state.lam * mean)
        pull -= self.design.precision(state.variances.smooth) * q.mean
        gradient = found.gradient - curvature.smoothed.T @ pull
        step = np.zeros(len(gradient))
        step[self.moving] = sla.cho_solve((curvature.root, True), gradient[self.moving], check_finite=False)
        step *= min(1.0, responses.LONGEST_STEP / max(np.abs(step).max(initial=0.0), 1e-300))
        of_sources, of_link = np.split(step, [state.theta.size])
        return state._replace(
            eta=state.eta - self.kept.cross @ step,
            theta=state.theta + of_sources.reshape(state.theta.shape),
            link=state.link._replace(theta=state.link.theta + of_link),
        )

    def _evaluated(
        self, state: State, image: State, q: Weights, found: Found, mean: Array, variance: Array
    ) -> Evaluated:
        """The last state, as a fit's result. What sums over all places is that of before, with what was gained."""
        at, gained = self.at, self._gained(state, mean, variance)
        prior = np.diag(state.variances.population.variance)
        new = len(state.theta) - len(at.covariance)
        covariance = np.concatenate([at.covariance, np.tile(prior, (new, 1, 1))])
        covariance[self.sources] = found.spread
        return at._replace(
            state=state, q=q, mean=mean, variance=variance, nugget=self.nugget,
            objective=at.objective + gained, evidence=at.evidence + gained,
            image=image, covariance=covariance, gradient=found.gradient,
        )  # fmt: skip

    def _gained(self, state: State, mean: Array, variance: Array) -> float:
        """By how much the new reports change Σ E[log L]; to first order the objective changes by as much."""
        rows, old = self.changed, self.news.earlier(len(mean))[self.changed]
        known = old >= 0
        at = mean[rows], variance[rows], self.nugget[rows]
        gained = places.integrate(_likelihood(self.observed.at_rows(rows), state), *at).expected
        if known.any():
            earlier = self.before.problem.one_appearance.at_rows(old[known])
            was = places.integrate(_likelihood(earlier, self.at.state), *(values[known] for values in at))
            gained -= was.expected
        return gained


def _likelihood(observed: Observed, state: State) -> Array:
    """ℓ(g) at all places of these reports: [n, K]."""
    table = responses.log_responses(state.theta, observed.scores).reshape(-1, len(APPEARANCES))
    return observed.likelihood(slice(0, observed.n_sites), table, state.link, state.theta)


def _moved(a: State, b: State) -> float:
    """The largest change of a parameter of the sources or of the link, as it is measured in `methods`."""
    sources = np.abs(b.theta - a.theta).max(initial=0.0)
    return float(max(0.25 * sources, np.abs(b.link.theta - a.link.theta).max()))


def _finished(done: _Update, settled: Settled) -> Fitted:
    """The joint covariance and the states of everything reported on, from those of before."""
    kept, problem, design, before = done.kept, done.problem, done.design, done.before
    at, N, shown = settled.at, len(problem.X), done.kept.shown
    held = coupled.solved(at, *kept.blocks)
    joint = held if kept.unsure is None else kept.unsure.widened(held)
    mean, variance = design.moments(joint.q)
    moved = ~(np.abs(mean - shown.mean) <= SHOWN) | ~(np.abs(variance - shown.variance) <= SHOWN)
    # The link gives the state of an appearance everywhere.
    linked = np.abs(joint.link.theta - before.link.theta).max() > SHOWN
    linked |= np.abs(joint.link.covariance - before.link.covariance).max() > SHOWN
    rows = np.flatnonzero(moved | done.always | linked)
    states, appearances = (done.news.carried(values, N) for values in (before.site_states, before.appearances))
    some = mean[rows], variance[rows], at.nugget[rows]
    states[rows], appearances[rows] = problem.one_appearance.at_rows(rows).at_sites(at.state, *some, joint.link)
    shown.mean[rows], shown.variance[rows] = mean[rows], variance[rows]
    gradient = Gradient(at.gradient, at.q.mean, parameters(at.state))
    kept = kept._replace(gradient=gradient, added=kept.added + len(done.news.site))
    return Fitted(problem, design, settled, held, joint, states, appearances, kept)


def _with_information(kept: Kept, done: _Update, appearances: Array) -> Kept:
    """The joint precision with the information of the places with new reports in place of theirs before. appearances:
    E[g] there."""
    problem, design, before, at = done.problem, done.design, done.before, kept.linearised
    (A, B, C), N, rows = kept.blocks, len(problem.X), done.changed
    old = done.news.earlier(N)[rows]
    new, known = rows[old < 0], rows[old >= 0]
    at.appearances[new], at.nugget[new] = appearances[old < 0], done.nugget[new]
    cross = sp.diags(np.where(np.isin(np.arange(N), rows), 0.0, 1.0)) @ kept.cross
    for sign, source, here, index in ((-1.0, before.problem, known, old[old >= 0]), (1.0, problem, rows, rows)):
        if not len(here):
            continue
        some = Design(design.basis, design.columns, problem.X[here])
        part = source.one_appearance.at_rows(index)
        found = LocalInformation(part, some, at.state, at.nugget[here], at.appearances[here])
        A, B, C = A + sign * found.gram(), B + sign * found.projected(), C + sign * found.parameters
        if sign > 0.0:
            place = sp.csr_matrix((np.ones(len(here)), (here, np.arange(len(here)))), shape=(N, len(here)))
            cross = (cross + place @ sp.csr_matrix(found.by_place)).tocsr()
    return kept._replace(blocks=Blocks(A, B, C), cross=cross)
