"""Zooniverse classifications: marks on images become places through the corners of the image.

A volunteer who draws nothing has seen nothing: that is a negative report for every cell that the image covers.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from crowdfield import geography
from crowdfield.io import systems
from crowdfield.io.collect import Batch
from crowdfield.io.columns import named
from crowdfield.io.layouts import Layout, Options
from crowdfield.io.opening import Progress
from crowdfield.io.points import Plan
from crowdfield.io.rejects import Refusal
from crowdfield.io.tabular import Tabular
from crowdfield.io.times import Times
from crowdfield.io.zooniverse_questions import Label, answers, find_label, is_chosen

NOTHING = "nothing"
TILES = 4  # an image without marks has this many cells per side, unless a cell's size is given
MOST_TILES = 200
_BATCH = 5_000
_NEEDED = ("annotations", "subject_data")
_NO = re.compile(r"(?:no|none|nothing)\b", re.IGNORECASE)


class Box(NamedTuple):
    """An image on the ground, in the units of ``crs``."""

    west: float
    east: float
    south: float
    north: float
    crs: str

    @property
    def is_point(self) -> bool:
        """Whether only the subject's place is known, and not how far its image reaches."""
        return self.west == self.east and self.south == self.north


class _Refused(Exception):
    """(column, reason)"""


def plan(table: Tabular, options: Options) -> Plan:
    """How to read classifications."""
    for role in ("lat", "lon"):
        options.refuse(role, "the marks and images of Zooniverse have places of their own")
    lower = {name.strip().lower(): name for name in table.header}
    chosen = {"annotations": lower["annotations"], "subject": lower["subject_data"]}
    who = (("id", "classification_id"), ("source", "user_name"), ("user_id", "user_id"), ("user_ip", "user_ip"))
    for role, key in (*who, ("time", "created_at"), ("metadata", "metadata")):
        if key in lower:
            chosen[role] = lower[key]
    if (source := options.given("source")) is not None:
        chosen["source"] = named("source", source, table.header, table.name)
    label = _label(table, chosen["annotations"], options)
    shown = {} if label is None else {"label": label.task if label.answer is None else f"{label.task}: {label.answer}"}
    return options.plan(chosen, shown=shown)


def _label(table: Tabular, column: str, options: Options) -> Label | None:
    """The question, or the answer to one, that is the label; None if volunteers mark or name what they see."""
    rows = []
    for cell in table.column(column):
        try:
            tasks = _flat(_json({column: cell}, column, list))
        except _Refused:
            continue
        if any(isinstance(task, dict) and _marks(task) for task in tasks) or _identified(tasks):
            options.refuse("label", "volunteers mark or name what they see, and these are its labels")
            return None
        rows.append(answers(tasks))
    return find_label(rows, options.given("label"), table.name)


def batches(table: Tabular, plan: Plan, options: Options, progress: Progress | None) -> Iterator[Batch]:
    """The marks and answers, in batches of reports."""
    label = _label(table, plan.columns["annotations"], options)
    found = _Marks(table.name, plan, options, label)
    for number, _, cells in table.rows(progress=progress):
        found.add(number, cells)
        if found.rows >= _BATCH:
            yield found.batch()
            found = _Marks(table.name, plan, options, label)
    yield found.batch()


