"""The state of the joint iteration, its q, and the part of q that a pass over the sites needs."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crowdfield.inference import communities as communities_
from crowdfield.inference.bound import Bound
from crowdfield.inference.communities import Communities
from crowdfield.inference.fields.base import Array, Engine, Field, Statistics
from crowdfield.inference.fields.features import FeatureEngine, FeatureField
from crowdfield.inference.joint import rows
from crowdfield.inference.joint.rows import Layout, RowMoments
from crowdfield.inference.joint.sums import Coupling, Sums, Table
from crowdfield.inference.scale import Gamma
from crowdfield.inference.sites import ForeignField

MOST_COVARIANCES = 1 << 23  # entries of B: 64 MB. With more, only the most influential sources are coupled


class Rows(NamedTuple):
    """q of the confusion matrices' logits given the field, and the field's mean at which it was computed."""

    logits: Array  # v̂ [S, J, D]
    prior: Array  # information of the prior [S, F, d, d]
    reports: Array  # information of the reports: complete minus missing [S, F, d, d]
    gradient: Array  # gradient still to be followed, times the length of the step [S, F, d]
    projected: Array  # B [Sc, F, d, m]
    position: NDArray[np.int64]  # [S] among the coupled sources, or −1


ROW_ARRAYS = ("logits", "prior", "reports", "gradient", "projected")  # of `Rows`, that a step changes


class State(NamedTuple):
    """The state of the iteration: a quadratic model of the objective around a centre."""

    alpha0: Array  # [S, J, L] of every source's prior
    rows: Rows
    statistics: tuple[Statistics, ...]  # F
    centre: tuple[Array, ...]  # F times [m], the field's mean that rows and statistics were made at
    length: float  # of the step that led here
    precision: float  # ς: the centre of its grid
    communities: Communities | None


class Posterior(NamedTuple):
    """q, assembled from a state."""

    alpha0: Array  # [S, J, L]
    logits: Array  # [S, J, D]
    covariance: Array  # of the logits of every row, the field's uncertainty included [S, J, D, D]
    moments: RowMoments
    directions: Array  # h [S, F, L, d]
    left: Array  # Q [S, F, d, d]
    slope: Array  # G [Sc, F, d, m]
    shared: Array  # G Σ [Sc, F, d, m]
    position: NDArray[np.int64]  # [S]
    fields: tuple[Field, ...]  # F
    scale: Gamma  # the geometric mean of ς, as a gamma of shape 1
    linear: tuple[Array, ...]  # F times [m], b of the field with the sources' answer

    @property
    def alpha(self) -> Array:
        """Dirichlet rows with the same mean and spread: [S, J, L]."""
        return rows.as_dirichlet(self.moments.pi, self.moments.fisher)


class Known(NamedTuple):
    """A state to start from whose q is known, from an earlier fit."""

    state: State
    q: Posterior
    sums: Sums | None = None  # at this q, over the sites of the new fit, where they are known


class Evaluated(NamedTuple):
    """A state, its q, the sums of a pass over the sites, and the objective."""

    state: State
    q: Posterior
    sums: Sums
    bound: Bound


def table(q: Posterior) -> Table:
    """The part of q that a pass over the sites needs."""
    if not len(q.slope):
        return _table_without_slopes(q, q.fields)
    S, F, L, _ = q.directions.shape
    h, coupled = q.directions, q.position >= 0
    slope, shared = (
        np.einsum("sfld,sfdm->slfm", h[coupled], each).reshape(len(each) * L, F, -1) for each in (q.slope, q.shared)
    )
    variance = np.einsum("sfld,sfde,sfle->slf", h, q.left, h).reshape(S * L, F)
    return Table(q.fields, _by_key(q.moments.log_pi), variance, Coupling(q.position, slope, shared))


def table_elsewhere(q: Posterior) -> Table:
    """The same for sites of another engine: without the slopes, but with the whole variance of the sources."""
    return _table_without_slopes(q, tuple(ForeignField(f) for f in q.fields))


def _table_without_slopes(q: Posterior, fields: tuple[Any, ...]) -> Table:
    """The table for sites whose sources are not coupled with the field."""
    S, F, L, _ = q.directions.shape
    total = np.einsum("sfld,sfde,sfle->slf", q.directions, q.left + _through_field(q), q.directions)
    return Table(fields, _by_key(q.moments.log_pi), total.reshape(S * L, F), None)


def _by_key(log_pi: Array) -> Array:
    """E[log π] with rows by a report's key: [S · L, J]."""
    return np.ascontiguousarray(log_pi.transpose(0, 2, 1).reshape(-1, log_pi.shape[1]))


def _through_field(q: Posterior) -> Array:
    """G Σ Gᵀ: what the uncertainty of the field adds to the covariance of the logits.   [S, F, d, d]"""
    return spread_over(q.position, q.shared @ q.slope.swapaxes(-1, -2))


def spread_over(position: NDArray[np.int64], coupled: Array) -> Array:
    """Values of the coupled sources [Sc, ...], as values of all [S, ...]: zero for the others."""
    out = np.zeros((len(position), *coupled.shape[1:]))
    out[position >= 0] = coupled
    return out


