"""q of the sources given the weights of the field, and what becomes of it when the weights are averaged over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from crowdfield.inference.communities import Communities
from crowdfield.inference.fields.base import Array, Field
from crowdfield.inference.fields.features import FeatureField
from crowdfield.inference.joint import crowd as crowd_
from crowdfield.inference.joint import rows
from crowdfield.inference.joint.crowd import Crowd
from crowdfield.inference.joint.rows import Layout, Rows


class GivenWeights(NamedTuple):
    """q(v | w, c) of every source, and q(c | w) of what the sources have in common, where that is learned."""

    left: Array  # Q [S, F, d, d]
    slope: Array  # Q Bᵀ, how the coupled sources follow the weights for a given c [Sc, F, d, m]
    crowd: Crowd | None

    def lost(self, f: int, r: Rows) -> Array:
        """A root of the information that the weights of a function lose by the sources and by c: H [n, m]."""
        root = np.linalg.cholesky(self.left[r.position >= 0, f]).swapaxes(-1, -2) @ r.projected[:, f]
        of_sources = root.reshape(-1, root.shape[-1])
        return of_sources if self.crowd is None else np.concatenate([of_sources, self.crowd.lost[f]])


class AveragedOverField(NamedTuple):
    """How the sources follow weights and c, and what the uncertainty of both does to them."""

    slope: Array  # [Sc, F, d, m + d]
    shared: Array  # the covariance with weights and c [Sc, F, d, m + d]
    added: Array  # to the covariance of the logits [S, F, d, d]
    move: Array  # of the mean logits [S, F, d]


def given_weights(r: Rows, layout: Layout, communities: Communities | None, base: Array | None) -> GivenWeights:
    """q of the sources given the weights. communities, base: the learned prior that the sources share, and its own."""
    left = rows.covariance_of(r.prior, r.reports)
    slope = left[r.position >= 0] @ r.projected if len(r.projected) else r.projected
    if communities is None or base is None or len(communities.beta) > 1 or not slope.size:
        return GivenWeights(left, slope, None)
    hyperprior = crowd_.information_of_hyperprior(communities.beta[0], base, layout)
    return GivenWeights(left, slope, crowd_.given_weights(hyperprior, communities.free, r, left))


def averaged_over_field(
    given: GivenWeights, r: Rows, variance: Array, fields: Sequence[Field], centre: Sequence[Array]
) -> AveragedOverField:
    """The sources with the field averaged over. Their means follow the field's; what they have in common is held.

    variance [Sc, F, d, d]: of the coupled sources' logits under their prior. centre: the field's means that r is of.
    """
    crowd = given.crowd
    slope = given.slope if crowd is None else np.concatenate([given.slope, crowd.follows], axis=-1)
    slope, shared, added = slope.copy(), np.empty_like(slope), np.zeros_like(given.left)
    move, coupled = np.einsum("sfde,sfe->sfd", given.left, r.gradient), r.position >= 0
    for f, field in enumerate(fields if len(slope) else ()):
        assert isinstance(field, FeatureField)
        G, most = slope[:, f], variance[:, f]
        covariance = field.covariance
        if crowd is not None:
            most = most + np.linalg.inv(crowd.hyperprior[f])
            covariance = crowd.covariance(f, covariance)
        answer = (G.reshape(-1, G.shape[-1]) @ covariance).reshape(G.shape)
        through_field = np.einsum("sdm,sem->sde", answer, G)
        kept = rows.share_that_may_be_added(most, through_field)
        slope[:, f], shared[:, f], added[coupled, f] = kept * G, kept * answer, kept**2 * through_field
        move[coupled, f] += slope[:, f, :, : len(centre[f])] @ (field.mean - centre[f])
    return AveragedOverField(slope, shared, added, move)
