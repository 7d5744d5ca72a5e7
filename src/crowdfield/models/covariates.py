"""Covariates: what else is known of every place (height, distance to the river), standardised, gaps filled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from crowdfield.errors import InputError
from crowdfield.models.base import Array


@dataclass(frozen=True)
class Covariates:
    """A user's function of places, with the mean and deviation that its columns had at the reports."""

    given: Callable[[Array], Any]
    mean: Array  # [C]
    sd: Array  # [C]

    @property
    def count(self) -> int:
        return len(self.mean)

    @classmethod
    def learn(cls, given: Any, X: Array) -> Covariates:
        if not callable(given):
            raise InputError("covariates must be a function of places [M, D] that returns [M] or [M, C].")
        values = _values(given, X)
        known = np.isfinite(values)
        if not known.any(axis=0).all():
            raise InputError("a covariate is missing at every place that has reports: there is nothing to learn from.")
        mean = np.nanmean(np.where(known, values, np.nan), axis=0)
        sd = np.nanstd(np.where(known, values, np.nan), axis=0)
        if not (sd > 0).all():
            raise InputError("a covariate has the same value at every report, so that nothing can be learned about it.")
        return cls(given, mean, sd)

    def __call__(self, X: Array) -> Array:
        """Standardised, [M, C]. Where a value is missing the average stands in for it, which says nothing."""
        values = _values(self.given, X)
        if values.shape[1] != self.count:
            raise InputError(
                f"covariates returned {values.shape[1]} columns, but {self.count} when the model was fitted."
            )
        return np.where(np.isfinite(values), (values - self.mean) / self.sd, 0.0)


def _values(given: Callable[[Array], Any], X: Array) -> Array:
    try:
        values = np.asarray(given(X), dtype=np.float64)
    except (TypeError, ValueError) as problem:
        raise InputError(f"covariates must return numbers: {problem}") from problem
    if values.ndim == 1:
        values = values[:, None]
    if values.ndim != 2 or len(values) != len(X):
        raise InputError(f"covariates must return one row per place: {len(X)} places gave shape {values.shape}.")
    return values