def with_new_sources(state: State, alpha0: Array) -> State:
    """A state extended by new sources, which have their prior [S_new, J, L] and no reports yet.

    They are coupled to the field if the others are and there is room.
    """
    layout, old = Layout.of(*alpha0.shape[1:]), state.rows
    logits, covariance = rows.of_dirichlet(alpha0)
    information = layout.block(np.asarray(np.linalg.inv(covariance)))
    coupled = len(old.projected)
    has_room = coupled and (coupled + len(alpha0)) * old.projected[0].size <= MOST_COVARIANCES
    added = len(alpha0) if has_room else 0
    position = coupled + np.arange(added) if added else np.full(len(alpha0), -1, dtype=np.int64)
    new = Rows(
        logits,
        information,
        np.zeros_like(information),
        np.zeros(information.shape[:3]),
        np.zeros((added, *old.projected.shape[1:])),
        position,
    )
    both = (np.concatenate(pair) for pair in zip(old, new, strict=True))
    return state._replace(alpha0=np.concatenate([state.alpha0, alpha0]), rows=Rows(*both))


def posterior_with_new_sources(q: Posterior, alpha0: Array) -> Posterior:
    """q extended by new sources, which have their prior [S_new, J, L]."""
    layout = Layout.of(*alpha0.shape[1:])
    logits, covariance = rows.of_dirichlet(alpha0)
    moments = rows.moments(logits, covariance)

    def joined(old: Array, new: Array) -> Array:
        return np.concatenate([old, new])

    return q._replace(
        alpha0=joined(q.alpha0, alpha0),
        logits=joined(q.logits, logits),
        covariance=joined(q.covariance, covariance),
        moments=RowMoments(*map(joined, q.moments, moments)),
        directions=joined(q.directions, layout.directions(moments.pi)),
        left=joined(q.left, layout.block(covariance)),
        position=np.concatenate([q.position, np.full(len(alpha0), -1, dtype=np.int64)]),
    )


def pack(state: State) -> Array:
    """A state as one vector."""
    parts = [a.ravel() for a in (*_arrays(state), np.log([state.precision]))]
    if state.communities is not None:
        parts.append(communities_.pack(state.communities))
    return np.concatenate(parts)


def unpack(like: State, z: Array) -> State:
    """The state of the same layout that a vector describes."""
    at, taken = 0, []
    for array in _arrays(like):
        taken.append(z[at : at + array.size].reshape(array.shape))
        at += array.size
    fields = len(like.statistics)
    logits, prior, reports, gradient, projected = taken[1 : 1 + len(ROW_ARRAYS)]
    new_rows = Rows(logits, prior, reports, gradient, projected, like.rows.position)
    rest = taken[1 + len(ROW_ARRAYS) :]
    communities = like.communities
    if communities is not None:
        communities = communities_.unpack(communities, z[at + 1 :])
    return like._replace(
        alpha0=np.maximum(taken[0], communities_.LEAST),
        rows=new_rows,
        centre=tuple(rest[:fields]),
        statistics=tuple(map(Statistics, rest[fields::2], rest[fields + 1 :: 2])),
        precision=float(np.exp(z[at])),
        communities=communities,
    )


def _arrays(state: State) -> list[Array]:
    """The arrays of a state, in the order of its vector."""
    statistics = [a for s in state.statistics for a in (s.linear, s.quadratic)]
    return [state.alpha0, *(getattr(state.rows, name) for name in ROW_ARRAYS), *state.centre, *statistics]


def readout(state: State, image: State) -> Array:
    """The change of the field's mean and information, of the sources' logits weighted by their information, and of ς.

    Without the information, steps that only move it would look like convergence, and acceleration would go astray.
    """
    field = [(b - a) * np.sqrt(image.precision) for a, b in zip(state.centre, image.centre, strict=True)]
    known = [
        _relative_change(a.quadratic, b.quadratic) for a, b in zip(state.statistics, image.statistics, strict=True)
    ]
    # If all m weights are known better by a share ε, the distance between the two Gaussians is ε √(m/2).
    known = [np.sqrt(0.5 * len(mean)) * part for mean, part in zip(image.centre, known, strict=True)]
    weight = np.sqrt(np.einsum("sfdd->s", image.rows.prior + image.rows.reports).clip(0.0))
    logits = (image.rows.logits - state.rows.logits) * weight[:, None, None]
    return np.concatenate([*field, *known, logits.ravel(), np.log([image.precision / state.precision])])


def _relative_change(old: Array, new: Array) -> Array:
    """The difference, flat, over the length of the new."""
    return np.asarray((new - old).ravel() / max(float(np.linalg.norm(new)), 1e-300))


def has_weights_of(q: Posterior, engine: Engine) -> bool:
    """Whether q has the features of this engine, so that a Newton step from it is enough."""
    bases = [f.basis for f in q.fields if isinstance(f, FeatureField)]
    return isinstance(engine, FeatureEngine) and bool(bases) and all(engine.basis.is_same_as(b) for b in bases)
