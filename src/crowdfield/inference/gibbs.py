"""One sweep of a Gibbs sampler of the one-state model, in the weights of a basis: f = μ + Φ w, w ~ N(0, I/ς).

1. z | w, π   how much a site says about f. With t summed out, its likelihood of f is Σ_j ρ_j e^{ℓ_j} ∝ 1 + Σ_j ρ_j
              (e^{ℓ_j − min ℓ} − 1): a mixture of "says nothing" and "says state j". A coin-flipper's report nearly
              always says nothing. Drawing t instead and treating it as seen mixes slowly, for each t then pins f down.
2. ω | w, z   Pólya-Gamma, at the sites that say something. Function j given the others is a logistic with offset
              log Σ_{k≠j} e^{f_k} (Holmes and Held 2006), so one code serves two states (offset 0) and more.
3. ς | z, ω   with the function's w integrated out (a Metropolis step), then w | ς, z, ω: Gaussian. They are drawn
              together because w pins ς down to ±13 % at a hundred features.
4. ς | Φw√ς   once more with the shape of the field held instead of w, and z, ω, t summed out (interweaving).
5. t | w, π   categorical;   communities | t (`community_sampling`), where there are any;   π | t   Dirichlet.

Chains run side by side: arrays begin with their axis, K. Places go last, so that every sum over states is a sum of
long rows: f [K, F, N], logits and ℓ [K, J, N]; confusion tables are [K, S, L, J], the order of a report's key.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from polyagamma import random_polyagamma
from scipy.linalg import lapack

from crowdfield.arrays import Array
from crowdfield.errors import NumericalError
from crowdfield.inference.confusion_prior import ConfusionPrior, FixedPrior
from crowdfield.inference.data import Data, Prior
from crowdfield.inference.fields.basis import Basis
from crowdfield.inference.quadrature import logsumexp, softmax

STATES = 1  # the axis of the states in arrays [K, J, N]
DENSE_ENTRIES = 1 << 24  # entries of a dense Φ; larger problems use the basis' own products


class State(NamedTuple):
    """One sweep's draw of everything that the next sweep needs, for K chains side by side."""

    weights: Array  # w [K, F, m]
    scale: Array  # ς [K]
    log_pi: Array  # [K, S, L, J]
    confusion: Any  # the confusion prior's own state
    g: Array  # Φw at the sites [K, F, N]


class Info(NamedTuple):
    """By-products of a sweep: responsibilities, drawn states, rates, accepted Metropolis steps."""

    r: Array  # p(t | w, π) [K, J, N]
    t: NDArray[np.int64]  # [K, N]
    rho: Array  # [K, J, N]
    accepted: Array  # of the two Metropolis steps for ς [2, K]


class Design:
    """Φ at the sites: a dense matrix while it is small, else the products that the basis offers."""

    def __init__(self, basis: Basis, X: Array):
        self.basis, self.size = basis, basis.size
        dense = len(X) * basis.size <= DENSE_ENTRIES
        self._phi = np.ascontiguousarray(basis.features(X)) if dense else None
        self._points = None if dense else basis.locate(X)

    def evaluate(self, weights: Array) -> Array:
        """Φw for weights [..., m]: [..., N]."""
        flat = weights.reshape(-1, self.size).T
        out = self.basis.evaluate(self._points, flat) if self._phi is None else self._phi @ flat
        return np.ascontiguousarray(out.T).reshape(*weights.shape[:-1], -1)

    def normal_equations(self, active: NDArray[np.bool_], omega: Array, linear: Array) -> tuple[Array, Array]:
        """Σ ω φφᵀ and Σ v φ over the active sites; ω and v are given at those only."""
        if self._phi is None:
            full, right = np.zeros(len(active)), np.zeros(len(active))
            full[active], right[active] = omega, linear
            gram = self.basis.gram(self.basis.gram_statistics(self._points, full))
            return gram, self.basis.project(self._points, right)
        rows = self._phi[active]
        b = linear @ rows
        rows *= np.sqrt(omega)[:, None]
        return rows.T @ rows, b


