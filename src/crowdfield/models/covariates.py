"""Covariates of places (elevation, distance to the river): standardised, with missing values filled in."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from crowdfield.data import Grid
from crowdfield.data.sites import distinct_places
from crowdfield.errors import DataWarning, InputError
from crowdfield.models.base import Array, find_sites

if TYPE_CHECKING:
    from crowdfield.inference.instrument.model import AnyFitted

RASTER_TOLERANCE = 1e-4  # tolerance, in standard deviations, between two readings of one raster

Given = Callable[[Array], ArrayLike] | Mapping[str, Callable[[Array], ArrayLike]]
Weights = tuple[Array, Array, Array, Array]  # estimates [C], both ends of their intervals, P(weight > 0)


@dataclass(frozen=True)
class Covariates:
    """A user's function of places, with the mean and standard deviation of its columns at the reports."""

    given: Given
    names: tuple[str, ...]  # C of them
    mean: Array  # [C]
    sd: Array  # [C]
    places: int  # at which they were learned
    missing: Array  # [C] how many of these had no value

    @property
    def count(self) -> int:
        return len(self.mean)

    @classmethod
    def learn(cls, given: Any, X: Array) -> Covariates:
        """Covariates whose columns are standardised by their mean and deviation at the places X that have reports."""
        if not callable(given) and not (isinstance(given, Mapping) and given and all(map(callable, given.values()))):
            raise InputError(
                "covariates must be a function of places [M, D] that returns [M] or [M, C], or a mapping from names "
                "to functions that return [M] each."
            )
        values = raw_values(given, X)
        names = names_of(given, values.shape[1])
        known = np.isfinite(values)
        missing = (~known).sum(axis=0)
        for name, gaps in zip(names, missing.tolist(), strict=True):
            if gaps == len(X):
                raise InputError(f"{name} is missing at every place that has reports: there is nothing to learn from.")
        mean = np.nanmean(np.where(known, values, np.nan), axis=0)
        sd = np.nanstd(np.where(known, values, np.nan), axis=0)
        for name, spread in zip(names, sd.tolist(), strict=True):
            if not spread > 0:
                raise InputError(f"{name} has the same value at every report, so that nothing can be learned about it.")
        return cls(given, names, mean, sd, len(X), missing)

    def warn_about_gaps(self) -> None:
        for name, gaps in zip(self.names, self.missing.tolist(), strict=True):
            if gaps:
                warnings.warn(
                    f"{name} is missing at {gaps:,} of {self.places:,} places that have reports; its average stands "
                    "in there.",
                    DataWarning,
                    stacklevel=5,
                )

    def __call__(self, X: Array) -> Array:
        """Standardised, [M, C]. Missing values are replaced by the mean, 0, which has no effect."""
        values = raw_values(self.given, X)
        if values.shape[1] != self.count:
            raise InputError(
                f"covariates returned {values.shape[1]} columns, but {self.count} when the model was fitted."
            )
        return np.where(np.isfinite(values), (values - self.mean) / self.sd, 0.0)


@dataclass(frozen=True)
class KnownCovariates:
    """Covariates read from a model file: stored values at some places, and a function, if given, for all others."""

    places: Array  # [P, D] sorted
    values: Array  # [P, C]
    names: tuple[str, ...]
    otherwise: Given | None = None

    @classmethod
    def at(cls, places: Array, given: Given, names: Sequence[str], otherwise: Given | None = None) -> KnownCovariates:
        distinct = distinct_places(places)[0]
        return cls(distinct, raw_values(given, distinct), tuple(names), otherwise)

    @classmethod
    def of_cells(cls, grid: Grid, values: Array, otherwise: Given | None) -> KnownCovariates:
        """From the cells of a map, row by row: values [cells, C]."""
        centres, cell = distinct_places(grid.centres())
        ordered = np.empty_like(values)
        ordered[cell] = values
        return cls(
            centres, ordered, tuple(f"covariate {number}" for number in range(1, values.shape[1] + 1)), otherwise
        )

    def __call__(self, X: Array) -> Array:
        where = find_sites(self.places, X)
        out = np.empty((len(X), len(self.names)))
        known = where >= 0
        out[known] = self.values[where[known]]
        if not known.all():
            if self.otherwise is None:
                raise InputError(
                    f"{_listed(self.names)} is not known at {np.count_nonzero(~known):,} of these places: the file of "
                    "this model holds it only where the model was fitted or mapped. Give the rasters again "
                    "(--covariate FILE.tif, or covariates= when loading), or make a new model."
                )
            out[~known] = raw_values(self.otherwise, X[~known])
        return out