class _Marks:
    """What some classifications say, one entry per mark or per empty cell."""

    def __init__(self, file: str, plan: Plan, options: Options, asked: Label | None) -> None:
        self.rows = 0
        self._asked = asked  # the question that is the label; None in a file of marks
        self._file, self._columns, self._options = file, plan.columns, options
        self._row: list[int] = []
        self._place: list[tuple[float, float]] = []
        self._label: list[str] = []
        self._about: list[tuple[str, str, str]] = []  # source, id, time of each entry
        self._refused: list[Refusal] = []

    def add(self, number: int, cells: Mapping[str, str]) -> None:
        self.rows += 1
        try:
            reports = self._reports(cells)
        except _Refused as refused:
            self._refused.append(Refusal(number, *refused.args))
            return
        region = self._options.region
        if region is not None:
            reports = [(place, label) for place, label in reports if geography.within(region, *place)]
        if not reports:
            self._refused.append(Refusal(number, "", "lies outside the region."))
            return
        who = self._source(cells)
        about = (
            who,
            cells.get(self._columns.get("id", ""), "").strip(),
            cells.get(self._columns.get("time", ""), "").strip(),
        )
        for place, label in reports:
            self._row.append(number)
            self._place.append(place)
            self._label.append(label)
            self._about.append(about)

    def batch(self) -> Batch:
        import pandas as pd

        places = np.array(self._place, dtype=np.float64).reshape(-1, 2)
        source, ids, when = (np.array([a[i] for a in self._about], dtype=object) for i in range(3))
        rows = np.array(self._row, dtype=np.int64)
        times = Times(self._file, self._columns.get("time", ""))
        times.add(pd.Series(when, dtype=object), rows)
        return Batch(
            rows=self.rows,
            row=rows,
            lon=places[:, 0],
            lat=places[:, 1],
            label=np.array(self._label, dtype=object),
            source=source,
            time=times.seconds(lambda row: None) if len(rows) else np.empty(0),
            id=np.array([name or None for name in ids.tolist()], dtype=object),
            refused=self._refused,
        )

    def _source(self, cells: Mapping[str, str]) -> str:
        # People who are not logged in have no number, and a name that is new in each export.
        names = (cells.get(self._columns.get(role, ""), "").strip() for role in ("source", "user_id", "user_ip"))
        return next((name for name in names if name), "unknown")

    def _reports(self, cells: Mapping[str, str]) -> list[tuple[tuple[float, float], str]]:
        columns = self._columns
        tasks = _flat(_json(cells, columns["annotations"], list))
        subject = _subject(_json(cells, columns["subject"], dict))
        box = corners(subject, self._options.crs) or middle(subject)
        if box is None:
            raise _Refused(columns["subject"], _NOWHERE)
        drawn = [task for task in tasks if isinstance(task, dict) and _is_drawing(task.get("value"))]
        if named := _identified(tasks):
            return [(_ground(box, 0.5, 0.5), name) for name in named]
        if not drawn or (self._asked is not None and not any(map(_marks, drawn))):
            return self._answers(tasks, box)
        if box.is_point:
            # Without the corners of its image a mark is somewhere around the place of the subject.
            tools = dict.fromkeys(_tool(mark) for task in drawn for mark in task["value"])
            return [(_ground(box, 0.5, 0.5), tool) for tool in tools or (NOTHING,)]
        marks = [mark for task in drawn for mark in task["value"]]
        if not marks:
            return [(place, NOTHING) for place in tiles(box, self._options.cell)]
        size = _image_size(cells, columns, subject)
        if size is None:
            raise _Refused(
                columns.get("metadata", ""), "the size of the image is not known, so its marks have no place."
            )
        found = []
        for mark in marks:
            pixel = _pixel(mark)
            if pixel is None:
                raise _Refused(columns["annotations"], "a mark has no position.")
            u, v = pixel[0] / size[0], pixel[1] / size[1]
            if not (-0.05 <= u <= 1.05 and -0.05 <= v <= 1.05):
                raise _Refused(columns["annotations"], f"a mark at ({pixel[0]:g}, {pixel[1]:g}) lies off its image.")
            found.append((_ground(box, u, v), _tool(mark)))
        return found

    def _answers(self, tasks: Sequence[Any], box: Box) -> list[tuple[tuple[float, float], str]]:
        """The answer to a question about the whole image, in its middle; "no" where others draw is seeing nothing."""
        given, column = answers(tasks), self._columns["annotations"]
        if self._asked is not None:
            if label := self._asked.of(given):
                return [(_ground(box, 0.5, 0.5), label)]
            raise _Refused(column, f"has no answer to {self._asked.task}, or several at once.")
        # "Is there any damage?" comes before the drawing, and ends there for those who see none.
        words = next((one.words[0] for one in given if one.words), None)
        if words is None:
            raise _Refused(column, "has neither marks nor an answer.")
        if _NO.match(words):
            return [(place, NOTHING) for place in tiles(box, self._options.cell)]
        return [(_ground(box, 0.5, 0.5), words)]


def _flat(tasks: Sequence[Any], depth: int = 0) -> list[Any]:
    """Tasks, with those that stand together in a combined one laid out."""
    flat: list[Any] = []
    for task in tasks:
        inner = task.get("value") if isinstance(task, dict) else None
        if isinstance(inner, list) and inner and depth < 5 and all(isinstance(t, dict) and "task" in t for t in inner):
            flat += _flat(inner, depth + 1)
        else:
            flat.append(task)
    return flat


