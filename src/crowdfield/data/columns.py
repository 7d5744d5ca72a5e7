"""Validation of the columns of reports: each becomes a read-only copy, or an error that says what is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crowdfield.errors import InputError

LARGEST_COUNT = 10_000_000  # of one report: more is a mistake, and sums of counts must stay exact


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """Make an array read-only."""
    array.setflags(write=False)
    return array


def places_of(places: ArrayLike) -> NDArray[np.float64]:
    """Give coordinates [R, D]."""
    try:
        # Adding zero copies, and makes −0.0 and 0.0, which are one place, the same bits.
        checked = np.asarray(places, dtype=np.float64) + 0.0
    except (TypeError, ValueError):
        raise InputError("places must be numbers, one row per report and one column per coordinate.") from None
    if checked.ndim != 2 or checked.shape[1] < 1:
        raise InputError(f"places must be [R, D]: one row per report, one column per coordinate; got {checked.shape}.")
    finite = np.isfinite(checked)
    if not finite.all():
        row, column = (int(i) for i in np.argwhere(~finite)[0])
        raise InputError(
            f"report {row} has coordinate {checked[row, column]} in column {column}. Leave out reports without a place."
        )
    return frozen(checked)


def times(time: ArrayLike, rows: int) -> NDArray[np.float64]:
    """Give seconds since 1970 (UTC), NaN where unknown: [R]."""
    given = np.asarray(time)
    if np.issubdtype(given.dtype, np.datetime64):
        given = np.where(np.isnat(given), np.nan, given.astype("datetime64[us]").astype(np.int64) / 1e6)
    seconds = _numbers(given, rows, "times", "time must be seconds since 1970 (UTC) or datetime64 values.")
    if np.isinf(seconds).any():
        raise InputError(
            f"report {int(np.argmax(np.isinf(seconds)))} has an infinite time. Use NaN where it is unknown."
        )
    return frozen(seconds)


def accuracies(accuracy: ArrayLike, rows: int) -> NDArray[np.float64]:
    """Give metres, NaN where unknown: [R]."""
    must_be = "accuracy must be numbers of metres, NaN where it is unknown."
    metres = _numbers(accuracy, rows, "accuracies", must_be)
    bad = np.isinf(metres) | (metres < 0)
    if bad.any():
        row = int(np.argmax(bad))
        raise InputError(f"report {row} has an accuracy of {metres[row]} metres. Use NaN where it is unknown.")
    return frozen(metres)


def whole_areas(area: ArrayLike, accuracy: NDArray[np.float64] | None, rows: int) -> NDArray[np.bool_]:
    """Give which reports are about whole areas; each needs an accuracy, which says how far its area reaches: [R]."""
    given = np.asarray(area)
    if given.dtype != np.bool_ or given.shape != (rows,):
        raise InputError(f"area must be True or False, one per report: {rows} reports, but shape {given.shape}.")
    unsaid = given & (np.isnan(accuracy) if accuracy is not None else True)
    if unsaid.any():
        raise InputError(f"report {int(np.argmax(unsaid))} is about an area and needs an accuracy: how far it reaches.")
    return frozen(given)


# The probabilities of one report must add up to 1 to within this.
SUM_TOLERANCE = 0.02


def scores(score: ArrayLike, rows: int, labels: int) -> NDArray[np.float64]:
    """Give probabilities, NaN for reports that just say their label: [R], or [R, L] with one column per label.

    Rows of vectors are made to add up to exactly 1. A column that is NaN where its row has numbers is a label that the
    vector says nothing of.
    """
    sure = _array(score, "score must be probabilities, NaN for reports that just say their label.")
    if sure.shape not in ((rows,), (rows, labels)):
        raise InputError(
            f"{rows} places but scores of shape {sure.shape}: give one per report, or one row per report with a "
            f"probability of each of the {labels} labels."
        )
    bad = (sure < 0) | (sure > 1)
    if bad.any():
        row = int(np.argwhere(bad)[0][0])
        raise InputError(f"report {row} has a score of {sure[bad][0]}. A score is a probability, between 0 and 1.")
    if sure.ndim == 2:
        total = np.nansum(sure, axis=1)
        wrong = np.isfinite(sure).any(1) & (np.abs(total - 1.0) > SUM_TOLERANCE)
        if wrong.any():
            row = int(np.argmax(wrong))
            raise InputError(f"the probabilities of report {row} add up to {total[row]:.3g}, not to 1.")
        sure /= np.where(total > 0, total, 1.0)[:, None]
    return frozen(sure)


def scored_rows(score: NDArray[np.float64] | None, rows: int) -> NDArray[np.bool_]:
    """Which reports are scores: [R]."""
    if score is None:
        return np.zeros(rows, dtype=bool)
    known = np.isfinite(score)
    return np.asarray(known.any(1) if known.ndim == 2 else known)


def aligned_scores(
    score: NDArray[np.float64] | None, label: NDArray[np.int64], labels: tuple[Any, ...], wanted: tuple[Any, ...]
) -> NDArray[np.float64]:
    """Scores of any form as vectors over the labels `wanted`, which include all of `labels`: [R, len(wanted)].

    With two labels, the probability of one gives that of the other.
    """
    out = np.full((len(label), len(wanted)), np.nan)
    if score is None:
        return out
    columns = [wanted.index(name) for name in labels]
    if score.ndim == 2:
        out[:, columns] = score
        return out
    given = np.flatnonzero(np.isfinite(score))
    if len(given) and len(labels) != 2:
        raise InputError(
            "some reports have the probability of their own label and others those of all states. They can only be "
            f"combined for two labels, and there are {len(labels)}. Give every report the probabilities of all states."
        )
    if len(given):
        own, other = np.array(columns)[label[given]], np.array(columns)[1 - label[given]]
        out[given, own], out[given, other] = score[given], 1.0 - score[given]
    return out


def counts_of(count: ArrayLike, rows: int) -> NDArray[np.int64]:
    """Give how often each row counts: [R]."""
    stated = _numbers(
        count, rows, "counts", "count must be whole numbers: how many identical reports each row stands for."
    )
    bad = ~((stated >= 1) & (stated <= LARGEST_COUNT) & (stated == np.floor(stated)))
    if bad.any():
        row = int(np.argmax(bad))
        raise InputError(
            f"report {row} has a count of {stated[row]:g}. A count is a whole number between 1 and {LARGEST_COUNT:,}."
        )
    return frozen(stated.astype(np.int64))


def _numbers(values: ArrayLike, rows: int, what: str, must_be: str) -> NDArray[np.float64]:
    """A copy of a column as numbers, one per report."""
    out = _array(values, must_be)
    if out.shape != (rows,):
        raise InputError(f"{rows} places but {what} of shape {out.shape}: give one per report.")
    return out


def _array(values: ArrayLike, must_be: str) -> NDArray[np.float64]:
    try:
        return np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(must_be) from None
