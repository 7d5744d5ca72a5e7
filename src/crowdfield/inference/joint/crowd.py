"""What a crowd has in common, as a part of the joint Gaussian: the mean row of a learned prior.

Sources that share a learned prior Dir(β) have logits v around those of its mean row, c. Where c is hardly known, it can
hardly be told from the level of the map: a rare state with an alarmed crowd, or a common one with a careless crowd. So
the arrow of sources and weights has a third layer. With the information P of the prior about a source's logits, and H
of the hyperprior about c, the exponent of the prior is (c measured from its mode)

    −½ (v_s − c)ᵀ P_s (v_s − c) − ½ cᵀ H c

Given c and w the sources are independent, with covariance Q_s and slopes Q_s P_s in c, and

    q(c | w) = N(G_c (w − ŵ), K⁻¹)      K = H + Σ_s (P_s − P_s Q_s P_s)      G_c = K⁻¹ Σ_s P_s Q_s B_sᵀ

What the weights lose by c is Rᵀ K⁻¹ R with R = Σ P Q Bᵀ. How tight the prior is, Σ_l β_l, stays a point estimate; so do
the mean rows of several communities, because who belongs to which is learned with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crowdfield.inference import communities as communities_
from crowdfield.inference.fields.base import Array
from crowdfield.inference.joint.rows import Layout, Rows

# Largest variance of c in q, as a share of what the hyperprior leaves open. Few reports leave several explanations with
# maps far apart, of which q holds one: a Gaussian as wide as all of them, but around that one, is a worse map than the
# explanation alone. With many reports c is known better than that, and the limit has no effect.
LARGEST_SHARE = 0.03


class Crowd(NamedTuple):
    """q(c | w), and how the sources depend on c. Of the logits of c, d answer each function."""

    slope: Array  # G_c [F, d, m]
    left: Array  # K⁻¹ [F, d, d]
    lost: Array  # L⁻¹ R with K = L Lᵀ: a root of the information that the weights lose [F, d, m]
    follows: Array  # Q_s P_s: how the logits of the coupled sources follow c [Sc, F, d, d]
    prior: Array  # P_s of the coupled sources; of those with a prior of their own, zero [Sc, F, d, d]
    hyperprior: Array  # H [F, d, d]

    def covariance(self, f: int, of_weights: Array) -> Array:
        """The joint covariance of weights and c, from that of the weights: [m + d, m + d]."""
        cross = self.slope[f] @ of_weights
        return np.block([[of_weights, cross.T], [cross, self.left[f] + cross @ self.slope[f].T]])

    def gain(self, of_weights: Sequence[Array], shared: Array) -> float:
        """What the objective gains: the sources' prior around c instead of its mode, and −KL(q(c) ‖ N(0, H⁻¹)).

        of_weights: the covariance of each function's weights. shared [Sc, F, d, m + d]: the covariance of the sources'
        logits with weights and c.
        """
        total, d = 0.0, self.left.shape[-1]
        for f, covariance in enumerate(of_weights):
            of_c = self.left[f] + self.slope[f] @ covariance @ self.slope[f].T
            around = (self.prior[:, f] * (shared[:, f, :, -d:] - 0.5 * of_c)).sum()
            relative = np.linalg.slogdet(self.hyperprior[f] @ self.left[f])[1]
            total += float(around + 0.5 * (relative + d - (self.hyperprior[f] * of_c).sum()))
        return total


def information_of_hyperprior(beta: Array, base: Array, layout: Layout) -> Array:
    """H: what the pseudo-sources tell about the logits of the mean rows of β [J, L].   [F, d, d]"""
    tightness = beta.sum(-1)
    told = communities_.information_about_mean(communities_.pseudo_sources(base)[:, 0].sum(-1), tightness).sum(0)
    mean = (beta / tightness[:, None])[:, 1:]
    fisher = mean[..., None] * np.eye(layout.logits) - mean[:, :, None] * mean[:, None, :]
    return np.asarray(layout.block((told[:, None, None] * fisher)[None])[0])


def given_weights(hyperprior: Array, free: NDArray[np.bool_], rows: Rows, left: Array) -> Crowd:
    """q(c | w) from H [F, d, d], the information of prior and reports in `rows`, and Q [S, F, d, d] (`left`).

    free [S]: sources without a prior of their own.
    """
    coupled, H = rows.position >= 0, hyperprior / LARGEST_SHARE
    P = rows.prior[coupled] * free[coupled, None, None, None]
    follows = left[coupled] @ P
    information = H + rows.prior[free].sum(0) - np.einsum("sfde,sfdg->feg", P, follows)
    root = np.linalg.inv(np.linalg.cholesky(information))
    lost = root @ np.einsum("sfde,sfdm->fem", follows, rows.projected)
    up = root.swapaxes(-1, -2)
    return Crowd(up @ lost, up @ root, lost, follows, P, H)
