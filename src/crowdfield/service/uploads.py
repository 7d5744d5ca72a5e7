"""Files of reports, read with the readers of `crowdfield.io` and handed on as plain rows."""

import gzip
import re
import tempfile
import zipfile
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from crowdfield import geography
from crowdfield.data import Region
from crowdfield.errors import CrowdfieldError
from crowdfield.service.problems import Problem
from crowdfield.service.schemas import Rejected

# Only these endings are taken over from a client's file name, and nothing else of it.
ENDINGS = (".csv", ".tsv", ".txt", ".json", ".geojson", ".gpkg", ".parquet", ".kml", ".zip", ".gz", ".csv.gz")
# A region around less than this would be a map of a single building.
SMALLEST_DEGREES = 0.01
MARGIN = 0.08
# Far: so many times the spread of the middle half; few: this share of the reports.
FAR, FEW = 10.0, 0.02


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
    from crowdfield import io  # late: the readers bring pandas and more

    if not unfolds_within(path, byte_limit):
        raise Problem(413, f"the file unpacks to more than {byte_limit:,} bytes; send it in parts")
    try:
        result = io.read(path, positive=positive)
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


def unfolds_within(path: Path, limit: int) -> bool:
    """Whether a packed file is at most so large unpacked; it is never unfolded further than that."""
    with path.open("rb") as file:
        start = file.read(4)
    if start.startswith(b"PK"):
        try:
            with zipfile.ZipFile(path) as archive:
                return sum(member.file_size for member in archive.infolist()) <= limit
        except (zipfile.BadZipFile, ValueError, NotImplementedError):
            return True  # the reader says what is wrong with it
    if start.startswith(b"\x1f\x8b"):
        try:
            with gzip.open(path) as unpacked:
                left = limit
                while left >= 0 and (block := unpacked.read(2**20)):
                    left -= len(block)
                return left >= 0
        except (OSError, EOFError, zlib.error):
            return True
    return True


def describe(read: Read) -> tuple[Region, list[str]]:
    """The region and the states of a map that starts with these reports.

    A few places far away, often wrong coordinates, must not turn the map of a town into one of the world.
    """
    spots = np.array([(row["longitude"], row["latitude"]) for row in read.rows])
    middle = geography.centre(geography.bounds(spots))[0]
    flat = np.column_stack([geography.wrap(spots[:, 0] - middle), spots[:, 1]])
    low, high = np.percentile(flat, [25, 75], axis=0)
    reach = FAR * np.maximum(high - low, SMALLEST_DEGREES)
    near = ((flat >= low - reach) & (flat <= high + reach)).all(axis=1)
    # Where many lie far out they are no mistakes.
    flat = flat[near] if np.mean(~near) <= FEW else flat
    span, centre = np.ptp(flat, axis=0), (flat.max(axis=0) + flat.min(axis=0)) / 2
    half = np.maximum(span * (0.5 + MARGIN), SMALLEST_DEGREES)
    west, east = (float(geography.wrap(middle + centre[0] + sign * half[0])) for sign in (-1, 1))
    south, north = float(max(centre[1] - half[1], -89.9)), float(min(centre[1] + half[1], 89.9))
    states = list(read.labels)
    if len(states) == 1:  # every report is of something; its absence is the other state
        states = [f"not {states[0]}", states[0]]
    return Region(west, south, east, north), states
