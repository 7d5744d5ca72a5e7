"""From what reports say at a site, and q(f) there, to a Gaussian site (η, λ): exp(η f − ½ λ f²).

Each linearisation is a function of the site's latent moments and the log likelihood of its reports given the state.
It returns q(t) = r, the site, and the site's share of the bound. Shapes: mean, variance, eta, lam [n, F];
log_likelihood, r [n, J].
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from crowdfield.arrays import Array
from crowdfield.inference.quadrature import by_nodes, latent_nodes, logsumexp, softmax

OFFSET_STEPS = 50
SMALLEST_TILT = 1e-6  # c of a Pólya-Gamma variable: tanh(c/2) / 2c is ¼ there to all digits
FARTHEST = 300.0  # largest log odds: the product of two such odds does not overflow
SMALLEST_PRECISION = 1e-6  # smallest precision of a collapsed site; see `collapsed`


class Local(NamedTuple):
    """The result of a linearisation at some sites: responsibilities r [n, J] and Gaussian sites eta, lam [n, F]."""

    r: Array
    eta: Array
    lam: Array
    bound: float  # Σ_i of the local terms, with r at its optimum
    missing: Array  # [n, F] E[r(1 − r)]: the information about f that not knowing the state takes away


def responsibilities(mean: Array, log_likelihood: Array, C: Array) -> tuple[Array, Array]:
    """q(t) ∝ exp(E[f] Cᵀ + Σ_s E[log π]); the normaliser of ρ cancels (paper, after its Eq. for E[log ρ]).

    Also the log of its sum, which is E[log p(c, t)] + the entropy of q(t), less E[log Σ exp f].
    """
    joint = mean @ C.T + log_likelihood
    return softmax(joint), logsumexp(joint)


def polya_gamma(mean: Array, variance: Array, log_likelihood: Array, C: Array) -> Local:
    """Closed form, and a true bound: −log(1 + e^f) ≥ −f/2 − log 2cosh(c/2) − λ(c)(f² − c²)/2, tight at c² = E[f²].

    More than two states first use Bouchard's log Σ_j e^{f_j} ≤ a + Σ_j log(1 + e^{f_j − a}), which is symmetric in the
    states; a is at its optimum. Two states are the same expression with a = 0.
    """
    if mean.shape[1] == 1:
        return _polya_gamma_binary(mean[:, 0], variance[:, 0], log_likelihood)
    r, log_sum = responsibilities(mean, log_likelihood, C)
    a, lam, log_normaliser = normaliser_bound(mean, variance)
    return Local(r, r @ C - 0.5 + lam * a, lam, float((log_sum - log_normaliser).sum()), _unsure(r @ C))


def _polya_gamma_binary(mean: Array, variance: Array, log_likelihood: Array) -> Local:
    """`polya_gamma` for two states, in a third of the time: one exponential each for r and for the bound."""
    first, second = log_likelihood[:, 0], log_likelihood[:, 1] + mean
    gap = second - first
    small = np.exp(-np.abs(gap))
    large = 1.0 / (1.0 + small)
    r = np.empty((len(mean), 2))
    r[:, 0], r[:, 1] = np.where(gap > 0.0, small * large, large), np.where(gap > 0.0, large, small * large)
    log_sum = np.maximum(first, second) - np.log(large)
    c = np.sqrt(variance + mean**2)
    less = np.expm1(-np.maximum(c, SMALLEST_TILT))  # e^−c − 1
    lam = less / ((2.0 + less) * (-2.0 * np.maximum(c, SMALLEST_TILT)))
    log_normaliser = 0.5 * (mean + c) + np.log(2.0 + less)
    bound = float((log_sum - log_normaliser).sum())
    return Local(r, r[:, 1:] - 0.5, lam[:, None], bound, (small * large * large)[:, None])


def normaliser_bound(mean: Array, variance: Array) -> tuple[Array, Array, Array]:
    """The quadratic bound on log Σ_j e^{f_j}: its offset a [n, 1], its curvature λ [n, F], and its expectation [n]."""
    functions = mean.shape[1]
    a = _bouchard_offset(mean, variance) if functions > 1 else np.zeros((len(mean), 1))
    c = np.sqrt(variance + (mean - a) ** 2)
    log_normaliser = a[:, 0] * (1.0 - 0.5 * functions) + (0.5 * mean + _log_2cosh_half(c)).sum(1)
    return a, _half_tanh(c), log_normaliser


def observed_share(mean: Array, variance: Array, r: Array, C: Array) -> tuple[Array, Array]:
    """The bound's curvature in f_j with q(t) at its optimum, Σ_i ∂²/∂f² − r(1−r), and Σ_i λ: [F] each.

    Their ratio is the observed share of the information, which is also the convergence rate of a mean-field step.
    """
    a, lam, _ = normaliser_bound(mean, variance)
    r_f = r @ C
    return (own_curvature(mean - a, variance, lam) - r_f * (1.0 - r_f)).sum(0), lam.sum(0)


def own_curvature(x: Array, variance: Array, lam: Array) -> Array:
    """∂(λx)/∂x of a site whose mean is x from the bound's offset, with λ = tanh(c/2) / 2c, c² = x² + variance."""
    squared = x**2
    c_squared = np.maximum(variance + squared, 1e-6)
    return np.asarray(lam + squared * ((0.25 - lam) / c_squared - lam**2))


