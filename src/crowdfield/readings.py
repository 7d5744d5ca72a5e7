"""Readings of areas: "some of it", "most of it", "all of it".

A reading is the question that a report about a whole tile or village answers. Whoever says that some of it is flooded
says little about most of it, and whoever saw nothing in the whole image says much. So a source with another reading is
another source, which starts from what such answers are worth about the area's average; the rest is learned from its
reports (docs/accuracy.md). A report about an area stays one report.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from crowdfield.data import Reports
from crowdfield.errors import InputError

__all__ = ["PRIORS", "READINGS", "priors", "with_readings"]

MOST = "most"
READINGS = ("some", MOST, "all")
# Pseudo-counts [state of most of the area, label], the state in question second. "Some of it": said of nearly every
# area that is mostly so, and of half of the others; "all of it": the other way round. A start, about as firm as ten
# checked areas; what a reading is worth is learned.
PRIORS = {"some": ((5.0, 5.0), (1.0, 9.0)), "all": ((9.0, 1.0), (5.0, 5.0))}
# With three and more states: the pseudo-counts of an answer that names neither the state of most of the area nor the
# state in question, all such labels together. They are taken from those of the right one.
MISTAKEN = 1.0
_ENDINGS = {reading: f" ({reading} of it)" for reading in PRIORS}


def with_readings(reports: Reports, reading: str | ArrayLike) -> Reports:
    """The reports with a separate source for each reading.

    Parameters
    ----------
    reports : Reports
        Reports about areas.
    reading : {"some", "most", "all"}, or array_like [R] of these
        What each report says of its area. "most" is how areas are read without a reading.

    Returns
    -------
    Reports
        Sources that answered about some or all of an area have names that say so.

    Examples
    --------
    >>> import crowdfield as cf
    >>> tiles = cf.Reports.from_arrays([[0, 0], [5, 0]], ["dry", "wet"], ["ann", "ann"], accuracy=[900, 900])
    >>> cf.readings.with_readings(tiles, ["some", "most"]).sources
    ('ann', 'ann (some of it)')
    """
    stated = np.asarray(reading, dtype=object)
    each = [str(stated)] * len(reports) if stated.ndim == 0 else [str(word) for word in stated]
    if len(each) != len(reports):
        raise InputError(f"{len(reports)} reports but {len(each)} readings: give one per report.")
    for row, word in enumerate(each):
        if word not in READINGS:
            raise InputError(f"report {row} has the reading {word!r}. It can be {', '.join(READINGS)}.")
    who = [named(reports.sources[s], word) for s, word in zip(reports.source, each, strict=True)]
    sources = sorted(set(who), key=str)
    code = {name: number for number, name in enumerate(sources)}
    return replace(reports, source=np.array([code[name] for name in who], dtype=np.int64), sources=tuple(sources))


def named(source: Any, reading: str) -> Any:
    """The name of a source with a reading; of "most of it" its own."""
    return f"{source}{_ENDINGS[reading]}" if reading in _ENDINGS else source


def of_source(source: Any) -> str | None:
    """The reading that the name of a source says; None for "most of it", and for points."""
    return next((reading for reading, ending in _ENDINGS.items() if str(source).endswith(ending)), None)


def priors(
    sources: Sequence[Hashable], states: Sequence[Hashable], labels: Sequence[Hashable], positive: Hashable
) -> dict[Hashable, list[list[float]]]:
    """Pseudo-counts that sources with a reading start from, for `HeatmapBCC(confusion_prior=...)`.

    Parameters
    ----------
    sources, states, labels : sequence
        As the model has them. Every label must name a state.
    positive : label
        The state in question: "some of it" is some of it in this state. Whoever says another state says that none of
        the area ("some") or not all of it ("all") is in the state in question, and what most of the rest is.

    Returns
    -------
    dict
        By source: one row per state and one column per label. Empty where no source has a reading.

    Examples
    --------
    >>> import crowdfield as cf
    >>> cf.readings.priors(["ann", "ann (some of it)"], ["dry", "wet"], ["dry", "wet"], "wet")
    {'ann (some of it)': [[5.0, 5.0], [1.0, 9.0]]}
    """
    found = {source: reading for source in sources if (reading := of_source(source)) is not None}
    if not found:
        return {}
    check_labels(states, labels)
    return {source: _pseudo_counts(reading, states, labels, positive) for source, reading in found.items()}


def check_labels(states: Sequence[Any], labels: Sequence[Any]) -> None:
    """An error where a label names no state: "some of it is unclear" says nothing about most of it."""
    missing = [label for label in labels if label not in set(states)]
    if missing:
        raise InputError(
            f"the label {missing[0]!r} is not a state, so that {missing[0]!r} of some or all of an area has no clear "
            f"meaning. Leave these rows out, rename the label with --map-labels, or leave out --reading."
        )


def _pseudo_counts(reading: str, states: Sequence[Any], labels: Sequence[Any], positive: Any) -> list[list[float]]:
    """Of one source: one row per state, one column per label."""
    (others, other_positive), (positive_other, positive_positive) = PRIORS[reading]
    n_others = max(len(states) - 1, 1)
    out = np.zeros((len(states), len(labels)))
    for row, state in enumerate(states):
        for column, label in enumerate(labels):
            if state == positive:
                out[row, column] = positive_positive if label == positive else positive_other / n_others
            elif label == positive:
                out[row, column] = other_positive
            elif n_others == 1:
                out[row, column] = others
            else:
                out[row, column] = others - MISTAKEN if label == state else MISTAKEN / (n_others - 1)
    return out.tolist()
