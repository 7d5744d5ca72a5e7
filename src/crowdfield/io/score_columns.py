"""Columns with the probability of every state, `p_intact, p_damaged, p_destroyed`: which they are, what they say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdfield.data.columns import SUM_TOLERANCE
from crowdfield.errors import InputError
from crowdfield.io.columns import NONE, canonical, is_missing, named

# What the names of such columns begin with; the rest is the name of a state.
PREFIXES = ("probability_", "proba_", "prob_", "score_", "p_")


def find(header: Sequence[str], file: str, given: str | None, samples: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """The state that each column of probabilities is about, by column; empty where there are none.

    They are those that were named (`given`: names with commas between them, or state=column), else two or more whose
    names have one of the prefixes and whose numbers add up to 1.
    """
    if given is not None and given.strip() == NONE and NONE not in header:
        return {}
    if given is not None:
        return _named(header, file, given)
    for prefix in PREFIXES:
        found = [name for name in header if canonical(name).startswith(prefix) and canonical(name) != prefix]
        if len(found) > 1 and _add_up([samples.get(name, ()) for name in found]):
            return {name: _state(name) for name in found}
    return {}


def _named(header: Sequence[str], file: str, given: str) -> dict[str, str]:
    out: dict[str, str] = {}
    for part in given.split(","):
        state, equals, column = part.partition("=")
        column = named("probabilities", (column if equals else state).strip(), header, file)
        out[column] = state.strip() if equals else _state(column)
    if len(out) < 2 or len(set(out.values())) < len(out):
        raise InputError(f"--score-columns {given}: name a column for each state, two at least, with commas between.")
    return out


def _state(column: str) -> str:
    """A column's name without its prefix: "p_destroyed" is about "destroyed"."""
    name = column.strip()
    prefix = next((p for p in PREFIXES if canonical(name).startswith(p)), "")
    return name[len(prefix) :].strip(" _-") or name


def _add_up(columns: Sequence[Sequence[str]]) -> bool:
    """Whether cells are probabilities, and those of a row add up to 1 as far as means of columns can tell."""
    try:
        cells = [[float(cell) for cell in column if not is_missing(cell)] for column in columns]
    except ValueError:
        return False
    if not all(cells) or len({len(column) for column in cells}) > 1:
        return False
    if not all(0.0 <= cell <= 1.0 for column in cells for cell in column):
        return False
    return abs(sum(sum(column) / len(column) for column in cells) - 1.0) <= SUM_TOLERANCE


def spelt_as_labels(states: Mapping[str, str], labels: Sequence[str]) -> dict[str, str]:
    """States with the spelling that a column of labels has: "not_damaged" is the label "not damaged"."""
    known = {canonical(label): label.strip() for label in labels if not is_missing(label)}
    return {column: known.get(canonical(state), state) for column, state in states.items()}


def by_label(stated: NDArray[np.float64], codes: NDArray[np.int64], labels: int) -> NDArray[np.float64]:
    """Probabilities [n, K] of states as those of labels [n, L]; codes [K]: the label that each state becomes, or −1.
    Those of every report's own label [n] stay what they are.

    States that become one label add up. One that is left out takes its share with it.
    """
    if stated.ndim == 1:
        return stated
    out = np.full((len(stated), labels), np.nan)
    for code in np.unique(codes[codes >= 0]):
        out[:, code] = stated[:, codes == code].sum(axis=1)
    total = np.nansum(out, axis=1, keepdims=True)
    return np.asarray(np.where(total > 0, out / np.where(total > 0, total, 1.0), np.nan))


def columns_of(reports: Any) -> dict[str, list[Any]]:
    """Vectors of reports as columns of a file; empty cells where a report just says its label."""
    names = [f"p_{label}" for label in reports.labels]
    return {
        name: ["" if np.isnan(sure) else round(sure, 6) for sure in column.tolist()]
        for name, column in zip(names, reports.score.T, strict=True)
        if np.isfinite(column).any()
    }