def _half_tanh(c: Array) -> Array:
    """E[ω] of PG(1, c): tanh(c/2) / (2c), which is ¼ at 0."""
    safe = np.maximum(c, SMALLEST_TILT)
    return np.asarray(np.tanh(0.5 * safe) / (2.0 * safe))


def _log_2cosh_half(c: Array) -> Array:
    """log(2 cosh(c/2)), without overflow."""
    return np.asarray(0.5 * c + np.log1p(np.exp(-c)))


def _bouchard_offset(mean: Array, variance: Array) -> Array:
    """The a that tightens the bound: Σ_j λ(c_j)(a − m_j) = F/2 − 1 with c_j² = var f_j + (m_j − a)²; [n, 1].

    The closed-form step for a given λ is a majorisation, and crawls where |f_j − a| is large: stopped short, it lets
    the bound fall. The slope in a rises from below zero at the least mean, so Newton's method in a bracket cannot fail.
    """
    functions = mean.shape[1]

    def slope(a: Array) -> tuple[Array, Array]:
        x = a - mean
        c = np.maximum(np.sqrt(variance + x**2), 1e-3)
        lam = _half_tanh(c)
        curvature = lam + x**2 * (0.25 / np.cosh(0.5 * np.minimum(c, 500.0)) ** 2 - lam) / c**2
        return 1.0 - 0.5 * functions + (lam * x).sum(1, keepdims=True), curvature.sum(1, keepdims=True)

    low = mean.min(1, keepdims=True)
    reach = 1.0 + np.sqrt(variance.max(1, keepdims=True))
    high = mean.max(1, keepdims=True) + reach
    while (short := slope(high)[0] < 0.0).any():
        reach = 2.0 * reach
        high = np.where(short, high + reach, high)
    a = np.clip(mean.mean(1, keepdims=True), low, high)
    for _ in range(OFFSET_STEPS):
        value, curvature = slope(a)
        low, high = np.where(value < 0.0, a, low), np.where(value > 0.0, a, high)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            new = a - value / curvature
        new = np.where((new > low) & (new < high), new, 0.5 * (low + high))
        step = np.abs(new - a).max(initial=0.0)
        a = new
        if step < 1e-13 * (1.0 + np.abs(a).max(initial=0.0)):
            break
    return np.asarray(a)


