"""Accuracy of the places of reports: from a user's `accuracy` to the input of inference.

An accuracy is a radius: the true place lies within it with a probability of 68 %, as phones and GPS receivers report
it. Inference takes the standard deviation s of each coordinate. A report may also be about the whole area within that
radius instead of one place in it. Reports with equal coordinates and equal accuracy are about one site; with different
accuracies, or where one is about the area and one about a place in it, they are about different ones.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaincinv

from crowdfield.data import Reports
from crowdfield.errors import InputError
from crowdfield.inference import blur
from crowdfield.inference.blur import SPACE
from crowdfield.inference.posed import Posed
from crowdfield.inference.predict import Predictor
from crowdfield.models.base import Array, find_sites

if TYPE_CHECKING:
    from crowdfield.models.queries import MapQueries

SHARE_WITHIN_RADIUS = 0.68  # share of true places within the radius
# Accuracies are rounded to this many values, evenly spaced in their logarithm: each costs a pass over its places.
MOST_LEVELS = 12
# Share of the map's extent below which an accuracy counts as exact; length-scales are hundreds of times as long.
EXACT = 1e-3


def with_accuracy(reports: Reports, accuracy: ArrayLike | None) -> Reports:
    """The reports with an accuracy each: one number for all, or one per report; NaN where it is not known."""
    if accuracy is None:
        return reports
    try:
        given = np.asarray(accuracy, dtype=np.float64)
    except (TypeError, ValueError) as problem:
        raise InputError("accuracy must be numbers: one for all reports, or one per report.") from problem
    if given.ndim == 0:
        given = np.full(len(reports), given)
    return replace(reports, accuracy=given)


def with_areas(reports: Reports, areas: ArrayLike | None) -> Reports:
    """The reports with which of them are about whole areas: True for all, or one per report."""
    if areas is None:
        return reports
    given = np.asarray(areas)
    if given.dtype != np.bool_:
        raise InputError("areas must be True or False: for all reports, or one per report.")
    if given.ndim == 0:
        given = np.full(len(reports), given)
    return replace(reports, area=given)


def rounded(reports: Reports) -> Reports:
    """The reports with few different accuracies; None where all places are as good as exact."""
    if reports.accuracy is None:
        return reports
    accuracy = np.nan_to_num(reports.accuracy)  # not known: taken for exact
    accuracy[accuracy < EXACT * np.ptp(reports.places[:, :SPACE], axis=0).max(initial=0.0)] = 0.0
    if not accuracy.any():
        return replace(reports, accuracy=None, area=None)
    area = None if reports.area is None else reports.area & (accuracy > 0.0)
    values = np.unique(accuracy[accuracy > 0.0])
    if len(values) > MOST_LEVELS:
        inexact = accuracy > 0.0
        levels = np.geomspace(values[0], values[-1], MOST_LEVELS)
        nearest = np.abs(np.log(accuracy[inexact, None] / levels)).argmin(1)
        accuracy[inexact] = levels[nearest]
    return replace(reports, accuracy=accuracy, area=area if area is not None and area.any() else None)


def sd_of(accuracy: Array, dimension: int) -> Array:
    """The standard deviation of each coordinate from the radius."""
    # The quantile of the chi distribution: the distance, in standard deviations, within which this share lies.
    return np.asarray(accuracy / np.sqrt(2.0 * gammaincinv(min(dimension, SPACE) / 2.0, SHARE_WITHIN_RADIUS)))


def sites_of(reports: Reports) -> Array:
    """Places of all reports, with the columns of `blur` where some are inexact, or areas: [R, D (+ 1 or 2)]."""
    if reports.accuracy is None:
        return reports.places
    more = [sd_of(reports.accuracy, reports.places.shape[1])]
    if reports.area is not None:
        more.append(reports.area.astype(np.float64))
    return np.column_stack([reports.places, *more])


def with_site_columns(sites: Array, X: Array) -> Array:
    """Exact places in the columns of the sites: [M, D] -> [M, D (+ 1 or 2)]."""
    return np.pad(X, ((0, 0), (0, sites.shape[1] - X.shape[1])))


def refuse(what: str, reports: Reports) -> None:
    """Raise an error if some places are inexact, for methods that cannot use that."""
    if reports.accuracy is not None:
        raise InputError(f"{what} treats places as exact. Leave the accuracy out, or use inference='auto'.")


def sites(model: MapQueries) -> Array:
    """The sites of a fitted model as inference takes them: [N, D (+ 1 or 2)]."""
    return model.places_ if model._site_reach is None else np.column_stack([model.places_, model._site_reach])


def report_sites(model: MapQueries) -> NDArray[np.int64]:
    """The site of every report of a fitted model: [R]."""
    known, reported = sites(model), sites_of(model.reports_)
    return find_sites(known, with_site_columns(known, reported))


def exact_rows(model: MapQueries) -> NDArray[np.int64]:
    """Which sites of a fitted model are known exactly: positions [n]."""
    if model._site_reach is None:
        return np.arange(len(model.places_))
    return np.flatnonzero(model._site_reach[:, 0] == 0.0)


def latent(model: MapQueries) -> tuple[Array, Array]:
    """Mean and variance of the state's latent functions at the sites of the one-state model: [N, F] each.

    At an inexact site they are those of κ f̄, which is what its reports are about.
    """
    return latent_at(model._predictor, model._posed, sites(model))


def latent_at(predictor: Predictor, posed: Posed, X: Array) -> tuple[Array, Array]:
    """Mean and variance of the latent functions at any places with the columns of sites: [M, F] each."""
    mean, variance = predictor.latent(X)
    flat = flattening(posed, X)[:, None]
    return flat * mean, flat**2 * variance


def flattening(posed: Posed, X: Array) -> Array:
    """κ of places with the columns of sites: [M]."""
    flat = blur.flattening(posed.kernel, X, posed.prior.rate / posed.prior.shape)
    return np.ones(len(X)) if flat is None else flat
