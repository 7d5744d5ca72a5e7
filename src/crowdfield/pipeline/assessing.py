"""Estimates from spot checks: accuracy, omission and commission errors, and the true area of every state.

    found = crowdfield.assess(heatmap, checked)      # checked: a table with the plan's columns and `state` filled in
    found.accuracy, found.states, found.lines()

The estimates do not depend on the model: they rely only on the random choice of the places.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from crowdfield.counting import counted
from crowdfield.data import Heatmap
from crowdfield.data.positive import decide, display_order
from crowdfield.errors import InputError
from crowdfield.geography import WGS84, transform
from crowdfield.inference import stratified
from crowdfield.inference.stratified import Estimate, Predicted, Sample
from crowdfield.io.checks import read_checked
from crowdfield.io.layers import slug
from crowdfield.pipeline.fit_arguments import as_arguments
from crowdfield.pipeline.fusing import Fused, fuse_on
from crowdfield.pipeline.sampling_plan import Strata
from crowdfield.pipeline.tables import joined, names_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from crowdfield.models.base import ReportClassifier

__all__ = ["Assessment", "assess", "read_checked", "reliability", "with_gold"]

BINS = 10  # bins of the reliability diagram, at most
LEAST_IN_BIN = 5  # checks
MOST_CHANGED_CELLS = 0.01  # share of cells that may change their stratum in a map that still counts as the same


@dataclass(frozen=True, eq=False)
class Assessment:
    """What spot checks say of a map, with confidence intervals, as `crowdfield.assess` returns it.

    Attributes
    ----------
    checks : int
        How many places were checked.
    level : float
        Coverage of the intervals.
    accuracy : Estimate
        The share of the map that is right: ``value``, ``low`` and ``high``.
    states : DataFrame
        One row per state: ``mapped_share`` (of the map), ``area`` (the share that really is in the state), ``area_pp``
        (the same, prediction-powered), ``users`` and ``producers`` accuracy, each also with ``_low`` and ``_high``.
        Errors of commission and omission are one minus these accuracies.
    strata : DataFrame
        One row per stratum of the sample.
    reliability : DataFrame
        What the map says of the state in question, against what the checks found.
    positive : state
        The state in question.
    notes : tuple of str
        What a reader should know about the estimates.
    """

    checks: int
    level: float
    accuracy: Estimate
    states: pd.DataFrame
    strata: pd.DataFrame
    reliability: pd.DataFrame
    positive: Hashable
    notes: tuple[str, ...]

    def __repr__(self) -> str:
        return f"<Assessment of '{self.positive}': {self.lines()[0]}>"

    def plain(self) -> dict[str, Any]:
        """All figures as numbers, words and lists, for JSON."""
        from crowdfield.io.layers import plain

        out: dict[str, Any] = plain(
            {
                "checks": self.checks,
                "level": self.level,
                "accuracy": self.accuracy._asdict(),
                "states": self.states.to_dict("records"),
                "strata": self.strata.to_dict("records"),
                "reliability": self.reliability.to_dict("records"),
                "positive": self.positive,
                "notes": list(self.notes),
            }
        )
        return out

    def lines(self) -> list[str]:
        """The accuracy and the notes, in sentences."""
        right = self.accuracy
        return [
            f"{counted(self.checks, 'check')}: {100 * right.value:.0f} % of the map is right "
            f"({100 * self.level:.0f} % interval {100 * right.low:.0f} to {100 * right.high:.0f} %)",
            *(f"note: {note}." for note in self.notes),
        ]

    def figure(self) -> Figure:
        """Draw the reliability diagram, and the area of every state on the map and in truth."""
        from crowdfield.pipeline.assessment_picture import draw

        return draw(self)


def assess(
    subject: Heatmap | Fused | ReportClassifier,
    checked: pd.DataFrame | tuple[ArrayLike, ArrayLike],
    level: float = 0.95,
) -> Assessment:
    """Estimate the accuracy of a map and the true area of each state from spot checks, with confidence intervals.

    The intervals are valid even if the model is wrong: they rely only on the random choice of the places
    (docs/spot-checks.md).

    Parameters
    ----------
    subject : Heatmap, Fused or fitted model
        What was checked.
    checked : DataFrame or (places, states)
        One row per checked place, with the columns ``state`` (what is true there), ``easting`` and ``northing`` in the
        map's reference system or ``longitude`` and ``latitude``, and, where `crowdfield assess plan` chose the places,
        its columns ``stratum`` and ``stratum_cells``. Without strata, and always for a model, the places must be a
        simple random sample. A pair of places [n, 2] and their states is enough then.
    level : float, default=0.95
        Coverage of the confidence intervals.

    Returns
    -------
    Assessment
        ``accuracy``; ``states``, a table with one row per state (area, user's and producer's accuracy); ``strata``;
        ``reliability`` of the state in question, ``positive``; ``notes``; and the methods ``lines()`` (text),
        ``plain()`` (for JSON) and ``figure()``.

    Examples
    --------
    A model of two halves, of which 40 places are checked:

    >>> import numpy as np
    >>> import crowdfield as cf
    >>> rng = np.random.default_rng(0)
    >>> places = rng.uniform(0, 10, (60, 2))
    >>> model = cf.HeatmapBCC(lengthscale=3.0).fit(places, np.where(places[:, 0] > 5, "wet", "dry"))
    >>> visited = rng.uniform(0, 10, (40, 2))
    >>> found = cf.assess(model, (visited, np.where(visited[:, 0] > 5, "wet", "dry")))
    >>> found.checks, found.accuracy.value > 0.8
    (40, True)
    """
    heatmap = subject.heatmap if isinstance(subject, Fused) else subject
    if not 0.0 < level < 1.0:
        raise InputError(f"level must lie between 0 and 1, not {level!r}.")
    answered, notes = _answered(_as_table(checked))
    if not isinstance(heatmap, Heatmap):
        if not hasattr(heatmap, "predict_proba"):
            raise InputError("assess takes a Heatmap, a run or a fitted model.")
        return _of_model(heatmap, answered, level, notes)
    cell = _cells(heatmap, answered)
    truth = _truth(heatmap.states, answered)
    strata = Strata.of(heatmap)
    if "stratum" in answered.columns:
        sample, stratum, names = _designed(strata, answered, cell)
    else:
        sample, stratum, names = _post_stratified(strata, cell)
        notes.append("no strata are given: the places are taken as a simple random sample of the map")
    counts = np.zeros((len(sample), len(heatmap.states)), dtype=np.int64)
    np.add.at(counts, (stratum, truth), 1)
    drawn = Sample(strata.cells[sample], strata.mapped[sample], counts)
    everywhere, shown = _mapped_means(heatmap, strata, sample, cell)
    states = [
        _state(heatmap, drawn, j, Predicted(stratum, (truth == j).astype(float), shown[:, j], everywhere[:, j]), level)
        for j in heatmap.order
    ]
    by_stratum = pd.DataFrame({
        "stratum": names, "cells": drawn.cells, "checks": drawn.checked,
        "right": counts[np.arange(len(counts)), drawn.mapped],
    })  # fmt: skip
    weight = (drawn.cells / drawn.checked)[stratum]
    asked = heatmap.states.index(heatmap.positive)
    return Assessment(
        len(truth),
        level,
        stratified.accuracy(drawn, level),
        pd.DataFrame(states),
        by_stratum,
        reliability(shown[:, asked], truth == asked, weight, level),
        heatmap.positive,
        tuple(notes),
    )


def _as_table(checked: Any) -> pd.DataFrame:
    """Checks as a table with coordinates and states."""
    if isinstance(checked, pd.DataFrame):
        return checked
    try:
        places, states = checked
        places = np.asarray(places, dtype=np.float64)
        return pd.DataFrame({"easting": places[:, 0], "northing": places[:, 1], "state": list(states)})
    except (TypeError, ValueError, IndexError):
        raise InputError(
            "checks are a table with a column 'state', or a pair: places [n, 2] and their states."
        ) from None


def _of_model(model: Any, answered: pd.DataFrame, level: float, notes: list[str]) -> Assessment:
    """A simple random sample of places: a single stratum of infinite size."""
    if not {"easting", "northing"} <= set(answered.columns):
        raise InputError("checks of a model need columns easting and northing, in the units it was fitted in.")
    shown = model.predict_proba(answered[["easting", "northing"]].to_numpy(dtype=np.float64))
    classes = model.classes_.tolist()
    truth, mapped = _truth(classes, answered), shown.argmax(axis=1)
    states = []
    for j, state in enumerate(classes):
        found = {
            "area": _proportion(truth == j, level),
            "area_pp": None,
            "users": _proportion(truth[mapped == j] == j, level),
            "producers": _proportion(mapped[truth == j] == j, level),
        }
        states.append(_row(state, float((mapped == j).mean()), found))
    right = _proportion(truth == mapped, level)
    assert right is not None
    table = pd.DataFrame(
        {"stratum": ["all"], "cells": [0], "checks": [len(truth)], "right": [int((truth == mapped).sum())]}
    )
    notes.append("the places are taken as a simple random sample; a map would allow strata and narrower intervals")
    positive = decide(classes, shown.mean(axis=0)).state
    asked = classes.index(positive)
    diagram = reliability(shown[:, asked], truth == asked, np.ones(len(truth)), level)
    order = [classes.index(state) for state in display_order(classes, positive)]
    shown_states = pd.DataFrame([states[j] for j in order])
    return Assessment(len(truth), level, right, shown_states, table, diagram, positive, tuple(notes))


def _proportion(hit: np.ndarray, level: float) -> Estimate | None:
    if not len(hit):
        return None
    low, high = stratified.jeffreys(np.array([hit.sum()]), np.array([len(hit)]), np.array([np.inf]), level)
    return Estimate(float(hit.mean()), float(low[0]), float(high[0]))


def _answered(checked: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """The checks that have an answer, and a note about the others."""
    if "state" not in checked.columns:
        raise InputError("the checks have no column 'state' that says what is true at each place.")
    said = checked["state"].map(lambda value: None if pd.isna(value) or str(value).strip() == "" else value)
    kept = said.notna()
    if kept.sum() < 2:
        raise InputError("fewer than two places have a state. Fill in the column 'state'.")
    notes = []
    if open_ := int((~kept).sum()):
        notes.append(f"{open_:,} places have no answer; that is fine if it has nothing to do with what is true there")
    return checked[kept].assign(state=said[kept]), notes


def _cells(heatmap: Heatmap, answered: pd.DataFrame) -> np.ndarray:
    """The cell of every checked place: [n]."""
    own, degrees = ["easting", "northing"], ["longitude", "latitude"]
    if set(own) <= set(answered.columns):
        places = answered[own].to_numpy(dtype=np.float64)
    elif set(degrees) <= set(answered.columns) and heatmap.grid.crs is not None:
        places = transform(answered[degrees].to_numpy(dtype=np.float64), WGS84, heatmap.grid.crs)
    else:
        raise InputError("the checks need columns easting and northing, or longitude and latitude.")
    cell = heatmap.grid.index(places)
    outside = (cell < 0) | ~heatmap.mask.ravel()[np.maximum(cell, 0)]
    if outside.any():
        raise InputError(
            f"{int(outside.sum()):,} checked places lie outside the map. Is it the map they were drawn from?"
        )
    return cell


def _truth(states: Sequence[Any], answered: pd.DataFrame) -> np.ndarray:
    """The true state of every check, as its position among the states: [n]."""
    by_text = {str(state): code for code, state in enumerate(states)}
    # Forms hold a state under a name of letters, digits and underscores.
    short = [slug(state) for state in states]
    known = {**{name: code for code, name in enumerate(short) if short.count(name) == 1}, **by_text}
    found = [known.get(str(value).strip(), -1) for value in answered["state"]]
    if -1 in found:
        strange = answered["state"].iloc[found.index(-1)]
        raise InputError(f"a check says {strange!r}, but the map's states are {', '.join(map(repr, by_text))}.")
    return np.array(found)


def _designed(strata: Strata, answered: pd.DataFrame, cell: np.ndarray) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """The strata that were checked, the position of every check among them, and the names of all strata.

    An error if the plan was drawn from another map, whose strata differ.
    """
    named = answered["stratum"].astype(str).to_numpy()
    now = np.array([strata.names[h] for h in strata.code[cell]])
    sizes = dict(zip(strata.names, strata.cells.tolist(), strict=True))
    stated = answered["stratum_cells"] if "stratum_cells" in answered.columns else [sizes.get(s, 0) for s in named]
    far = [
        abs(sizes.get(s, -1e9) - float(n)) > max(2.0, MOST_CHANGED_CELLS * float(n))
        for s, n in zip(named, stated, strict=True)
    ]
    # Another machine rounds differently, which may move a cell across a border of certainty.
    if (named != now).mean() > MOST_CHANGED_CELLS or any(far):
        raise InputError(
            "these places were drawn from another map: their strata are not those of this one. Assess the run "
            "(fuse --state RUN.cf), or on a live map the version, that the plan was drawn from."
        )
    used = np.unique(strata.code[cell])
    missing = [name for h, name in enumerate(strata.names) if h not in used]
    if missing:
        raise InputError(f"no place of the stratum {missing[0]!r} was checked, so nothing is known about its part.")
    return used, np.searchsorted(used, strata.code[cell]), list(strata.names)


def _post_stratified(strata: Strata, cell: np.ndarray) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """As `_designed`, for checks that are a simple random sample: their strata are those of the cells they lie in."""
    raise_for = [name for h, name in enumerate(strata.names) if not (strata.code[cell] == h).any()]
    if raise_for:
        raise InputError(
            f"no checked place lies where the map says {raise_for[0]!r}. Draw places with `crowdfield assess plan`: it "
            "gives every kind of place some."
        )
    used = np.arange(len(strata.names))
    return used, strata.code[cell], list(strata.names)


def _mapped_means(
    heatmap: Heatmap, strata: Strata, sample: np.ndarray, cell: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The mean probability of each state over all cells of each stratum [H, J], and at the checks [n, J]."""
    probability = heatmap.probability.reshape(-1, len(heatmap.states))
    shown = strata.code >= 0
    code = strata.code[shown]
    sums = [np.bincount(code, probability[shown, j], minlength=len(strata.cells)) for j in range(probability.shape[1])]
    return (np.stack(sums, axis=1) / strata.cells[:, None])[sample], probability[cell]


