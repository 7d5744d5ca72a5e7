"""From q to what a map shows: latent moments, state probabilities and their deviation, at any place."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np

from crowdfield.inference import quadrature
from crowdfield.inference.blur import averaged
from crowdfield.inference.fields.base import Array, Field

BLOCK = 1 << 16  # output points at a time: memory stays flat however large the grid


class Predictor(Protocol):
    """The interface for prediction, common to all inference methods."""

    def latent(self, X: Array) -> tuple[Array, Array]:
        """Mean and variance of f at places [M, D]: both [M, F]."""
        ...

    def rate(self, X: Array) -> tuple[Array, Array]:
        """E[ρ] and its standard deviation: both [M, J]."""
        ...

    def covariance(self, X: Array) -> list[Array]:
        """The joint covariance of each latent function at up to a few thousand places: F times [M, M]."""
        ...


class FieldPredictor(NamedTuple):
    """Prediction from Gaussian fields: VB and collapsed inference."""

    fields: tuple[Field, ...]
    prior_mean: Callable[[Array], Array]  # [M, D] -> [M, F]
    C: Array
    dimension: int | None = None  # D, where places may have one more column: how inexact they are

    def latent(self, X: Array) -> tuple[Array, Array]:
        """Mean and variance of the latent functions at places [M, D]: both [M, F]."""
        mean, variance = np.empty((len(X), len(self.fields))), np.empty((len(X), len(self.fields)))
        for start in range(0, len(X), BLOCK):
            part = slice(start, start + BLOCK)
            mu = averaged(self.prior_mean, X[part], self.dimension or X.shape[1])
            for j, f in enumerate(self.fields):
                m, v = f.at(X[part])
                mean[part, j], variance[part, j] = mu[:, j] + m, v
        return mean, variance

    def rate(self, X: Array) -> tuple[Array, Array]:
        """E[ρ] and its standard deviation at places [M, D], by quadrature: both [M, J]."""
        mean, variance = self.latent(X)
        return quadrature.rate_moments(mean, variance, self.C)

    def covariance(self, X: Array) -> list[Array]:
        """Joint covariance of each latent function at places [M, D]: see `Field.covariance_at`."""
        return [f.covariance_at(X) for f in self.fields]
