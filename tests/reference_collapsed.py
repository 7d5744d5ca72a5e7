"""The collapsed scheme, as slowly and literally as tests/reference.py: t summed out given f, a site's own reports left
out of their sources' counts, the inverse scale integrated on a grid.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tests.reference import MOST_ITERATIONS, Problem, gaussian_nodes, logits, matern32, of_function, softmax, update_pi


@dataclass(frozen=True)
class Collapsed:
    problem: Problem
    r: np.ndarray  # [N, J]
    alpha: np.ndarray  # [S, J, L] with every report in
    f_hat: np.ndarray  # [N, F] moments of f with ς integrated
    variance: np.ndarray  # [N, F]
    eta: np.ndarray  # [N, F]
    lam: np.ndarray  # [N, F]
    scale: tuple  # ς on a grid, and its weights

    @property
    def e_scale(self):
        return self.scale[1] @ self.scale[0]


def left_out_log_likelihood(p, r):
    """ℓ_ij = Σ over the reports at i of log E[π_{j,c}], from counts without any report made at i.  [N, J]"""
    out = np.zeros((p.N, p.J))
    for i, s, c in p.reports:
        alpha = p.alpha0[s].copy()
        for other, s2, c2 in p.reports:
            if s2 == s and other != i:
                alpha[:, c2] += r[other]
        out[i] += np.log(alpha[:, c] / alpha.sum(axis=1))
    for i, state in p.known.items():
        out[i] = np.where(np.arange(p.J) == state, 0.0, -np.inf)
    return out


def collapsed_sites(p, mean, variance, log_likelihood, order, floor):
    """λ = E[σ(1−σ) − r(1−r)], η = E[r − σ] + λ m and E[r], with r(f) = softmax(f + ℓ), under q(f_i)."""
    r, eta, lam = np.empty((p.N, p.J)), np.empty((p.N, p.F)), np.empty((p.N, p.F))
    for i in range(p.N):
        f, w = gaussian_nodes(mean[i], variance[i], order)
        sigma, r_of_f = softmax(logits(f)), softmax(logits(f) + log_likelihood[i])
        r[i] = w @ r_of_f
        s, q = of_function(sigma), of_function(r_of_f)
        lam[i] = np.maximum(w @ (s * (1.0 - s) - q * (1.0 - q)), floor)
        eta[i] = w @ (q - s) + lam[i] * mean[i]
    return r, eta, lam


TRUST = 2.0  # how far from its last value ς may move in a step, in log ς


def scale_on_grid(p, eta, lam, near, points=161, drop=35.0):
    """p(ς | sites) ∝ Gamma(ς) Π_j N(η_j/λ_j | μ_j, K/ς + Λ_j⁻¹), on an even grid of log ς down to e^−drop of its top.

    Only within TRUST of log `near`: where λ was cut off at its floor, η/λ is an observation of a hundred thousand, and
    a field of endless variance (ς → 0) would explain it.
    """
    distance = eta / lam - p.prior_mean

    def log_density(grid):
        density = p.a0 * grid - p.b0 * np.exp(grid)  # the Jacobian of log ς adds one to the power
        for j in range(p.F):
            S = p.K / np.exp(grid)[:, None, None] + np.diag(1.0 / lam[:, j])
            residual = np.linalg.solve(S, np.broadcast_to(distance[:, j, None], (len(grid), p.N, 1)))[:, :, 0]
            density = density - 0.5 * (np.linalg.slogdet(S)[1] + residual @ distance[:, j])
        return density

    coarse = np.log(near) + np.linspace(-TRUST, TRUST, 193)
    values = log_density(coarse)
    kept = coarse[values > values.max() - drop]
    grid = np.linspace(kept[0], kept[-1], points)
    values = log_density(grid)
    weights = np.exp(values - values.max())
    return np.exp(grid), weights / weights.sum()


def mixture_moments(p, eta, lam, mu, scale, X_new, mu_new):
    """Mean and variance of f* over the grid of ς: means averaged; variances averaged, plus that of the means."""
    cross = matern32(X_new, p.X, p.lengthscale)
    s = scale[0][:, None, None]
    gain = (cross / s) @ np.linalg.inv(p.K / s + np.diag(1.0 / lam))  # one matrix for every ς
    means = mu_new + gain @ (eta / lam - mu)
    variances = 1.0 / s[:, :, 0] - (gain * cross / s).sum(axis=2)
    weights = scale[1][:, None]
    mean = (weights * means).sum(axis=0)
    return mean, (weights * (variances + (means - mean) ** 2)).sum(axis=0)


def geometric_mean(scale):
    return np.exp(scale[1] @ np.log(scale[0]))


def posterior_of_sites(p, eta, lam, near):
    """Moments of f at the sites with ς integrated, and the grid of ς."""
    mean, variance, mu = np.empty((p.N, p.F)), np.empty((p.N, p.F)), p.prior_mean
    scale = scale_on_grid(p, eta, lam, near)
    for j in range(p.F):
        moments = mixture_moments(p, eta[:, j], lam[:, j], mu[:, j], scale, p.X, mu[:, j])
        mean[:, j], variance[:, j] = moments
    return mean, variance, scale


def collapsed_map(p, mean, variance, r, near, order, floor=1e-6):
    """One undamped step: what q(f) and r become. Its fixed points are the scheme's answers."""
    new_r, eta, lam = collapsed_sites(p, mean, variance, left_out_log_likelihood(p, r), order, floor)
    new_mean, new_variance, scale = posterior_of_sites(p, eta, lam, near)
    return Collapsed(p, new_r, update_pi(p, new_r), new_mean, new_variance, eta, lam, scale)


def collapsed(p, order, floor=1e-6, damping=0.5, tolerance=1e-9):
    """Sites damped, from the prior, until they settle. `floor` keeps η/λ finite where a report says nothing.

    Plain damping may circle for ever where reports contradict each other; `collapsed_map` is what the fast code must
    satisfy, however it gets there.
    """
    mean, variance = p.prior_mean.copy(), np.full((p.N, p.F), p.b0 / p.a0)
    r = softmax(logits(mean))
    for i, state in p.known.items():
        r[i] = np.eye(p.J)[state]
    eta, lam, near = None, None, p.a0 / p.b0
    for _ in range(MOST_ITERATIONS):
        r, new_eta, new_lam = collapsed_sites(p, mean, variance, left_out_log_likelihood(p, r), order, floor)
        change = np.inf if eta is None else max(np.abs(new_eta - eta).max(), np.abs(new_lam - lam).max())
        eta = new_eta if eta is None else eta + damping * (new_eta - eta)
        lam = new_lam if lam is None else lam + damping * (new_lam - lam)
        mean, variance, scale = posterior_of_sites(p, eta, lam, near)
        near = geometric_mean(scale)
        if change < tolerance:
            return Collapsed(p, r, update_pi(p, r), mean, variance, eta, lam, scale)
    raise RuntimeError(f"the collapsed reference did not settle: {change:.1e}")


def predict_latent_collapsed(q, X_new, mu_new):
    mean, variance = np.empty((len(X_new), q.problem.F)), np.empty((len(X_new), q.problem.F))
    for j in range(q.problem.F):
        mean[:, j], variance[:, j] = mixture_moments(
            q.problem, q.eta[:, j], q.lam[:, j], q.problem.prior_mean[:, j], q.scale, X_new, mu_new[:, j]
        )
    return mean, variance
