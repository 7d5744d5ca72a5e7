"""Integration of the appearance of every place: from its reports and q(f) to a Gaussian site and P(g).

At one place L(f) = Σ_k N(g_k; f, τ²) e^{ℓ(g_k)}, where ℓ is the log likelihood of all reports there as a function of
the appearance. Convolving log-concave functions gives a log-concave one, so that every site has a precision λ ≥ 0.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from crowdfield.inference.instrument.grid import APPEARANCES, POWERS, Array
from crowdfield.inference.sites import over_rows

F_NODES, F_WEIGHTS = np.polynomial.hermite_e.hermegauss(5)
F_WEIGHTS = F_WEIGHTS / F_WEIGHTS.sum()
ROWS = 2048  # places processed by a core at a time
CACHED_ROWS = 256  # of these, so many at once: temporaries stay in the cache, and take no new pages of memory
BLOCK = 1 << 16  # places processed at a time where they are only added up
LEAST_PRECISION = 1e-10  # smallest precision of a site; less is a rounding error


class Local(NamedTuple):
    """The Gaussian sites and the appearances of some places, given their reports and q(f)."""

    expected: float  # Σ_i E[log L_i(f)]
    eta: Array  # [n] the Gaussian sites exp(η f − ½ λ f²)
    lam: Array  # [n]
    posterior: Array  # [n, K] of the appearance
    energy: Array  # [n] E[g − f]² given f, averaged over f, less what it is without reports (at the grid's ends)
    informed: Array  # [n] 1 − Var(g | f) / τ², where Var(g | f) without reports is τ²


def integrate(likelihood: Array, mean: Array, variance: Array, nugget: Array) -> Local:
    """Gaussian sites and appearances of places, block by block.

    likelihood ℓ [n, K] on the grid; mean and variance of f [n]; nugget τ² [n].
    """
    n = len(mean)
    eta, lam, energy, informed = np.empty((4, n))
    posterior = np.empty_like(likelihood)

    def part(several: slice) -> float:
        expected = 0.0
        for start in range(several.start, several.stop, CACHED_ROWS):
            rows = slice(start, min(start + CACHED_ROWS, several.stop))
            out = _integrate(likelihood[rows], mean[rows], variance[rows], nugget[rows])
            eta[rows], lam[rows], posterior[rows] = out.eta, out.lam, out.posterior
            energy[rows], informed[rows] = out.energy, out.informed
            expected += out.expected
        return expected

    return Local(float(np.sum(over_rows(part, n, ROWS))), eta, lam, posterior, energy, informed)


def _integrate(likelihood: Array, mean: Array, variance: Array, nugget: Array) -> Local:
    """Integrate the appearance of every place on a grid, at the nodes of f: objective, site parameters, moments."""
    f = mean[:, None] + np.sqrt(variance)[:, None] * F_NODES  # [n, Q]
    joint = _density(f, nugget)  # [n, Q, K], not normalised
    prior_total, prior_mean, prior_variance = _moments(_sums(joint))
    top = likelihood.max(1)
    joint *= np.exp(likelihood - top[:, None])[:, None, :]
    total, g_mean, g_variance = _moments(_sums(joint))
    lost = np.flatnonzero((total == 0.0).any(1))
    total[lost] = 1.0
    posterior = ((F_WEIGHTS / total)[:, None, :] @ joint)[:, 0]
    log_total = np.log(total / prior_total) + top[:, None]
    if len(lost):
        rare, log_total[lost] = _in_logarithms(likelihood[lost], f[lost], nugget[lost])
        _, g_mean[lost], g_variance[lost] = _moments(_sums(rare))
        posterior[lost] = np.einsum("nqk,q->nk", rare, F_WEIGHTS)
    own = nugget[:, None]
    gradient = (g_mean - prior_mean) / own
    curvature = (prior_variance - g_variance) / own**2
    lam = np.maximum(curvature @ F_WEIGHTS, LEAST_PRECISION)
    moved = (g_mean - f) ** 2 - (prior_mean - f) ** 2
    return Local(
        expected=float((log_total @ F_WEIGHTS).sum()),
        eta=gradient @ F_WEIGHTS + lam * mean,
        lam=lam,
        posterior=posterior,
        energy=moved @ F_WEIGHTS,
        informed=((prior_variance - g_variance) / own) @ F_WEIGHTS,
    )


def given_field(likelihood: Array, f: Array, nugget: Array) -> Array:
    """P(g | f, reports) of places with f at some nodes [n, Q]: [n, Q, K]."""
    joint = _density(f, nugget)
    joint *= np.exp(likelihood - likelihood.max(1, keepdims=True))[:, None, :]
    total = joint.sum(2, keepdims=True)
    lost = np.flatnonzero((total == 0.0).any(1))
    total[lost] = 1.0
    joint /= total
    if len(lost):
        joint[lost] = _in_logarithms(likelihood[lost], f[lost], nugget[lost])[0]
    return np.asarray(joint)


def _in_logarithms(likelihood: Array, f: Array, nugget: Array) -> tuple[Array, Array]:
    """The posterior of g and the log of its total, for places whose many reports support appearances so far from f that
    the density underflows.   likelihood [n, K], f [n, Q] -> [n, Q, K], [n, Q]
    """
    log_prior = -0.5 * (APPEARANCES - f[..., None]) ** 2 / nugget[:, None, None]
    joint = log_prior - logsumexp(log_prior, axis=2, keepdims=True) + likelihood[:, None, :]
    log_total = logsumexp(joint, axis=2)
    return np.exp(joint - log_total[:, :, None]), np.asarray(log_total)


def _density(f: Array, nugget: Array) -> Array:
    """N(g; f, τ²) of f [n, Q] on the grid, up to a factor: [n, Q, K]. A place beyond the grid's end is one at its end:
    the factor is such that the largest entries are about 1.
    """
    # −(g − f)² / 2τ² as one product of matrices: a constant, f g and g².
    half = 0.5 / nugget[:, None]
    inside = np.clip(f, APPEARANCES[0], APPEARANCES[-1])
    coefficients = np.empty((*f.shape, 3))
    coefficients[..., 0] = half * (inside * (inside - 2.0 * f))
    coefficients[..., 1] = 2.0 * half * f
    coefficients[..., 2] = -half
    density = (coefficients.reshape(-1, 3) @ POWERS.T).reshape(*f.shape, -1)
    return np.asarray(np.exp(density, out=density))


def _sums(density: Array) -> Array:
    """Σ 1, Σ g and Σ g² under densities on the grid, by one product of matrices.   [n, Q, K] -> [n, Q, 3]"""
    n, Q, K = density.shape
    return np.asarray((density.reshape(n * Q, K) @ POWERS).reshape(n, Q, 3))


def _moments(sums: Array) -> tuple[Array, Array, Array]:
    """The total of a density on the grid, and mean and variance of g, from Σ 1, Σ g and Σ g².   [..., 3] -> [...]"""
    total = sums[..., 0]
    with np.errstate(divide="ignore", invalid="ignore"):  # a total of zero is looked at by the caller
        mean = sums[..., 1] / total
        return total, mean, sums[..., 2] / total - mean**2


def marginal(mean: Array, variance: Array, nugget: Array | float) -> Array:
    """The distribution of g at places without reports: N(mean, variance + τ²) on the grid.   [n] -> [n, K]"""
    density = APPEARANCES - mean[:, None]
    density *= density
    density *= (-0.5 / (variance + nugget))[:, None]
    density -= density.max(1, keepdims=True)
    np.exp(density, out=density)
    return np.asarray(density / density.sum(1, keepdims=True))


def mean_marginal(mean: Array, variance: Array, nugget: Array) -> Array:
    """The mean of it over places: [n] -> [K]."""
    total = np.zeros(len(APPEARANCES))
    for start in range(0, len(mean), BLOCK):
        rows = slice(start, start + BLOCK)
        total += marginal(mean[rows], variance[rows], nugget[rows]).sum(0)
    return np.asarray(total / len(mean))
