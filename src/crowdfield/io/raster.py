"""Maps as rasters: cloud-optimised GeoTIFF, NetCDF, and PNG with a world file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from crowdfield.data import Heatmap
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


def write_netcdf(heatmap: Heatmap, path: str | Path) -> None:
    """NetCDF by the CF convention, through xarray; opens in xarray, QGIS and GDAL."""
    library("h5netcdf")
    dataset = heatmap.to_xarray()
    dataset.attrs = {"Conventions": "CF-1.10", **flat(description(heatmap))}
    small = {name: {"dtype": "float32", "zlib": True} for name in ("probability", "sd", "entropy", "most_probable")}
    with replacing(path) as temporary:
        dataset.to_netcdf(temporary, engine="h5netcdf", encoding=small)


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
