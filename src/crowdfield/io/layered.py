"""Named layers on a grid as files, for results that are not maps of states: for example changes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdfield import __version__
from crowdfield.data import Grid
from crowdfield.errors import InputError
from crowdfield.io.atomic import replacing
from crowdfield.io.layers import GEOPACKAGE, flat, plain
from crowdfield.io.requirements import library

FORMATS = (".tif", ".geojson", ".gpkg", ".csv")
DIGITS = 6


def write_layers(
    grid: Grid,
    layers: Mapping[str, NDArray[np.float64]],
    path: str | Path,
    *,
    texts: Mapping[str, NDArray[np.object_]] | None = None,
    about: Mapping[str, Any] | None = None,
) -> Path:
    """Numbers [rows, columns], NaN outside, as GeoTIFF, GeoJSON, GeoPackage or CSV; a GeoTIFF holds no `texts`."""
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        raise InputError(f"{path.name}: write it as {', '.join(FORMATS)}, or draw it as .png, .svg or .pdf.")
    if suffix == ".tif":
        write_bands(grid, layers, path, about={"software": f"crowdfield {__version__}", **dict(about or {})})
        return path
    keep = np.isfinite(next(iter(layers.values()))).ravel()
    columns: dict[str, list[Any]] = {
        name: [plain(value) for value in np.round(values.ravel()[keep], DIGITS)] for name, values in layers.items()
    }
    columns |= {name: values.ravel()[keep].tolist() for name, values in (texts or {}).items()}
    if suffix == ".csv":
        _table(grid, keep, columns, path)
    else:
        _polygons(grid, keep, columns, path, plain(dict(about or {})))
    return path


def write_bands(
    grid: Grid,
    bands: Mapping[str, NDArray[Any]],
    path: str | Path,
    *,
    about: Mapping[str, Any],
    units: Mapping[str, str] | None = None,
) -> None:
    """Cloud-optimised GeoTIFF: float32, one named band per layer, NaN outside; `about` in tags CROWDFIELD_*."""
    rasterio = library("rasterio")
    from rasterio.io import MemoryFile
    from rasterio.shutil import copy
    from rasterio.transform import Affine

    profile = {
        "driver": "GTiff",
        "width": grid.columns,
        "height": grid.rows,
        "count": len(bands),
        "dtype": "float32",
        "nodata": float("nan"),
        "crs": grid.crs,
        "transform": Affine(*grid.transform),
    }
    with replacing(path) as temporary, rasterio.Env(), MemoryFile() as memory:
        with memory.open(**profile) as draft:
            draft.update_tags(**{f"CROWDFIELD_{name.upper()}": text for name, text in flat(plain(about)).items()})
            draft.update_tags(TIFFTAG_SOFTWARE=about["software"])
            for number, (name, values) in enumerate(bands.items(), 1):
                draft.write(np.asarray(values, dtype=np.float32), number)
                draft.set_band_description(number, name)
                draft.set_band_unit(number, (units or {}).get(name, ""))
        with memory.open() as draft:
            # "Nearest" keeps values of the map in overviews: an average of state numbers would be meaningless.
            copy(draft, temporary, driver="COG", compress="DEFLATE", predictor="YES", overview_resampling="NEAREST")


def _table(grid: Grid, keep: NDArray[np.bool_], columns: Mapping[str, list[Any]], path: Path) -> None:
    from crowdfield.io.table import write_rows
    from crowdfield.io.vector import to_lonlat

    centres = grid.centres()[keep]
    at = {"easting": centres[:, 0], "northing": centres[:, 1]}
    if grid.crs is not None:
        lonlat = to_lonlat(centres, grid.crs)
        at = {"lat": lonlat[:, 1], "lon": lonlat[:, 0], **at}
    named = {name: np.round(values, 7).tolist() for name, values in at.items()} | dict(columns)
    write_rows(list(named), zip(*named.values(), strict=True), path)


def _polygons(
    grid: Grid, keep: NDArray[np.bool_], columns: Mapping[str, list[Any]], path: Path, about: dict[str, Any]
) -> None:
    from crowdfield.io.vector import cell_rings, geographic, write_features

    if grid.crs is None:
        raise InputError(f"{path.name}: a map without a reference system has no place on the ground; write .csv.")
    rings = cell_rings(grid)[keep]
    if path.suffix.lower() == ".gpkg":
        geopandas, _ = library("geopandas"), library("pyogrio")
        import shapely

        frame = geopandas.GeoDataFrame(columns, geometry=shapely.polygons(rings), crs=grid.crs)
        with replacing(path) as temporary:
            frame.to_file(temporary, layer="change", **GEOPACKAGE)
        return
    rows = zip(*columns.values(), strict=True)
    features = (
        {"type": "Feature", "properties": dict(zip(columns, row, strict=True)), "geometry": shape}
        for row, shape in zip(rows, geographic(rings, grid.crs), strict=True)
    )
    with replacing(path) as temporary:
        write_features(temporary, features, {"metadata": about})
