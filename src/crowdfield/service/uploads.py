"""Files that clients upload: read in a sandboxed process, checked, and returned as plain rows."""

import io
import logging
import re
import shutil
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from crowdfield import geography
from crowdfield.box import Answer, Limits, ask, believing
from crowdfield.box.gdal import only
from crowdfield.box.message import from_codes
from crowdfield.data import Grid, Region, Reports
from crowdfield.data.positive import named_states
from crowdfield.errors import InputError, ReadingFailedError, ReportFormatError, TooLargeError
from crowdfield.io.boxed import CHECK_NUMBERS, CHECK_WORDS, MOST_REJECTS
from crowdfield.pipeline.quiet import opposite
from crowdfield.service.districts import MOST_AREAS, MOST_CORNERS, areas_of
from crowdfield.service.import_schemas import ImportPlan
from crowdfield.service.metrics import Metrics
from crowdfield.service.problems import Problem
from crowdfield.service.schemas import Rejected
from crowdfield.service.settings import Settings

log = logging.getLogger("crowdfield.service")
T = TypeVar("T")

WORLDWIDE = "the reports reach over {:.0f}° of longitude, so the region to map has to be chosen"
# The approximate number of cells along the longer side of a new map, the same as in `crowdfield fuse`.
CELLS = 100
# The most places in a file with answers to spot checks.
MOST_CHECKS = 20_000
# The share of the time limit for reading a file that may be processor time; the rest is for starting and waiting.
PROCESSOR_SHARE = 0.8


@dataclass
class Read:
    """The reports of a file as rows, and the rejected ones."""

    rows: list[dict[str, Any]]
    labels: tuple[str, ...]
    lines: list[int]
    """The position of each row in the file: a line of a table, or the number of a feature."""
    rejects: list[Rejected]
    """The first rejected rows, with reasons."""
    rejected: int
    note: str
    about: dict[str, Any] = field(default_factory=dict)
    """What the file contains: its layout, columns, labels, time span."""


def title_of(name: str | None) -> str:
    """A title made from a file name, which may contain any characters."""
    stem = re.split(r"[/\\]", name or "")[-1].split(".")[0]
    words = re.sub(r"[^\w ]+|_", " ", stem).strip()
    return words[:80] or "New map"


def slug_of(title: str) -> str:
    """The id of a map, from its title."""
    slug = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:40].strip("-")
    return slug or "map"


class Reader:
    """Reads uploaded files, each in a sandboxed process of its own: see `crowdfield.box`."""

    def __init__(self, settings: Settings, metrics: Metrics):
        self._settings, self._metrics = settings, metrics
        self._limits = Limits(
            memory=settings.import_memory,
            seconds=settings.import_seconds,
            processor_seconds=PROCESSOR_SHARE * settings.import_seconds,
        )
        self._largest = 0
        self._layers: tuple[str, ...] | None = None

    def body(self, body: bytes) -> Read:
        """The rows of a request body that is a CSV table."""
        return self._stored(io.BytesIO(body), None, 16 * max(len(body), 2**16))

    def file(self, file: IO[bytes], positive: str | None = None, plan: ImportPlan | None = None) -> Read:
        """The rows of a file of any known layout, without contacts and free text."""
        plan = plan or ImportPlan()
        options = {str(role): column for role, column in plan.columns.items()}
        others = {"layer": plan.layer, "format": plan.format, "polygons": plan.polygons}
        options |= {name: value for name, value in others.items() if value is not None}
        read = self._stored(file, positive, self._settings.import_limit, options)
        return renamed(read, plan.labels)

    def _stored(
        self, content: IO[bytes], positive: str | None, largest: int, options: dict[str, str] | None = None
    ) -> Read:
        with _on_disk(content) as path:
            return self._boxed(
                "reports", path, _rows, positive=positive, most=self._settings.row_limit, largest=largest,
                options=options,
            )  # fmt: skip

    def areas(self, file: IO[bytes], by: str | None = None) -> dict[str, Any]:
        """The named polygons of a file: `names`, `shapes` in well-known binary, `notes`."""
        with _on_disk(file) as path:
            return self._boxed(
                "areas", path, _areas, by=by, largest=self._settings.import_limit, most=MOST_AREAS,
                corners=MOST_CORNERS,
            )  # fmt: skip

    def checks(self, file: IO[bytes]) -> dict[str, list[Any]]:
        """Answers to spot checks by column."""
        with _on_disk(file) as path:
            return self._boxed("checks", path, _checks, largest=self._settings.import_limit, most=MOST_CHECKS)

    def amounts(self, file: IO[bytes], grid: Grid) -> NDArray[np.float64]:
        """The sum of a raster of amounts in each cell of a grid."""
        laid = {"extent": grid.extent, "columns": grid.columns, "rows": grid.rows, "crs": grid.crs}
        with _on_disk(file) as path:
            return self._boxed(
                "amounts", path, lambda answer: _amounts(answer, grid.size), environment=only("GTiff"),
                largest=self._settings.import_limit, **laid,
            )  # fmt: skip

    def _boxed(self, task: str, path: Path, believed: Callable[[Answer], T], **arguments: Any) -> T:
        """The result of a task of `crowdfield.io.boxed` for a file, checked by `believed`; errors become `Problem`s."""
        shown = "the file"
        try:
            answer = ask(f"crowdfield.io.boxed:{task}", path, self._limits, shown=shown, watch=self._spent, **arguments)
            with believing(shown):
                read = believed(answer)
        except TooLargeError as error:
            raise Problem(413, error.without_advice) from error
        except ReportFormatError as error:
            raise Problem(422, error.without_advice, choices=error.choices) from error
        except (InputError, ReadingFailedError) as error:
            raise Problem(422, str(error)) from error
        self._log_layers(answer.layers)
        return read

    def _spent(self, seconds: float, peak: int) -> None:
        self._largest = max(self._largest, peak)
        self._metrics.file_peak.set(self._largest)
        self._metrics.file_seconds.observe(seconds)

    def _log_layers(self, layers: tuple[str, ...]) -> None:
        if layers != self._layers:
            self._layers = layers
            log.info("files are read in a process of its own", extra={"shut_in_by": ", ".join(layers)})


