"""What every reader of features gives, and what they share."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdfield.box import is_inside
from crowdfield.errors import ReportFormatError
from crowdfield.io import limits
from crowdfield.io.kinds import Found


@dataclass
class Features:
    """The features of a file, in its order."""

    columns: dict[str, NDArray[np.object_]]  # name -> [N] text, or None where a feature has no such property
    shapes: NDArray[np.object_]  # [N] shapely geometries; None where there is none, or none that can be used
    kinds: NDArray[np.object_]  # [N] "Point", "Polygon", …; None where there is no geometry
    crs: str | None  # None where the file does not say
    notes: tuple[str, ...] = ()
    is_table: bool = False  # rows without geometries: the places, if any, are in the columns
    lines: NDArray[np.int64] | None = None  # [N] where in the file each row is; None: they are counted from 1

    def __len__(self) -> int:
        return len(self.shapes)


def read(path: Path, found: Found) -> Features:
    """The features of a file whose kind has been looked at."""
    assert found.kind.reader is not None, f"{found.kind.name} has no features"
    if found.kind.boxed and not is_inside():
        from crowdfield.io.boxed import read_features

        return read_features(path, found)
    reader: Callable[[Path, Found], Features] = import_module(f"crowdfield.io.features.{found.kind.reader}").read
    features = reader(path, found)
    if len(features) == 0:
        raise ReportFormatError("contains no features.", file=str(path))
    return features


def broken(path: Path, found: Found, what: str) -> ReportFormatError:
    """The error for a file that starts like one of its kind but cannot be read as such."""
    return ReportFormatError(
        f"looks like {found.kind.title} but cannot be read as such: {what}. Is the file complete?", file=str(path)
    )


def table(path: Path, rows: Sequence[Mapping[str, Any]]) -> dict[str, NDArray[np.object_]]:
    """Columns from rows that need not all have the same properties."""
    names: dict[str, None] = {}
    for row in rows:
        if not names.keys() >= row.keys():
            names |= dict.fromkeys(row)
            if len(names) > limits.MOST_COLUMNS:
                raise too_many_columns(path)
    return {name: cells([row.get(name) for row in rows]) for name in names}


def too_many_columns(path: Path) -> ReportFormatError:
    """The error for a table with too many columns."""
    return ReportFormatError(f"has more than {limits.MOST_COLUMNS:,} columns. Keep those you need.", file=str(path))


def plain_table(path: Path, rows: Sequence[Mapping[str, Any]]) -> Features:
    """Rows without geometries."""
    nothing = np.full(len(rows), None, dtype=object)
    return Features(table(path, rows), nothing, nothing.copy(), None, is_table=True)


def cells(values: Sequence[Any]) -> NDArray[np.object_]:
    """Values as a table would hold them: text, or None."""
    out = np.empty(len(values), dtype=object)
    out[:] = [text(value) for value in values]
    return out


def text(value: Any) -> str | None:
    """A value as a cell of a table holds it: text, or None."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        # Whole numbers are stored as floats where one of a column is missing: 1 must not turn into "1.0".
        return str(int(value)) if value.is_integer() and abs(value) < 2**53 else str(value)
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, bytes):
        return None
    return str(value)
