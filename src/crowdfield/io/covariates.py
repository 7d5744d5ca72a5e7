"""Covariates from GeoTIFF: further information about every place, sampled where the model needs it.

    elevation = crowdfield.io.read_covariates(["elevation.tif"], crs="EPSG:32618")
    crowdfield.HeatmapBCC(covariates=elevation)

Rasters may come from anybody, so they are read in a box, where GDAL has one driver, no network, and cannot write. First
the size and the reference system of the file are read, then the part that the map needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdfield import geography
from crowdfield.arrays import Array
from crowdfield.box import Answer, ask, believing, is_inside
from crowdfield.box.gdal import only
from crowdfield.data.grid import Grid
from crowdfield.data.raster import Raster
from crowdfield.errors import InputError, ReportFormatError
from crowdfield.io import systems
from crowdfield.io.boxed import TaskResult, own_limits
from crowdfield.io.kinds import first_bytes
from crowdfield.io.maps import LARGEST_BLOCK, TIFF
from crowdfield.io.requirements import library

MOST_BANDS = 50  # each band is one covariate; a file with more was probably given by mistake
MOST_PIXELS = 2**24  # pixels of a band that are kept; a finer raster is averaged down to about this many
MARGIN = 2  # pixels around the map, so that interpolation at its edges has neighbours
EDGE = 41  # points along each side of the map, which is a curve in the raster's own system


@dataclass(frozen=True, eq=False)
class Rasters:
    """A function of places in `crs` that returns one column per raster, for `HeatmapBCC(covariates=...)`."""

    rasters: tuple[Raster, ...]
    crs: str

    @property
    def names(self) -> tuple[str, ...]:
        """The name of every covariate, in the order of the columns."""
        return tuple(raster.name for raster in self.rasters)

    def __call__(self, places: Array) -> Array:
        """[M, 2] or [M, 3] (with time) -> [M, C]; NaN where a raster has no value."""
        out, moved = np.empty((len(places), len(self.rasters))), {self.crs: np.asarray(places[:, :2], dtype=np.float64)}
        for column, raster in enumerate(self.rasters):
            if raster.crs not in moved:
                x, y = geography.transformer(self.crs, raster.crs).transform(places[:, 0], places[:, 1])
                moved[raster.crs] = np.column_stack([x, y])
            out[:, column] = raster.at(moved[raster.crs])
        return out


def read_covariates(paths: Sequence[str | Path], crs: str, grid: Grid | None = None) -> Rasters:
    """Read GeoTIFF files as covariates, one per band, named after the file.

    Parameters
    ----------
    paths : sequence of path
        The files, each in any reference system.
    crs : str
        The reference system of the places at which the covariates will be evaluated.
    grid : Grid, optional
        Read only the part within this map (in ``crs``). A band with more than MOST_PIXELS pixels there is averaged to
        fewer.

    Returns
    -------
    Rasters
        A function of places, for ``HeatmapBCC(covariates=...)``.

    Examples
    --------
    With `fused` of the example of `crowdfield.pipeline.fuse`, whose map stands in for a raster here:

    >>> path = cf.io.write(fused.heatmap, "elevation.tif")
    >>> rasters = cf.io.read_covariates([path], crs="EPSG:4326")
    >>> rasters(np.array([[-72.35, 18.55]])).shape == (1, len(rasters.names))
    True
    """
    rasters = [raster for path in paths for raster in _read(Path(path), crs, grid)]
    names = [raster.name for raster in rasters]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"two covariates are called {twice[0]!r}. Rename one of the files.")
    return Rasters(tuple(rasters), crs)


def read_amount_rasters(path: str | Path, grid: Grid) -> list[Raster]:
    """The bands of a GeoTIFF within a map as amounts: when pixels are merged, those without a value count as 0."""
    assert grid.crs is not None
    return _read(Path(path), grid.crs, grid, empty_is_nothing=True)


def _read(path: Path, crs: str, grid: Grid | None, *, empty_is_nothing: bool = False) -> list[Raster]:
    if not path.is_file():
        raise InputError(f"there is no file {path}.")
    if not first_bytes(path, 16).startswith(TIFF):
        raise ReportFormatError("is not a GeoTIFF.", advice="Convert it: gdal_translate FILE out.tif.", file=str(path))
    library("rasterio")
    answer = _ask("about", path)
    with believing(str(path)):
        columns, rows, count = (int(answer.header[name]) for name in ("columns", "rows", "count"))
        transform = _six(answer.header["transform"])
        wkt, names = answer.header["crs"], [str(name)[:100] for name in answer.header["names"]]
    try:
        system = systems.by_definition(str(wkt)) if wkt else None
    except systems.UnknownSystem as problem:
        raise ReportFormatError(f"{problem}.", file=str(path)) from None
    if system is None:
        raise ReportFormatError(
            "does not say its reference system.", advice="Add it: gdal_edit.py -a_srs EPSG:n FILE.", file=str(path)
        )
    turns = bool(_is_geographic(system))
    window = [0, 0, columns, rows]
    if grid is not None:
        window = _window(transform, (columns, rows), geography.transformer(crs, system), grid, path, turns)
    answer = _ask("pixels", path, window=window, empty_is_nothing=empty_is_nothing)
    with believing(str(path)):
        step = _six(answer.header["transform"])
        bands = [np.array(answer.arrays[f"band {number}"], dtype=np.float32) for number in range(count)]
        return [Raster(name, band, step, system, turns) for name, band in zip(names, bands, strict=True)]


def pixel_area(path: str | Path) -> float:
    """The area of a pixel of the file itself, in the units of its own reference system."""
    answer = _ask("about", Path(path))
    with believing(str(path)):
        a, b, _, d, e, _ = _six(answer.header["transform"])
    return abs(a * e - b * d)


def _ask(task: str, path: Path, **arguments: Any) -> Answer:
    if is_inside():  # a task of `crowdfield.io.boxed`, which the service starts with its own limits
        header, arrays = about(path) if task == "about" else pixels(path, **arguments)
        return Answer(header, arrays, (), 0.0, 0)
    return ask(
        f"crowdfield.io.covariates:{task}",
        path,
        own_limits(),
        shown=str(path),
        environment=only("GTiff"),
        **arguments,
    )


def about(path: Path) -> TaskResult:
    """Task of a box: size, place and reference system of a GeoTIFF."""
    with _Opened(path) as file:
        names = [path.stem]
        if file.count > 1:
            names = [said or f"{path.stem} {number}" for number, said in enumerate(file.descriptions, 1)]
        return {
            "columns": file.width,
            "rows": file.height,
            "count": file.count,
            "transform": list(file.transform)[:6],
            "crs": None if file.crs is None else file.crs.to_wkt(),
            "names": names,
        }, {}


def pixels(path: Path, *, window: list[int], empty_is_nothing: bool = False) -> TaskResult:
    """Task of a box: the bands within a window (column, row, columns, rows), NaN where there is no value.

    empty_is_nothing: when pixels are merged, those without a value count as 0; otherwise they are ignored.
    """
    from rasterio.enums import Resampling
    from rasterio.windows import Window

    with _Opened(path) as file:
        column, row, columns, rows = window
        coarser = max(1.0, np.sqrt(columns * rows * file.count / MOST_PIXELS))
        shape = max(1, round(rows / coarser)), max(1, round(columns / coarser))
        part = Window(column, row, columns, rows)
        arrays = {}
        for number in range(file.count):
            if empty_is_nothing and coarser > 1.0:
                arrays[f"band {number}"] = _mean_with_empty_as_nothing(file, number, part, shape)
                continue
            band = file.read(
                number + 1, window=part, out_shape=shape, masked=True, resampling=Resampling.average
            ).astype(np.float32)
            scaled = band * np.float32(file.scales[number]) + np.float32(file.offsets[number])
            arrays[f"band {number}"] = np.where(np.isfinite(scaled.filled(np.nan)), scaled.filled(np.nan), np.nan)
        a, b, c, d, e, f = list(file.transform)[:6]
    corner = (a * column + b * row + c, d * column + e * row + f)
    wide, high = columns / shape[1], rows / shape[0]
    return {"transform": [a * wide, b * high, corner[0], d * wide, e * high, corner[1]]}, arrays


def _mean_with_empty_as_nothing(file: Any, number: int, part: Any, shape: tuple[int, int]) -> NDArray[np.float32]:
    """The mean of a band over blocks of pixels, with 0 for those without a value, so that sums stay the same.

    GDAL averages over pixels with a value only, which would spread the people of a coast over the sea.
    """
    from rasterio.windows import Window

    top, left = (np.arange(n) * size // n for n, size in zip(shape, (part.height, part.width), strict=True))
    out = np.empty(shape, dtype=np.float32)
    for i, (first, last) in enumerate(pairwise([*top.tolist(), part.height])):
        rows = Window(part.col_off, part.row_off + first, part.width, last - first)
        stored = file.read(number + 1, window=rows, masked=True).astype(np.float64)
        values = (stored * file.scales[number] + file.offsets[number]).filled(0.0)
        out[i] = np.add.reduceat(np.where(np.isfinite(values), values, 0.0).sum(axis=0), left)
    return out * np.float32(shape[0] * shape[1] / (part.height * part.width))


class _Opened:
    """A GeoTIFF, opened with GDAL's GeoTIFF driver only; errors are raised as `ReportFormatError` in our own words."""

    def __init__(self, path: Path) -> None:
        import rasterio

        self.path, self.gdal = path, rasterio.Env()

    def __enter__(self) -> Any:
        import rasterio
        from rasterio.errors import RasterioError

        with self.gdal as gdal:
            if set(gdal.drivers()) - {"GTiff"}:
                raise RuntimeError("GDAL has loaded more drivers than the one requested")
        try:
            self.file = rasterio.open(self.path, driver="GTiff", sharing=False)
        except RasterioError:
            raise self._broken() from None
        if self.file.count > MOST_BANDS:
            raise ReportFormatError(f"has {self.file.count} bands; the limit is {MOST_BANDS}.", file=str(self.path))
        if any(height * width > LARGEST_BLOCK for height, width in self.file.block_shapes):
            raise ReportFormatError("is stored in blocks that are too large to unpack.", file=str(self.path))
        if any(np.dtype(kind).kind not in "iuf" for kind in self.file.dtypes):
            raise ReportFormatError("holds complex numbers, which cannot be covariates.", file=str(self.path))
        return self.file

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        from rasterio.errors import RasterioError

        self.file.close()
        if isinstance(error, RasterioError):
            raise self._broken() from None

    def _broken(self) -> ReportFormatError:
        return ReportFormatError("cannot be read as a raster. Is the file complete?", file=str(self.path))


