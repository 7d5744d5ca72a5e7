"""What is done in a box (`crowdfield.box`): tasks that read one file, and the ways to ask for them.

The service reads every upload so. Elsewhere only those files go into a box that a large library in another language
reads: GeoParquet, GeoTIFF and NetCDF.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from crowdfield.box import Limits, ask, believing
from crowdfield.box.message import as_codes, from_codes
from crowdfield.io import kinds, limits
from crowdfield.io.rejects import without_advice

if TYPE_CHECKING:
    from crowdfield.io.features import Features

Told = tuple[dict[str, Any], dict[str, NDArray[Any]]]
REJECTS_TOLD = 1000  # a list of more helps nobody
_POINT = 0  # GEOS's number for this kind of geometry
# Whoever reads a file of their own has patience, and the memory of their own machine.
_OWN_SECONDS = 3600.0
_OWN_ANSWER = 16 * 2**30


def own_limits() -> Limits:
    """For the files of whoever runs this: half of the machine's memory, and an hour."""
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    except (AttributeError, ValueError, OSError):  # systems that do not tell
        memory = 4 * 2**30
    return Limits(memory=memory, processor_seconds=_OWN_SECONDS, seconds=_OWN_SECONDS, answer=_OWN_ANSWER)


def reports(path: Path, *, positive: str | None, most: int, largest: int) -> Told:
    """Task of a box: the reports of a file of any known layout, without the words and contacts in it."""
    limits.tighten(largest)
    kinds.look(path)  # what is refused at first sight needs nothing that takes long to load
    from crowdfield.io.reading import read

    result = read(path, positive=positive, most=most)
    table = result.reports
    ids = [None] * len(table) if table.id is None else [None if name is None else str(name) for name in table.id]
    codes, names = as_codes(ids)
    header = {
        "labels": [str(label) for label in table.labels],
        "sources": [str(source) for source in table.sources],
        "ids": names,
        "on_earth": table.crs is not None,
        "statement": result.statement.replace(f"{path.name}: ", "", 1),
        "rejected": result.rejected,
        "rejects": [[r.line, r.column, without_advice(r.reason)] for r in result.rejects[:REJECTS_TOLD]],
    }
    time = np.full(len(table), np.nan) if table.time is None else table.time
    arrays: dict[str, NDArray[Any]] = {
        "places": table.places[:, :2],
        "label": table.label.astype(np.int32),
        "source": table.source.astype(np.int32),
        "time": np.asarray(time, dtype=np.float64),
        "id": codes,
        "line": result.lines().astype(np.int64),
    }
    return header, arrays


def features(path: Path) -> Told:
    """Task of a box: the features of a file; points as numbers, other geometries in well-known binary."""
    import shapely

    from crowdfield.io.features import common

    read = common.read(path, kinds.look(path))
    points = shapely.get_type_id(read.shapes) == _POINT
    others = shapely.to_wkb(np.where(points, np.array(None, dtype=object), read.shapes), hex=True)
    arrays: dict[str, NDArray[Any]] = {"x": shapely.get_x(read.shapes), "y": shapely.get_y(read.shapes)}
    header: dict[str, Any] = {"crs": read.crs, "notes": list(read.notes), "columns": []}
    arrays["shape"], header["shapes"] = as_codes(others)
    arrays["kind"], header["kinds"] = as_codes(read.kinds)
    for number, (name, values) in enumerate(read.columns.items()):
        arrays[f"column {number}"], texts = as_codes(values)
        header["columns"].append([name, texts])
    return header, arrays


def read_features(path: Path) -> Features:
    """The features of a file, read in a box."""
    answer = ask("crowdfield.io.boxed:features", path, own_limits(), shown=str(path))
    with believing(str(path)):
        return _features(answer.header, answer.arrays)


def _features(header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Features:
    import shapely

    from crowdfield.io.features import Features
    from crowdfield.io.features.shapes import from_wkb

    others, _ = from_wkb([*(bytes.fromhex(text) for text in header["shapes"]), None])
    points = np.isfinite(arrays["x"]) & np.isfinite(arrays["y"])
    return Features(
        {str(name): from_codes(arrays[f"column {i}"], texts) for i, (name, texts) in enumerate(header["columns"])},
        np.where(points, shapely.points(arrays["x"], arrays["y"]), others[arrays["shape"]]),
        from_codes(arrays["kind"], header["kinds"]),
        header["crs"],
        tuple(header["notes"]),
    )