class Sampler:
    """The Gibbs sampler: the reports, the prior and the design, which are the same in every sweep."""

    n_steps = 2  # Metropolis steps of a sweep, both of log ς

    def __init__(self, data: Data, prior: Prior, basis: Basis, confusion: ConfusionPrior | None = None):
        self.data, self.prior = data, prior
        self.confusion: ConfusionPrior = FixedPrior(prior.alpha0) if confusion is None else confusion
        self.design = Design(basis, data.X)
        self.mean = np.ascontiguousarray(prior.mean.T)  # [F, N]
        self.functions = prior.mean.shape[1]
        self.state_of = [1] if data.n_states == 2 else list(range(data.n_states))
        self.key = data.source.astype(np.int64) * data.n_labels + data.label
        self.site = data.site.astype(np.int64)
        self.first = np.flatnonzero(np.diff(self.site, prepend=-1)) if len(self.site) else np.empty(0, np.int64)
        self.reported = self.site[self.first]
        self.gold = np.flatnonzero(data.known >= 0)
        self.gold_state = data.known[self.gold].astype(np.int64)

    # --- start -----------------------------------------------------------------------------------------------------

    def init(self, chains: int, rng: np.random.Generator) -> State:
        """Overdispersed starting points: a flat field, ς around its prior's mean, π drawn near its prior's mean."""
        scale = self.prior.shape / self.prior.rate * np.exp(rng.standard_normal(chains))
        noise = rng.standard_normal((chains, self.functions, self.design.size))
        weights = 0.3 * noise / np.sqrt(scale)[:, None, None]
        confusion = self.confusion.init(chains, rng)
        alpha0 = np.broadcast_to(self.confusion.alpha0(confusion), self.table_shape(chains))
        return State(weights, scale, draw_log_pi(5.0 * alpha0, rng), confusion, self.design.evaluate(weights))

    def table_shape(self, chains: int) -> tuple[int, int, int, int]:
        """The shape of confusion tables: [K, S, L, J]."""
        return chains, self.data.n_sources, self.data.n_labels, self.data.n_states

    # --- what the reports say --------------------------------------------------------------------------------------

    def log_likelihood(self, log_pi: Array) -> Array:
        """ℓ: Σ over a site's reports of log π_{j, c}; −∞ for all but the known state.   [K, J, N]"""
        chains, states = log_pi.shape[0], self.data.n_states
        out = np.zeros((chains, states, self.data.n_sites))
        if len(self.key):
            table = np.ascontiguousarray(log_pi.reshape(chains, -1, states).transpose(0, 2, 1))
            each = table[:, :, self.key]
            if self.data.multiplicity is not None:
                each *= self.data.multiplicity
            out[:, :, self.reported] = np.add.reduceat(each, self.first, axis=2)
        out[:, :, self.gold] = -np.inf
        out[:, self.gold_state, self.gold] = 0.0
        return out

    def logits(self, g: Array) -> Array:
        """The logits of the states from the field: [K, F, N] -> [K, J, N]."""
        f = g + self.mean
        return np.concatenate([np.zeros_like(f), f], axis=1) if self.data.n_states == 2 else f

    def log_evidence_of_field(self, g: Array, ell: Array) -> Array:
        """Σ_i log Σ_j ρ_j e^{ℓ_j}, t summed out: [K]."""
        logits = self.logits(g)
        return np.asarray((logsumexp(logits + ell, STATES) - logsumexp(logits, STATES)).sum(axis=1))

    # --- one sweep -------------------------------------------------------------------------------------------------

    def step(self, state: State, rng: np.random.Generator, step_size: Array) -> tuple[State, Info]:
        """One sweep of all K chains, with the step sizes of its two Metropolis steps for log ς [2, K]."""
        ell = self.log_likelihood(state.log_pi)
        z = self._draw_what_sites_say(self.logits(state.g), ell, rng)
        weights, scale, accepted = self._draw_field(state, z, rng, step_size[0])
        g = self.design.evaluate(weights)
        weights, scale, g, accepted_again = self._rescale(weights, scale, ell, rng, step_size[1], g)
        new, r, t = self._draw_sources(State(weights, scale, state.log_pi, state.confusion, g), ell, rng)
        rho = softmax(self.logits(g), STATES)
        return new, Info(r, t, rho, np.stack([accepted, accepted_again]))

    def step_along_ridge(self, state: State, rng: np.random.Generator, step_size: Array) -> tuple[State, Array]:
        """Steps 4 and 5 of a sweep alone, and the accepted steps [K]: the shape of the field is held.

        A field of larger amplitude with less accurate sources explains most reports nearly as well. These steps move
        along that ridge at a small part of the cost of drawing the field.
        """
        ell = self.log_likelihood(state.log_pi)
        weights, scale, g, accepted = self._rescale(state.weights, state.scale, ell, rng, step_size, state.g)
        return self._draw_sources(State(weights, scale, state.log_pi, state.confusion, g), ell, rng)[0], accepted

    def _draw_sources(
        self, state: State, ell: Array, rng: np.random.Generator
    ) -> tuple[State, Array, NDArray[np.int64]]:
        """t, communities and π given the field and ℓ of the last π; also r [K, J, N] and t [K, N]."""
        r = softmax(self.logits(state.g) + ell, STATES)
        t = self._draw_targets(r, rng)
        counts = self._counts(t)
        confusion = self.confusion.step(state.confusion, counts, rng)
        log_pi = draw_log_pi(self.confusion.alpha0(confusion) + counts, rng)
        return state._replace(log_pi=log_pi, confusion=confusion), r, t

    def _draw_what_sites_say(self, logits: Array, ell: Array, rng: np.random.Generator) -> NDArray[np.int64]:
        """z [K, N]: the state that a site supports in this sweep, or −1."""
        known = np.isneginf(ell)
        floor = np.where(known, np.inf, ell).min(axis=1, keepdims=True)
        top = ell.max(axis=1, keepdims=True)
        nothing = np.exp(floor - top)
        nothing[..., self.gold] = 0.0
        weight = softmax(logits, STATES) * (np.exp(ell - top) - nothing)
        cumulative = np.cumsum(weight, axis=1)
        u = rng.random(nothing.shape) * (cumulative[:, -1:] + nothing)
        z = (u >= cumulative).sum(axis=1)
        z = np.where(z == self.data.n_states, -1, z)
        z[:, self.gold] = self.gold_state
        return z

    def _draw_field(
        self, state: State, z: NDArray[np.int64], rng: np.random.Generator, step_size: Array
    ) -> tuple[Array, Array, Array]:
        """ω, then ς with w integrated out, then w: function by function, each given the others."""
        chains = len(z)
        weights, scale, g = state.weights.copy(), state.scale.copy(), state.g.copy()
        accepted = np.zeros(chains)
        for f, j in enumerate(self.state_of):
            logits = self.logits(g)
            others = logsumexp(np.delete(logits, j, axis=1), STATES)  # [K, N]
            for k in range(chains):
                active = z[k] >= 0
                said, offset = z[k, active] == j, others[k, active]
                omega = random_polyagamma(1.0, logits[k, j, active] - offset, random_state=rng, disable_checks=True)
                linear = said - 0.5 - omega * (self.mean[f, active] - offset)
                gram, b = self.design.normal_equations(active, omega, linear)
                # What the weights of the other functions say of ς, as they are held.
                others_w = np.delete(weights[k], f, axis=0)
                shape, rate = self.prior.shape + 0.5 * others_w.size, self.prior.rate + 0.5 * float((others_w**2).sum())
                current = _Conditional(gram, b, scale[k], shape, rate)
                proposal = scale[k] * np.exp(step_size[k] * rng.standard_normal())
                proposed = _Conditional(gram, b, proposal, shape, rate)
                if np.log(rng.random()) < proposed.log_density - current.log_density:
                    current, scale[k] = proposed, proposal
                    accepted[k] += 1.0 / self.functions
                weights[k, f] = current.draw(rng)
            if self.functions > 1:
                g[:, f] = self.design.evaluate(weights[:, f])
        return weights, scale, accepted

    def _rescale(
        self, weights: Array, scale: Array, ell: Array, rng: np.random.Generator, step_size: Array, g: Array
    ) -> tuple[Array, Array, Array, Array]:
        """Draw ς given u = √ς w, whose prior is N(0, I) for any ς: functions are rescaled (interweaving). g is Φw."""
        log_ratio = step_size * rng.standard_normal(len(scale))
        stretch = np.exp(-0.5 * log_ratio)[:, None, None]
        gain = self.prior.shape * log_ratio - self.prior.rate * scale * np.expm1(log_ratio)
        gain += self.log_evidence_of_field(stretch * g, ell) - self.log_evidence_of_field(g, ell)
        accept = np.log(rng.random(len(scale))) < gain
        scale = np.where(accept, scale * np.exp(log_ratio), scale)
        stretch = np.where(accept[:, None, None], stretch, 1.0)
        return stretch * weights, scale, stretch * g, accept.astype(float)

    def _draw_targets(self, r: Array, rng: np.random.Generator) -> NDArray[np.int64]:
        """States t drawn from their responsibilities: [K, N]."""
        below = np.cumsum(r[:, :-1], axis=1) <= rng.random((len(r), 1, r.shape[2]))
        return np.asarray(below.sum(axis=1))

    def _counts(self, t: NDArray[np.int64]) -> Array:
        """How often every source gave every label in every state: [K, S, L, J]."""
        table = self.table_shape(len(t))
        rows = np.arange(len(t))[:, None] * (table[1] * table[2]) + self.key
        index = rows * self.data.n_states + t[:, self.site]
        multiplicity = None if self.data.multiplicity is None else np.tile(self.data.multiplicity, len(t))
        return np.bincount(index.ravel(), multiplicity, minlength=int(np.prod(table))).reshape(table).astype(float)


