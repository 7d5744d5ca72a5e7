"""The U.S. Geological Survey's "Did You Feel It?": cells with a mean intensity and the number of people it is of."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from crowdfield.io import columns
from crowdfield.io.column_names import canonical
from crowdfield.io.layouts import Layout, Options
from crowdfield.io.points import Plan, numbers
from crowdfield.io.tabular import Tabular

TITLE = "“Did You Feel It?” of the USGS"
NOTE = (
    "each answer is a report of its cell's mean intensity of shaking (CDI, from 1 to 12), rounded to a whole grade, in "
    "the middle of the cell"
)
# The survey's own words for its grades; the last one is for all that are higher.
SHAKING = (
    "not felt", "weak shaking", "weak shaking", "light shaking", "moderate shaking", "strong shaking",
    "very strong shaking", "severe shaking", "violent shaking", "extreme shaking",
)  # fmt: skip
_INTENSITY, _ANSWERS = ("intensity", "cdi"), ("nresp", "no_of_responses")
_GEOMETRY = "the geometry"


def _column(header: Sequence[str], wanted: Sequence[str]) -> str | None:
    names = {canonical(name): name for name in header}
    return next((names[name] for name in wanted if name in names), None)


def _named(grade: int) -> str:
    """A grade as people read it: "intensity 4: light shaking"."""
    return f"intensity {grade}: {SHAKING[min(max(grade, 1), len(SHAKING)) - 1]}"


def matches(header: Sequence[str]) -> bool:
    """Whether a header is that of the survey."""
    return _column(header, _INTENSITY) is not None and _column(header, _ANSWERS) is not None


def plan(header: Sequence[str], file: str, options: Options, places: dict[str, str]) -> Plan:
    """One row per cell; its grade is made from the mean intensity. places: the columns of latitude and longitude."""
    intensity, answers = _column(header, _INTENSITY), _column(header, _ANSWERS)
    assert intensity is not None and answers is not None, "matches() has found both"
    chosen = dict(places)
    stated = options.given("count")
    if stated != columns.NONE:
        chosen["count"] = answers if stated is None else columns.named("count", stated, header, file)

    def prepare(frame: pd.DataFrame) -> pd.DataFrame:
        grade = np.floor(numbers(frame[intensity]) + 0.5)
        text = ["" if not np.isfinite(value) else _named(int(value)) for value in grade.tolist()]
        return frame.assign(**{"<label>": text})

    shown = {"label": f"{intensity}, rounded"}
    shown |= {role: _GEOMETRY for role, name in places.items() if name not in header}
    return options.plan(chosen, made={"label": "<label>"}, shown=shown, prepare=prepare, extra_columns=(intensity,))


def _table_matches(header: Sequence[str]) -> bool:
    """The text files of the survey, cdi_geo.txt and cdi_zip.txt, name their coordinates too."""
    return matches(header) and all(columns.find(role, header) is not None for role in ("lat", "lon"))


def _table_plan(table: Tabular, options: Options) -> Plan:
    found = {role: options.given(role) or columns.find(role, table.header) or "" for role in ("lat", "lon")}
    named = {role: columns.named(role, name, table.header, table.name) for role, name in found.items()}
    if (label := options.given("label")) is not None:
        return options.plan(named | {"label": columns.named("label", label, table.header, table.name)})
    return plan(table.header, table.name, options, named)


LAYOUT = Layout("dyfi", TITLE, matches=_table_matches, plan=_table_plan, notes=(NOTE,))
