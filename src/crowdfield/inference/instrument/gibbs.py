"""One sweep of a sampler of the exact posterior of the instrument model.

The appearances g lie on the grid of `grid.py`, so that everything that involves them is a sum: g can be integrated out
exactly, drawn exactly, and what the sources said is a table of counts by appearance. Any number of labels is served
alike. (Pólya-Gamma variables would serve two labels only: g enters several logits of a third one.)

1. Moves along directions that no report can see, with g integrated out: level against leans (`_shift`), scale against
   sensitivities (`_rescale`), and the sign of both (`_flip`).
2. v with the shape of the field held, then τ² with the field held, g integrated out (Metropolis steps).
3. g | field, τ², sources, link   place by place, from its distribution on the grid.
4. v, τ² | g with the weights integrated out (Metropolis steps), then the weights w, β | v, τ², g: Gaussian.
5. Sources and link | g, then their population (`sources_sampling`).

Chains run side by side: all arrays begin with their axis, C. g are positions on the grid [C, N].
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crowdfield.inference.instrument import link, responses, sources_sampling
from crowdfield.inference.instrument.fitting import Observed, Prior
from crowdfield.inference.instrument.grid import APPEARANCES, LEAST_NUGGET, SPACING, Array
from crowdfield.inference.instrument.linear import Design
from crowdfield.inference.instrument.link import Checks, Link
from crowdfield.inference.instrument.responses import logistic
from crowdfield.inference.instrument.selection import Reported
from crowdfield.inference.instrument.sources_sampling import Crowd
from crowdfield.inference.instrument.weights_sampling import Regression

MOVES = ("scale of appearances", "stretch of the field", "nugget given the field", "variances given appearances")
FIRST_NOISE = 0.3  # initial noise of the weights, in prior standard deviations: overdispersed chains


class State(NamedTuple):
    """Everything that crosses a sweep."""

    weights: Array  # w, β [C, m + c]
    field: Array  # f at the places [C, N]
    smooth: Array  # v [C]
    nugget: Array  # τ² [C]
    crowd: Crowd


class Info(NamedTuple):
    """By-products of a sweep: state probabilities, appearances, acceptance."""

    truth: Array  # P(t = 1) at the places, given all but g [C, N]
    appearance: NDArray[np.int64]  # g as positions on the grid [C, N]
    accepted: Array  # of the Metropolis steps [len(step_size), C]


class Sampler:
    """The sampler: the reports, the prior and the design, which are the same in every sweep."""

    def __init__(self, observed: Observed, reported: Reported, design: Design, prior: Prior):
        self.observed, self.reported, self.design, self.prior = observed, reported, design, prior
        self.regression = Regression(design)
        self.key = reported.source * len(observed.scores) + reported.label
        self.scales_freely = not design.offset.any()  # an offset that is given fixes the scale of the appearances

    @property
    def n_steps(self) -> int:
        """The number of Metropolis step sizes in a sweep."""
        return len(MOVES) + sources_sampling.n_steps(len(self.observed.scores))

    def init(self, chains: int, rng: np.random.Generator) -> State:
        """A first state of every chain: variances around their priors, a field close to zero."""
        prior, size = self.prior, self.design.size
        smooth = prior.smooth_rate / prior.smooth_shape * np.exp(0.5 * rng.standard_normal(chains))
        nugget = prior.nugget_rate / prior.nugget_shape * np.exp(0.5 * rng.standard_normal(chains))
        sd = np.stack([1.0 / np.sqrt(self.design.precision(v)) for v in smooth])
        weights = FIRST_NOISE * sd * rng.standard_normal((chains, size))
        crowd = sources_sampling.init(chains, self.observed.n_sources, len(self.observed.scores), rng)
        field = self.regression.evaluate(weights)
        return State(weights, field, smooth, np.maximum(nugget, LEAST_NUGGET), crowd)

    def step(self, state: State, rng: np.random.Generator, step_size: Array) -> tuple[State, Info]:
        """One sweep of all chains C, with the step sizes of its Metropolis steps [n_steps, C]."""
        accepted = np.zeros_like(step_size)
        state = self._shift(state, rng)
        if self.scales_freely:
            state, accepted[0] = self._rescale(state, rng, step_size[0])
            state = self._flip(state, rng)
        likelihood = self.likelihood(state.crowd)
        state, joint, accepted[1:3] = self._collapsed_variances(state, likelihood, rng, step_size[1:3])
        truth = self._truth(joint, state.crowd.link)
        g = drawn(joint, rng)
        state, accepted[3] = self._field(state, APPEARANCES[g], rng, step_size[3])
        answers, checked = self._answers(g), self._checked(g, state.crowd.link, rng)
        crowd, accepted[4:] = sources_sampling.step(
            state.crowd, self.observed.scores, answers, checked, rng, step_size[4:]
        )
        return state._replace(crowd=crowd), Info(truth, g, accepted)

    # --- what the reports say of appearances ------------------------------------------------------------------------

    def likelihood(self, crowd: Crowd) -> Array:
        """P(reports and checks | g) on the grid, up to a factor of each place: [C, N, K]."""
        chains, S, d = crowd.theta.shape
        table = responses.log_responses(crowd.theta.reshape(-1, d), self.observed.scores)
        table = table.reshape(chains, S * d, len(APPEARANCES))
        out = np.empty((chains, self.observed.n_sites, len(APPEARANCES)))
        everywhere = slice(0, self.observed.n_sites)
        for c in range(chains):
            truth_link = Link(crowd.link[c], np.zeros((2, 2)))
            out[c] = self.observed.likelihood(everywhere, table[c], truth_link, crowd.theta[c])
        out -= out.max(2, keepdims=True)
        return np.asarray(np.exp(out, out=out))

    def _truth(self, joint: Array, truth_link: Array) -> Array:
        """Probability of the second state at every site, given the appearances' joint weights.   [C, N, K] -> [C, N]"""
        total = joint.sum(2)
        slope, shift = truth_link[:, :1], truth_link[:, 1:]
        out = np.einsum("cnk,ck->cn", joint, logistic(slope * APPEARANCES + shift)) / total
        checks = self.observed.checks
        if len(checks.site):
            known = logistic((slope * APPEARANCES + shift)[:, None, :] + _log_ratio(checks)[:, None])
            out[:, checks.site] = (joint[:, checks.site] * known).sum(2) / total[:, checks.site]
        return np.asarray(out)

    def _answers(self, g: NDArray[np.int64]) -> Array:
        """Counts of every source's labels by appearance: [C, S, L, K]."""
        chains, K = len(g), len(APPEARANCES)
        rows = self.observed.n_sources * len(self.observed.scores)
        cell = (np.arange(chains)[:, None] * rows + self.key) * K + g[:, self.reported.site]
        counts = np.bincount(cell.ravel(), minlength=chains * rows * K).astype(np.float64)
        return counts.reshape(chains, self.observed.n_sources, len(self.observed.scores), K)

    def _checked(self, g: NDArray[np.int64], truth_link: Array, rng: np.random.Generator) -> Array:
        """Counts of the states of checked places by appearance, drawn where a check leaves them open: [C, 2, K]."""
        checks, chains, K = self.observed.checks, len(g), len(APPEARANCES)
        at = g[:, checks.site]
        log_odds = truth_link[:, :1] * APPEARANCES[at] + truth_link[:, 1:] + _log_ratio(checks)
        state = rng.random(at.shape) < logistic(log_odds)
        cell = (np.arange(chains)[:, None] * 2 + state) * K + at
        return np.bincount(cell.ravel(), minlength=chains * 2 * K).reshape(chains, 2, K).astype(np.float64)

    # --- directions that no report can see --------------------------------------------------------------------------

    def _shift(self, state: State, rng: np.random.Generator) -> State:
        """Shift f by δ, and all leans and the link's shift against it: the likelihood is unchanged, so that δ is
        Gaussian."""
        crowd, first = state.crowd, self.design.basis.size
        slopes = crowd.theta[:, :, :1] * lean_along(self.observed.scores)  # [C, S, L − 1]
        surplus = crowd.theta[:, :, 1:] - crowd.mean[:, None, 1:]
        own = 1.0 / crowd.variance[:, None, 1:]
        level = self.design.columns.sd[0]
        precision = level**-2 + (slopes**2 * own).sum((1, 2)) + (crowd.link[:, 0] / link.SHIFT_SD) ** 2
        linear = -state.weights[:, first] * level**-2 + (slopes * surplus * own).sum((1, 2))
        linear += crowd.link[:, 0] * crowd.link[:, 1] / link.SHIFT_SD**2
        delta = linear / precision + rng.standard_normal(len(linear)) / np.sqrt(precision)
        weights, theta, truth_link = state.weights.copy(), crowd.theta.copy(), crowd.link.copy()
        weights[:, first] += delta
        theta[:, :, 1:] -= slopes * delta[:, None, None]
        truth_link[:, 1] -= crowd.link[:, 0] * delta
        return state._replace(
            weights=weights, field=state.field + delta[:, None], crowd=crowd._replace(theta=theta, link=truth_link)
        )

    def _rescale(self, state: State, rng: np.random.Generator, step_size: Array) -> tuple[State, Array]:
        """Multiply appearances by c, and divide sensitivities and the link's slope by c."""
        crowd, prior = state.crowd, self.prior
        log_c = step_size * rng.standard_normal(len(state.smooth))
        c = np.exp(log_c)
        alpha = np.concatenate([crowd.theta[:, :, 0], crowd.link[:, :1]], axis=1)
        linear = state.weights[:, self.design.basis.size :] / self.design.columns.sd
        gain = (linear.shape[1] - alpha.shape[1]) * log_c - 0.5 * (c**2 - 1.0) * (linear**2).sum(1)
        gain += log_gamma_prior(state.smooth * c**2, prior.smooth_shape, prior.smooth_rate)
        gain -= log_gamma_prior(state.smooth, prior.smooth_shape, prior.smooth_rate)
        gain += log_gamma_prior(state.nugget * c**2, prior.nugget_shape, prior.nugget_rate)
        gain -= log_gamma_prior(state.nugget, prior.nugget_shape, prior.nugget_rate)
        gain -= 0.5 * (((alpha / c[:, None] - 1.0) ** 2 - (alpha - 1.0) ** 2).sum(1)) / crowd.variance[:, 0]
        gain[state.nugget * c**2 < LEAST_NUGGET] = -np.inf
        accept = np.log(rng.random(len(c))) < gain
        return _scaled(state, np.where(accept, c, 1.0)), accept.astype(np.float64)

    def _flip(self, state: State, rng: np.random.Generator) -> State:
        """Change the sign of appearances and sensitivities. With few sources both signs may be likely."""
        alpha = state.crowd.theta[:, :, 0].sum(1) + state.crowd.link[:, 0]
        accept = np.log(rng.random(len(alpha))) < -2.0 * alpha / state.crowd.variance[:, 0]
        return _scaled(state, np.where(accept, -1.0, 1.0)) if accept.any() else state

    # --- variances and field ----------------------------------------------------------------------------------------

    def _collapsed_variances(
        self, state: State, likelihood: Array, rng: np.random.Generator, step_size: Array
    ) -> tuple[State, Array, Array]:
        """v and τ² with g integrated out, and P(g, reports) of every place at the end: [C, N, K]."""
        chains, first, prior = len(likelihood), self.design.basis.size, self.prior
        joint, total = integrated(likelihood, state.field, state.nugget)
        accepted = np.empty((2, chains))
        log_ratio = step_size[0] * rng.standard_normal(chains)
        rest = self.design.offset + state.weights[:, first:] @ self.design.Z.T
        stretch = np.exp(0.5 * log_ratio)[:, None]
        field, smooth = rest + stretch * (state.field - rest), state.smooth * np.exp(log_ratio)
        new, new_total = integrated(likelihood, field, state.nugget)
        gain = new_total - total + log_gamma_prior(smooth, prior.smooth_shape, prior.smooth_rate)
        gain -= log_gamma_prior(state.smooth, prior.smooth_shape, prior.smooth_rate)
        accept = np.log(rng.random(chains)) < gain
        weights = state.weights.copy()
        weights[accept, :first] *= stretch[accept]
        state = state._replace(
            weights=weights,
            field=np.where(accept[:, None], field, state.field),
            smooth=np.where(accept, smooth, state.smooth),
        )
        joint[accept], total[accept], accepted[0] = new[accept], new_total[accept], accept
        nugget = state.nugget * np.exp(step_size[1] * rng.standard_normal(chains))
        new, new_total = integrated(likelihood, state.field, nugget)
        gain = new_total - total + log_gamma_prior(nugget, prior.nugget_shape, prior.nugget_rate)
        gain -= log_gamma_prior(state.nugget, prior.nugget_shape, prior.nugget_rate)
        accept = (np.log(rng.random(chains)) < gain) & (nugget >= LEAST_NUGGET)
        joint[accept], accepted[1] = new[accept], accept
        return state._replace(nugget=np.where(accept, nugget, state.nugget)), joint, accepted

    def _field(self, state: State, g: Array, rng: np.random.Generator, step_size: Array) -> tuple[State, Array]:
        """Draw v and τ² given the appearances with the weights integrated out (Metropolis), then the weights."""
        prior, known = self.prior, self.regression.given(g)

        def log_density(smooth: Array, nugget: Array) -> Array:
            value = known.log_evidence(smooth, nugget)
            value += log_gamma_prior(smooth, prior.smooth_shape, prior.smooth_rate)
            value += log_gamma_prior(nugget, prior.nugget_shape, prior.nugget_rate)
            return np.where(nugget >= LEAST_NUGGET, value, -np.inf)

        smooth, nugget, accepted = state.smooth, state.nugget, np.zeros(len(g))
        current = log_density(smooth, nugget)
        for of_smooth, of_nugget in ((1.0, 0.0), (0.0, 1.0)):
            noise = step_size * rng.standard_normal(len(g))
            proposal = smooth * np.exp(of_smooth * noise), nugget * np.exp(of_nugget * noise)
            proposed = log_density(*proposal)
            accept = np.log(rng.random(len(g))) < proposed - current
            smooth, nugget = np.where(accept, proposal[0], smooth), np.where(accept, proposal[1], nugget)
            current = np.where(accept, proposed, current)
            accepted += 0.5 * accept
        weights = known.draw(smooth, nugget, rng)
        field = self.regression.evaluate(weights)
        return state._replace(weights=weights, field=field, smooth=smooth, nugget=nugget), accepted