class _Conditional:
    """w | ς, ω: N(P⁻¹b, P⁻¹) with P = Σωφφᵀ + ςI; and the density of log ς with w integrated out."""

    def __init__(self, gram: Array, b: Array, scale: float, shape: float, rate: float):
        precision = gram.T.copy(order="F")  # symmetric: the transpose saves LAPACK a copy
        np.einsum("ii->i", precision)[:] += scale
        self.root, info = lapack.dpotrf(precision, lower=1, clean=0, overwrite_a=1)
        if info != 0:
            raise NumericalError(
                "the precision of the features is not positive definite. Are coordinates and length-scale in one unit?"
            )
        self.half = lapack.dtrtrs(self.root, b, lower=1)[0]
        log_det = 2.0 * np.log(np.diag(self.root)).sum()
        self.log_density = (shape + 0.5 * len(b)) * np.log(scale) - rate * scale
        self.log_density += 0.5 * (self.half @ self.half - log_det)

    def draw(self, rng: np.random.Generator) -> Array:
        """One draw of the weights: [m]."""
        noise = rng.standard_normal(len(self.half))
        return np.asarray(lapack.dtrtrs(self.root, self.half + noise, lower=1, trans=1)[0])


def draw_log_pi(alpha: Array, rng: np.random.Generator) -> Array:
    """log of Dirichlet draws over labels; in logs because a row may be as small as 1e-300.   [K, S, L, J]"""
    # Gamma(α) = Gamma(α + 1) U^{1/α}: no underflow for α far below one.
    log_gamma = np.log(rng.standard_gamma(alpha + 1.0)) - rng.standard_exponential(alpha.shape) / alpha
    top = log_gamma.max(axis=2, keepdims=True)
    return np.asarray(log_gamma - top - np.log(np.exp(log_gamma - top).sum(axis=2, keepdims=True)))
