"""The equations of the model, written slowly and literally: what the fast code is tested against.

Nothing here is shared with the package: only NumPy and SciPy, loops where the paper has sums, dense covariance matrices
and explicit inverses. Every scheme is iterated plainly until nothing moves. For a few dozen sites.

Names follow the paper (Simpson, Reece and Roberts, "Bayesian Heatmaps"); corrections to it are marked [errata N] and
listed in docs/errata.md. Axes: N sites, S sources, J states, L labels, F latent functions (one if J = 2, else J).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import product

import numpy as np
from scipy.special import digamma, gammaln

JITTER = 1e-10  # on the diagonal of K, wherever it is inverted: sites a hair apart would make it singular
TOLERANCE = 1e-12
MOST_ITERATIONS = 20_000


def matern32(X, Z, lengthscale):
    """k(x, z) = (1 + √3 d/l) exp(−√3 d/l)."""
    K = np.empty((len(X), len(Z)))
    for i, x in enumerate(X):
        for j, z in enumerate(Z):
            d = np.sqrt(((x - z) ** 2).sum()) * np.sqrt(3.0) / lengthscale
            K[i, j] = (1.0 + d) * np.exp(-d)
    return K


@dataclass(frozen=True)
class Problem:
    X: np.ndarray  # [N, D]
    site: list[int]  # [R] where each report was made,
    source: list[int]  # by whom,
    label: list[int]  # and what it says
    alpha0: np.ndarray  # [S, J, L]
    a0: float = 1.0
    b0: float = 1.0
    lengthscale: float = 1.0
    mu: np.ndarray | None = None  # [N, F] the prior mean at the sites; zero if not given
    known: dict[int, int] = field(default_factory=dict)  # site -> its state: gold

    @property
    def N(self):
        return len(self.X)

    @property
    def J(self):
        return self.alpha0.shape[1]

    @property
    def F(self):
        return 1 if self.J == 2 else self.J

    @cached_property
    def prior_mean(self):
        return np.zeros((self.N, self.F)) if self.mu is None else self.mu

    @cached_property
    def K(self):
        return matern32(self.X, self.X, self.lengthscale) + JITTER * np.eye(self.N)

    @cached_property
    def reports(self):
        return list(zip(self.site, self.source, self.label, strict=True))


def logits(f):
    """One function is the log odds of the second of two states; J > 2 functions are the logits themselves.  [.., F]"""
    f = np.array(f, float)  # a copy: callers add to it
    return np.concatenate([np.zeros_like(f), f], axis=-1) if f.shape[-1] == 1 else f


def softmax(x):
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def logsumexp(x):
    top = np.max(x, axis=-1)
    return top + np.log(np.exp(x - top[..., None]).sum(axis=-1))


def of_function(states):
    """Columns of states that have a latent function: the second of two, or all.  [.., J] -> [.., F]"""
    return states[..., 1:] if states.shape[-1] == 2 else states


@lru_cache
def standard_nodes(dimension, order):
    x, w = np.polynomial.hermite_e.hermegauss(order)
    w = w / w.sum()
    points = np.array(list(product(x, repeat=dimension)))
    return points, np.array([np.prod(c) for c in product(w, repeat=dimension)])


def gaussian_nodes(mean, variance, order):
    """Nodes and weights of the product Gauss–Hermite rule for independent normals.  [F] -> [order^F, F], [order^F]"""
    points, weights = standard_nodes(len(mean), order)
    return np.asarray(mean) + np.sqrt(variance) * points, weights


# --- q(t) and q(π) ------------------------------------------------------------------------------------------------


def expected_log_pi(alpha):
    out = np.empty_like(alpha)
    S, J, L = alpha.shape
    for s in range(S):
        for j in range(J):
            for label in range(L):
                out[s, j, label] = digamma(alpha[s, j, label]) - digamma(alpha[s, j].sum())
    return out


def update_t(p, f_hat, alpha):
    """q(t_i = j) ∝ exp(f̂_ij + Σ_s E[log π_{j,c}]): the normaliser of ρ cancels. Known states stay known."""
    log_pi = expected_log_pi(alpha)
    log_q = logits(f_hat)
    for i, s, c in p.reports:
        for j in range(p.J):
            log_q[i, j] += log_pi[s, j, c]
    r = softmax(log_q)
    for i, state in p.known.items():
        r[i] = np.eye(p.J)[state]
    return r


def update_pi(p, r):
    """α_{j,l} = α0_{j,l} + Σ_i r_ij δ(l, c_i)."""
    alpha = p.alpha0.copy()
    for i, s, c in p.reports:
        for j in range(p.J):
            alpha[s, j, c] += r[i, j]
    return alpha


def update_scale(p, f_hat, Sigma):
    """a = a0 + FN/2; b = b0 + ½ Σ_j Tr K⁻¹ (Σ + f̂f̂ᵀ − 2μf̂ᵀ + μμᵀ): the last sign is + [errata 1], ς is shared."""
    K_inverse = np.linalg.inv(p.K)
    shape, rate = p.a0, p.b0
    for j in range(p.F):
        f, m = f_hat[:, j], p.prior_mean[:, j]
        second = Sigma[j] + np.outer(f, f) - 2.0 * np.outer(m, f) + np.outer(m, m)
        shape += 0.5 * p.N
        rate += 0.5 * np.trace(K_inverse @ second)
    return shape, rate


# --- q(f), the paper's extended Kalman filter ---------------------------------------------------------------------


def beta_prior(p, order=48):
    """ν0 by matching the mean and variance of ρ under the marginal prior f_i ~ N(μ_i, K_ii / E[ς]) [errata 2].

    Returns ν0_j and Σν0 for every function: [N, F] each. E[ς] is the prior's a0 / b0: the beta is a prior too.
    """
    nu0, total = np.empty((p.N, p.F)), np.empty((p.N, p.F))
    for i in range(p.N):
        variance = np.full(p.F, p.K[i, i] - JITTER) / (p.a0 / p.b0)
        f, w = gaussian_nodes(p.prior_mean[i], variance, order)
        rho = of_function(softmax(logits(f)))
        mean = w @ rho
        u = w @ (rho - mean) ** 2
        total[i] = mean * (1.0 - mean) / u - 1.0
        nu0[i] = mean * total[i]
    return nu0, total


def ekf_noise(nu0, total, r_f):
    """Q: the expected Bernoulli variance E[ρ] − E[ρ²] under Beta(ν_j, ν_¬j); and E[ρ]."""
    nu_j = nu0 + r_f
    nu_not_j = total - nu0 + 1.0 - r_f
    mean = nu_j / (nu_j + nu_not_j)
    second = mean**2 + nu_j * nu_not_j / ((nu_j + nu_not_j) ** 2 * (nu_j + nu_not_j + 1.0))
    return mean - second, mean


def ekf_update_f(p, r, e_scale, nu0, total, start=None):
    """The inner loop for G and f̂, then Σ.  [r stays soft: errata 3]  `start` only saves steps of the inner loop."""
    r_f = of_function(r)
    Q, rho = ekf_noise(nu0, total, r_f)
    mu = p.prior_mean
    f_hat = np.log(rho) - np.log1p(-rho) if p.F == 1 else np.log(rho)  # step 1: σ(f̂) ≈ E[ρ]
    f_hat = f_hat if start is None else start
    step, last = 1.0, np.inf
    for _ in range(MOST_ITERATIONS):
        sigma = of_function(softmax(logits(f_hat)))
        new = np.empty_like(f_hat)
        for j in range(p.F):
            G = np.diag(sigma[:, j] * (1.0 - sigma[:, j]))  # step 2
            K_hat = p.K / e_scale
            W = K_hat @ G.T @ np.linalg.inv(G @ K_hat @ G.T + np.diag(Q[:, j]))
            new[:, j] = mu[:, j] + W @ (r_f[:, j] - sigma[:, j] + G @ (f_hat[:, j] - mu[:, j]))  # step 3
        change = np.abs(new - f_hat).max()
        if change >= last:  # the printed loop can overshoot for ever; a shorter step has the same fixed point
            step = max(0.5 * step, 0.05)
        last = change
        f_hat = f_hat + step * (new - f_hat)
        if change < TOLERANCE:
            break
    Sigma = []
    sigma = of_function(softmax(logits(f_hat)))
    for j in range(p.F):
        G = np.diag(sigma[:, j] * (1.0 - sigma[:, j]))
        K_hat = p.K / e_scale
        W = K_hat @ G.T @ np.linalg.inv(G @ K_hat @ G.T + np.diag(Q[:, j]))
        Sigma.append(K_hat - W @ G @ K_hat)
    # The same as a Gaussian site exp(η f − ½ λ f²), for predictions.
    G = sigma * (1.0 - sigma)
    return f_hat, Sigma, G * (r_f - sigma + G * f_hat) / Q, G**2 / Q


# --- q(f), Pólya-Gamma --------------------------------------------------------------------------------------------


def half_tanh(c):
    return 0.25 if c == 0.0 else np.tanh(0.5 * c) / (2.0 * c)


def bouchard(mean, second_moment_about):
    """a and ξ of log Σ_j e^{f_j} ≤ a + Σ_j log(1 + e^{f_j − a}), each maximised in turn until they settle.

    mean [J]; second_moment_about(a) gives E[(f_j − a)²] [J].
    """
    J, a = len(mean), float(np.mean(mean))
    for _ in range(1000):
        lam = np.array([half_tanh(xi) for xi in np.sqrt(second_moment_about(a))])
        new = (0.5 * J - 1.0 + (lam * mean).sum()) / lam.sum()
        if abs(new - a) < 1e-13:
            break
        a = new
    return a


def polya_gamma_sites(p, r, f_hat, Sigma):
    """λ = tanh(ξ/2) / (2ξ). Two states: ξ² = E[f²], η = r − ½. More: ξ_j² = E[(f_j − a)²], η_j = r_j − ½ + λ_j a."""
    eta, lam, offset = np.empty((p.N, p.F)), np.empty((p.N, p.F)), np.zeros(p.N)
    for i in range(p.N):
        variance = np.array([Sigma[j][i, i] for j in range(p.F)])
        if p.F > 1:
            offset[i] = bouchard(f_hat[i], lambda a, i=i, v=variance: v + (f_hat[i] - a) ** 2)
        for j in range(p.F):
            xi = np.sqrt(variance[j] + (f_hat[i, j] - offset[i]) ** 2)
            lam[i, j] = half_tanh(xi)
            eta[i, j] = of_function(r)[i, j] - 0.5 + lam[i, j] * offset[i]
    return eta, lam


def gaussian_update_f(p, eta, lam, e_scale):
    """The posterior of f ~ N(μ, K / E[ς]) with sites exp(η f − ½ λ f²)."""
    f_hat, Sigma = np.empty((p.N, p.F)), []
    for j in range(p.F):
        K_inverse = np.linalg.inv(p.K) * e_scale
        covariance = np.linalg.inv(K_inverse + np.diag(lam[:, j]))
        f_hat[:, j] = covariance @ (K_inverse @ p.prior_mean[:, j] + eta[:, j])
        Sigma.append(covariance)
    return f_hat, Sigma


# --- Algorithm 1 --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Posterior:
    problem: Problem
    r: np.ndarray  # [N, J]
    alpha: np.ndarray  # [S, J, L]
    f_hat: np.ndarray  # [N, F]
    Sigma: list[np.ndarray]  # F matrices [N, N]
    eta: np.ndarray  # [N, F]
    lam: np.ndarray  # [N, F]
    shape: float
    rate: float
    history: list[float]  # of the bound's total

    @property
    def variance(self):
        return np.stack([np.diag(S) for S in self.Sigma], axis=1)

    @property
    def e_scale(self):
        return self.shape / self.rate


def variational_bayes(p, linearisation, every_bound=False):
    """Algorithm 1, from the prior, until no parameter moves by more than TOLERANCE."""
    f_hat, alpha = p.prior_mean.copy(), p.alpha0.copy()
    shape, rate = float(p.a0), float(p.b0)
    Sigma = [p.K * p.b0 / p.a0 for _ in range(p.F)]
    if linearisation == "ekf":
        nu0, total = beta_prior(p)
    history = []
    for iteration in range(MOST_ITERATIONS):
        r = update_t(p, f_hat, alpha)
        new_alpha = update_pi(p, r)
        if linearisation == "ekf":
            new_f, Sigma, eta, lam = ekf_update_f(p, r, shape / rate, nu0, total, f_hat if iteration else None)
        else:
            eta, lam = polya_gamma_sites(p, r, f_hat, Sigma)
            new_f, Sigma = gaussian_update_f(p, eta, lam, shape / rate)
        shape, new_rate = update_scale(p, new_f, Sigma)
        change = max(np.abs(new_f - f_hat).max(), np.abs(new_alpha - alpha).max(), abs(new_rate / rate - 1.0))
        f_hat, alpha, rate = new_f, new_alpha, new_rate
        if every_bound:
            history.append(
                sum(bound(Posterior(p, r, alpha, f_hat, Sigma, eta, lam, shape, rate, []), linearisation).values())
            )
        if change < TOLERANCE:
            break
    else:
        raise RuntimeError(f"the reference did not settle: {change:.1e}")
    return Posterior(p, r, alpha, f_hat, Sigma, eta, lam, shape, rate, history)


# --- the bound L(q) -----------------------------------------------------------------------------------------------


def expected_log_rho(q, linearisation, order=48):
    """E[log ρ_ij]: its Pólya-Gamma (and Bouchard) lower bound, or by quadrature for the EKF.  [N, J]"""
    p, out = q.problem, np.empty((q.problem.N, q.problem.J))
    for i in range(p.N):
        mean, variance = q.f_hat[i], q.variance[i]
        if linearisation == "ekf":
            f, w = gaussian_nodes(mean, variance, order)
            z = logits(f)
            out[i] = w @ (z - logsumexp(z)[:, None])
            continue
        if p.J == 2:  # log σ(±f) ≥ log σ(ξ) + (±f − ξ)/2 − ½λ(f² − ξ²)
            xi = np.sqrt(variance[0] + mean[0] ** 2)
            for j, sign in enumerate((-1.0, 1.0)):
                out[i, j] = -np.log1p(np.exp(-xi)) + 0.5 * (sign * mean[0] - xi)
            continue
        a = bouchard(mean, lambda a, m=mean, v=variance: v + (m - a) ** 2)
        log_normaliser = a
        for j in range(p.J):  # log(1 + e^x) ≤ log(1 + e^ξ) + (x − ξ)/2 + ½λ(x² − ξ²), x = f_j − a
            xi = np.sqrt(variance[j] + (mean[j] - a) ** 2)
            log_normaliser += xi + np.log1p(np.exp(-xi)) + 0.5 * (mean[j] - a - xi)
        out[i] = mean - log_normaliser
    return out


def bound(q, linearisation, order=48):
    """L(q) as the paper's five terms. Where t is known its entropy is zero and 0 log 0 = 0."""
    p = q.problem
    log_pi = expected_log_pi(q.alpha)
    log_likelihood = sum(q.r[i, j] * log_pi[s, j, c] for i, s, c in p.reports for j in range(p.J))

    log_rho = expected_log_rho(q, linearisation, order)
    targets = 0.0
    for i in range(p.N):
        for j in range(p.J):
            if q.r[i, j] > 0.0:
                targets += q.r[i, j] * (log_rho[i, j] - np.log(q.r[i, j]))

    field_term = 0.0
    log_det_K = np.linalg.slogdet(p.K)[1]
    K_inverse = np.linalg.inv(p.K)
    a, b = q.shape, q.rate
    e_scale, e_log_scale = a / b, digamma(a) - np.log(b)
    for j in range(p.F):
        d = q.f_hat[:, j] - p.prior_mean[:, j]
        e_quadratic = np.trace(K_inverse @ (q.Sigma[j] + np.outer(d, d)))
        e_log_prior = 0.5 * (p.N * (e_log_scale - np.log(2.0 * np.pi)) - log_det_K - e_scale * e_quadratic)
        entropy = 0.5 * (p.N * (1.0 + np.log(2.0 * np.pi)) + np.linalg.slogdet(q.Sigma[j])[1])
        field_term += e_log_prior + entropy
    e_log_p = p.a0 * np.log(p.b0) - gammaln(p.a0) + (p.a0 - 1.0) * e_log_scale - p.b0 * e_scale
    e_log_q = a * np.log(b) - gammaln(a) + (a - 1.0) * e_log_scale - b * e_scale

    confusion = 0.0
    for s in range(len(q.alpha)):
        for j in range(p.J):
            for parameters, sign in ((p.alpha0[s, j], 1.0), (q.alpha[s, j], -1.0)):
                log_density = gammaln(parameters.sum()) - gammaln(parameters).sum()
                log_density += ((parameters - 1.0) * log_pi[s, j]).sum()
                confusion += sign * log_density
    return {
        "log_likelihood": float(log_likelihood),
        "targets": float(targets),
        "field": float(field_term),
        "scale": float(e_log_p - e_log_q),
        "confusion": float(confusion),
    }


