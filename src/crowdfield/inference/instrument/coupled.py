"""The joint covariance of field and sources, and a joint Newton step.

A crowd that leans to yes and a map that is mostly yes explain the same reports, so the uncertainties of sources and
field are correlated. With everything Gaussian around the mode, report r of source s at place i has the information h_r
J Jᵀ in (g_i, θ_s), where J is the gradient of its logits. The appearances g_i are eliminated one by one (they do not
touch each other), then the sources:

    C = P_θ + Σ_r E[h θθ] − Σ_i c_i c_iᵀ / (1/τ² + Λ_i),   B = Σ_i φ_i c_iᵀ / (1 + τ² Λ_i),   A = P_w + Σ_i λ̃_i φ_i φ_iᵀ
    Cov(w) = (A − B C⁻¹ Bᵀ)⁻¹,   Cov(θ) = C⁻¹ + C⁻¹ Bᵀ Cov(w) B C⁻¹

with Λ_i what the reports say about g_i, c_i = Σ_r h (g, θ), λ̃ = Λ/(1 + τ²Λ). A Schur complement of a positive definite
matrix, so positive definite. The link to the truth is one more source, whose reports are the checks.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.linalg as sla

from crowdfield.inference.fields.base import cholesky, inverse_from_cholesky
from crowdfield.inference.instrument import link, responses
from crowdfield.inference.instrument.fitting import Evaluated, Observed, State, Variances
from crowdfield.inference.instrument.grid import Array
from crowdfield.inference.instrument.joint_information import Information
from crowdfield.inference.instrument.linear import Design, Weights
from crowdfield.inference.instrument.link import Link

MOST_PARAMETERS = 3_000  # parameters of sources that are coupled with the field; beyond that, the best known are held
MOST_IN_A_STEP = 1_000  # parameters that Newton's step moves together with the field


class Coupled(NamedTuple):
    """The joint posterior of field, sources and link."""

    q: Weights
    sources: Array  # [S, d, d] Cov(θ_s)
    link: Link
    variances: Variances  # expected ones, by which a map is predicted


def too_many(state: State) -> bool:
    """Whether sources and link have more parameters than are worth a dense matrix."""
    return bool(state.theta.size + state.link.theta.size > MOST_PARAMETERS)


def _parameters(at: Evaluated, known: Information) -> Array:
    """C: the information of reports and priors about sources and link."""
    crowd = at.state.variances.population
    of_link = link.prior(crowd, len(at.state.link.theta)).precision
    prior = np.concatenate([np.tile(crowd.precision, len(at.state.theta)), of_link])
    C = known.parameters.copy()
    C[np.diag_indices_from(C)] += prior
    return C


def expected_appearances(at: Evaluated) -> Array:
    """E[g] of every place: [N]."""
    pull = at.image.eta - at.image.lam * at.mean  # E[∂ log L / ∂f]
    return np.asarray(at.mean + at.nugget * pull)


class Blocks(NamedTuple):
    """The joint precision of field, sources and link."""

    field: Array  # A [m + C, m + C]
    between: Array  # B [m + C, p], p = S·d + J
    parameters: Array  # C [p, p]


def blocks(known: Information, design: Design, at: Evaluated) -> Blocks:
    """The joint precision of field, sources and link, from the information of the reports."""
    return Blocks(_field(known, design, at.state), known.projected(), _parameters(at, known))


def _field(known: Information, design: Design, state: State) -> Array:
    """A: the precision of the field with sources and link held."""
    A = known.gram()
    A[np.diag_indices_from(A)] += design.precision(state.variances.smooth)
    return A


def join(observed: Observed, design: Design, at: Evaluated, appearances: Array) -> Coupled:
    """The joint covariance of field, sources and link at a converged state. appearances [N]: E[g] of every place."""
    if too_many(at.state):
        return held(at)
    return solved(at, *blocks(observed.information(design, at.state, at.nugget, appearances), design, at))


def held(at: Evaluated) -> Coupled:
    """The covariances of field, sources and link without what they have in common."""
    return Coupled(at.q, at.covariance, at.state.link, at.state.variances)


def solved(at: Any, A: Array, B: Array, C: Array) -> Coupled:
    """The joint covariance from the blocks A (field), C (sources and link) and B of the joint precision."""
    S, d = at.state.theta.shape
    # Parameters without information (sources that have not reported here) keep their prior.
    informed = np.flatnonzero(B.any(0) | (np.count_nonzero(C, axis=1) > 1))
    root = cholesky(C[np.ix_(informed, informed)], "the joint precision of the sources")
    C_inverse_Bt = np.asarray(sla.cho_solve((root, True), B[:, informed].T, check_finite=False))
    joint = cholesky(A - B[:, informed] @ C_inverse_Bt, "the precision of the map with unsure sources")
    covariance = inverse_from_cholesky(joint)
    sources = np.diag(1.0 / np.diag(C))
    sources[np.ix_(informed, informed)] = inverse_from_cholesky(root) + C_inverse_Bt @ covariance @ C_inverse_Bt.T
    blocks = _blocks(sources, S, d)
    q = Weights(at.q.mean, covariance, -2.0 * float(np.log(np.diag(joint)).sum()))
    truth_link = at.state.link._replace(covariance=sources[S * d :, S * d :])
    return Coupled(q, blocks, truth_link, at.state.variances)


class Together(NamedTuple):
    """The state after a joint step of field, sources and link, and the sources' covariance with the field
    marginalised."""

    image: State
    sources: Array  # [S, d, d] Cov(θ_s)


def in_turn(at: Evaluated) -> Together:
    """The state after sources and field were updated in turn."""
    return Together(at.image, at.covariance)


def image(observed: Observed, design: Design, at: Evaluated) -> Together:
    """The state after a joint Newton step of field, sources and link, unless there are too many parameters.

    Alternating updates of sources and field (`at.image`) converge slowly where both explain the same reports: a source
    that alone saw its part of the map. A joint step goes to the optimum of the same quadratic model:

        (C − Bᵀ Σ B) Δθ = ∇θ − Bᵀ Σ ∇w,   η ← η − c̃ Δθ,   Σ = Cov(w), c̃ = c / (1 + τ² Λ)
    """
    state = at.state
    plain = in_turn(at)
    if state.theta.size > MOST_IN_A_STEP or too_many(state):
        return plain
    known = observed.information(design, state, at.nugget, expected_appearances(at))
    B = known.projected()
    if design.is_dense:
        sigma_B = at.q.covariance @ B
    else:
        # The sites' precision is not quite that at the mean appearances, by which B and C are computed. Of many reports
        # C − Bᵀ Σ B is so small a difference that Σ must be of the same ones.
        root = cholesky(_field(known, design, state), "the precision of the map with the sources held")
        sigma_B = np.asarray(sla.cho_solve((root, True), B, check_finite=False))
    gradient_w = (
        design.project(at.image.eta - at.image.lam * at.mean) - design.precision(state.variances.smooth) * at.q.mean
    )
    try:
        factor = sla.cho_factor(_parameters(at, known) - B.T @ sigma_B, lower=True, check_finite=False)
    except np.linalg.LinAlgError:
        return plain  # far from the optimum the quadratic model may have no maximum
    step = sla.cho_solve(factor, at.gradient - sigma_B.T @ gradient_w, check_finite=False)
    longest = np.abs(step).max(initial=0.0)
    step *= min(1.0, responses.LONGEST_STEP / max(longest, 1e-300))
    of_sources, of_link = np.split(step, [state.theta.size])
    theta = state.theta + of_sources.reshape(state.theta.shape)
    moved_link = at.image.link._replace(theta=state.link.theta + of_link)
    moved = at.image._replace(eta=at.image.eta - known.moved(step), theta=theta, link=moved_link)
    return Together(moved, _blocks(inverse_from_cholesky(np.tril(factor[0])), *state.theta.shape))


def _blocks(covariance: Array, S: int, d: int) -> Array:
    """The diagonal blocks of a covariance, one per source: [S, d, d]."""
    by_source, each = covariance[: S * d, : S * d].reshape(S, d, S, d), np.arange(S)
    return np.asarray(by_source[each, :, each])
