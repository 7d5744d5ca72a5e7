"""MapSwipe: aggregated results, with a count for each answer of a task, and full ones, with who said what.

A count of five is five reports. Where the volunteers are named, each of them is a source.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crowdfield.errors import ReportFormatError
from crowdfield.geography import within
from crowdfield.io import columns
from crowdfield.io.collect import Batch
from crowdfield.io.features.shapes import from_wkt
from crowdfield.io.layouts import Layout, Options
from crowdfield.io.opening import Progress
from crowdfield.io.points import Plan
from crowdfield.io.rejects import Refusal
from crowdfield.io.tabular import Tabular

ANSWERS = {"0_count": "no", "1_count": "yes", "2_count": "maybe"}
# "Bad imagery" (3_count) says that nothing could be seen: it is not a report about the ground.
RESULTS = {"0": "no", "1": "yes", "2": "maybe"}
BAD_IMAGERY = "3"
# A task is shown to some ten people; a count of millions is a mistake, or made to fill the memory.
MOST_VOTES = 1_000
_BATCH = 20_000  # reports


def is_mapswipe(header: Sequence[str]) -> bool:
    """Whether a header has MapSwipe's counts of answers."""
    names = {name.strip().lower() for name in header}
    return {"0_count", "1_count"} <= names and bool(names & {"geom", "geometry", "task_id"})


_CHECKED = re.compile(r"final|reference|truth|true|gold|expert|ground|verified", re.IGNORECASE)


def checked_column(header: Sequence[str]) -> str | None:
    """A column that holds somebody's checked answer: then the counts may be that person's, and not the volunteers'."""
    return next((name for name in header if _CHECKED.search(name)), None)


def in_doubt(column: str, file: str) -> ReportFormatError:
    """The error for a file that also has a column of checked answers."""
    return ReportFormatError(
        f"has MapSwipe's counts and also '{column}', which looks like a checked answer. It is not clear which of them "
        "are the reports.",
        advice="--format mapswipe reads the counts as votes; "
        f"--label '{column}' --polygons inner-point reads that column.",
        file=file,
        choices={"format": ["mapswipe"], "label": [column]},
    )


_OTHER_ANSWER = re.compile(r"(?:[4-9]|[1-9]\d)_count")


def refuse_own_answers(header: Sequence[str], file: str) -> None:
    """It is an error if a project has more than MapSwipe's four answers: then all of them may mean something else."""
    own = [name for name in header if _OTHER_ANSWER.fullmatch(name.strip().lower())]
    if own:
        raise ReportFormatError(
            f"counts further answers ({columns.some(own)}), so the project has answers of its own, and the file does "
            "not say what they mean.",
            advice="--format mapswipe reads 0 as no, 1 as yes, 2 as maybe, and leaves out all others.",
            file=file,
            choices={"format": ["mapswipe"]},
        )


def plan(table: Tabular, options: Options) -> Plan:
    """How to read aggregated or full results."""
    options.refuse("label", "MapSwipe's answers are its labels")
    lower = {name.strip().lower(): name for name in table.header}
    chosen = {"id": next((lower[key] for key in ("task_id", "idx") if key in lower), "")}
    geometry = next((lower[key] for key in ("geom", "geometry", "wkt") if key in lower), None)
    if geometry is not None:
        chosen["geometry"] = geometry
    else:
        for role in ("lat", "lon"):
            chosen[role] = options.given(role) or columns.find(role, table.header) or ""
        missing = [role for role in ("lat", "lon") if not chosen[role]]
        if missing:
            raise columns.missing_error(missing, table.header, table.name, line=1)
    if not chosen["id"]:
        del chosen["id"]
    chosen |= {answer: lower[key] for key, answer in ANSWERS.items() if key in lower}
    return options.plan(chosen)


def batches(table: Tabular, plan: Plan, options: Options, progress: Progress | None) -> Iterator[Batch]:
    """The votes of aggregated results, in batches of reports."""
    found = Votes()
    for number, _, cells in table.rows(progress=progress):
        found.add(number, cells, plan, options)
        if len(found) >= _BATCH:
            yield found.batch()
            found = Votes()
    yield found.batch()


class Votes:
    """The votes of some tasks, one entry per vote."""

    def __init__(self) -> None:
        self.rows = 0
        self._row: list[int] = []
        self._place: list[tuple[float, float]] = []
        self._label: list[str] = []
        self._id: list[str | None] = []
        self._refused: list[Refusal] = []

    def __len__(self) -> int:
        return len(self._row) + len(self._refused)

    def add(self, number: int, cells: Mapping[str, str], plan: Plan, options: Options) -> None:
        self.rows += 1
        try:
            place = _place(cells, plan)
            votes = {
                answer: _count(cells, plan.columns[answer]) for answer in ANSWERS.values() if answer in plan.columns
            }
        except _Refused as refused:
            self._refused.append(Refusal(number, *refused.args))
            return
        if options.region is not None and not within(options.region, *place):
            self._refused.append(Refusal(number, "", "lies outside the region."))
            return
        total = sum(votes.values())
        if total == 0:
            self._refused.append(Refusal(number, "", "has no votes, or all of them say that the imagery is bad."))
            return
        name = cells.get(plan.columns.get("id", ""), "").strip() or None
        for answer, count in votes.items():
            self._row += [number] * count
            self._place += [place] * count
            self._label += [answer] * count
            self._id += [name] * count

    def batch(self) -> Batch:
        places = np.array(self._place, dtype=np.float64).reshape(-1, 2)
        return Batch(
            rows=self.rows,
            row=np.array(self._row, dtype=np.int64),
            lon=places[:, 0],
            lat=places[:, 1],
            label=np.array(self._label, dtype=object),
            # Votes come without their voters, so all volunteers are one source.
            source=np.full(len(self._row), "volunteers", dtype=object),
            id=np.array(self._id, dtype=object),
            refused=self._refused,
        )


