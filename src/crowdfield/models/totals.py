"""From a fitted model to totals of areas: joint draws of the states of all places, added up area by area."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from crowdfield.data.grade_order import AT_LEAST_WORDS
from crowdfield.errors import InputError
from crowdfield.inference import area_totals, rate_draws
from crowdfield.inference.community_sampling import CommunityPrior
from crowdfield.inference.field_draws import corners
from crowdfield.inference.instrument.model import Fitted
from crowdfield.inference.instrument.several.model import FittedStates
from crowdfield.inference.joint.state import Posterior
from crowdfield.inference.predict import FieldPredictor
from crowdfield.inference.refined_draws import JointDraws, refined
from crowdfield.inference.reported_draws import AppearanceLogitsAtReports, ReportDraws, StateLogitsAtReports
from crowdfield.models import inexact
from crowdfield.models.base import Array
from crowdfield.models.reported import same_places
from crowdfield.models.unknown import is_unknown, prior_rate_sd

if TYPE_CHECKING:
    from crowdfield.models.queries import MapQueries

DRAWS = 200  # draws of the states: each end of a 90 % interval is then accurate to 1.5 % of probability
PREDICTED = 1 << 16  # places per block where rates must be computed
THRESHOLDS = (0.5,)
AT_LEAST = AT_LEAST_WORDS.replace(" ", "_")  # in names of columns, before a grade


def sample_rate(model: MapQueries, X: Array, size: int, rng: np.random.Generator) -> Array:
    """Joint draws of ρ [n, M, J]."""
    draws = rate_draws.of_predictor(model._predictor, size, corners(X), rng)
    return rate_draws.rates(draws, X, rng)


class Areas(NamedTuple):
    """Which places lie in which area, and how much of each."""

    names: list[Hashable]
    share: sp.csr_matrix  # [A, M] of every place, from 0 to 1

    @classmethod
    def of(cls, areas: Any, n_places: int) -> Areas:
        """From codes [M], a matrix [A, M], or a list or dict of masks or row numbers, one per area."""
        if sp.issparse(areas):
            return cls(list(range(areas.shape[0])), _checked(sp.csr_matrix(areas, dtype=np.float64), n_places))
        if isinstance(areas, dict):
            return cls(list(areas), _stacked(list(areas.values()), n_places))
        if isinstance(areas, pd.Series | pd.Categorical):
            areas = np.asarray(areas)
        if isinstance(areas, list | tuple) and len(areas) and np.ndim(areas[0]) == 1:
            return cls(list(range(len(areas))), _stacked(areas, n_places))
        given = np.asarray(areas)
        if given.ndim == 2:
            numbers = given.astype(np.float64)
            return cls(list(range(len(given))), _checked(sp.csr_matrix(numbers), n_places))
        if given.shape != (n_places,):
            raise InputError(f"areas must name one area per place: {n_places} places, but shape {given.shape}.")
        # A missing name (None, NaN) is outside of all areas.
        code, names = pd.factorize(given, sort=False)
        kept = np.flatnonzero(code >= 0)
        share = sp.csr_matrix((np.ones(len(kept)), (code[kept], kept)), shape=(len(names), n_places))
        return cls(names.tolist(), share)


def _stacked(masks: Sequence[Any], n_places: int) -> sp.csr_matrix:
    """The matrix [A, M] of areas that are given as masks or as row numbers."""
    rows = []
    for number, given in enumerate(masks):
        mask = np.asarray(given)
        if mask.dtype == bool and mask.shape == (n_places,):
            rows.append(np.flatnonzero(mask))
        elif mask.ndim == 1 and (np.issubdtype(mask.dtype, np.integer) or not mask.size):
            if mask.size and not (mask.min() >= 0 and mask.max() < n_places):
                raise InputError(f"area {number} names places outside 0 to {n_places - 1}.")
            rows.append(np.unique(mask.astype(np.int64)))
        else:
            raise InputError(f"area {number} must be a mask with one entry per place, or numbers of places.")
    column = np.concatenate(rows) if rows else np.empty(0, dtype=np.int64)
    row = np.repeat(np.arange(len(rows)), [len(part) for part in rows])
    return sp.csr_matrix((np.ones(len(column)), (row, column)), shape=(len(rows), n_places))


def _checked(share: sp.csr_matrix, n_places: int) -> sp.csr_matrix:
    """The matrix of areas [A, M], or an error if its shape or its shares are wrong."""
    if share.shape[1] != n_places:
        raise InputError(f"areas must have one column per place: {n_places} places, but shape {share.shape}.")
    if share.nnz and not (np.isfinite(share.data).all() and share.data.min() >= 0.0 and share.data.max() <= 1.0):
        raise InputError("the share of a place that lies in an area must be between 0 and 1.")
    share.eliminate_zeros()
    return share


class Shown(NamedTuple):
    """The map's probabilities at every place, and which places have reports of their own."""

    probability: Array  # [M, J]
    sd: Array  # [M, J]
    place: NDArray[np.int64]  # [Q] rows of places that hold something reported on
    site: NDArray[np.int64]  # [Q] and the row of it in `model.places_`; several may share a place


