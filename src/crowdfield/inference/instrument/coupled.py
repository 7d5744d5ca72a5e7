"""Field and sources together: their joint covariance, and Newton's step of both.

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

from typing import Any, NamedTuple

import numpy as np
import scipy.linalg as sla
import scipy.sparse as sp
from numpy.typing import NDArray

from crowdfield.inference.fields.base import cholesky, inverse_from_cholesky
from crowdfield.inference.instrument import link, responses, scoring
from crowdfield.inference.instrument.fitting import Evaluated, Observed, State, Variances
from crowdfield.inference.instrument.grid import APPEARANCES, Array
from crowdfield.inference.instrument.linear import Design, Weights
from crowdfield.inference.instrument.link import Link
from crowdfield.inference.instrument.scoring import Readings

MOST_PARAMETERS = 3_000  # of sources that are unsure together with the field; the surest beyond that are held
MOST_IN_A_STEP = 1_000  # parameters that Newton's step moves together with the field
ROWS = 1 << 14  # places in hand at a time


class Coupled(NamedTuple):
    q: Weights
    sources: Array  # [S, d, d] Cov(θ_s)
    link: Link
    variances: Variances  # expected ones, by which a map is predicted


def too_many(state: State) -> bool:
    """Whether sources and link have more parameters than are worth a dense matrix."""
    return bool(state.theta.size + state.link.theta.size > MOST_PARAMETERS)


class Information(NamedTuple):
    """Minus the Hessian in the parameters of sources and link, and of these with the field; appearances eliminated."""

    parameters: Array  # C [p, p], p = S·d + J
    by_place: sp.csr_matrix  # c / (1 + τ² Λ) [N, p]: B = Φᵀ of it
    informed: Array  # λ̃ [N]


def information(observed: Observed, at: Evaluated, g: Array) -> Information | None:
    """At the mean appearance of every place [N]; None for more parameters than are worth a dense matrix."""
    (S, d), J = at.state.theta.shape, len(at.state.link.theta)
    if too_many(at.state):
        return None
    nugget, crowd = at.nugget, at.state.variances.population
    site, column = observed.votes.nonzero()
    source = column // len(observed.scores)
    info = _report_information(at.state.theta[source], observed.scores, g[site])  # [R, 1 + d, 1 + d] in (g, θ)
    info *= observed.votes.data[:, None, None]
    if observed.readings is not None:
        site, source, info = _with_scores(observed.readings, at.state.theta, g, site, source, info)
    checks, check_info = _check_information(observed, at.state.link, g)
    said = np.bincount(site, weights=info[:, 0, 0], minlength=observed.n_sites).astype(np.float64, copy=False)
    np.add.at(said, checks, check_info[:, 0, 0])
    cross = _cross(site, source, info, checks, check_info, observed.n_sites, (S, d, J))  # sparse c [N, p]
    C = -(cross.T @ sp.diags(1.0 / (1.0 / nugget + said)) @ cross).toarray()
    complete = np.zeros((S, d, d))
    np.add.at(complete, source, info[:, 1:, 1:])
    for s in range(S):
        rows = slice(s * d, (s + 1) * d)
        C[rows, rows] += complete[s] + np.diag(crowd.precision)
    C[S * d :, S * d :] += np.diag(link.prior(crowd, J).precision) + check_info[:, 1:, 1:].sum(0)
    held = 1.0 + nugget * said
    return Information(C, (sp.diags(1.0 / held) @ cross).tocsr(), said / held)


def expected_appearances(at: Evaluated) -> Array:
    """E[g] of every place: [N]."""
    pull = at.image.eta - at.image.lam * at.mean  # E[∂ log L / ∂f]
    return np.asarray(at.mean + at.nugget * pull)


def join(observed: Observed, design: Design, at: Evaluated, appearances: Array) -> Coupled:
    """appearances [N]: the mean of g at every place."""
    known = information(observed, at, appearances)
    if known is None:
        return Coupled(at.q, at.covariance, at.state.link, at.state.variances)
    A = design.gram(known.informed)
    A[np.diag_indices_from(A)] += design.precision(at.state.variances.smooth)
    B = _projected(design, known.by_place)
    return solved(at, A, B, known.parameters)


def solved(at: Any, A: Array, B: Array, C: Array) -> Coupled:
    """From the precision of the field A, that of sources and link C, and what is between them B (module docstring)."""
    S, d = at.state.theta.shape
    root = cholesky(C, "the joint precision of the sources")
    C_inverse_Bt = np.asarray(sla.cho_solve((root, True), B.T, check_finite=False))
    joint = cholesky(A - B @ C_inverse_Bt, "the precision of the map with unsure sources")
    covariance = inverse_from_cholesky(joint)
    sources = inverse_from_cholesky(root) + C_inverse_Bt @ covariance @ C_inverse_Bt.T
    blocks = _blocks(sources, S, d)
    q = Weights(at.q.mean, covariance, -2.0 * float(np.log(np.diag(joint)).sum()))
    truth_link = at.state.link._replace(covariance=sources[S * d :, S * d :])
    return Coupled(q, blocks, truth_link, at.state.variances)


class Together(NamedTuple):
    """Where a step of field, sources and link leads, and how unsure the sources are while the field is unsure too."""

    image: State
    sources: Array  # [S, d, d] Cov(θ_s)


def image(observed: Observed, design: Design, at: Evaluated) -> Together:
    """Where Newton's step of field, sources and link together leads.

    Sources and field in turn (`at.image`) creep where both explain the same reports: a source that alone saw its part
    of the map. Together they go to the optimum of the same quadratic model:

        (C − Bᵀ Σ B) Δθ = ∇θ − Bᵀ Σ ∇w,   η ← η − c̃ Δθ,   Σ = Cov(w), c̃ = c / (1 + τ² Λ)
    """
    state = at.state
    plain = Together(at.image, at.covariance)
    if design.phi is None or state.theta.size > MOST_IN_A_STEP:
        return plain
    known = information(observed, at, expected_appearances(at))
    if known is None:
        return plain
    B = _projected(design, known.by_place)
    sigma_B = at.q.covariance @ B
    gradient_w = (
        design.project(at.image.eta - at.image.lam * at.mean) - design.precision(state.variances.smooth) * at.q.mean
    )
    try:
        root = sla.cho_factor(known.parameters - B.T @ sigma_B, lower=True, check_finite=False)
    except np.linalg.LinAlgError:
        return plain  # far from the optimum the quadratic model may have no top
    step = sla.cho_solve(root, at.gradient - sigma_B.T @ gradient_w, check_finite=False)
    longest = np.abs(step).max(initial=0.0)
    step *= min(1.0, responses.LONGEST_STEP / max(longest, 1e-300))
    of_sources, of_link = np.split(step, [state.theta.size])
    theta = state.theta + of_sources.reshape(state.theta.shape)
    moved_link = at.image.link._replace(theta=state.link.theta + of_link)
    moved = at.image._replace(eta=at.image.eta - known.by_place @ step, theta=theta, link=moved_link)
    return Together(moved, _blocks(inverse_from_cholesky(np.tril(root[0])), *state.theta.shape))


def _blocks(covariance: Array, S: int, d: int) -> Array:
    """Of every source alone: [S, d, d]."""
    return np.stack([covariance[s * d : (s + 1) * d, s * d : (s + 1) * d] for s in range(S)])


def _projected(design: Design, by_place: sp.csr_matrix) -> Array:
    """B = Σ_i φ_i c̃_iᵀ: [m + C, p]."""
    B = np.zeros((design.size, by_place.shape[1]))
    for start in range(0, by_place.shape[0], ROWS):
        rows = slice(start, min(start + ROWS, by_place.shape[0]))
        B += (by_place[rows].T @ design.features(rows)).T
    return B


def _report_information(theta: Array, scores: Array, g: Array) -> Array:
    """Jᵀ (diag p − p pᵀ) J with J = ∂ logits / ∂(g, θ) at the place's mean appearance: [R, 1 + d, 1 + d]."""
    R, d = len(theta), len(scores)
    design = responses.lean_design(scores)
    logits = theta[:, :1] * scores * g[:, None] + theta[:, 1:d] @ design.T
    p = np.exp(logits - logits.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    J = np.zeros((R, len(scores), 1 + d))
    J[:, :, 0] = theta[:, :1] * scores
    J[:, :, 1] = scores * g[:, None]
    J[:, :, 2:] = design
    mean = np.einsum("rl,rla->ra", p, J)
    return np.asarray(np.einsum("rl,rla,rlb->rab", p, J, J) - mean[:, :, None] * mean[:, None, :])


def _with_scores(
    readings: Readings, theta: Array, g: Array, site: NDArray[np.int64], source: NDArray[np.int64], info: Array
) -> tuple[NDArray[np.int64], NDArray[np.int64], Array]:
    """Reports that are labels, and then those that are scores, with the parameters of both kinds."""
    first = theta.shape[1] - scoring.PARAMETERS
    own = scoring.report_information(theta[readings.source, first:], g[readings.site])
    every = np.zeros((len(info) + len(own), 1 + theta.shape[1], 1 + theta.shape[1]))
    every[: len(info), : 1 + first, : 1 + first] = info
    columns = np.r_[0, 1 + first : 1 + theta.shape[1]]
    every[np.ix_(np.arange(len(info), len(every)), columns, columns)] = own
    return np.concatenate([site, readings.site]), np.concatenate([source, readings.source]), every


def _check_information(observed: Observed, truth_link: Link, g: Array) -> tuple[NDArray[np.int64], Array]:
    """The same for checked places, less what not knowing their state takes away: [G, 1 + J, 1 + J] in (g, a, γ)."""
    checks, scores = observed.checks, truth_link.scores
    mean, _ = truth_link.logits(g[checks.site])
    value, vector = np.linalg.eigh(_covariance(mean) - _covariance(mean + checks.said))
    root = (vector * np.sqrt(np.maximum(value, 0.0))[:, None, :]).transpose(0, 2, 1)
    J = np.zeros((len(mean), len(scores), 1 + len(scores)))
    J[:, :, 0], J[:, :, 1] = truth_link.theta[0] * scores, g[checks.site, None] * scores
    J[:, :, 2:] = responses.lean_design(scores)
    half = root @ J
    return checks.site, half.transpose(0, 2, 1) @ half


def _covariance(logits: Array) -> Array:
    """diag p − p pᵀ of p = softmax.   [n, J] -> [n, J, J]"""
    p = np.exp(logits - logits.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    return np.asarray(p[:, :, None] * np.eye(p.shape[1]) - p[:, :, None] * p[:, None, :])


def _cross(
    site: NDArray[np.int64],
    source: NDArray[np.int64],
    info: Array,
    checks: NDArray[np.int64],
    check_info: Array,
    N: int,
    sizes: tuple[int, int, int],
) -> sp.csr_matrix:
    S, d, J = sizes
    columns = source[:, None] * d + np.arange(d)
    rows = np.broadcast_to(site[:, None], columns.shape)
    more = S * d + np.broadcast_to(np.arange(J), (len(checks), J))
    return sp.csr_matrix(
        (
            np.concatenate([info[:, 0, 1:].ravel(), check_info[:, 0, 1:].ravel()]),
            (
                np.concatenate([rows.ravel(), np.broadcast_to(checks[:, None], more.shape).ravel()]),
                np.concatenate([columns.ravel(), more.ravel()]),
            ),
        ),
        shape=(N, S * d + J),
    )


def appearance_moments(posterior: Array) -> Array:
    """Mean and variance of g.   posterior [n, K] -> [n, 2]"""
    mean = posterior @ APPEARANCES
    return np.stack([mean, posterior @ APPEARANCES**2 - mean**2], axis=1)