def ekf(mean: Array, variance: Array, log_likelihood: Array, C: Array, nu0: tuple[Array, Array]) -> Local:
    """The paper's extended Kalman filter: σ linearised at f̂ (Jacobian G), moment-matched noise Q. Its bound may fall.

    nu0 is the prior beta of ρ for each function, (ν0_j, Σν0 − ν0_j), each [n, F] or [1, F]. The inner loop for G and f̂
    is folded into the VB cycle, which has the same fixed points.
    """
    r, log_sum = responsibilities(mean, log_likelihood, C)
    target = r @ C
    rho = softmax(mean @ C.T) @ C
    G = rho * (1.0 - rho)
    nu, nu_not = nu0[0] + target, nu0[1] + 1.0 - target
    total = nu + nu_not
    Q = nu * nu_not / (total * (total + 1.0))  # E[ρ] − E[ρ²]
    lam = G**2 / Q
    eta = G * (target - rho + G * mean) / Q
    f, w = latent_nodes(mean, variance)
    log_normaliser = logsumexp(f @ C.T) @ w
    return Local(r, eta, lam, float((log_sum - log_normaliser).sum()), _unsure(target))


def _unsure(r: Array) -> Array:
    """r(1 − r): the variance of the state's indicator.   [n, J] -> [n, F]"""
    return np.asarray(r * (1.0 - r))


def beta_prior(rho: Array, sd: Array) -> tuple[Array, Array]:
    """ν0 by moment matching with the prior mean and deviation of ρ."""
    strength = rho * (1.0 - rho) / sd**2 - 1.0
    return rho * strength, (1.0 - rho) * strength


def collapsed(mean: Array, variance: Array, log_likelihood: Array, C: Array, added_variance: Array) -> Local:
    """t summed out given f: the likelihood of f is Σ_j ρ_j(f) e^{ℓ_j}, and r(x) = softmax(x Cᵀ), x = f + ℓ.

    Its gradient is r − ρ and its curvature −(ρ(1−ρ) − r(1−r)): complete minus missing information, so an uninformative
    report has no effect on f. Expectations under q(f, ℓ) make (η, λ) a natural-gradient step on
    E_q[log Σ_j ρ_j e^{ℓ_j}] − KL. λ is kept positive (the likelihood is not log-concave) and η follows from the λ used.

    ℓ is uncertain too: x has the variance of f plus `added_variance` [n, F]. That x is Gaussian is an approximation,
    under which the expectation can be positive; a probability of reports has no positive logarithm, so the bound has 0.
    """
    if mean.shape[1] == 1:
        return _collapsed_binary(mean, variance, log_likelihood, added_variance)
    f, w = latent_nodes(mean, variance)
    x, _ = latent_nodes(mean, np.maximum(variance + added_variance, 0.0))
    rho_f, log_prior_sum = _normalised(f @ C.T, w)
    r_f, log_joint_sum = _normalised(x @ C.T + log_likelihood[:, None, :], w)
    r, missing = np.einsum("nqj,q->nj", r_f, w), np.einsum("nqj,q->nj", r_f * (1.0 - r_f), w)
    lam = np.einsum("nqj,q->nj", rho_f * (1.0 - rho_f), w) - missing
    lam = np.maximum(lam, SMALLEST_PRECISION)
    eta = r - np.einsum("nqj,q->nj", rho_f, w) + lam * mean
    return Local(r, eta, lam, float(np.minimum(log_joint_sum - log_prior_sum, 0.0).sum()), missing)


def with_more_curvature(site: Local, mean: Array, share: float) -> Local:
    """The sites with a share of the missing information added to their curvature; the gradient stays.

    With all of it (1) the curvature is the complete information, and a step is one of EM: it cannot overshoot.
    """
    if not share:
        return site
    more = share * site.missing
    return site._replace(eta=site.eta + more * mean, lam=site.lam + more)


def _normalised(logits: Array, w: Array) -> tuple[Array, Array]:
    """softmax at the nodes [n, Q, J], and E[log Σ exp] [n]."""
    total = logsumexp(logits)
    return np.exp(logits - total[..., None]), np.asarray(total @ w)


