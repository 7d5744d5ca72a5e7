"""Files of reports, read with the readers of `crowdfield.io` and handed on as plain rows."""

import re
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from crowdfield.errors import InputError
from crowdfield.service.schemas import Rejected
from crowdfield.service.store import Situation

# Only these endings are taken over from a client's file name, and nothing else of it.
ENDINGS = (
    ".csv", ".tsv", ".txt", ".json", ".geojson", ".gpkg", ".parquet", ".kml", ".zip", ".gz", ".csv.gz",
)  # fmt: skip


@dataclass
class Read:
    rows: list[dict[str, Any]]
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


def read_bytes(body: bytes, name: str, situation: Situation | None, row_limit: int) -> Read:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(body)
        return read_file(path, situation, row_limit, None)


def read_file(path: Path, situation: Situation | None, row_limit: int, positive: str | None) -> Read:
    raise InputError("files cannot be imported yet")


def describe(read: Read) -> tuple[tuple[float, float, float, float], list[str]]:
    """The region and the states of a map that starts with these reports."""
    raise InputError("files cannot be imported yet")
