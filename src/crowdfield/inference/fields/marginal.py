"""The posterior of a field when the source matrices are updated jointly with it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from crowdfield.inference.fields.base import Array, cholesky


class LostInformation(NamedTuple):
    """The information about the weights that is lost by marginalising the sources: HᵀH − V diag(e) Vᵀ."""

    H: Array  # [n, m]
    e: Array  # [r] added back where a direction would be more uncertain than under the prior


class MarginalPosterior(NamedTuple):
    """A posterior of the weights with the sources marginalised: V diag(average) Vᵀ, and the prior beside it."""

    V: Array  # [m, r]
    average: Array  # [r]
    prior: float  # variance of the weights orthogonal to V
    lost: LostInformation

    def root(self) -> Array:
        """The Cholesky factor of M with E[w] = M⁻¹ Σ η φ. It is rarely needed, and costs as much as a sweep."""
        H, e = self.lost
        M = (self.V * (1.0 / self.average - e - 1.0 / self.prior)) @ self.V.T + H.T @ H
        M[np.diag_indices_from(M)] += 1.0 / self.prior
        return cholesky(M, "the map from sites to the field's mean")