def _json(cells: Mapping[str, str], column: str, kind: type) -> Any:
    try:
        value = json.loads(cells.get(column, ""))
    except (ValueError, RecursionError):
        raise _Refused(column, "is not JSON.") from None
    if not isinstance(value, kind):
        raise _Refused(column, f"is JSON, but no {'list' if kind is list else 'object'}.")
    return value


def _subject(data: dict[str, Any]) -> dict[str, Any]:
    """The subject's own facts; a leading # or // only hides a name from volunteers."""
    first = next((value for value in data.values() if isinstance(value, dict)), data)
    return {str(k).lstrip("#!/ ").strip().lower().replace(" ", "_"): v for k, v in first.items()}


_CORNERS = (  # west, east, south, north
    ("lon_min", "lon_max", "lat_min", "lat_max"),
    ("min_lon", "max_lon", "min_lat", "max_lat"),
    ("upper_left_lon", "lower_right_lon", "lower_right_lat", "upper_left_lat"),
    ("upper_left_lon", "bottom_right_lon", "bottom_right_lat", "upper_left_lat"),
    ("lower_left_lon", "upper_right_lon", "lower_left_lat", "upper_right_lat"),
    ("bottom_left_lon", "upper_right_lon", "bottom_left_lat", "upper_right_lat"),
    ("west", "east", "south", "north"),
    ("minx", "maxx", "miny", "maxy"),
)


def corners(subject: Mapping[str, Any], crs: str | None = None) -> Box | None:
    """Where the image lies, from whichever names the project used; None if the subject does not say."""
    for names in _CORNERS:
        try:
            west, east, south, north = (float(subject[name]) for name in names)
        except (KeyError, TypeError, ValueError, OverflowError):
            continue
        if not all(math.isfinite(v) for v in (west, east, south, north)) or south >= north or west == east:
            continue
        degrees = max(abs(west), abs(east)) <= 180 and max(abs(south), abs(north)) <= 90
        stated = next((subject[key] for key in ("crs", "epsg", "srs", "projection") if subject.get(key)), None)
        system = crs or (_system(stated) if stated else None)
        # Metres without a system are a web map's.
        system = system or (geography.WGS84 if degrees else "EPSG:3857")
        if system == geography.WGS84 and not degrees:
            return None
        return Box(west, east, south, north, system)
    return None


_MIDDLES = (
    ("longitude", "latitude"),
    ("lon", "lat"),
    ("long", "lat"),
    ("lng", "lat"),
    ("center_lon", "center_lat"),
    ("centre_lon", "centre_lat"),
    ("centroid_lon", "centroid_lat"),
)
_NOWHERE = (
    "the subject does not say where it is: it has neither corners (lon_min…, upper_left_lat… or minx…) nor latitude "
    "and longitude. Make a table with latitude, longitude, the answer and the user's name, and read that."
)


def middle(subject: Mapping[str, Any]) -> Box | None:
    """The place of a subject that names one, as a box of no size; None if it does not."""
    for names in _MIDDLES:
        try:
            lon, lat = (float(subject[name]) for name in names)
        except (KeyError, TypeError, ValueError, OverflowError):
            continue
        if abs(lon) <= 180 and abs(lat) <= 90:
            return Box(lon, lon, lat, lat, geography.WGS84)
    return None


def _identified(tasks: Sequence[Any]) -> list[str]:
    """What a survey task names, each once: [{"choice": "ZEBRA", "answers": …}]."""
    values = [task.get("value") for task in tasks if isinstance(task, dict)]
    marks = [mark for value in values if isinstance(value, list) for mark in value if isinstance(mark, dict)]
    return list(dict.fromkeys(str(mark["choice"]) for mark in marks if mark.get("choice")))


def _system(stated: Any) -> str | None:
    text = str(stated).strip()
    try:
        return systems.by_name(f"EPSG:{text}" if text.isdecimal() else text)
    except systems.UnknownSystem:
        return None


