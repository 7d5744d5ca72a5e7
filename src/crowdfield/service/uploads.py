"""Files of reports, read with the readers of `crowdfield.io` and handed on as plain rows."""

import re
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from crowdfield import geography, io
from crowdfield.errors import CrowdfieldError, ReportFormatError
from crowdfield.service import places
from crowdfield.service.problems import Problem
from crowdfield.service.schemas import Rejected

# Only these endings are taken over from a client's file name, and nothing else of it.
ENDINGS = (".csv", ".tsv", ".txt", ".json", ".geojson", ".gpkg", ".parquet", ".kml", ".zip", ".gz", ".csv.gz")
# A region around less than this would be a map of a single building.
SMALLEST_DEGREES = 0.01
MARGIN = 0.08


@dataclass
class Read:
    rows: list[dict[str, Any]]
    labels: tuple[str, ...] = ()
    rejects: list[Rejected] = field(default_factory=list)
    note: str | None = None


def ending(name: str | None) -> str:
    found = [e for e in ENDINGS if (name or "").lower().endswith(e)]
    return max(found, key=len) if found else ".csv"


def title_of(name: str | None) -> str:
    """A title from a file name that may be anything at all."""
    stem = re.split(r"[/\\]", name or "")[-1].split(".")[0]
    words = re.sub(r"[^\w ]+|_", " ", stem).strip()
    return words[:80] or "New map"


def slug_of(title: str) -> str:
    slug = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:40].strip("-")
    return slug or "map"


def read_bytes(body: bytes, row_limit: int) -> Read:
    """The rows of a CSV body."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "reports.csv"
        path.write_bytes(body)
        return read_file(path, row_limit, 16 * max(len(body), 2**16))


def read_file(path: Path, row_limit: int, byte_limit: int, positive: str | None = None) -> Read:
    """The rows of a file of any known layout. Contacts and free text stay behind in it."""

    def watch(done: int, _: int) -> None:
        if done > byte_limit:
            raise ReportFormatError(f"unpacks to more than {byte_limit:,} bytes; send it in parts.", file=path.name)

    try:
        result = io.read(path, positive=positive, progress=watch)
    except CrowdfieldError as error:
        # The path is a temporary one of this machine and nobody else's business.
        raise Problem(422, str(error).replace(f"{path.parent}/", "")) from error
    reports = result.reports
    if reports.crs is None:
        raise Problem(422, "the places in this file are nowhere on Earth; a live map needs longitude and latitude")
    if len(reports) > row_limit:
        raise Problem(
            413, f"{len(reports):,} reports are more than the {row_limit:,} of one request; send them in parts"
        )
    labels = tuple(str(label) for label in reports.labels)
    time = reports.time.tolist() if reports.time is not None else [None] * len(reports)
    identity = reports.id if reports.id is not None else [None] * len(reports)
    named = len(reports.sources) > 1 or reports.sources[0] != "all"
    rows = [
        {
            "longitude": longitude,
            "latitude": latitude,
            "label": labels[label],
            # A file that does not say who reported is the word of whoever sends it.
            "source": str(reports.sources[source])[:200] if named else None,
            "time": moment if moment == moment else None,
            "id": str(name)[:200] if name is not None else None,
        }
        for (longitude, latitude), label, source, moment, name in zip(
            reports.places.tolist(), reports.label.tolist(), reports.source.tolist(), time, identity, strict=True
        )
    ]
    rejects = [Rejected(row=r.line, reason=f"{r.column}: {r.reason}" if r.column else r.reason) for r in result.rejects]
    return Read(rows, labels, rejects, result.statement.replace(f"{path.name}: ", "", 1))


def describe(read: Read) -> tuple[places.Region, list[str]]:
    """The region and the states of a map that starts with these reports.

    A few places far away, often wrong coordinates, must not turn the map of a town into one of the world: where the
    middle 98 % are much closer together than all, they alone make the region.
    """
    spots = np.array([(row["longitude"], row["latitude"]) for row in read.rows])
    region = geography.bounds(spots)
    middle = geography.centre(region)[0]
    offset = geography.wrap(spots[:, 0] - middle)
    low, high = np.percentile(np.column_stack([offset, spots[:, 1]]), [1, 99], axis=0)
    full = np.array([np.ptp(offset), np.ptp(spots[:, 1])])
    if (full > 3 * np.maximum(high - low, SMALLEST_DEGREES)).any():
        span, centre = high - low, (high + low) / 2
    else:
        span, centre = full, np.array([(offset.max() + offset.min()) / 2, (spots[:, 1].max() + spots[:, 1].min()) / 2])
    half = np.maximum(span * (0.5 + MARGIN), SMALLEST_DEGREES)
    west, east = (float(geography.wrap(middle + centre[0] + sign * half[0])) for sign in (-1, 1))
    south, north = float(max(centre[1] - half[1], -89.9)), float(min(centre[1] + half[1], 89.9))
    states = list(read.labels)
    if len(states) == 1:  # every report is of something; its absence is the other state
        states = [f"not {states[0]}", states[0]]
    return (west, east, south, north), states