# --- predictions --------------------------------------------------------------------------------------------------


def predict_latent(q, X_new, mu_new):
    """f̂* and its variance: K̂* (K̂ + Λ⁻¹)⁻¹ applied to the sites. With Λ = G²/Q this is the paper's W*.  [M, F] each"""
    p = q.problem
    mean, variance = np.empty((len(X_new), p.F)), np.empty((len(X_new), p.F))
    cross = matern32(X_new, p.X, p.lengthscale)
    for j in range(p.F):
        K_hat, K_star = p.K / q.e_scale, cross / q.e_scale
        gain = K_star @ np.linalg.inv(K_hat + np.diag(1.0 / q.lam[:, j]))
        mean[:, j] = mu_new[:, j] + gain @ (q.eta[:, j] / q.lam[:, j] - p.prior_mean[:, j])
        for m in range(len(X_new)):
            variance[m, j] = 1.0 / q.e_scale - gain[m] @ K_star[m]
    return mean, variance


def rate_moments(mean, variance, order=48):
    """E[ρ*] and its standard deviation, by quadrature.  [M, F] -> [M, J] each"""
    expected, sd = [], []
    for m, v in zip(mean, variance, strict=True):
        f, w = gaussian_nodes(m, v, order)
        rho = softmax(logits(f))
        expected.append(w @ rho)
        sd.append(np.sqrt(w @ (rho - w @ rho) ** 2))
    return np.array(expected), np.array(sd)


def log_likelihood_at(p, alpha, x):
    """Σ_s E[log π_{j,c}] over the reports made exactly at x, and whether there are any (or its state is known).  [J]"""
    log_pi, total = expected_log_pi(alpha), np.zeros(p.J)
    here = [i for i in range(p.N) if np.array_equal(p.X[i], x)]
    for i, s, c in p.reports:
        if i in here:
            total += log_pi[s, :, c]
    return total, here


def predict_state(q, X_new, mu_new, order=48):
    """E[t*]: q(t) at an output point that is a site, where the reports multiply in; E[ρ*] elsewhere."""
    mean, variance = predict_latent(q, X_new, mu_new)
    expected, _ = rate_moments(mean, variance, order)
    out = np.empty_like(expected)
    for m, x in enumerate(X_new):
        log_likelihood, here = log_likelihood_at(q.problem, q.alpha, x)
        out[m] = softmax(logits(mean[m]) + log_likelihood) if here else expected[m]
        for i in here:
            if i in q.problem.known:
                out[m] = np.eye(q.problem.J)[q.problem.known[i]]
    return out
