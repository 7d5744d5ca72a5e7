"""The joint information about sources, link and field: minus the Hessian, with the appearances eliminated.

The matrices of `coupled`: sums over places, so that those of several blocks of places add up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from crowdfield.inference.instrument import responses, scoring
from crowdfield.inference.instrument.grid import Array
from crowdfield.inference.instrument.linear import Design
from crowdfield.inference.instrument.link import Link
from crowdfield.inference.instrument.scoring import Readings

if TYPE_CHECKING:
    from crowdfield.inference.instrument.fitting import State
    from crowdfield.inference.instrument.observed import Observed

DENSE = 1 << 17  # entries of c, 1 MB: with no more, a dense matrix takes less time than setting up a sparse one


class Information(Protocol):
    """The information of the reports, without that of the priors."""

    @property
    def parameters(self) -> Array:
        """The information about sources and link: [p, p], p = S·d + J."""
        ...

    def gram(self) -> Array:
        """The information about the field: Σ λ̃ φφᵀ [m + C, m + C]."""
        ...

    def projected(self) -> Array:
        """The information between the field and the parameters of sources and link: B = Σ_i φ_i c̃_iᵀ [m + C, p]."""
        ...

    def moved(self, step: Array) -> Array:
        """c̃ · step: how far a step of sources and link [p] moves the field's sites: [N]."""
        ...


class LocalInformation:
    """The information of places in this process. g [N]: the mean appearance of each."""

    def __init__(self, observed: Observed, design: Design, state: State, nugget: Array, g: Array):
        (S, d), J = state.theta.shape, len(state.link.theta)
        site, column = observed.pairs
        source = column // len(observed.scores)
        info = _report_information(state.theta[source], observed.scores, g[site])  # [R, 1 + d, 1 + d] in (g, θ)
        info *= observed.votes.data[:, None, None]
        if observed.readings is not None:
            site, source, info = _with_scores(observed.readings, state.theta, g, site, source, info)
        checks, check_info = _check_information(observed, state.link, g)
        said = np.bincount(site, weights=info[:, 0, 0], minlength=observed.n_sites).astype(np.float64, copy=False)
        np.add.at(said, checks, check_info[:, 0, 0])
        cross = _cross(site, source, info, checks, check_info, observed.n_sites, (S, d, J))  # sparse c [N, p]
        lost, held = 1.0 / (1.0 / nugget + said), 1.0 + nugget * said
        if isinstance(cross, np.ndarray):
            C, by_place = -(cross.T @ (lost[:, None] * cross)), cross / held[:, None]
        else:
            C, by_place = -(cross.T @ sp.diags(lost) @ cross).toarray(), (sp.diags(1.0 / held) @ cross).tocsr()
        complete = np.zeros((S, d, d))
        np.add.at(complete, source, info[:, 1:, 1:])
        sources = np.arange(S * d).reshape(S, d)
        C[sources[:, :, None], sources[:, None, :]] += complete
        C[S * d :, S * d :] += check_info[:, 1:, 1:].sum(0)
        self.design, self.parameters = design, C
        self.by_place = by_place  # c̃ = c / (1 + τ² Λ) [N, p]
        self._informed = said / held  # λ̃ [N]

    def gram(self) -> Array:
        """The information about the field: Σ λ̃ φφᵀ [m + C, m + C]."""
        return self.design.gram(self._informed)

    def projected(self) -> Array:
        """The information between the field and the parameters of sources and link: B = Σ_i φ_i c̃_iᵀ [m + C, p]."""
        return self.design.project_columns(self.by_place)

    def moved(self, step: Array) -> Array:
        """c̃ · step: how far a step of sources and link [p] moves the field's sites: [N]."""
        return np.asarray(self.by_place @ step)


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
    """Sites, sources and information of all reports: the labels given, followed by the scores, in all parameters."""
    first = theta.shape[1] - scoring.PARAMETERS
    own = scoring.report_information(theta[readings.source, first:], g[readings.site])
    every = np.zeros((len(info) + len(own), 1 + theta.shape[1], 1 + theta.shape[1]))
    every[: len(info), : 1 + first, : 1 + first] = info
    columns = np.r_[0, 1 + first : 1 + theta.shape[1]]
    every[np.ix_(np.arange(len(info), len(every)), columns, columns)] = own
    return np.concatenate([site, readings.site]), np.concatenate([source, readings.source]), every


def _check_information(observed: Observed, truth_link: Link, g: Array) -> tuple[NDArray[np.int64], Array]:
    """Information of checked places about (g, a, γ), minus the missing part about their state: [G, 1 + J, 1 + J]."""
    checks, scores = observed.checks, truth_link.scores
    if not len(checks.site):
        return checks.site, np.zeros((0, 1 + len(scores), 1 + len(scores)))
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
) -> sp.csr_matrix | Array:
    """c: the information between the appearance of every place and all parameters, sparse unless it is small [N, p]."""
    S, d, J = sizes
    columns = source[:, None] * d + np.arange(d)
    rows = np.broadcast_to(site[:, None], columns.shape)
    more = S * d + np.broadcast_to(np.arange(J), (len(checks), J))
    values = np.concatenate([info[:, 0, 1:].ravel(), check_info[:, 0, 1:].ravel()])
    at = np.concatenate([rows.ravel(), np.broadcast_to(checks[:, None], more.shape).ravel()])
    parameter, p = np.concatenate([columns.ravel(), more.ravel()]), S * d + J
    if N * p <= DENSE:
        return np.bincount(at * p + parameter, weights=values, minlength=N * p).astype(np.float64).reshape(N, p)
    return sp.csr_matrix((values, (at, parameter)), shape=(N, p))
