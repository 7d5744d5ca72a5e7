"""Which state a run is about, and a note for the user where the choice is uncertain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from crowdfield.data import Reports
from crowdfield.data.positive import Positive, decide
from crowdfield.pipeline.settings import Settings


def in_question(states: Sequence[Any], reports: Reports, settings: Settings) -> Positive:
    """The state to show first: as the settings say, else by the rule of `crowdfield.data.positive`."""
    given = settings.positive if settings.positive is not None else _read_for(settings, states)
    said = np.bincount(reports.label, minlength=len(reports.labels))
    count = dict(zip(reports.labels, said.tolist(), strict=True))
    return decide(states, [count.get(state, 0) for state in states], given)


def doubts(chosen: Positive, states: Sequence[Any]) -> list[str]:
    """A note for the user if only the order of the labels decided."""
    if chosen.sure:
        return []
    others = ", ".join(str(state) for state in states if state != chosen.state)
    return [
        f"nothing says whether this map is about {chosen.state!s} or {others}: it shows {chosen.state!s} first. "
        "Say which with --show STATE (positive= in Python)"
    ]


def _read_for(settings: Settings, states: Sequence[Any]) -> Any:
    """The label that the reader set against all others (`positive`), if it is a state."""
    given = settings.read.get("positive")
    if given is None:
        return None
    title = given if isinstance(given, str) else " or ".join(given)
    return title if title in states else None
