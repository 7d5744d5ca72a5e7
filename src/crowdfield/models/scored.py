"""Reports with scores: from a user's `scores` to the input of the instrument model."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crowdfield.data import Reports
from crowdfield.errors import InputError
from crowdfield.inference.instrument import responses, scoring
from crowdfield.inference.instrument.scoring import Readings
from crowdfield.inference.instrument.several import scores as contrasts
from crowdfield.inference.instrument.several import scoring as vector_scoring
from crowdfield.inference.instrument.several.scoring import Vectors

if TYPE_CHECKING:
    from crowdfield.models.heatmap_bcc import HeatmapBCC

Scores = ArrayLike | Mapping[Any, ArrayLike]


def with_scores(reports: Reports, scores: Scores | None, states: Sequence[Hashable]) -> Reports:
    """The reports with the probability of their label, or of every state; unchanged if all scores are missing."""
    if scores is None:
        return reports
    if isinstance(scores, Mapping) or hasattr(scores, "columns"):
        columns: Any = scores
        values = _named(reports, dict(columns.items()))
    else:
        values = _by_state(reports, np.asarray(scores), tuple(states))
    scored = replace(reports, score=values)
    return scored if scored.is_score.any() else reports


def _named(reports: Reports, columns: Mapping[Any, Any]) -> NDArray[np.float64]:
    """[R, L] from one column per state, by its name."""
    unknown = [name for name in columns if name not in reports.labels]
    if unknown:
        raise InputError(f"there are scores of {unknown[0]!r}, which is not among the labels {list(reports.labels)!r}.")
    out = np.full((len(reports), len(reports.labels)), np.nan)
    for name, column in columns.items():
        given = np.asarray(column)
        if given.shape != (len(reports),):
            raise InputError(f"{len(reports)} places but scores of {name!r} of shape {given.shape}: one per report.")
        out[:, reports.labels.index(name)] = given
    return out


def _by_state(reports: Reports, scores: NDArray[Any], states: tuple[Hashable, ...]) -> NDArray[Any]:
    """Columns in the order of the states as columns in that of the labels."""
    if scores.ndim != 2:
        return scores
    if scores.shape != (len(reports), len(states)):
        raise InputError(
            f"scores must have a row per report and a column per state, {len(reports)} x {len(states)} in the order "
            f"{list(states)!r}, not shape {scores.shape}."
        )
    return _named(reports, dict(zip(states, scores.T, strict=True)))


def by_label(reports: Reports) -> Any:
    """Scores as `fit` takes them: vectors with named columns, which do not depend on the order of the states."""
    if reports.score is None or reports.score.ndim == 1:
        return reports.score
    columns = zip(reports.labels, reports.score.T, strict=True)
    return {name: column for name, column in columns if np.isfinite(column).any()}


def why_not(model: HeatmapBCC, reports: Reports, states: tuple[Any, ...]) -> str | None:
    """Why scores cannot be used here; None if they can."""
    if model.inference == "gibbs":
        return "inference='gibbs' does not read scores"
    score = reports.score
    if score is not None and score.ndim == 2:
        scored = score[given(reports, states)][:, [reports.labels.index(state) for state in states]]
        if not np.isfinite(scored).all():
            missing = states[int(np.argmin(np.isfinite(scored).all(0)))]
            return f"some reports have probabilities of other states and none of {missing!r}: give every state's"
    elif len(states) > 2:
        return (
            f"one score per report is read for two states, and there are {len(states)}. Give the probability of every "
            "state (one column each; --score-columns), map one state against all others (--positive STATE), or leave "
            "the scores out and use the labels"
        )
    return None


def given(reports: Reports, states: tuple[Any, ...]) -> NDArray[np.bool_]:
    """Which reports are scores of a label that names a state: [R]."""
    names_state = np.array([label in states for label in reports.labels])
    return np.asarray(reports.is_score & names_state[reports.label])


def readings(
    reports: Reports, states: tuple[Any, ...], site: NDArray[np.int64], chosen: NDArray[np.bool_]
) -> Readings | None:
    """The chosen reports on the scale of two states, or of ordered ones."""
    if reports.score is None or not chosen.any():
        return None
    return Readings(site[chosen], reports.source[chosen], _on_scale(reports, states, chosen))


def _on_scale(reports: Reports, states: tuple[Any, ...], chosen: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Log odds of the second state; of grades where on their scale a vector lies."""
    assert reports.score is not None
    if reports.score.ndim == 1:
        z = scoring.log_odds(reports.score[chosen])
        second = reports.label[chosen] == reports.labels.index(states[1])
        return np.where(second, z, -z)
    vectors = _of_states(reports, states, chosen)
    if len(states) == 2:
        return scoring.log_odds(vectors[:, 1])
    return scoring.along_scale(vectors, responses.state_scores(len(states)))


def vectors(
    reports: Reports, states: tuple[Any, ...], site: NDArray[np.int64], chosen: NDArray[np.bool_]
) -> Vectors | None:
    """The chosen reports as readings of the contrasts of states without an order."""
    if reports.score is None or not chosen.any():
        return None
    value = vector_scoring.contrasts(_of_states(reports, states, chosen), contrasts.state_scores(len(states)))
    return Vectors(site[chosen], reports.source[chosen], value)


def _of_states(reports: Reports, states: tuple[Any, ...], chosen: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Probabilities of the states alone, adding up to 1: [Q, J]."""
    assert reports.score is not None
    scored = reports.score[chosen][:, [reports.labels.index(state) for state in states]]
    total = scored.sum(1, keepdims=True)
    return np.asarray(np.where(total > 0, scored / np.where(total > 0, total, 1.0), 1.0 / len(states)))
