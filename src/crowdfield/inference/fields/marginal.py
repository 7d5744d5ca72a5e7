"""The posterior of a field when the source matrices are updated jointly with it."""

from __future__ import annotations

from typing import NamedTuple

from crowdfield.inference.fields.base import Array, cholesky


class LostInformation(NamedTuple):
    """The information about the weights that is lost by marginalising the sources: HᵀH − V diag(e) Vᵀ."""

    H: Array  # [n, m]
    e: Array  # [m] added back where a direction would be more uncertain than under the prior


class MarginalPosterior(NamedTuple):
    """A posterior V diag(average) Vᵀ of the weights with the sources marginalised."""

    V: Array  # [m, m]
    average: Array  # [m]
    lost: LostInformation

    def root(self) -> Array:
        """The Cholesky factor of M with E[w] = M⁻¹ Σ η φ. It is rarely needed, and costs as much as a sweep."""
        H, e = self.lost
        M = (self.V * (1.0 / self.average - e)) @ self.V.T + H.T @ H
        return cholesky(M, "the map from sites to the field's mean")