def totals(
    model: MapQueries,
    places: Array,
    areas: Any,
    weights: ArrayLike | None,
    level: float,
    thresholds: ArrayLike,
    rng: np.random.Generator,
    draws: int,
) -> pd.DataFrame:
    """One row per area; see `HeatmapBCC.totals`."""
    located = Areas.of(areas, len(places))
    probability, sd = _predicted(model, places)
    count, here, site = np.zeros(len(places)), np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    known = model.at_reported_places()
    if known is not None:  # a model fitted over a cluster does not hold its reports
        found = same_places(model, places)
        here = np.flatnonzero(found >= 0)
        site = found[here]
        among = np.searchsorted(inexact.exact_rows(model), site)
        probability[here], sd[here] = known.probability[among], known.sd[among]
        by_site = np.bincount(inexact.report_sites(model), minlength=len(model.places_))
        count[here] = by_site[site]
    shown = Shown(probability, sd, here, site)
    table = of_shown(model, places, shown, located, weights, level, thresholds, rng, draws)
    table.insert(3, "reports", (located.share.astype(bool) @ count).astype(np.int64))
    return table


def of_shown(
    model: MapQueries,
    places: Array,
    shown: Shown,
    areas: Areas,
    weights: ArrayLike | None,
    level: float,
    thresholds: ArrayLike,
    rng: np.random.Generator,
    draws: int,
) -> pd.DataFrame:
    """Totals that agree with a map: their expectation is the weighted mean of what it shows."""
    each, cut = _weights(weights, len(places)), _thresholds(thresholds)
    if not 0.0 < level < 1.0:
        raise InputError(f"level must lie between 0 and 1, not {level!r}.")
    weighed = sp.csr_matrix(areas.share @ sp.diags(each))
    total = np.asarray(weighed.sum(axis=1)).ravel()
    drawn = _drawn(model, places, shown, weighed, rng, draws)  # [A, J, n]
    names, members = _counted(model)  # [K], [J, K]
    drawn = np.einsum("ajn,jk->akn", drawn, members)
    expected = weighed @ (shown.probability @ members)
    unknown = weighed @ is_unknown(
        shown.sd, prior_rate_sd(model), ordered=bool(getattr(model, "ordered", False))
    ).astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        share, shares = expected / total[:, None], drawn / total[:, None, None]
        nobody_knows = unknown / total
    # The map and the draws are two computations of one posterior: an interval holds what both say.
    ends = area_totals.interval(drawn, level)
    ends = np.stack([np.minimum(ends[..., 0], expected), np.maximum(ends[..., 1], expected)], axis=-1)
    columns: dict[str, Any] = {
        "area": pd.Series(areas.names, dtype=object),
        "places": np.diff(areas.share.indptr),
        "weight": total,
        "unknown_share": nobody_knows,
    }
    empty = total <= 0.0
    for j, state in enumerate(names):
        columns[f"share_{state}"] = share[:, j]
        for name, end in (("low", 0), ("high", 1)):
            with np.errstate(invalid="ignore", divide="ignore"):
                columns[f"share_{name}_{state}"] = ends[:, j, end] / total
        columns[f"amount_{state}"] = expected[:, j]
        columns[f"amount_low_{state}"], columns[f"amount_high_{state}"] = ends[:, j, 0], ends[:, j, 1]
        for value in cut:
            above = (shares[:, j] >= value).mean(axis=1)
            columns[f"probability_above_{value:g}_{state}"] = np.where(empty, np.nan, above)
    table = pd.DataFrame(columns)
    table.attrs |= {"level": level, "draws": draws, "thresholds": cut}
    return table


def _counted(model: MapQueries) -> tuple[list[str], Array]:
    """What is totalled, as columns are named, and which states each is made of [J, K]: every state; of grades also "at
    least" each between the lowest and the highest."""
    states = model.classes_.tolist()
    names, members = [str(state) for state in states], np.eye(len(states))
    if getattr(model, "ordered", False) and len(states) > 2:
        names += [f"{AT_LEAST}{state}" for state in states[1:-1]]
        members = np.hstack([members, np.tri(len(states))[:, 1:-1]])
    return names, members


