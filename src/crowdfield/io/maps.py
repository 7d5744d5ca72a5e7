"""Maps read back from GeoTIFF and NetCDF, in a box: GDAL and HDF5 are large libraries, and files may be hostile.

The first bytes of a file decide which of the two it is. GDAL has only one driver, and reads no other file.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdfield.box import ask, believing
from crowdfield.box.gdal import only
from crowdfield.data import Grid, Heatmap
from crowdfield.errors import ReportFormatError
from crowdfield.io.boxed import TaskResult, own_limits
from crowdfield.io.kinds import first_bytes
from crowdfield.io.requirements import library

MOST_VALUES = 2**28
"""Numbers in all layers of a map: 2 GiB when they are read. The largest map of the service has 2²⁰ cells."""
MOST_LAYERS = 1000
LARGEST_BLOCK = 2**24
"""Cells of one block of a raster. Blocks are unpacked whole; ours have 512 × 512 cells."""
LONGEST_TEXT = 2**24  # bytes of what a map says of itself
TIFF = (b"II*\x00", b"MM\x00*", b"II+\x00", b"MM\x00+")
_HDF5 = b"\x89HDF\r\n\x1a\n"
_OURS = "is not a map that crowdfield wrote."


def read_raster(path: Path) -> Heatmap:
    """A map that `write_cog` or `write_netcdf` wrote."""
    start = first_bytes(path, 16)
    if start.startswith(TIFF):
        library("rasterio")
        answer = ask("crowdfield.io.maps:geotiff", path, own_limits(), shown=str(path), environment=only("GTiff"))
    elif start.startswith(_HDF5):
        library("h5py")
        answer = ask("crowdfield.io.maps:netcdf", path, own_limits(), shown=str(path))
    else:
        raise ReportFormatError("is neither GeoTIFF nor NetCDF, judging by its first bytes.", file=str(path))
    with believing(str(path)):
        grid, states, about = (answer.header[part] for part in ("grid", "states", "about"))
        return _heatmap(Grid(**grid), tuple(states), answer.arrays, about, path)


def geotiff(path: Path) -> TaskResult:
    """Task of a box: the layers of a GeoTIFF and what it says of itself."""
    import rasterio
    from rasterio.errors import RasterioError

    try:
        with rasterio.Env() as gdal, rasterio.open(path, driver="GTiff", sharing=False) as file:
            if set(gdal.drivers()) - {"GTiff"}:
                raise RuntimeError("GDAL has loaded more drivers than the one requested")
            _check_size(file.width * file.height, file.count, path)
            if any(height * width > LARGEST_BLOCK for height, width in file.block_shapes):
                raise ReportFormatError("is stored in blocks that are too large to unpack.", file=str(path))
            names, tags = list(file.descriptions), file.tags()
            if None in names or "CROWDFIELD_STATES" not in tags:
                raise ReportFormatError(f"{_OURS} Its bands have no names.", file=str(path))
            layers = {name: file.read(number + 1).astype(np.float64) for number, name in enumerate(names)}
            bounds = file.bounds
            size = (file.width, file.height)
    except (RasterioError, ValueError) as problem:
        if isinstance(problem, ReportFormatError):
            raise
        raise ReportFormatError("cannot be read as a raster. Is the file complete?", file=str(path)) from None
    about = {name[11:].lower(): _from_json(text) for name, text in tags.items() if name.startswith("CROWDFIELD_")}
    region = (bounds.left, bounds.right, bounds.bottom, bounds.top)
    return _told(region, size, about, layers, path)


def netcdf(path: Path) -> TaskResult:
    """Task of a box: the same for NetCDF, which is HDF5."""
    import h5py

    try:
        with h5py.File(path, "r", locking=False) as file:
            _check_links(file, path)
            about = {
                name: _from_json(value)
                for name, value in file.attrs.items()
                if isinstance(value, str) and len(value) <= LONGEST_TEXT and not name.startswith("_")
            }
            if "states" not in about or "probability" not in file:
                raise ReportFormatError(_OURS, file=str(path))
            x, y = (file[axis][:].astype(np.float64) for axis in ("x", "y"))
            probability, sd, counts = (file[name][...] for name in ("probability", "sd", "reports"))
            order = _state_names(file)
    except (OSError, KeyError, ValueError, TypeError, RuntimeError, AttributeError) as problem:
        if isinstance(problem, ReportFormatError):
            raise
        raise ReportFormatError("cannot be read as NetCDF. Is the file complete?", file=str(path)) from None
    if min(len(x), len(y)) < 1 or probability.ndim != 3 or not np.isfinite([*x[[0, -1]], *y[[0, -1]]]).all():
        raise ReportFormatError(_OURS, file=str(path))
    # Two centres give the width of a cell; a map of one column or row is square there.
    width = (x[-1] - x[0]) / (len(x) - 1) if len(x) > 1 else (y[0] - y[-1]) / max(len(y) - 1, 1)
    height = (y[0] - y[-1]) / (len(y) - 1) if len(y) > 1 else width
    region = (x[0] - width / 2, x[-1] + width / 2, y[-1] - height / 2, y[0] + height / 2)
    layers = {"reports": counts.astype(np.float64)}
    states = about["states"] if isinstance(about["states"], list) else []
    # The state in question comes first in the file; the coordinate says which is which.
    for number, state in enumerate((order or [str(state) for state in states])[: len(probability)]):
        layers[f"probability_{state}"] = probability[number].astype(np.float64)
        layers[f"sd_{state}"] = sd[number].astype(np.float64)
    for name in ("Conventions", "history"):
        about.pop(name, None)
    if about.get("title") == f"Probability of {about.get('positive')}":
        del about["title"]  # given to a map that had none
    return _told(region, (len(x), len(y)), about, layers, path)


def _state_names(file: Any) -> list[str] | None:
    """The states in the order of the file: one string each, or rows of characters."""
    if "state_name" in file:
        rows = file["state_name"][...]
        return [_text(b"".join(row) if rows.ndim == 2 else row).rstrip("\0") for row in rows.tolist()]
    # Older files have the names as a coordinate.
    return [_text(name) for name in file["state"][...].tolist()] if "state" in file else None


def _text(name: Any) -> str:
    return name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name)


def _check_links(file: Any, path: Path) -> None:
    """Refuse what HDF5 would read from elsewhere, and what is too large, before any of it is read."""
    import h5py

    if len(file) > MOST_LAYERS:
        raise ReportFormatError("holds too many layers for a map.", file=str(path))
    values = 0
    for name in file:
        if isinstance(file.get(name, getlink=True), h5py.ExternalLink | h5py.SoftLink):
            raise ReportFormatError("refers to another file, which is not followed.", file=str(path))
        data = file[name]
        if not isinstance(data, h5py.Dataset):
            continue
        if data.is_virtual or data.external:
            raise ReportFormatError("refers to another file, which is not followed.", file=str(path))
        if data.chunks is not None and int(np.prod(data.chunks, dtype=object)) > LARGEST_BLOCK:
            raise ReportFormatError("is stored in blocks that are too large to unpack.", file=str(path))
        values += int(np.prod(data.shape, dtype=object)) if data.shape else 1
        _check_size(values, 1, path)


def _check_size(cells: int, count: int, path: Path) -> None:
    if cells * count > MOST_VALUES or count > MOST_LAYERS:
        raise ReportFormatError(
            f"has {cells * count:,} values; the limit for a map is {MOST_VALUES:,}.", file=str(path)
        )


def _told(
    region: tuple[float, ...], size: tuple[int, int], about: dict[str, Any], layers: dict[str, NDArray[Any]], path: Path
) -> TaskResult:
    states = about.pop("states", None)
    crs = about.pop("crs", None)
    about.pop("software", None)
    if not isinstance(states, list) or not states:
        raise ReportFormatError(_OURS, file=str(path))
    west, east, south, north = (float(edge) for edge in region)
    grid = {"west": west, "east": east, "south": south, "north": north, "columns": size[0], "rows": size[1], "crs": crs}
    return {"grid": grid, "states": states, "about": about}, layers


def _heatmap(
    grid: Grid, states: tuple[Any, ...], layers: dict[str, NDArray[Any]], metadata: dict[str, Any], path: Path
) -> Heatmap:
    try:
        probability = np.stack([layers[f"probability_{state}"] for state in states], axis=-1)
        sd = np.stack([layers[f"sd_{state}"] for state in states], axis=-1)
        reports = np.nan_to_num(layers["reports"]).astype(np.int64)
        return Heatmap(grid, states, probability, sd, reports, metadata)
    except (KeyError, ValueError, TypeError):
        raise ReportFormatError(f"{_OURS} Its layers are not those of its states.", file=str(path)) from None


def _from_json(text: Any) -> Any:
    """The value that was written as JSON into a format that holds only text."""
    if not isinstance(text, str):
        return text
    try:
        return json.loads(text)
    except (json.JSONDecodeError, RecursionError):
        return text