def _window(
    transform: tuple[float, ...], size: tuple[int, int], to_raster: Any, grid: Grid, path: Path, turns: bool
) -> list[int]:
    """The pixels under a map, with a margin."""
    x, y = np.linspace(grid.west, grid.east, EDGE), np.linspace(grid.south, grid.north, EDGE)
    places = np.stack(np.meshgrid(x, y), -1).reshape(-1, 2)
    seen = np.column_stack(to_raster.transform(places[:, 0], places[:, 1]))
    seen = seen[np.isfinite(seen).all(axis=1)]
    whole = Raster("", np.broadcast_to(np.float32(0), size[::-1]).view(), _six(transform), "", turns)
    column, row = whole._pixels(seen) if len(seen) else (np.array([-1.0]), np.array([-1.0]))
    ends = []
    for value, most in ((column, size[0]), (row, size[1])):
        low = int(np.clip(np.floor(value.min()) - MARGIN, 0, most))
        high = int(np.clip(np.ceil(value.max()) + MARGIN, 0, most))
        ends.append((low, high - low))
    (left, wide), (top, high) = ends
    if wide < 1 or high < 1 or column.max() < 0 or row.max() < 0 or column.min() > size[0] or row.min() > size[1]:
        raise InputError(f"{path}: this raster does not overlap the map. Is it of another region?")
    return [left, top, wide, high]


def _is_geographic(system: str) -> bool:
    from pyproj import CRS

    return bool(CRS.from_user_input(system).is_geographic)


def _six(values: Any) -> tuple[float, float, float, float, float, float]:
    a, b, c, d, e, f = (float(value) for value in values)
    return a, b, c, d, e, f
