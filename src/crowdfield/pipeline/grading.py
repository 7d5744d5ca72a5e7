"""Which states of a run are grades, and in which order (docs/grades.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from crowdfield import readings
from crowdfield.data import Reports
from crowdfield.data.grade_order import order_of
from crowdfield.data.positive import matching, named_states
from crowdfield.errors import InputError
from crowdfield.pipeline.settings import TRUST, Settings


def grades(settings: Settings, reports: Reports, states: Sequence[Any]) -> tuple[Any, ...] | None:
    """The states from the least to the worst if they are grades; None if they have no order or it is not used."""
    if not isinstance(settings.grades, str):
        return _given(settings.grades, states)
    found = order_of(states) if settings.grades == "auto" else None
    return None if found is None or why_without_order(settings, reports) else found


def with_grades(settings: Settings, reports: Reports, found: Sequence[Any] | None) -> Settings:
    """The settings with the grades that the reader recognised, if they are wanted and can be used."""
    if settings.grades != "auto" or found is None or set(found) != set(_states(settings, reports)):
        return settings
    return settings if why_without_order(settings, reports) else replace(settings, grades=tuple(found))


def _states(settings: Settings, reports: Reports) -> tuple[Any, ...]:
    return named_states(reports.labels) if settings.states is None else tuple(settings.states)


def why_without_order(settings: Settings, reports: Reports) -> str | None:
    """The setting that needs a model of unordered states; None if there is none."""
    if settings.inference != "auto":
        return f"inference={settings.inference!r} reads states without an order"
    if settings.communities is not None:
        return "communities are those of states without an order"
    if any(readings.of_source(source) for source in reports.sources):
        return "readings of areas are of states without an order"
    weak = [name for name, trust in settings.sources.items() if trust not in _STRONG]
    if weak or settings.others is not None:
        return "what is known of sources is said of states without an order"
    return "silence is evidence of two states" if settings.silence is not None else None


# Sources that are trusted like this are taken for checks, which any model can take up.
_STRONG = tuple(name for name in TRUST if name in ("certain", "high"))


def _given(order: Sequence[Any], states: Sequence[Any]) -> tuple[Any, ...]:
    try:
        found = tuple(matching(states, grade) for grade in order)
    except InputError as problem:
        raise InputError(f"grades: {problem}") from None
    if missing := [str(state) for state in states if state not in found]:
        raise InputError(
            f"grades leave out {', '.join(missing)}: name all states from the least to the worst, or leave those out "
            "with --states or --map-labels."
        )
    return found
