"""The weights of all functions as one Gaussian vector, from sites that tie the functions of a place together.

f_c(x) = φ(x)·w_c for the contrasts c = 1 … F with w_c ~ N(0, P⁻¹), where φ holds the basis, the intercept and the
covariates (`linear.Design`). A site is exp(ηᵀ g − ½ gᵀ Λ g) in the appearance g = f + ε; with the nugget summed out it
is the same in f with Λ̃ = (Λ⁻¹ + τ²)⁻¹.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from crowdfield.inference.fields.base import Array, cholesky, inverse_from_cholesky
from crowdfield.inference.instrument.linear import SMALLEST_VARIANCE, Design, Weights

ROWS = 1 << 13  # places processed at a time


class Places(NamedTuple):
    """q at every place: of f, and of the appearance g = f + ε."""

    f_mean: Array  # [N, F]
    f_covariance: Array  # [N, F, F]
    mean: Array  # [N, F] of g
    covariance: Array  # [N, F, F]
    given_f: Array  # [N, F, F] Cov(g | f)


def blocks(n: int) -> list[slice]:
    """Slices that cut n places into blocks, of which one is processed at a time."""
    return [slice(start, min(start + ROWS, n)) for start in range(0, n, ROWS)]


def gram(design: Design, information: Array) -> Array:
    """Σ_i Λ̃_i ⊗ φ_i φ_iᵀ.   information [N, F, F] -> [F m, F m]"""
    F, m = information.shape[1], design.size
    out = np.zeros((F, m, F, m))
    for rows in blocks(len(information)):
        phi = design.features(rows)
        for a in range(F):
            for b in range(a + 1):
                out[a, :, b, :] += phi.T @ (information[rows, a, b, None] * phi)
    for a in range(F):
        for b in range(a):
            out[b, :, a, :] = out[a, :, b, :].T
    return out.reshape(F * m, F * m)


def project(design: Design, values: Array) -> Array:
    """Σ_i v_i ⊗ φ_i.   values [N, F, ...] -> [F m, ...]"""
    out = np.zeros((values.shape[1], design.size, *values.shape[2:]))
    for rows in blocks(len(values)):
        out += np.tensordot(design.features(rows), values[rows], axes=(0, 0)).swapaxes(0, 1)
    return out.reshape(-1, *values.shape[2:])


def posterior(design: Design, offset: Array, eta: Array, lam: Array, smooth: float, nugget: Array) -> Weights:
    """q(w) from the sites; variances of the smooth part, and of every place's nugget [N]."""
    collapse = collapsing(lam, nugget)  # (I + τ² Λ)⁻¹
    information = lam @ collapse
    precision = gram(design, 0.5 * (information + information.transpose(0, 2, 1)))
    precision[np.diag_indices_from(precision)] += np.tile(design.precision(smooth), eta.shape[1])
    root = cholesky(precision, "the posterior precision of the map")
    covariance = inverse_from_cholesky(root)
    pulls = np.einsum("nba,nb->na", collapse, eta) - np.einsum("nab,nb->na", information, offset)
    return Weights(covariance @ project(design, pulls), covariance, -2.0 * float(np.log(np.diag(root)).sum()))


def collapsing(lam: Array, nugget: Array) -> Array:
    """(I + τ² Λ)⁻¹, which turns a site on g into one on f.   [N, F, F]"""
    return np.asarray(np.linalg.inv(np.eye(lam.shape[1]) + nugget[:, None, None] * lam))


def field_moments(features: Array, q: Weights, F: int) -> tuple[Array, Array]:
    """Mean and covariance of f where the features are these.   [n, m] -> [n, F], [n, F, F]"""
    n, m = features.shape
    mean = features @ q.mean.reshape(F, m).T
    block = q.covariance.reshape(F, m, F, m)
    covariance = np.empty((n, F, F))
    for a in range(F):
        for b in range(a + 1):
            covariance[:, a, b] = covariance[:, b, a] = np.einsum("nm,nm->n", features @ block[a, :, b, :], features)
    diagonal = np.einsum("nff->nf", covariance)
    np.maximum(diagonal, SMALLEST_VARIANCE, out=diagonal)
    return mean, covariance


def places(design: Design, offset: Array, q: Weights, eta: Array, lam: Array, nugget: Array) -> Places:
    """The moments of f and of the appearances at every place."""
    N, F = eta.shape
    mean, covariance = np.empty((N, F)), np.empty((N, F, F))
    for rows in blocks(N):
        mean[rows], covariance[rows] = field_moments(design.features(rows), q, F)
    mean += offset
    return Places(mean, covariance, *appearances(mean, covariance, eta, lam, nugget))


def appearances(mean: Array, covariance: Array, eta: Array, lam: Array, nugget: Array) -> tuple[Array, Array, Array]:
    """Mean and covariance of g, and its covariance given f, from those of f and the sites."""
    collapse = collapsing(lam, nugget)
    given = nugget[:, None, None] * collapse  # (I/τ² + Λ)⁻¹
    given = 0.5 * (given + given.transpose(0, 2, 1))
    g = np.einsum("nab,nb->na", given, mean / nugget[:, None] + eta)
    return g, given + collapse @ covariance @ collapse.transpose(0, 2, 1), given


def kl(design: Design, q: Weights, smooth: float, F: int) -> float:
    """KL(q(w) ‖ p(w))."""
    precision = np.tile(design.precision(smooth), F)
    trace = float(precision @ (np.diag(q.covariance) + q.mean**2))
    return 0.5 * (trace - len(precision) - q.log_det - float(np.log(precision).sum()))


class Nuggets(NamedTuple):
    """The nuggets under q: divergence, energy and information."""

    kl: float  # Σ_i E[KL(q(ε_i | f) ‖ p(ε_i))]
    energy: Array  # [N] E‖E[ε_i | f]‖²
    informed: Array  # [N] F − tr Cov(g_i | f) / τ²


def nuggets(at: Places, eta: Array, lam: Array, nugget: Array) -> Nuggets:
    """Divergence, energy and information of the nuggets under q. nugget [N]: their prior variances."""
    F = eta.shape[1]
    moved = np.einsum("nab,nb->na", at.given_f, eta - np.einsum("nab,nb->na", lam, at.f_mean))
    reach = at.given_f @ lam
    energy = (moved**2).sum(1) + np.einsum("nab,nbc,nac->n", reach, at.f_covariance, reach)
    trace = np.einsum("naa->n", at.given_f) / nugget
    log_det = np.linalg.slogdet(at.given_f / nugget[:, None, None])[1]
    kl_ = 0.5 * float((trace + energy / nugget - F - log_det).sum())
    return Nuggets(kl_, energy, F - trace)
