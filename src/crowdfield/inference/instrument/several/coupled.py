"""The joint covariance of field, sources and link, after convergence.

As in `instrument.coupled`, with F functions: report r has the information Jᵀ (diag p − p pᵀ) J in (g_i, θ_s), with J
the gradient of its logits at the mean appearance. Appearances are eliminated place by place, then sources and link.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from crowdfield.inference.instrument.coupled import Coupled, solved, too_many
from crowdfield.inference.instrument.grid import Array
from crowdfield.inference.instrument.linear import Design
from crowdfield.inference.instrument.several import scoring, weights
from crowdfield.inference.instrument.several.fitting import Evaluated, link_prior, responsibilities
from crowdfield.inference.instrument.several.observed import Observed
from crowdfield.inference.quadrature import softmax


def join(observed: Observed, design: Design, at: Evaluated) -> Coupled:
    """The joint covariance of field, sources and link at a converged state."""
    (S, d), truth, F = at.state.theta.shape, at.state.link, observed.functions
    size = S * d + len(truth.theta)
    if too_many(at.state):
        return Coupled(at.q, at.covariance, truth, at.state.variances)
    crowd = at.state.variances.population
    nugget = design.nuggets(at.state.variances.smooth, at.state.variances.nugget)
    first = observed.label_parameters
    said = _information(at.state.theta[observed.source, :first], observed.scores, at.places.mean[observed.site])
    said *= observed.multiplicity[:, None, None]
    checked = _check_information(observed, at)
    lam = np.zeros((observed.n_sites, F, F))
    np.add.at(lam, observed.site, said[:, :F, :F])
    np.add.at(lam, observed.checks.site, checked[:, :F, :F])
    cross = _cross(observed.site, observed.source * d, said[:, :F, F:], lam.shape[0], size)
    cross = cross + _cross(observed.checks.site, np.full(len(checked), S * d), checked[:, :F, F:], lam.shape[0], size)
    by_source = np.zeros((S, d, d))
    np.add.at(by_source[:, :first, :first], observed.source, said[:, F:, F:])
    if (vectors := observed.vectors) is not None:
        read = scoring.joint_information(at.state.theta[vectors.source, first:], at.places.mean[vectors.site])
        np.add.at(lam, vectors.site, read[:, :F, :F])
        np.add.at(by_source[:, first:, first:], vectors.source, read[:, F:, F:])
        cross = cross + _cross(vectors.site, vectors.source * d + first, read[:, :F, F:], lam.shape[0], size)
    collapse = weights.collapsing(lam, nugget)
    eliminated = _block_diagonal(nugget[:, None, None] * collapse)
    C = -(cross.T @ eliminated @ cross).toarray()
    for s, block in enumerate(by_source + np.diag(crowd.precision)):
        C[s * d : (s + 1) * d, s * d : (s + 1) * d] += block
    C[S * d :, S * d :] += np.diag(link_prior(crowd, len(truth.scores)).precision) + checked[:, F:, F:].sum(0)
    A = weights.gram(design, _symmetric(lam @ collapse))
    A[np.diag_indices_from(A)] += np.tile(design.precision(at.state.variances.smooth), F)
    reached = _block_diagonal(collapse.transpose(0, 2, 1)) @ cross  # (I + Λ τ²)⁻¹ c, [N F, p]
    return solved(at, A, _projected(design, reached, F), C)


def _information(theta: Array, scores: Array, g: Array) -> Array:
    """Fisher information of every report about (g, θ): [R, F + d, F + d]."""
    J = _jacobian(theta, scores, g)
    p = softmax(theta[:, :1] * (g @ scores.T) + theta[:, 1:])
    mean = np.einsum("rl,rla->ra", p, J)
    return np.asarray(J.transpose(0, 2, 1) @ (p[:, :, None] * J) - mean[:, :, None] * mean[:, None, :])


def _jacobian(theta: Array, scores: Array, g: Array) -> Array:
    """∂ logits / ∂(g, θ): [R, L, F + d]."""
    L, F = scores.shape
    J = np.zeros((len(theta), L, F + 1 + L))
    J[:, :, :F] = theta[:, :1, None] * scores
    J[:, :, F] = g @ scores.T
    J[:, :, F + 1 :] = np.eye(L)
    return J


def _check_information(observed: Observed, at: Evaluated) -> Array:
    """Fisher information of checked places about (g, link), minus the missing information about their state."""
    truth, g = at.state.link, at.places.mean[observed.checks.site]
    theta = np.broadcast_to(truth.theta, (len(g), len(truth.theta)))
    rho = softmax(theta[:, :1] * (g @ truth.scores.T) + theta[:, 1:])
    r = responsibilities(observed.checks, truth, g)[1]
    value, vector = np.linalg.eigh(_spread(rho) - _spread(r))
    half = (vector * np.sqrt(np.maximum(value, 0.0))[:, None, :]).transpose(0, 2, 1) @ _jacobian(theta, truth.scores, g)
    return np.asarray(half.transpose(0, 2, 1) @ half)


def _spread(p: Array) -> Array:
    """diag p − p pᵀ, the covariance of a categorical indicator.   [n, L] -> [n, L, L]"""
    return np.asarray(p[:, :, None] * np.eye(p.shape[1]) - p[:, :, None] * p[:, None, :])


def _cross(site: NDArray[np.int64], column: NDArray[np.int64], values: Array, N: int, size: int) -> Any:
    """A sparse matrix [N F, size] of values [R, F, d], each in the rows of its site, from its column on."""
    R, F, d = values.shape
    rows = np.broadcast_to((site[:, None] * F + np.arange(F))[:, :, None], (R, F, d))
    columns = np.broadcast_to((column[:, None] + np.arange(d))[:, None, :], (R, F, d))
    return sp.csr_matrix((values.ravel(), (rows.ravel(), columns.ravel())), shape=(N * F, size))


def _block_diagonal(blocks: Array) -> Any:
    """A sparse matrix with these blocks on its diagonal."""
    N, F, _ = blocks.shape
    return sp.bsr_matrix((blocks, np.arange(N), np.arange(N + 1)), shape=(N * F, N * F)).tocsr()


def _projected(design: Design, reached: Any, F: int) -> Array:
    """B = Σ_i φ_i ⊗ reached_i: [F m, p]."""
    out = np.zeros((F, design.size, reached.shape[1]))
    for rows in weights.blocks(reached.shape[0] // F):
        phi = design.features(rows)
        for f in range(F):
            out[f] += (reached[rows.start * F + f : rows.stop * F : F].T @ phi).T
    return out.reshape(F * design.size, -1)


def _symmetric(matrix: Array) -> Array:
    """The symmetric part of a matrix."""
    return np.asarray(0.5 * (matrix + matrix.transpose(0, 2, 1)))
