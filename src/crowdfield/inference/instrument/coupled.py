"""The joint covariance of field and sources, once the iteration has settled.

A crowd that leans to yes and a map that is mostly yes explain the same reports: what is known of the sources depends on
what is known of the field. With everything Gaussian around the mode, report r of source s at place i has the
information h_r J Jᵀ in (g_i, θ_s), where J is the gradient of its logits. The appearances g_i are eliminated one by one
(they do not touch each other), then the sources:

    C = P_θ + Σ_r E[h θθ] − Σ_i c_i c_iᵀ / (1/τ² + Λ_i),   B = Σ_i φ_i c_iᵀ / (1 + τ² Λ_i),   A = P_w + Σ_i λ̃_i φ_i φ_iᵀ
    Cov(w) = (A − B C⁻¹ Bᵀ)⁻¹,   Cov(θ) = C⁻¹ + C⁻¹ Bᵀ Cov(w) B C⁻¹

with Λ_i what the reports say about g_i, c_i = Σ_r h (g, θ), λ̃ = Λ/(1 + τ²Λ). A Schur complement of a positive definite
matrix, so positive definite. The link to the truth is one more source, whose reports are the checks.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.linalg as sla
import scipy.sparse as sp
from numpy.typing import NDArray

from crowdfield.inference.fields.base import cholesky, inverse_from_cholesky
from crowdfield.inference.instrument import link
from crowdfield.inference.instrument.fitting import Evaluated, Observed
from crowdfield.inference.instrument.grid import APPEARANCES, Array
from crowdfield.inference.instrument.linear import Design, Weights
from crowdfield.inference.instrument.link import Link

MOST_PARAMETERS = 3_000  # of sources that are unsure together with the field; the surest beyond that are held
ROWS = 1 << 14  # places in hand at a time


class Coupled(NamedTuple):
    q: Weights
    sources: Array  # [S, d, d] Cov(θ_s)
    link: Link


def join(
    observed: Observed, design: Design, at: Evaluated, appearances: Array, reported: tuple[NDArray[np.int64], ...]
) -> Coupled:
    """appearances [N, 2]: mean and variance of g at every place; reported: site, source and label of every report."""
    site, source, _ = reported
    S, d = at.state.theta.shape
    nugget = at.state.variances.nugget
    g = appearances[:, 0]
    info = _report_information(at.state.theta[source], observed.scores, g[site])  # [R, 1 + d, 1 + d] in (g, θ)
    checks, check_info = _check_information(observed, at.state.link, g)
    said = np.bincount(site, weights=info[:, 0, 0], minlength=observed.n_sites)
    np.add.at(said, checks, check_info[:, 0, 0])
    cross = _cross(site, source, info, checks, check_info, observed.n_sites, S, d)  # sparse c [N, S·d + 2]
    held = 1.0 / nugget + said
    precision = np.zeros((cross.shape[1], cross.shape[1])) if cross.shape[1] <= MOST_PARAMETERS else None
    if precision is None:
        return Coupled(at.q, at.covariance, at.state.link)
    complete = np.zeros((S, d, d))
    np.add.at(complete, source, info[:, 1:, 1:])
    population = np.diag(at.state.variances.population.precision)
    for s in range(S):
        rows = slice(s * d, (s + 1) * d)
        precision[rows, rows] = complete[s] + population
    precision[S * d :, S * d :] = np.diag(link.PRIOR.precision) + check_info[:, 1:, 1:].sum(0)
    precision -= (cross.T @ sp.diags(1.0 / held) @ cross).toarray()
    A = design.gram(said / (1.0 + nugget * said))
    A[np.diag_indices_from(A)] += design.precision(at.state.variances.smooth)
    B = np.zeros((design.size, cross.shape[1]))
    weighted = (sp.diags(1.0 / (1.0 + nugget * said)) @ cross).tocsr()
    for start in range(0, observed.n_sites, ROWS):
        rows = slice(start, min(start + ROWS, observed.n_sites))
        B += (weighted[rows].T @ design.features(rows)).T
    root = cholesky(precision, "the joint precision of the sources")
    C_inverse_Bt = np.asarray(sla.cho_solve((root, True), B.T, check_finite=False))
    joint = cholesky(A - B @ C_inverse_Bt, "the precision of the map with unsure sources")
    covariance = inverse_from_cholesky(joint)
    sources = inverse_from_cholesky(root) + C_inverse_Bt @ covariance @ C_inverse_Bt.T
    blocks = np.stack([sources[s * d : (s + 1) * d, s * d : (s + 1) * d] for s in range(S)])
    q = Weights(at.q.mean, covariance, -2.0 * float(np.log(np.diag(joint)).sum()))
    return Coupled(q, blocks, Link(at.state.link.theta, sources[S * d :, S * d :]))


def _report_information(theta: Array, scores: Array, g: Array) -> Array:
    """Jᵀ (diag p − p pᵀ) J with J = ∂ logits / ∂(g, θ) at the place's mean appearance: [R, 1 + d, 1 + d]."""
    R, d = theta.shape
    logits = theta[:, :1] * scores * g[:, None]
    logits[:, 1:] += theta[:, 1:]
    p = np.exp(logits - logits.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    J = np.zeros((R, len(scores), 1 + d))
    J[:, :, 0] = theta[:, :1] * scores
    J[:, :, 1] = scores * g[:, None]
    for label in range(1, d):
        J[:, label, 1 + label] = 1.0
    mean = np.einsum("rl,rla->ra", p, J)
    return np.asarray(np.einsum("rl,rla,rlb->rab", p, J, J) - mean[:, :, None] * mean[:, None, :])


def _check_information(observed: Observed, truth_link: Link, g: Array) -> tuple[NDArray[np.int64], Array]:
    """The same for checked places, less what not knowing their state takes away: [G, 3, 3] in (g, a, c)."""
    checks = observed.checks
    h = truth_link.theta[0] * g[checks.site] + truth_link.theta[1]
    rho, r = 0.5 * (1.0 + np.tanh(0.5 * h)), 0.5 * (1.0 + np.tanh(0.5 * (h + checks.log_ratio)))
    information = np.maximum(rho * (1.0 - rho) - r * (1.0 - r), 0.0)
    J = np.stack([np.full_like(h, truth_link.theta[0]), g[checks.site], np.ones_like(h)], axis=1)
    return checks.site, information[:, None, None] * J[:, :, None] * J[:, None, :]


def _cross(
    site: NDArray[np.int64],
    source: NDArray[np.int64],
    info: Array,
    checks: NDArray[np.int64],
    check_info: Array,
    N: int,
    S: int,
    d: int,
) -> sp.csr_matrix:
    columns = source[:, None] * d + np.arange(d)
    rows = np.broadcast_to(site[:, None], columns.shape)
    more = S * d + np.broadcast_to(np.arange(2), (len(checks), 2))
    return sp.csr_matrix(
        (
            np.concatenate([info[:, 0, 1:].ravel(), check_info[:, 0, 1:].ravel()]),
            (
                np.concatenate([rows.ravel(), np.broadcast_to(checks[:, None], more.shape).ravel()]),
                np.concatenate([columns.ravel(), more.ravel()]),
            ),
        ),
        shape=(N, S * d + 2),
    )


def appearance_moments(posterior: Array) -> Array:
    """Mean and variance of g.   posterior [n, K] -> [n, 2]"""
    mean = posterior @ APPEARANCES
    return np.stack([mean, posterior @ APPEARANCES**2 - mean**2], axis=1)
