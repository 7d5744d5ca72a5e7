"""Plain CSV and TSV: one report per row, columns recognised by their names."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import pandas as pd

from crowdfield.errors import InputError, ReportFormatError
from crowdfield.io import columns, hemispheres, score_columns
from crowdfield.io.column_names import canonical
from crowdfield.io.layouts import Layout, Options
from crowdfield.io.points import Plan, probabilities
from crowdfield.io.tabular import Tabular

_CLOCK = re.compile(r"\s*\d{1,2}[:.]\d{2}([:.]\d{2})?\s*([AaPp][Mm])?\s*")


def plan(table: Tabular, options: Options) -> Plan:
    """How to read a plain table."""
    samples = table.samples()
    scores = score_columns.find(table.header, table.name, options.score_columns, samples)
    alone = score_columns.alone(table.header, samples)
    perhaps = scores or alone or score_columns.unnamed(table.header, samples)
    needed = ("lat", "lon") if perhaps else ("lat", "lon", "label")
    chosen = columns.choose(table.header, table.name, options.columns, samples, needed=needed, tags=table.tags)
    if "label" not in chosen and not scores:
        scores = alone or _ask_of_what(table, chosen, samples)
    split_date_and_clock(table, chosen, options)
    return with_scores(options, chosen, scores, samples, **_hemispheres(table, chosen, samples))


def _ask_of_what(table: Tabular, chosen: dict[str, str], samples: Mapping[str, Sequence[str]]) -> NoReturn:
    """The error for a table without labels whose only column of probabilities does not say of which state they are."""
    free = [name for name in table.header if name not in chosen.values()]
    if (column := score_columns.unnamed(free, samples)) is None:
        raise columns.missing_error(["label"], table.header, table.name, line=1)
    raise ReportFormatError(
        "may be the probability of a state, but its name does not say which, and there is no column of labels.",
        advice=f"--score-columns 'STATE={column}' names the state.",
        file=table.name,
        line=1,
        column=column,
    )


def _hemispheres(table: Tabular, chosen: dict[str, str], samples: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """The `prepare` function for hemispheres in separate columns; nothing if there are no such columns."""
    if not {"lat", "lon"} <= chosen.keys():
        return {}
    found: dict[str, str | None] = {
        **hemispheres.in_names(chosen, samples),
        **hemispheres.find(table.header, samples, tuple(chosen.values())),
    }
    return (
        {
            "prepare": hemispheres.signing(chosen, found),
            "extra_columns": tuple(letters for letters in found.values() if letters is not None),
            "made": {role: f"<{role}>" for role in found},
            "shown": {
                role: chosen[role] if letters is None else f"{chosen[role]} and {letters}"
                for role, letters in found.items()
            },
        }
        if found
        else {}
    )


def with_scores(
    options: Options,
    chosen: dict[str, str],
    scores: dict[str, str],
    samples: Mapping[str, Sequence[str]],
    **more: Any,
) -> Plan:
    """The plan with columns of probabilities, if there are any; rows without a label get the most probable state."""
    if not scores:
        return options.plan(chosen, **more)
    if "score" in chosen:
        raise InputError(
            "--score is the probability of a report's own label, --score-columns of all states: use only one of them."
        )
    shown = {"score": ", ".join(name for name in scores if name[0] != "<")} | (
        {} if "label" in chosen else {"label": "the most probable score"}
    )
    more["shown"] = more.get("shown", {}) | shown
    spelt = score_columns.spelt_as_labels(scores, samples.get(chosen.get("label", ""), ()))
    if made := [name for name in scores if name.startswith("<")]:
        more["prepare"] = _and_rest(next(iter(scores)), made[0], more.get("prepare"))
    return options.plan(chosen, scores=spelt, **more)


def _and_rest(
    column: str, rest: str, first: Callable[[pd.DataFrame], pd.DataFrame] | None
) -> Callable[[pd.DataFrame], pd.DataFrame]:
    """A `prepare` function that adds the column 1 − p for a column of probabilities p, after another `prepare`."""

    def prepare(frame: pd.DataFrame) -> pd.DataFrame:
        frame = frame if first is None else first(frame)
        return frame.assign(**{rest: 1.0 - probabilities(frame[column])})

    return prepare


def split_date_and_clock(table: Tabular, chosen: dict[str, str], options: Options) -> None:
    """Use both columns if one has the date and another the time of day."""
    if options.given("time") is not None or "time" not in chosen:
        return
    names = {canonical(name): name for name in table.header}
    date, clock = names.get("date"), names.get("time")
    if date is None or clock is None:
        return
    cells = [cell for cell in table.column(clock) if cell.strip()]
    if cells and all(_CLOCK.fullmatch(cell) for cell in cells[:50]):
        del chosen["time"]
        chosen["date"], chosen["clock"] = date, clock


LAYOUT = Layout("plain", "a plain table", matches=lambda header: True, plan=plan)
