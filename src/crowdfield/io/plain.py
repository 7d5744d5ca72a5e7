"""Plain CSV and TSV: one report per row, columns recognised by their names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from crowdfield.errors import InputError
from crowdfield.io import columns, score_columns
from crowdfield.io.layouts import Layout, Options
from crowdfield.io.points import Plan
from crowdfield.io.tabular import Tabular

_CLOCK = re.compile(r"\s*\d{1,2}[:.]\d{2}([:.]\d{2})?\s*([AaPp][Mm])?\s*")


def plan(table: Tabular, options: Options) -> Plan:
    samples = table.samples()
    scores = score_columns.find(table.header, table.name, options.score_columns, samples)
    needed = ("lat", "lon") if scores else ("lat", "lon", "label")
    chosen = columns.choose(table.header, table.name, options.columns, samples, needed=needed, tags=table.tags)
    split_date_and_clock(table, chosen, options)
    return with_scores(options, chosen, scores, samples)


def with_scores(
    options: Options,
    chosen: dict[str, str],
    scores: dict[str, str],
    samples: Mapping[str, Sequence[str]],
    **more: Any,
) -> Plan:
    """A plan with columns of probabilities, where there are any; the most probable state is the label of rows that
    have none.
    """
    if not scores:
        return options.plan(chosen, **more)
    if "score" in chosen:
        raise InputError(
            "--score is how sure a report is of its label, --score-columns are all states: use one of them."
        )
    shown = {"score": ", ".join(scores)} | ({} if "label" in chosen else {"label": "the most probable score"})
    more["shown"] = more.get("shown", {}) | shown
    spelt = score_columns.spelt_as_labels(scores, samples.get(chosen.get("label", ""), ()))
    return options.plan(chosen, scores=spelt, **more)


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
