"""The table of spot checks in a report, as `crowdfield assess result` writes it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING, Any

from crowdfield.counting import share_with_interval
from crowdfield.pipeline.report.html_table import NUMBER, TEXT, note, table

if TYPE_CHECKING:
    import pandas as pd

# Estimates with intervals, and the text that heads each.
ESTIMATES = {"area": "check_area", "area_pp": "check_area_pp", "users": "check_users", "producers": "check_producers"}
COLUMNS = {"state", "mapped_share", *(f"{name}{end}" for name in ESTIMATES for end in ("", "_low", "_high"))}


def is_assessment(frame: pd.DataFrame) -> bool:
    """Whether a table is one that `crowdfield assess result` wrote."""
    return set(frame.columns) >= COLUMNS


def html(frame: pd.DataFrame, texts: Mapping[str, str]) -> str:
    """One row per state: its share as mapped and as checked, and how right and how complete the map of it is."""
    figures = [texts["check_mapped"], *(texts[text] for text in ESTIMATES.values())]
    rows = [
        [escape(str(row["state"])), f"{100 * row['mapped_share']:.0f} %", *(_estimate(row, name) for name in ESTIMATES)]
        for row in frame.to_dict("records")
    ]
    return table([(texts["check_state"], TEXT), *((name, NUMBER) for name in figures)], rows) + note(
        texts["check_note"]
    )


def _estimate(row: Mapping[Any, Any], name: str) -> str:
    value, low, high = (float(row[f"{name}{end}"]) for end in ("", "_low", "_high"))
    return share_with_interval(value, low, high) if all(map(math.isfinite, (value, low, high))) else ""
