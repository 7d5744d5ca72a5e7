"""Maps as rasters: cloud-optimised GeoTIFF, NetCDF, and PNG with a world file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from crowdfield.data import Grid, Heatmap
from crowdfield.errors import ReportFormatError
from crowdfield.io.atomic import replacing
from crowdfield.io.layers import description, flat, layers
from crowdfield.io.requirements import library

# A picture smaller than this is enlarged by a whole factor, so that it can be looked at as well as laid on a map.
SMALLEST_PICTURE = 1000


def write_cog(heatmap: Heatmap, path: str | Path) -> None:
    """Cloud-optimised GeoTIFF: float32, one named band a layer, NaN outside the mask."""
    rasterio = library("rasterio")
    from rasterio.io import MemoryFile
    from rasterio.shutil import copy
    from rasterio.transform import Affine

    bands = layers(heatmap)
    profile = {
        "driver": "GTiff",
        "width": heatmap.grid.columns,
        "height": heatmap.grid.rows,
        "count": len(bands),
        "dtype": "float32",
        "nodata": float("nan"),
        "crs": heatmap.grid.crs,
        "transform": Affine(*heatmap.grid.transform),
    }
    units = {"entropy": "bit", "reports": "reports"}
    with replacing(path) as temporary, rasterio.Env(), MemoryFile() as memory:
        with memory.open(**profile) as draft:
            draft.update_tags(
                **{f"CROWDFIELD_{name.upper()}": text for name, text in flat(description(heatmap)).items()}
            )
            draft.update_tags(TIFFTAG_SOFTWARE=description(heatmap)["software"])
            for number, (name, values) in enumerate(bands.items(), 1):
                draft.write(values, number)
                draft.set_band_description(number, name)
                draft.set_band_unit(number, units.get(name, ""))
        with memory.open() as draft:
            # Nearest keeps every overview pixel a value of the map: an average of state numbers would be a lie.
            copy(draft, temporary, driver="COG", compress="DEFLATE", predictor="YES", overview_resampling="NEAREST")


def read_cog(path: str | Path) -> Heatmap:
    """A map that `write_cog` wrote."""
    rasterio = library("rasterio")
    try:
        with rasterio.open(path) as file:
            names, values = list(file.descriptions), file.read().astype(np.float64)
            region = (file.bounds.left, file.bounds.right, file.bounds.bottom, file.bounds.top)
            tags = {name[11:].lower(): text for name, text in file.tags().items() if name.startswith("CROWDFIELD_")}
            crs = tags.get("crs") if tags.get("crs") != "null" else None
    except rasterio.errors.RasterioIOError as problem:
        raise ReportFormatError(f"cannot be read as a raster ({problem}).", file=str(path)) from problem
    if "states" not in tags or None in names:
        raise ReportFormatError("is not a map that crowdfield wrote; its bands have no names.", file=str(path))
    states = tuple(json.loads(tags.pop("states")))
    grid = Grid(*region, columns=values.shape[2], rows=values.shape[1], crs=crs)
    by_name = dict(zip(names, values, strict=True))
    return _heatmap(grid, states, by_name, {name: _unflat(text) for name, text in tags.items()})


def write_netcdf(heatmap: Heatmap, path: str | Path) -> None:
    """NetCDF by the CF convention, through xarray; opens in xarray, QGIS and GDAL."""
    library("h5netcdf")
    dataset = heatmap.to_xarray()
    dataset.attrs = {"Conventions": "CF-1.10", **flat(description(heatmap))}
    small = {name: {"dtype": "float32", "zlib": True} for name in ("probability", "sd", "entropy", "most_probable")}
    with replacing(path) as temporary:
        dataset.to_netcdf(temporary, engine="h5netcdf", encoding=small)


def read_netcdf(path: str | Path) -> Heatmap:
    """A map that `write_netcdf` wrote."""
    xarray = library("xarray")
    library("h5netcdf")
    try:
        with xarray.open_dataset(path, engine="h5netcdf", decode_coords="all") as dataset:
            dataset.load()
    except (OSError, ValueError) as problem:
        raise ReportFormatError(f"cannot be read as NetCDF ({problem}).", file=str(path)) from problem
    if "states" not in dataset.attrs or "probability" not in dataset:
        raise ReportFormatError("is not a map that crowdfield wrote.", file=str(path))
    about = {name: _unflat(text) for name, text in dataset.attrs.items() if name != "Conventions"}
    x, y = dataset["x"].to_numpy(), dataset["y"].to_numpy()
    # Two centres give the width of a cell; a map of one column or row is square there.
    width = (x[-1] - x[0]) / (len(x) - 1) if len(x) > 1 else (y[0] - y[-1]) / max(len(y) - 1, 1)
    height = (y[0] - y[-1]) / (len(y) - 1) if len(y) > 1 else width
    grid = Grid(
        x[0] - width / 2, x[-1] + width / 2, y[-1] - height / 2, y[0] + height / 2, len(x), len(y), about.get("crs")
    )
    states = tuple(about.pop("states"))
    by_name: dict[str, Any] = {"reports": dataset["reports"].to_numpy()}
    for j, state in enumerate(states):
        by_name[f"probability_{state}"] = dataset["probability"].to_numpy()[j]
        by_name[f"sd_{state}"] = dataset["sd"].to_numpy()[j]
    return _heatmap(grid, states, by_name, about)


def write_png(heatmap: Heatmap, path: str | Path, state: Any = None) -> None:
    """The map's colours, nothing else, with a world file (.pgw) and the reference system (.prj) beside it."""
    from PIL import Image
    from PIL.PngImagePlugin import PngInfo

    from crowdfield.plot import colours

    factor = max(-(-SMALLEST_PICTURE // max(heatmap.grid.shape)), 1)
    pixels = np.round(colours(heatmap, state) * 255).astype(np.uint8).repeat(factor, axis=0).repeat(factor, axis=1)
    chunks = PngInfo()
    for name, text in flat(description(heatmap)).items():
        chunks.add_itxt(name, text)
    path = Path(path)
    width, height = heatmap.grid.cell_width / factor, heatmap.grid.cell_height / factor
    # A world file gives the centre of the upper left pixel, not its corner.
    world = (width, 0.0, 0.0, -height, heatmap.grid.west + width / 2, heatmap.grid.north - height / 2)
    with replacing(path) as temporary:
        Image.fromarray(pixels).save(temporary, format="PNG", pnginfo=chunks, optimize=True)
    with replacing(path.with_suffix(".pgw")) as temporary:
        temporary.write_text("".join(f"{number:.12g}\n" for number in world))
    if heatmap.grid.crs is not None:
        from pyproj import CRS

        with replacing(path.with_suffix(".prj")) as temporary:
            temporary.write_text(CRS.from_user_input(heatmap.grid.crs).to_wkt("WKT1_ESRI"))


def _heatmap(grid: Grid, states: tuple[Any, ...], by_name: dict[str, Any], metadata: dict[str, Any]) -> Heatmap:
    for name in ("software", "crs"):
        metadata.pop(name, None)
    probability = np.stack([by_name[f"probability_{state}"] for state in states], axis=-1)
    sd = np.stack([by_name[f"sd_{state}"] for state in states], axis=-1)
    reports = np.nan_to_num(by_name["reports"]).astype(np.int64)
    return Heatmap(grid, states, probability, sd, reports, metadata)


def _unflat(text: Any) -> Any:
    if not isinstance(text, str):
        return text
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text
