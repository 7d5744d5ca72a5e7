"""Collapsed inference with sources and field coupled, as slowly and literally as tests/reference.py. Two states.

q(f, log π) to second order: dense covariances over all sites and all (source, label), plain inverses, sums as loops.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import digamma, polygamma
from tests.reference import MOST_ITERATIONS, Problem, gaussian_nodes
from tests.reference_collapsed import TRUST


@dataclass(frozen=True)
class Coupled:
    problem: Problem
    r: np.ndarray  # [N, 2]
    alpha: np.ndarray  # [S, 2, L]
    f_hat: np.ndarray  # [N]
    covariance: np.ndarray  # [N, N]
    log_scale: float  # E[log ς]


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def complete_covariance(alpha_row):
    """Cov(log π) of one Dirichlet row."""
    return np.diag(polygamma(1, alpha_row)) - polygamma(1, alpha_row.sum())


def same_report(p, report):
    """How often this source says this at this site."""
    return sum(other == report for other in p.reports)


def sites(p, f_hat, f_variance, x_variance, log_pi, order, floor):
    """r = E[σ(x)], κ = E[σ(1−σ)(x)], λ = E[σ(1−σ)(f)] − κ and E[σ(x)] − E[σ(f)], with x = f + Σ δ."""
    r, kappa, lam, step = (np.empty(p.N) for _ in range(4))
    for i in range(p.N):
        f, w = gaussian_nodes(np.array([f_hat[i]]), np.array([f_variance[i]]), order)
        rho = sigmoid(f[:, 0])
        if i in p.known:
            r[i], kappa[i] = float(p.known[i]), 0.0
        else:
            said = sum(log_pi[s, 1, c] - log_pi[s, 0, c] for at, s, c in p.reports if at == i)
            x, v = gaussian_nodes(np.array([f_hat[i] + said]), np.array([x_variance[i]]), order)
            r[i], kappa[i] = v @ sigmoid(x[:, 0]), v @ (sigmoid(x[:, 0]) * sigmoid(-x[:, 0]))
        lam[i] = max(w @ (rho * (1.0 - rho)) - kappa[i], floor)
        step[i] = r[i] - w @ rho
    return r, kappa, lam, step


def joint_posterior(p, eta, lam, missing, projected, alpha, near):
    """Moments of f, Cov(f, δ), Var(δ) and E[log π] from the sites (in f − μ) and the coupling's sums."""
    S, _, L = alpha.shape
    left, wider_than = np.zeros((S * L, S * L)), np.zeros((S * L, S * L))
    for s in range(S):
        rows = slice(s * L, (s + 1) * L)
        T = complete_covariance(alpha[s, 0]) + complete_covariance(alpha[s, 1])
        wider_than[rows, rows] = T
        left[rows, rows] = np.linalg.inv(np.linalg.inv(T) - np.diag(missing[s]))
    root = np.linalg.cholesky(p.K)
    held = root.T @ (np.diag(lam) - projected @ left @ projected.T) @ root
    d, V = np.linalg.eigh(held)
    inverse_root = np.linalg.inv(root)
    held = inverse_root.T @ (V * np.maximum(d, 0.0)) @ V.T @ inverse_root  # no direction freer than the prior
    K_inverse = np.linalg.inv(p.K)
    rests = np.linalg.solve(near * K_inverse + np.diag(lam), eta)
    pull = near * K_inverse @ rests + held @ rests
    grid = np.log(near) + np.linspace(-TRUST, TRUST, 401)
    log_density, means, covariances = [], [], []
    for log_scale in grid:
        covariance = np.linalg.inv(np.exp(log_scale) * K_inverse + held)
        log_det = np.linalg.slogdet(covariance @ K_inverse)[1] + p.N * log_scale
        means.append(covariance @ pull)
        covariances.append(covariance)
        log_density.append(p.a0 * log_scale - p.b0 * np.exp(log_scale) + 0.5 * (log_det + pull @ covariance @ pull))
    weights = np.exp(np.array(log_density) - max(log_density))
    weights /= weights.sum()
    means = np.array(means)
    mean = weights @ means
    covariance = np.einsum("g,gij->ij", weights, covariances)
    covariance += np.einsum("g,gi,gj->ij", weights, means - mean, means - mean)
    with_field = covariance @ projected @ left  # [N, S·L]
    total = left + left @ projected.T @ covariance @ projected @ left
    log_pi = np.empty_like(alpha)
    for s in range(S):
        rows = slice(s * L, (s + 1) * L)
        T, extra = wider_than[rows, rows], (total - wider_than)[rows, rows]
        for j in range(2):
            follow = complete_covariance(alpha[s, j]) @ np.linalg.inv(T)
            log_pi[s, j] = digamma(alpha[s, j]) - digamma(alpha[s, j].sum())
            log_pi[s, j] -= 0.5 * np.diag(follow @ extra @ follow.T)
    return mean, covariance, with_field, np.diag(total), log_pi, weights @ grid


def coupled(p, order=20, floor=1e-6, damping=0.5, tolerance=1e-9):
    """Sites and counts damped, from the prior, until they settle."""
    S, _, L = p.alpha0.shape
    mu, near = p.prior_mean[:, 0], p.a0 / p.b0
    f_hat, covariance = mu.copy(), p.K * p.b0 / p.a0
    log_pi = digamma(p.alpha0) - digamma(p.alpha0.sum(-1, keepdims=True))
    variance = np.concatenate([np.diag(sum(map(complete_covariance, rows))) for rows in p.alpha0])
    with_field = np.zeros((p.N, S * L))
    state = None
    for _ in range(MOST_ITERATIONS):
        x_variance = np.diag(covariance).copy()
        for report in p.reports:
            i, s, c = report
            x_variance[i] += same_report(p, report) * variance[s * L + c] + 2.0 * with_field[i, s * L + c]
        r, kappa, lam, step = sites(p, f_hat, np.diag(covariance), x_variance, log_pi, order, floor)
        alpha, missing, projected = p.alpha0.astype(float).copy(), np.zeros((S, L)), np.zeros((p.N, S * L))
        for report in p.reports:
            i, s, c = report
            alpha[s, :, c] += 1.0 - r[i], r[i]
            missing[s, c] += same_report(p, report) * kappa[i]
            projected[i, s * L + c] += kappa[i]
        new = [step + lam * (f_hat - mu), lam, missing, projected, alpha]
        change = np.inf if state is None else max(np.abs(a - b).max() for a, b in zip(new, state, strict=True))
        state = new if state is None else [b + damping * (a - b) for a, b in zip(new, state, strict=True)]
        g, covariance, with_field, variance, log_pi, log_scale = joint_posterior(p, *state, near)
        f_hat, near = mu + g, np.exp(log_scale)
        if change < tolerance:
            return Coupled(p, np.stack([1.0 - r, r], 1), alpha, f_hat, covariance, log_scale)
    raise RuntimeError(f"the coupled reference did not settle: {change:.1e}")