@contextmanager
def _on_disk(content: IO[bytes]) -> Iterator[Path]:
    """The content in a temporary file with a fixed name: the name of an uploaded file is never used."""
    with tempfile.TemporaryDirectory(prefix="crowdfield-") as folder:
        path = Path(folder) / "upload"
        with path.open("wb") as out:
            shutil.copyfileobj(content, out, 2**20)
        yield path


def _checks(answer: Answer) -> dict[str, list[Any]]:
    columns = {str(name): list(values) for name, values in answer.header["columns"].items()}
    if not set(columns) <= {*CHECK_WORDS, *CHECK_NUMBERS} or len({len(values) for values in columns.values()}) > 1:
        raise ValueError("unexpected columns")
    for name, values in columns.items():
        kind = str if name in CHECK_WORDS else float
        if len(values) > MOST_CHECKS or not all(value is None or isinstance(value, kind) for value in values):
            raise ValueError("unexpected values in a column")
    return columns


def _amounts(answer: Answer, cells: int) -> NDArray[np.float64]:
    amounts = np.array(answer.arrays["amounts"], dtype=np.float64)
    # NaN: the raster does not reach the cell.
    if amounts.shape != (cells,) or np.isinf(amounts).any() or (amounts < 0.0).any() or not np.nansum(amounts):
        raise ValueError("unexpected amounts")
    return amounts


def _areas(answer: Answer) -> dict[str, Any]:
    content = {name: answer.header[name] for name in ("names", "shapes", "notes")}
    areas = areas_of(content)
    if not 0 < len(areas) <= MOST_AREAS:
        raise ValueError("too many areas, or none")
    return content


def _rows(answer: Answer) -> Read:
    """The reports of a file that was read in the box, as rows for the log, with what was rejected."""
    header, arrays = answer.header, answer.arrays
    if not header["on_earth"]:
        raise InputError("the places in this file are nowhere on Earth; a live map needs longitude and latitude")
    labels, sources = tuple(header["labels"]), header["sources"]
    named = len(sources) > 1 or sources[0] != "all"
    ids = from_codes(arrays["id"], header["ids"]).tolist()
    scores = _scores(arrays["scores"], labels, len(ids))
    rows: list[dict[str, Any]] = [
        {
            "longitude": longitude,
            "latitude": latitude,
            "label": labels[label],
            # If a file does not say who reported, the source is the key that sends it.
            "source": sources[source][:200] if named else None,
            "time": moment if moment == moment else None,
            "accuracy": metres if metres == metres else None,
            "count": observations,
            "id": name[:200] if name is not None else None,
        }
        for (longitude, latitude), label, source, moment, metres, observations, name in zip(
            *(arrays[part].tolist() for part in ("places", "label", "source", "time", "accuracy", "count")),
            ids,
            strict=True,
        )
    ]
    for row, by_label in zip(rows, scores, strict=False):
        if by_label:
            row["scores"] = by_label
    rejects = [
        Rejected(row=line, reason=f"{column}: {reason}" if column else reason)
        for line, column, reason in header["rejects"]
    ]
    return Read(
        rows, labels, arrays["line"].tolist(), rejects, header["rejected"], header["statement"], header["about"]
    )