def _state(heatmap: Heatmap, sample: Sample, j: int, predicted: Predicted, level: float) -> dict[str, Any]:
    """The estimates of one state."""
    found = {
        "area": stratified.area(sample, j, level),
        "area_pp": stratified.prediction_powered(sample, predicted, level),
        "users": stratified.users(sample, j, level),
        "producers": stratified.producers(sample, j, level),
    }
    return _row(heatmap.states[j], float(sample.share[sample.mapped == j].sum()), found)


def _row(state: Any, mapped_share: float, found: Mapping[str, Estimate | None]) -> dict[str, Any]:
    """The estimates of one state as a row of the table, with interval ends and errors of both kinds."""
    out: dict[str, Any] = {"state": state, "mapped_share": mapped_share}
    for name, estimate in found.items():
        value, low, high = (np.nan,) * 3 if estimate is None else estimate
        out |= {name: value, f"{name}_low": low, f"{name}_high": high}
    return out | {"commission": 1.0 - out["users"], "omission": 1.0 - out["producers"]}


def reliability(shown: np.ndarray, found: np.ndarray, weight: np.ndarray, level: float) -> pd.DataFrame:
    """The mapped probability of one state against how often it is true, in bins of about equally many checks."""
    bins = int(np.clip(len(shown) // (2 * LEAST_IN_BIN), 1, BINS))
    edges = np.unique(np.quantile(shown, np.linspace(0.0, 1.0, bins + 1)))
    code = np.clip(np.searchsorted(edges, shown, side="right") - 1, 0, max(len(edges) - 2, 0))
    rows = []
    for b in range(max(len(edges) - 1, 1)):
        here = code == b
        if not here.any():
            continue
        w = weight[here] / weight[here].sum()
        effective = 1.0 / float((w**2).sum())
        share = float(w @ found[here])
        one = (np.array([share * effective]), np.array([effective]), np.array([np.inf]))
        low, high = stratified.jeffreys(*one, level)
        ends = min(float(low[0]), share), max(float(high[0]), share)
        rows.append([float(w @ shown[here]), share, *ends, int(here.sum())])
    return pd.DataFrame(rows, columns=["said", "found", "found_low", "found_high", "checks"])


def with_gold(fused: Fused, checked: pd.DataFrame) -> Fused:
    """The run fitted again with the checked states as known states (gold)."""
    answered, _ = _answered(checked)
    cell, truth = _cells(fused.heatmap, answered), _truth(fused.heatmap.states, answered)
    places = fused.heatmap.grid.centres()[cell]
    states = [fused.heatmap.states[code] for code in truth]
    earlier = fused.model._gold_
    if len(earlier.places):
        places = np.vstack([earlier.places, places])
        states = [*(fused.heatmap.states[code] for code in earlier.state), *states]
    first = pd.DataFrame(places).drop_duplicates(keep="last").index  # a place checked twice: the later check counts

    def fit(model: Any, reports: Any) -> Any:
        gold = (places[first], names_of(tuple(states))[first])
        return model.fit(**as_arguments(model, reports), gold=gold)

    run = fuse_on(
        joined([fused.reports]), fused.heatmap.grid, fused.settings, mask=fused.heatmap.mask, about=fused.about, fit=fit
    )
    return replace(run, seen=fused.seen)
