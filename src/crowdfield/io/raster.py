"""Maps as rasters: cloud-optimised GeoTIFF, NetCDF, and a bare picture with a world file."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import numpy as np

from crowdfield import __version__
from crowdfield.data import Heatmap
from crowdfield.io.atomic import replacing
from crowdfield.io.layered import write_bands
from crowdfield.io.layers import description, flat, layers
from crowdfield.io.requirements import library

# A picture smaller than this is enlarged by a whole factor, so that it can be looked at as well as laid on a map.
SMALLEST_PICTURE = 1000


def write_cog(heatmap: Heatmap, path: str | Path) -> None:
    """Cloud-optimised GeoTIFF: float32, one named band per layer, NaN outside the mask."""
    units = {"entropy": "bit", "reports": "reports"}
    write_bands(heatmap.grid, layers(heatmap), path, about=description(heatmap), units=units)


def write_netcdf(heatmap: Heatmap, path: str | Path) -> None:
    """NetCDF by the CF convention, through xarray; opens in xarray, QGIS and GDAL."""
    library("h5netcdf")
    dataset = heatmap.to_xarray().isel(state=list(heatmap.order))
    # CF wants coordinate variables to be numbers: the names of the states are labels beside theirs, as characters.
    numbers = np.arange(1, len(heatmap.states) + 1, dtype=np.int32)
    names = [str(heatmap.states[j]) for j in heatmap.order]
    dataset = dataset.reset_coords("spatial_ref", drop=False) if "spatial_ref" in dataset.coords else dataset
    dataset = dataset.drop_vars("state").assign_coords(
        state=("state", numbers, {"long_name": "number of the state", "units": "1"}),
        state_name=("state", names, {"long_name": "name of the state"}),
    )
    about = flat(description(heatmap))
    named = {"title": f"Probability of {heatmap.positive}", "history": _history(heatmap)}
    dataset.attrs = {"Conventions": "CF-1.8", **named, **about}
    whole = ("reports", "spatial_ref")
    small = {str(name): {"dtype": "float32", "zlib": True} for name in dataset.data_vars if name not in whole}
    axes: dict[str, Any] = {axis: {"_FillValue": None} for axis in ("x", "y")}  # no coordinate is missing
    # No 64-bit integers and no strings: CF has them only from 1.9 on, and few checkers know it.
    axes |= {name: {"dtype": "int32"} for name in ("reports", "spatial_ref") if name in dataset.variables}
    axes |= {"state_name": {"dtype": "S1", "char_dim_name": "letters"}}
    with replacing(path) as temporary:
        dataset.to_netcdf(temporary, engine="h5netcdf", encoding={**small, **axes})


def _history(heatmap: Heatmap) -> str:
    """When and by what the map was made, as the CF convention wants it."""
    made = heatmap.metadata.get("created")
    return f"{made}: made by crowdfield {__version__}" if made else f"made by crowdfield {__version__}"


def write_bare_png(heatmap: Heatmap, path: str | Path, state: Any = None) -> None:
    """The map's colours, nothing else, laid on the ground by three files beside it.

    A world file (.pgw) and the reference system as ESRI's software reads it (.prj) and as GDAL and QGIS do
    (.png.aux.xml).
    """
    from PIL import Image
    from PIL.PngImagePlugin import PngInfo

    from crowdfield.plot import MOST_PROBABLE, colours
    from crowdfield.plot.palette import state_picture

    factor = max(-(-SMALLEST_PICTURE // max(heatmap.grid.shape)), 1)
    picture = state_picture(heatmap) if state == MOST_PROBABLE else colours(heatmap, state)
    pixels = np.round(picture * 255).astype(np.uint8).repeat(factor, axis=0).repeat(factor, axis=1)
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

        system = CRS.from_user_input(heatmap.grid.crs)
        with replacing(path.with_suffix(".prj")) as temporary:
            temporary.write_text(system.to_wkt("WKT1_ESRI"))
        corner = (heatmap.grid.west, width, 0.0, heatmap.grid.north, 0.0, -height)
        with replacing(path.with_name(f"{path.name}.aux.xml")) as temporary:
            temporary.write_text(_auxiliary(system.to_wkt("WKT1_GDAL"), corner), encoding="utf-8")


def _auxiliary(system: str, corner: tuple[float, ...]) -> str:
    """What GDAL keeps beside a picture that cannot hold it: the reference system and where the pixels lie."""
    numbers = ", ".join(f"{number:.16e}" for number in corner)
    return (
        f'<PAMDataset>\n  <SRS dataAxisToSRSAxisMapping="1,2">{escape(system)}</SRS>\n'
        f"  <GeoTransform>{numbers}</GeoTransform>\n</PAMDataset>\n"
    )