def _scores(scores: NDArray[np.float64], labels: tuple[str, ...], rows: int) -> list[dict[str, float]]:
    """The probabilities of each report by label, empty for reports without; an empty list if no report has any."""
    if scores.shape not in ((0, len(labels)), (rows, len(labels))) or (scores < 0).any() or (scores > 1).any():
        raise ValueError("unexpected probabilities")
    return [{name: p for name, p in zip(labels, vector, strict=True) if p == p} for vector in scores.tolist()]


def _renamed_scores(scores: Mapping[str, float], meanings: Mapping[str, str | None]) -> dict[str, float] | None:
    """The probabilities of the renamed labels, given that the label is none of those that the plan leaves out."""
    by_meaning: defaultdict[str, float] = defaultdict(float)
    for name, p in scores.items():
        meaning = meanings.get(name, name)
        if meaning is not None:
            by_meaning[meaning] += p
    total = sum(by_meaning.values())
    return {name: p / total for name, p in by_meaning.items()} if total > 0 else None


def renamed(read: Read, meanings: Mapping[str, str | None]) -> Read:
    """The rows with labels renamed by the plan; rows whose label the plan leaves out are rejected."""
    if not meanings:
        return read
    rows, lines, rejects, rejected = [], [], list(read.rejects), read.rejected
    for row, line in zip(read.rows, read.lines, strict=True):
        label = meanings.get(row["label"], row["label"])
        if label is None:
            rejected += 1
            if len(rejects) < MOST_REJECTS:
                rejects.append(Rejected(row=line, reason=f"reports that say {row['label']!r} are left out"))
            continue
        rows.append({**row, "label": label})
        if "scores" in row:
            rows[-1]["scores"] = _renamed_scores(row["scores"], meanings)
        lines.append(line)
    if not rows:
        raise Problem(422, "no report is left: every label of this file is left out")
    labels = dict.fromkeys(meaning for said in read.labels if (meaning := meanings.get(said, said)) is not None)
    return replace(read, rows=rows, lines=lines, rejects=rejects, rejected=rejected, labels=tuple(labels))


def label_counts(read: Read) -> dict[str, int]:
    """How many reports have each label; labels without reports are left out."""
    return dict(Counter(row["label"] for row in read.rows))


@dataclass(frozen=True)
class Layout:
    """The layout of a new map for the reports of a file, with the cells that `crowdfield fuse` would use."""

    grid: Grid
    region: Region
    states: list[str]
    labels: list[str]
    """The states, and answers that name none of them, such as "maybe"."""
    grades: list[str] | None
    """The states from the least to the worst, where the file says that they are grades."""
    counts: list[int]
    """How many reports say each state."""


def places_of(read: Read) -> list[tuple[float, float]]:
    """Longitude and latitude of every report."""
    return [(row["longitude"], row["latitude"]) for row in read.rows]


def worldwide(read: Read) -> float | None:
    """The degrees of longitude over which the reports are spread, if that is too wide for a map; else None."""
    degrees = geography.span(geography.main_bounds(places_of(read)))
    return degrees if degrees > geography.WIDEST else None


def layout_of(read: Read, plan: ImportPlan) -> Layout:
    """The layout of a new map for a file. Its states are the labels, without those that mean "cannot tell"; if all
    reports say the same, that label and its opposite."""
    places = places_of(read)
    if plan.region is None and (degrees := worldwide(read)):
        raise Problem(422, f"{WORLDWIDE.format(degrees)}; name one in the plan: region, as west, south, east, north")
    spots = Reports.from_arrays(places, ["-"] * len(places), crs=geography.WGS84)
    grid = geography.make_grid(spots, region=plan.region, cells=plan.cells or CELLS)
    named = named_states(read.labels)
    states = plan.states or (list(named) if len(named) > 1 else [opposite(named[0], named), named[0]])
    labels = [*states, *(label for label in read.labels if label not in named and label not in states)]
    found = read.about.get("grades") or ()
    graded = list(found) if set(found) == set(states) else None
    said = label_counts(read)
    counts = [said.get(state, 0) for state in states]
    return Layout(grid, plan.region or geography.covered(grid, places), states, labels, graded, counts)