def _ground(box: Box, u: float, v: float) -> tuple[float, float]:
    """(longitude, latitude) at a fraction u from the west and v from the top of an image."""
    span = box.east - box.west
    if box.crs == geography.WGS84 and span < 0:
        span += 360.0
    x, y = box.west + u * span, box.north - v * (box.north - box.south)
    if box.crs == geography.WGS84:
        return geography.wrap(x) if abs(x) > 180 else x, min(90.0, max(-90.0, y))
    try:
        lon, lat = geography.transform([[x, y]], box.crs, geography.WGS84)[0].tolist()
    except ValueError:
        raise _Refused("subject_data", f"the corners lie outside the area of {box.crs}.") from None
    return lon, lat


def tiles(box: Box, cell: float | None) -> list[tuple[float, float]]:
    """The middles of the cells that an image covers: of side ``cell`` metres, or TILES per side."""
    across = down = 1 if box.is_point else TILES
    if cell is not None and not box.is_point:
        (west, north), (east, south) = _ground(box, 0.0, 0.0), _ground(box, 1.0, 1.0)
        metres = 111_320.0
        wide = ((east - west) % 360.0) * metres * math.cos(math.radians((north + south) / 2))
        tall = abs(north - south) * metres
        across, down = (min(MOST_TILES, max(1, math.ceil(side / cell - 1e-6))) for side in (wide, tall))
    return [_ground(box, (i + 0.5) / across, (j + 0.5) / down) for j in range(down) for i in range(across)]


def _is_drawing(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(mark, dict) and not is_chosen(mark) for mark in value)


def _marks(task: Mapping[str, Any]) -> bool:
    """Whether volunteers draw in this task: one of its marks says with which tool."""
    value = task.get("value")
    return isinstance(value, list) and any(
        isinstance(mark, dict) and {"tool", "toolIndex"} & set(mark) for mark in value
    )


def _tool(mark: Mapping[str, Any]) -> str:
    # Zooniverse's newer classifier says toolIndex where the older one said tool.
    return str(mark.get("tool_label") or f"tool {mark.get('tool', mark.get('toolIndex', 0))}")


def _pixel(mark: Mapping[str, Any]) -> tuple[float, float] | None:
    """The middle of a point, circle, rectangle, line, polygon or path, in pixels from the top left."""
    try:
        if isinstance(mark.get("pathX"), list) and mark["pathX"]:
            xs, ys = ([float(value) for value in mark[axis]] for axis in ("pathX", "pathY"))
            x, y = sum(xs) / len(xs), sum(ys) / len(ys)
        elif isinstance(mark.get("points"), list) and mark["points"]:
            xs = [float(p["x"]) for p in mark["points"]]
            ys = [float(p["y"]) for p in mark["points"]]
            x, y = sum(xs) / len(xs), sum(ys) / len(ys)
        elif "x1" in mark:
            x = (float(mark["x1"]) + float(mark["x2"])) / 2
            y = (float(mark["y1"]) + float(mark["y2"])) / 2
        else:
            x = float(mark["x"]) + float(mark.get("width") or 0) / 2
            y = float(mark["y"]) + float(mark.get("height") or 0) / 2
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
    return (x, y) if math.isfinite(x) and math.isfinite(y) else None


def _image_size(
    cells: Mapping[str, str], columns: Mapping[str, str], subject: Mapping[str, Any]
) -> tuple[float, float] | None:
    candidates: list[tuple[Any, Any]] = []
    if "metadata" in columns:
        metadata = _json(cells, columns["metadata"], dict)
        dimensions = metadata.get("subject_dimensions")
        for shown in dimensions if isinstance(dimensions, list) else []:
            if isinstance(shown, dict):
                candidates.append((shown.get("naturalWidth"), shown.get("naturalHeight")))
    candidates.append((subject.get("width"), subject.get("height")))
    candidates.append((subject.get("image_width"), subject.get("image_height")))
    for width, height in candidates:
        try:
            size = float(width), float(height)
        except (TypeError, ValueError, OverflowError):
            continue
        if all(math.isfinite(side) and side > 0 for side in size):
            return size
    return None


def _matches(header: Sequence[str]) -> bool:
    names = {name.strip().lower() for name in header}
    return all(name in names for name in _NEEDED)


LAYOUT = Layout(
    "zooniverse",
    "Zooniverse classifications",
    matches=_matches,
    plan=plan,
    batches=batches,
    notes=(
        "marks are placed through the corners of their image; one without marks is a negative in each of its cells",
        "people who were not logged in have random names, so they cannot be followed from one export to the next",
    ),
)
