"""The table of districts in a report: of all columns of `crowdfield totals`, those needed for decisions."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from html import escape
from typing import TYPE_CHECKING, Any

from crowdfield.counting import amount_with_interval, share_with_interval
from crowdfield.models.totals import AT_LEAST
from crowdfield.pipeline.report.html_table import NUMBER, TEXT, note, table
from crowdfield.pipeline.totals import in_words

if TYPE_CHECKING:
    import pandas as pd

MOST_ROWS = 60
_ABOVE = re.compile(r"probability_above_([\d.]+)_")


def is_totals(frame: pd.DataFrame, state: str) -> bool:
    """Whether a table is one of `crowdfield totals` that holds this state."""
    return {"area", *(f"share_{end}{state}" for end in ("", "low_", "high_"))} <= set(frame.columns)


def html(frame: pd.DataFrame, state: str, texts: Mapping[str, str]) -> str:
    """One row per district: share and amount of a state with their intervals, what nobody knows, reports, remarks."""
    unit = frame.attrs.get("unit")
    amount = texts["district_amount"] + (f" ({unit})" if unit else "")
    heads = [texts["district_share"].format(state=state), amount]
    above = [
        (name, found[1]) for name in frame.columns if (found := _ABOVE.match(name)) and name == f"{found[0]}{state}"
    ]
    heads += [texts["district_above"].format(share=_percent(float(value))) for _, value in above]
    graded = [str(name).removeprefix("share_") for name in frame.columns if str(name).startswith(f"share_{AT_LEAST}")]
    heads += [texts["district_share"].format(state=in_words(name)) for name in graded]
    heads += [texts["district_unknown"], texts["district_reports"]]
    rows = []
    for row in frame.head(MOST_ROWS).to_dict("records"):
        cells = [
            _between(row, "share", state, share_with_interval),
            _between(row, "amount", state, amount_with_interval),
            *(_percent(row[name]) for name, _ in above),
            *(_between(row, "share", name, share_with_interval) for name in graded),
            _percent(row.get("unknown_share")),
            "" if _missing(row.get("reports")) else f"{row['reports']:,.0f}",
        ]
        said = row.get("note")
        remark = f'<br><span class="faint">{escape(said)}</span>' if isinstance(said, str) and said else ""
        rows.append([escape(str(row["area"])) + remark, *(escape(cell) for cell in cells)])
    more = note(f"… {len(frame) - MOST_ROWS:,}") if len(frame) > MOST_ROWS else ""
    level = frame.attrs.get("level")
    intervals = texts["district_intervals"] if level is None else texts["district_level"].format(level=_percent(level))
    shown = table([(texts["district"], TEXT), *((name, NUMBER) for name in heads)], rows)
    return shown + more + note(intervals)


def _between(row: Mapping[Any, Any], what: str, state: Any, shown: Callable[[float, float, float], str]) -> str:
    figures = [row.get(f"{what}_{end}{state}") for end in ("", "low_", "high_")]
    # A district without a share lies outside the map: it has no amount either.
    if any(_missing(value) for value in (*figures, row.get(f"share_{state}"))):
        return ""
    return shown(*(float(value) for value in figures if value is not None))


def _missing(value: Any) -> bool:
    return value is None or isinstance(value, str) or not math.isfinite(float(value))


def _percent(value: Any) -> str:
    return "" if _missing(value) else f"{100 * float(value):.0f} %"