class _Refused(Exception):
    """(column, reason)"""


def _place(cells: Mapping[str, str], plan: Plan) -> tuple[float, float]:
    name = plan.columns.get("geometry")
    if name is None:
        try:
            lon, lat = (float(cells.get(plan.columns[role], "")) for role in ("lon", "lat"))
        except ValueError:
            raise _Refused(plan.columns["lat"], "its coordinates are not numbers.") from None
    else:
        shape = from_wkt(cells.get(name) or "")
        if shape is None:
            raise _Refused(name, "its geometry is not WKT.")
        if shape.is_empty:
            raise _Refused(name, "its geometry is empty.")
        lon, lat = shape.centroid.x, shape.centroid.y
    if not (abs(lat) <= 90 and abs(lon) <= 180):
        raise _Refused(name or plan.columns["lat"], f"({lon:g}, {lat:g}) is not a longitude and latitude.")
    return lon, lat


def _count(cells: Mapping[str, Any], column: str) -> int:
    text = str(cells.get(column, "")).strip()
    try:
        number = float(text or 0)
    except ValueError:
        raise _Refused(column, f"'{text[:40]}' is not a count.") from None
    if not (0 <= number <= MOST_VOTES and number == int(number)):
        raise _Refused(column, f"'{text[:40]}' is not a count between 0 and {MOST_VOTES:,}.")
    return int(number)


def _full(table: Tabular, options: Options) -> Plan:
    """One row per answer. Its place is that of the map tile that the task is named after: zoom-column-row."""
    for role in ("lat", "lon", "label"):
        options.refuse(role, "MapSwipe's tasks and answers are its places and labels")
    lower = {name.strip().lower(): name for name in table.header}
    task, result = lower["task_id"], lower["result"]
    given = {role: name for role, name in options.columns.items() if name is not None}
    chosen = {role: columns.named(role, name, table.header, table.name) for role, name in given.items()}
    chosen.setdefault("source", lower["user_id"])
    if "timestamp" in lower:
        chosen.setdefault("time", lower["timestamp"])

    def prepare(frame: pd.DataFrame) -> pd.DataFrame:
        said = frame[result].astype(object).fillna("").astype(str).str.strip().str.removesuffix(".0")
        lon, lat = tile_middles(frame[task].astype(object).fillna("").astype(str))
        made: dict[str, Any] = {"<label>": said.map(RESULTS), "<lon>": lon, "<lat>": lat, "<said>": said}
        return frame.assign(**made)

    def refuse(frame: pd.DataFrame) -> Mapping[int, tuple[str, str]]:
        why: dict[int, tuple[str, str]] = {}
        nowhere, unsaid = frame["<lat>"].isna().to_numpy(), frame["<label>"].isna().to_numpy()
        for at in np.flatnonzero(nowhere | unsaid).tolist():
            said = str(frame["<said>"].iloc[at])
            if nowhere[at]:
                why[at] = (task, "is not a map tile (zoom-column-row), so it has no place.")
            elif said == BAD_IMAGERY:
                why[at] = (result, "says 'bad imagery': nothing about the ground.")
            else:
                why[at] = (result, f"'{said[:40]}' is not an answer: 0 no, 1 yes, 2 maybe, 3 bad imagery.")
        return why

    made = {"lat": "<lat>", "lon": "<lon>", "label": "<label>"}
    shown = {"lat": task, "lon": task, "label": result}
    return options.plan(chosen, made=made, shown=shown, prepare=prepare, refuse=refuse, extra_columns=(task, result))


def tile_middles(names: pd.Series[str]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(longitude, latitude) in the middle of web map tiles named like 18-1205-870; NaN where a name is none."""
    parts = names.str.strip().str.extract(r"^(\d{1,2})-(\d{1,9})-(\d{1,9})$").astype(np.float64).to_numpy()
    across = 2.0 ** parts[:, 0]
    parts[~(parts[:, 1:].max(axis=1) < across)] = np.nan
    lon = (parts[:, 1] + 0.5) / across * 360.0 - 180.0
    lat = np.degrees(np.arctan(np.sinh(np.pi * (1.0 - 2.0 * (parts[:, 2] + 0.5) / across))))
    return lon, lat


def _is_full(header: Sequence[str]) -> bool:
    return {"task_id", "user_id", "result"} <= {name.strip().lower() for name in header}


FULL = Layout(
    "mapswipe-results",
    "MapSwipe full results",
    matches=_is_full,
    plan=_full,
    states=("no", "yes"),
    notes=("each answer is placed in the middle of its map tile; 'bad imagery' is not a report",),
)
LAYOUT = Layout(
    "mapswipe",
    "MapSwipe aggregated results",
    matches=is_mapswipe,
    plan=plan,
    batches=batches,
    states=("no", "yes"),
    notes=("each count is as many reports, placed in the middle of its task; 'bad imagery' is not a report",),
)
