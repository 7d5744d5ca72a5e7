"""How good a map is, where the truth is known."""

from __future__ import annotations

from typing import Any

import numpy as np

from crowdfield import metrics
from crowdfield.data import Reports
from crowdfield.errors import InputError
from crowdfield.pipeline.fusing import Fused
from crowdfield.pipeline.tables import within


def score(fused: Fused, gold: Reports) -> dict[str, Any]:
    """Measure a map against known states: what it shows in the cell of each known place is judged.

    Parameters
    ----------
    fused : Fused
        A run.
    gold : Reports
        Known places; their labels are what is true there.

    Returns
    -------
    dict
        ``auc``, ``cross_entropy_bits``, ``calibration_error``, ``accuracy``, ``places``, ``states`` and ``notes``. A
        measure that has no meaning for these data (a ranking with one state only) is None, and ``notes`` says why.

    Examples
    --------
    With `fused` and `reports` of the example of `fuse`:

    >>> cf.pipeline.score(fused, reports)["places"]
    60
    """
    from crowdfield import geography

    states = list(fused.heatmap.states)
    known, outside = within(geography.project(gold, fused.heatmap.grid.crs), fused.heatmap.grid)
    by_text = {str(state): code for code, state in enumerate(states)}
    strange = [label for label in known.labels if str(label) not in by_text]
    if strange:
        raise InputError(
            f"the gold file speaks of {strange[0]!r}, but the map's states are {', '.join(map(repr, by_text))}. "
            "Name the column with the true state (--label), or rename what it holds (--map-labels)."
        )
    truth = np.array([by_text[str(label)] for label in known.labels])[known.label]
    shown = fused.heatmap.probability.reshape(-1, len(states))[fused.heatmap.grid.index(known.places[:, :2])]
    masked = np.isnan(shown).any(axis=1)
    if masked.all():
        raise InputError("all gold places lie where the map's mask shows nothing.")
    truth, probability = truth[~masked], shown[~masked]
    outside += int(masked.sum())
    notes = [f"{outside} gold places lie outside the map"] if outside else []
    ranked: float | None
    if len(np.unique(truth)) < 2:
        ranked = None
        notes.append("AUC needs two different true states; the gold file has one")
    else:
        ranked = metrics.auc(truth, _column(probability))
    return {
        "places": len(truth),
        "auc": ranked,
        "cross_entropy_bits": metrics.cross_entropy(truth, _column(probability)),
        "calibration_error": _calibration_error(truth, probability),
        "accuracy": float(np.mean(probability.argmax(axis=1) == truth)),
        "states": {str(state): int(np.count_nonzero(truth == code)) for code, state in enumerate(states)},
        "notes": notes,
    }


def _calibration_error(truth: np.ndarray, probability: np.ndarray) -> float:
    """With two states, that of the second; with more, the mean over the states, each against all others."""
    if probability.shape[1] == 2:
        return metrics.calibration_error(truth, probability[:, 1])
    errors = [metrics.calibration_error(truth == j, p) for j, p in enumerate(probability.T)]
    return float(np.mean(errors))


def _column(probability: np.ndarray) -> np.ndarray:
    """Two states need one number per place, more need all."""
    return probability[:, 1] if probability.shape[1] == 2 else probability