def lean_along(scores: Array) -> Array:
    """What a source of sensitivity 1 must add to its leans when the appearances move by −1: [L − 1]. Only the lean that
    moves its reading along the scale is concerned (`responses.lean_design`).
    """
    out, last = np.zeros(len(scores) - 1), int(np.argmax(scores))
    out[last - 1] = scores[last] - scores[0]
    return out


def log_gamma_prior(variance: Array, shape: float, rate: float) -> Array:
    """Log density of log variance if the inverse variance is gamma distributed; up to a constant."""
    return np.asarray(-shape * np.log(variance) - rate / variance)


def integrated(likelihood: Array, field: Array, nugget: Array) -> tuple[Array, Array]:
    """P(g, reports | f) on the grid [C, N, K], and Σ_i log P(reports_i | f_i) up to a constant [C]."""
    joint = APPEARANCES - field[:, :, None]
    joint *= joint
    joint *= (-0.5 / nugget)[:, None, None]
    joint -= joint.max(2, keepdims=True)
    np.exp(joint, out=joint)
    joint *= likelihood
    nearest = np.abs(field) - APPEARANCES[-1]  # beyond the grid its end is nearest, and that far away
    top = np.where(nearest > 0.0, nearest, (field / SPACING - np.round(field / SPACING)) * SPACING) ** 2
    with np.errstate(divide="ignore"):
        each = np.log(joint.sum(2)) - 0.5 * top / nugget[:, None]
    return joint, np.asarray(each.sum(1) - 0.5 * field.shape[1] * np.log(nugget))


def drawn(joint: Array, rng: np.random.Generator) -> NDArray[np.int64]:
    """One position on the grid for every place: [C, N]."""
    cumulative = joint.cumsum(2)
    u = rng.random(joint.shape[:2])[:, :, None] * cumulative[:, :, -1:]
    return np.asarray((cumulative <= u).sum(2).clip(max=joint.shape[2] - 1))


def _scaled(state: State, c: Array) -> State:
    """The same state with all appearances multiplied by c, per chain; the likelihood is unchanged."""
    crowd = state.crowd
    theta, truth_link = crowd.theta.copy(), crowd.link.copy()
    theta[:, :, 0] /= c[:, None]
    truth_link[:, 0] /= c
    return State(
        state.weights * c[:, None],
        state.field * c[:, None],
        state.smooth * c**2,
        state.nugget * c**2,
        crowd._replace(theta=theta, link=truth_link),
    )


def _log_ratio(checks: Checks) -> Array:
    """ℓ_1 − ℓ_0 of checked places, ±∞ where the state is certain: [G]."""
    return np.asarray(checks.said[:, 1] - checks.said[:, 0])
