"""Plain CSV and TSV: one report per row, columns recognised by their names."""

from __future__ import annotations

import re

from crowdfield.io import columns
from crowdfield.io.layouts import Layout, Options
from crowdfield.io.points import Plan
from crowdfield.io.tabular import Tabular

_CLOCK = re.compile(r"\s*\d{1,2}[:.]\d{2}([:.]\d{2})?\s*([AaPp][Mm])?\s*")


def plan(table: Tabular, options: Options) -> Plan:
    chosen = columns.choose(table.header, table.name, options.columns, table.samples(), tags=table.tags)
    split_date_and_clock(table, chosen, options)
    return options.plan(chosen)


def split_date_and_clock(table: Tabular, chosen: dict[str, str], options: Options) -> None:
    """Where one column has the date and another the time of day, use both."""
    if options.given("time") is not None or "time" not in chosen:
        return
    names = {columns.canonical(name): name for name in table.header}
    date, clock = names.get("date"), names.get("time")
    if date is None or clock is None:
        return
    cells = [cell for cell in table.column(clock) if cell.strip()]
    if cells and all(_CLOCK.fullmatch(cell) for cell in cells[:50]):
        del chosen["time"]
        chosen["date"], chosen["clock"] = date, clock


LAYOUT = Layout("plain", "a plain table", matches=lambda header: True, plan=plan)