def _drawn(
    model: MapQueries, places: Array, shown: Shown, weighed: sp.csr_matrix, rng: np.random.Generator, size: int
) -> Array:
    """How much of each area is in which state, in every draw: [A, J, n]."""
    known = model.places_ if len(shown.site) else places[:0]
    region, exact = corners(places, known), _refined(model, size, rng)
    rates: rate_draws.StateRates | rate_draws.InstrumentRates
    if exact is None:
        rates = rate_draws.of_predictor(model._predictor, size, region, rng)
    else:
        rates = rate_draws.of_joint(exact, model._posed.mean_at, region, rng)
    J = len(model.classes_)
    if not len(shown.site):
        return area_totals.amounts(rates, places, weighed, J, None, rng)
    # A place that holds several things has the mean of their states.
    crowded = np.bincount(shown.place, minlength=len(places))
    holds = sp.csr_matrix(
        (1.0 / crowded[shown.place], (shown.place, shown.site)), shape=(len(places), len(model.places_))
    )
    at_sites = sp.csr_matrix(weighed @ holds)
    elsewhere = sp.csr_matrix(weighed @ sp.diags((crowded == 0).astype(np.float64)))
    elsewhere.eliminate_zeros()
    reported = _reported(model, rates, exact, at_sites, size, rng)
    return area_totals.amounts(rates, places, elsewhere, J, reported, rng)


class LastDraws(NamedTuple):
    """The last draws of a model's posterior, and what was asked for."""

    q: Posterior
    asked: tuple[int, str]  # number of draws, and the state of the generator
    draws: JointDraws | None


def _refined(model: MapQueries, size: int, rng: np.random.Generator) -> JointDraws | None:
    """Draws of the one-state model's exact posterior, or close to it, where they are affordable; else None.

    They do not depend on the places, so that the last ones are kept: a live map is asked about one polygon after the
    other, with the same seed.
    """
    if not isinstance(model._predictor, FieldPredictor) or not isinstance(model._solved.fit.q, Posterior):
        return None
    # A model fitted over a cluster does not hold its reports, and the sampler takes places as exact.
    if len(model.places_) < model._posed.data.n_sites or model._site_reach is not None:
        return None
    own, q = rng.spawn(1)[0], model._solved.fit.q
    asked = (size, str(own.bit_generator.state))
    last: LastDraws | None = getattr(model, "_last_draws", None)
    if last is None or last.q is not q or last.asked != asked:
        posed, found = model._posed, model._solved.fit.state.communities
        crowd = None
        if found is not None:
            crowd = CommunityPrior(len(found.beta), posed.base, posed.prior.alpha0, ~posed.own), found
        last = LastDraws(q, asked, refined(posed.data, posed.prior, q, size, own, crowd))
        model._last_draws = last
    return last.draws


def _reported(
    model: MapQueries,
    rates: Any,
    exact: JointDraws | None,
    at_sites: sp.csr_matrix,
    size: int,
    rng: np.random.Generator,
) -> area_totals.Reported:
    """Draws of the states of everything reported on, and its weight in every area [A, N]."""
    if isinstance(model._predictor, Fitted | FittedStates):
        fitted, thing_at = model._predictor, model._setup.place
        shared = np.bincount(thing_at, minlength=len(model.places_))
        weights = sp.csr_matrix(at_sites[:, thing_at] @ sp.diags(1.0 / shared[thing_at]))
        return area_totals.Reported(AppearanceLogitsAtReports(rates, fitted), fitted.site_states, weights)
    data = model._posed.data
    if exact is not None:
        joint = ReportDraws.of_joint(data, exact.log_pi, model.confusion_)
        return area_totals.Reported(StateLogitsAtReports(rates, joint, model.places_, data.known), None, at_sites)
    said = ReportDraws.of(data, model.alpha_, model.confusion_, size, rng)
    logits = StateLogitsAtReports(rates, said, model.places_, np.full(len(model.places_), -1))
    return area_totals.Reported(logits, model.posterior_, at_sites)


def _predicted(model: MapQueries, places: Array) -> tuple[Array, Array]:
    """Mean and standard deviation of the state probabilities at places, in blocks: [M, J] each."""
    probability = np.empty((len(places), len(model.classes_)))
    sd = np.empty_like(probability)
    for start in range(0, len(places), PREDICTED):
        part = slice(start, start + PREDICTED)
        probability[part], sd[part] = model.predict_rate(places[part])
    return probability, sd


def _weights(weights: ArrayLike | None, n_places: int) -> Array:
    """The weight of each place [M]; 1 by default."""
    if weights is None:
        return np.ones(n_places)
    out = np.asarray(weights, dtype=np.float64)
    if out.shape != (n_places,) or not np.isfinite(out).all() or out.min(initial=0.0) < 0.0:
        raise InputError(f"weights must be finite and at least 0, one per place: {n_places} of them.")
    return out


def _thresholds(thresholds: ArrayLike) -> list[float]:
    out = np.atleast_1d(np.asarray(thresholds, dtype=np.float64))
    if out.ndim != 1 or not (np.isfinite(out).all() and (out >= 0.0).all() and (out <= 1.0).all()):
        raise InputError("thresholds are shares between 0 and 1.")
    return [float(value) for value in out]