def check_same(kept: KnownCovariates, given: Given) -> None:
    """Check that covariates given again equal those that the model was fitted with, at the same places."""
    if isinstance(given, KnownCovariates):  # if they come from a file too, compare with the function behind it
        if given.otherwise is None:
            return
        given = given.otherwise
    values = raw_values(given, kept.places)
    names = names_of(given, values.shape[1])
    if values.shape != kept.values.shape:
        raise InputError(f"the model was fitted with {_listed(kept.names)}, not with {_listed(names)}.")
    spread = np.nanstd(kept.values, axis=0)
    with np.errstate(invalid="ignore"):
        other = ~(np.abs(values - kept.values) <= RASTER_TOLERANCE * spread) & ~(
            np.isnan(values) & np.isnan(kept.values)
        )
    for name, count in zip(kept.names, other.sum(axis=0).tolist(), strict=True):
        if count:
            raise InputError(
                f"{name} has other values at {count:,} of {len(values):,} places than when the model was fitted. "
                "Give the same rasters in the same order, or make a new model."
            )


def names_of(given: Given, count: int) -> tuple[str, ...]:
    """What the columns are called: by the mapping, by the function's own `names`, or by their number."""
    if isinstance(given, Mapping):
        return tuple(str(name) for name in given)
    names = getattr(given, "names", None)
    if names is not None and len(names) == count:
        return tuple(str(name) for name in names)
    return ("covariate",) if count == 1 else tuple(f"covariate {number}" for number in range(1, count + 1))


def raw_values(given: Given, X: Array) -> Array:
    """The covariates at places, as the user's functions return them: [M, C]."""
    if isinstance(given, Mapping):
        columns = [raw_values(each, X) for each in given.values()]
        if any(column.shape[1] != 1 for column in columns):
            raise InputError("each function of a mapping of covariates must return one number per place.")
        return np.hstack(columns)
    try:
        values = np.asarray(given(X), dtype=np.float64)
    except (TypeError, ValueError) as problem:
        if isinstance(problem, InputError):
            raise
        raise InputError(f"covariates must return numbers: {problem}") from problem
    if values.ndim == 1:
        values = values[:, None]
    if values.ndim != 2 or len(values) != len(X):
        raise InputError(f"covariates must return one row per place: {len(X)} places gave shape {values.shape}.")
    return values


def gaussian_weights(fitted: AnyFitted, level: float) -> Weights:
    """Estimate, interval and P(weight > 0) of every covariate under the Gaussian posterior."""
    weight, sd = fitted.covariate_weights()
    reach = ndtri(0.5 * (1.0 + level)) * sd
    return weight, weight - reach, weight + reach, np.asarray(ndtr(weight / np.maximum(sd, 1e-300)))


def table(covariates: Covariates | None, weights: Weights, states: Sequence[Any]) -> pd.DataFrame:
    """One row per covariate: its weight with a credible interval. States without an order have a row each.

    `weight` is in log odds of the appearance per standard deviation, `per_unit` per unit of the covariate; `above_zero`
    is the probability that the weight is positive.
    """
    several = len(weights[0]) if weights[0].ndim == 2 else 1
    weight, low, high, above_zero = (part.ravel() for part in weights)
    unit = np.ones(0) if covariates is None else np.tile(covariates.sd, several)
    frame = pd.DataFrame(
        {
            "covariate": pd.Series([] if covariates is None else list(covariates.names) * several, dtype=object),
            "weight": weight,
            "weight_low": low,
            "weight_high": high,
            "above_zero": above_zero,
            "per_unit": weight / unit,
            "per_unit_low": low / unit,
            "per_unit_high": high / unit,
            "mean": [] if covariates is None else np.tile(covariates.mean, several),
            "sd": unit,
            "missing": [] if covariates is None else np.tile(covariates.missing, several),
        }
    )
    if several > 1:
        frame.insert(1, "state", pd.Series(np.repeat(np.asarray(states, dtype=object), len(frame) // several)))
    return frame


def _listed(names: Sequence[str]) -> str:
    return " and ".join(names) if len(names) < 3 else f"{', '.join(names[:-1])} and {names[-1]}"
