"""Columns with the probability of every state, such as `p_intact, p_damaged, p_destroyed`: finding and reading them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdfield.data.columns import SUM_TOLERANCE
from crowdfield.errors import InputError
from crowdfield.io.column_names import canonical
from crowdfield.io.columns import NONE, is_missing, named

# What the names of such columns begin with; the rest is the name of a state.
PREFIXES = ("probability_", "proba_", "prob_", "score_", "p_")

_OF_SOMETHING = frozenset({"probability", "prob", "proba", "score", "confidence", "certainty", "likelihood", "p"})


def find(header: Sequence[str], file: str, given: str | None, samples: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """The state that each column of probabilities is about, by column; empty where there are none.

    They are the columns that the user named (`given`: names separated by commas, or state=column), else two or more
    columns whose names have one of the prefixes and whose sum is 1.
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
    if len(set(out.values())) < len(out):
        raise InputError(f"--score-columns {given}: name a column for each state once, with commas between.")
    if len(out) == 1:
        ((column, state),) = out.items()
        return with_rest(column, state)
    return out


REST = "<1 - {}>"  # the name of the column 1 − p, made if only one state has a column


def with_rest(column: str, state: str) -> dict[str, str]:
    """One column of probabilities p, and 1 − p as that of "not STATE"."""
    return {column: state, REST.format(column): f"not {state}"}


def alone(header: Sequence[str], samples: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """The only column with the name of a state's probability and numbers from 0 to 1, with its complement."""
    called = [n for n in header for p in PREFIXES if canonical(n).startswith(p) and canonical(n) != p]
    found = [name for name in dict.fromkeys(called) if are_probabilities(samples.get(name, ()))]
    return with_rest(found[0], _state(found[0])) if len(found) == 1 else {}


def unnamed(header: Sequence[str], samples: Mapping[str, Sequence[str]]) -> str | None:
    """A column with the name of a probability that does not say of which state."""
    names = [name for name in header if canonical(name) in _OF_SOMETHING]
    return next((name for name in names if are_probabilities(samples.get(name, ()))), None)


def are_probabilities(cells: Sequence[str]) -> bool:
    """Whether all cells are numbers from 0 to 1, or percentages."""
    filled = [probability(cell) for cell in cells if not is_missing(cell)]
    return len(filled) > 0 and all(0.0 <= value <= 1.0 for value in filled)


def probability(cell: str) -> float:
    """The number in a cell, which may be a percentage ("80 %"); NaN for anything else."""
    text = cell.strip().replace(",", ".")
    try:
        return float(text[:-1]) / 100.0 if text.endswith("%") else float(text)
    except ValueError:
        return float("nan")


def _state(column: str) -> str:
    """A column's name without its prefix: "p_destroyed" is about "destroyed"."""
    name = column.strip()
    prefix = next((p for p in PREFIXES if canonical(name).startswith(p)), "")
    return name[len(prefix) :].strip(" _-") or name


def _add_up(columns: Sequence[Sequence[str]]) -> bool:
    """Whether cells are probabilities, and those of a row add up to 1 as far as means of columns can tell."""
    cells = [[probability(cell) for cell in column if not is_missing(cell)] for column in columns]
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
    """Probability vectors of reports as columns of a file; the cells of reports without are empty."""
    names = [f"p_{label}" for label in reports.labels]
    return {
        name: ["" if np.isnan(sure) else round(sure, 6) for sure in column.tolist()]
        for name, column in zip(names, reports.score.T, strict=True)
        if np.isfinite(column).any()
    }
