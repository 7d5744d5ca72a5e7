"""The posterior of a field when the source matrices are updated jointly with it."""

from __future__ import annotations

from typing import NamedTuple

from crowdfield.inference.fields.base import Array, cholesky


class Released(NamedTuple):
    """The information of the sites that sources who answer the field take away: HᵀH − V diag(e) Vᵀ."""

    H: Array  # [n, m]
    e: Array  # [m] what of it is given back, where a direction would be freer than before any report


class Answered(NamedTuple):
    """A posterior V diag(average) Vᵀ of the weights, for which sources have released information of the sites."""

    V: Array  # [m, m]
    average: Array  # [m]
    released: Released

    def root(self) -> Array:
        """The Cholesky factor of M with E[w] = M⁻¹ Σ η φ. Few ask for it, and it costs as much as a sweep."""
        H, e = self.released
        M = (self.V * (1.0 / self.average - e)) @ self.V.T + H.T @ H
        return cholesky(M, "how the field's mean follows its sites")