def _collapsed_binary(mean: Array, variance: Array, log_likelihood: Array, added_variance: Array) -> Local:
    """`collapsed` for two states, from the log odds at each node: [Q, n], without an axis of states.

    With ℓ the log likelihood ratio, r = σ(f + ℓ), and the log of Σ_j ρ_j e^{ℓ_j} is
    log(1 + e^{f + ℓ}) − log(1 + e^f) + ℓ_0. A state that is ruled out (gold) makes ℓ infinite, and r is 0 or 1.
    """
    out = Local(np.empty_like(log_likelihood), np.empty_like(mean), np.empty_like(mean), 0.0, np.empty_like(mean))
    bound, sd = 0.0, np.sqrt(variance[:, 0])
    wider = np.sqrt(np.maximum(variance[:, 0] + added_variance[:, 0], 0.0))
    for part, x, w in by_nodes(np.maximum(sd, wider)):
        m = mean[part, 0]
        none, ratio = _likelihood_ratio(log_likelihood[part])
        # Odds rather than two logistic functions: one exponential serves both. Beyond FARTHEST nothing changes.
        near = np.clip(ratio, -FARTHEST, FARTHEST)
        rho = _odds(m, sd[part], x)
        not_rho = 1.0 / (1.0 + rho)
        rho *= not_rho
        r = _odds(m, wider[part], x)
        r *= np.exp(near)
        total = 1.0 + r
        not_r = 1.0 / total
        r *= not_r
        total *= not_rho
        beyond = np.where(ratio > 0.0, np.where(np.isfinite(ratio), ratio, 0.0) - near, 0.0)
        bound += float(np.minimum(w @ np.log(total, out=total) + none + beyond, 0.0).sum())
        # Each from its own sum: subtracting the other from one would turn a probability of 1e-17 into zero.
        out.r[part, 0], expected = w @ not_r, w @ r
        out.r[part, 1] = expected
        gold = np.flatnonzero(~np.isfinite(ratio))  # a state that is ruled out is so to the last digit
        if len(gold):
            rows = np.arange(len(mean))[part][gold]
            out.r[rows, 0], out.r[rows, 1] = ratio[gold] < 0.0, ratio[gold] > 0.0
        step = expected - w @ rho
        rho *= not_rho
        r *= not_r
        missing = w @ r
        lam = np.maximum(w @ rho - missing, SMALLEST_PRECISION)
        out.missing[part, 0], out.lam[part, 0] = missing, lam
        out.eta[part, 0] = step + lam * m
    return out._replace(bound=bound)


def _odds(mean: Array, sd: Array, x: Array) -> Array:
    """e^f at the nodes x [Q] of N(mean, sd²): [Q, n].   mean, sd [n]"""
    if (np.abs(mean) + x[-1] * sd).max(initial=0.0) > FARTHEST:
        return np.exp(np.clip(mean + np.multiply.outer(x, sd), -FARTHEST, FARTHEST))
    # Nodes are symmetric around zero: one exponential serves a node and its mirror image.
    half, out, centre = len(x) // 2, np.empty((len(x), len(sd))), np.exp(mean)
    up = np.exp(np.multiply.outer(x[len(x) - half :], sd))
    np.multiply(centre, up, out=out[len(x) - half :])
    np.divide(centre, up[::-1], out=out[:half])
    if len(x) % 2:
        out[half] = centre
    return out


def _likelihood_ratio(log_likelihood: Array) -> tuple[Array, Array]:
    """ℓ_0 [n], and ℓ_1 − ℓ_0 [n]. Where state 0 is ruled out the ratio is infinite, and ℓ_1 stands in for ℓ_0."""
    first, second = log_likelihood[:, 0], log_likelihood[:, 1]
    return np.where(np.isfinite(first), first, second), second - first
