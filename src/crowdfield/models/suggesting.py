"""Suggestions: where to look next, and whom to ask."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crowdfield.errors import InputError
from crowdfield.inference import information
from crowdfield.inference.data import contrast
from crowdfield.inference.information import ReportPredictor
from crowdfield.inference.instrument import report_prediction
from crowdfield.inference.instrument.model import Fitted
from crowdfield.inference.instrument.report_prediction import ByAppearance, Known
from crowdfield.models import instrument, sources
from crowdfield.models.base import Array, validated_places, whole
from crowdfield.models.reported import log_likelihoods, same_places

if TYPE_CHECKING:
    from crowdfield.models.queries import MapQueries

SMALLEST_PROBABILITY = 1e-12  # floor of probabilities before their logarithm is taken
MOST_CANDIDATES = 4000  # their joint covariance is a square matrix of this size


def places_to_look(
    model: MapQueries, candidates: ArrayLike, n: int, source: Any, score: str, cost: ArrayLike | None
) -> tuple[NDArray[np.int64], Array]:
    """Rows of the best candidates and their scores; see `HeatmapBCC.suggest`."""
    places = validated_places(model, candidates)
    count = whole("n", n)
    if score not in information.SCORES:
        raise InputError(f"score must be one of {', '.join(information.SCORES)}, not {score!r}.")
    price = np.ones(len(places)) if cost is None else np.asarray(cost, dtype=np.float64)
    if price.shape != (len(places),) or not (price > 0).all():
        raise InputError("cost must be positive, one for each candidate.")
    if len(places) > MOST_CANDIDATES:
        raise InputError(f"suggest weighs at most {MOST_CANDIDATES} candidates; thin out the {len(places)} given.")
    mean, covariance, reports = _candidate_moments(model, places, source)
    chosen, scores = information.greedy(count, mean, covariance, reports, score, price)
    return np.array(chosen, dtype=np.int64), np.array(scores)


def _candidate_moments(model: MapQueries, places: Array, source: Any) -> tuple[Array, list[Array], ReportPredictor]:
    """Mean [M, F] and covariances [M, M] of the field at the candidates, and the distribution of a report there."""
    fitted = model._instrument if model.reports_model_ == "instrument" else None
    if isinstance(fitted, Fitted):
        mean, _ = fitted.surface.at(places)
        known = Known.of(fitted, _things_at(model, same_places(model, places)))
        reports = ByAppearance(known, fitted.joint.variances.nugget, _report_distribution(model, fitted, source))
        return mean[:, None], [fitted.surface.covariance_at(places)], reports
    mean, _ = model._predictor.latent(places)
    said, reporter = _log_likelihoods_at(model, places), _confusion_of(model, source)
    by_states = information.ByStates(said, reporter, contrast(len(model.classes_)))
    return mean, model._predictor.covariance(places), by_states


def _things_at(model: MapQueries, sites: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """What was reported on at each of some places (−1: nothing), as rows of the instrument model's sites."""
    place = model._setup.place
    order = np.argsort(place, kind="stable")
    first, end = (np.searchsorted(place[order], sites, side=side) for side in ("left", "right"))
    return [order[a:b] for a, b in zip(first.tolist(), end.tolist(), strict=True)]


def _report_distribution(model: MapQueries, fitted: Fitted, source: Any) -> Array:
    """P(t = j, label = l | appearance g) for the source that would report: [J, L, K].

    A source that gives labels reports on the appearance; one that is trusted, gives only scores, or is a confusion
    matrix reports on the state. None stands for a typical source of this crowd.
    """
    if source is None:
        weight = model._reports_by_source().astype(float)
    elif isinstance(source, Hashable) and source in model.reports_.sources:
        weight = (np.arange(len(model.reports_.sources)) == model.reports_.sources.index(source)).astype(float)
    else:
        return report_prediction.through_states(fitted, _confusion_of(model, source))
    weight /= weight.sum()
    trusted = instrument.trusted_sources(model, model.reports_, model.classes_)[0] | fitted.scores_only
    by_state = np.einsum("sjl,s->jl", model.confusion_[trusted], weight[trusted])
    reading = report_prediction.reading(fitted, np.where(trusted, 0.0, weight))[:, np.argsort(model._setup.order)]
    return np.asarray(reading + report_prediction.through_states(fitted, by_state))


def whom_to_ask(
    model: MapQueries, n: int, among: Sequence[Hashable] | None, rng: np.random.Generator
) -> list[Hashable]:
    """Sources, some more than once; see `HeatmapBCC.suggest_sources`."""
    count = whole("n", n)
    known = {source: i for i, source in enumerate(model.reports_.sources)}
    unknown = [source for source in among or () if source not in known]
    if unknown or (among is not None and not len(among)):
        raise InputError(f"among must name sources that have reported; {unknown or 'nobody'} has not.")
    rows = np.arange(len(known)) if among is None else np.array([known[source] for source in among])
    chosen = sources.draw_sources(model.alpha_[rows], count, rng)
    return [model.reports_.sources[rows[i]] for i in chosen]


def _log_likelihoods_at(model: MapQueries, places: Array) -> Array:
    """ℓ: the log likelihood of each state given the reports at each place, [M, J]; zero without reports."""
    where = same_places(model, places)
    here = where >= 0
    out = np.zeros((len(places), len(model.classes_)))
    if not here.any():
        return out
    if model.reports_model_ == "instrument":
        rate = model._predictor.rate(places[here])[0]
        out[here] = np.log(np.clip(model.posterior_[where[here]], SMALLEST_PROBABILITY, 1.0)) - np.log(
            np.clip(rate, SMALLEST_PROBABILITY, 1.0)
        )
    else:
        out[here] = log_likelihoods(model)[where[here]]
    return out


def _confusion_of(model: MapQueries, source: Any) -> Array:
    """The confusion matrix of who would report [J, L]: a source seen, a matrix, or None for a typical source."""
    if source is None:
        weight = model._reports_by_source().astype(float)
        return np.asarray(np.einsum("sjl,s->jl", model.confusion_, weight / weight.sum()))
    if isinstance(source, Hashable) and source in model.reports_.sources:
        return np.asarray(model.confusion_[model.reports_.sources.index(source)])
    matrix = np.asarray(source, dtype=object)
    if matrix.shape != model.confusion_.shape[1:]:
        raise InputError(f"{source!r} is neither a source seen nor a confusion matrix {model.confusion_.shape[1:]}.")
    rows = matrix.astype(np.float64)
    return np.asarray(rows / rows.sum(1, keepdims=True))
