"""One door for every way out: the name of the file says the format."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from crowdfield.data import Heatmap
from crowdfield.errors import InputError

# suffix: (module, function, what it is). Modules are imported when used: most runs write one format.
FORMATS = {
    ".tif": ("raster", "write_cog", "cloud-optimised GeoTIFF"),
    ".tiff": ("raster", "write_cog", "cloud-optimised GeoTIFF"),
    ".nc": ("raster", "write_netcdf", "NetCDF"),
    ".png": ("raster", "write_png", "PNG with a world file"),
    ".geojson": ("vector", "write_geojson", "GeoJSON"),
    ".json": ("vector", "write_geojson", "GeoJSON"),
    ".gpkg": ("vector", "write_geopackage", "GeoPackage"),
    ".parquet": ("vector", "write_geoparquet", "GeoParquet"),
    ".kml": ("kml", "write_kml", "KML"),
    ".kmz": ("kml", "write_kmz", "KMZ"),
    ".csv": ("table", "write_csv", "CSV with an HXL row"),
    ".html": ("page", "write_html", "self-contained page"),
}


def write(heatmap: Heatmap, path: str | Path, **options: Any) -> Path:
    """Write a map in the format that the suffix of the path names; the file appears whole or not at all.

    Parameters
    ----------
    heatmap : Heatmap
        The map.
    path : path
        Its suffix is one of `FORMATS`.
    **options
        Of the format's writer.

    Returns
    -------
    pathlib.Path
        The path.

    Examples
    --------
    With `fused` of the example of `crowdfield.pipeline.fuse`:

    >>> cf.io.write(fused.heatmap, "flood.csv").name
    'flood.csv'
    """
    path = Path(path)
    module, function, _ = _format(path)
    getattr(import_module(f"crowdfield.io.{module}"), function)(heatmap, path, **options)
    return path


def read_map(path: str | Path) -> Heatmap:
    """Read a map that `write` wrote as GeoTIFF or NetCDF, the two formats that keep all of it.

    Parameters
    ----------
    path : path
        A .tif, .tiff or .nc file.

    Returns
    -------
    Heatmap
        The map.

    Examples
    --------
    With `fused` of the example of `crowdfield.pipeline.fuse`:

    >>> path = cf.io.write(fused.heatmap, "flood.tif")
    >>> cf.io.read_map(path).states
    ('dry', 'flooded')
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"there is no file {path}.")
    if path.suffix.lower() not in (".tif", ".tiff", ".nc"):
        raise InputError(
            f"{path.name}: maps are read back from .tif and .nc files; write one of those to convert it later."
        )
    from crowdfield.io.maps import read_raster

    return read_raster(path)


def check_format(path: str | Path) -> str:
    """Say what would be written, in words; an error when the suffix is unknown, before any work is done.

    Parameters
    ----------
    path : path
        The file to be written.

    Returns
    -------
    str
        The name of the format.

    Examples
    --------
    >>> import crowdfield as cf
    >>> cf.io.check_format("flood.tif")
    'cloud-optimised GeoTIFF'
    """
    return _format(Path(path))[2]


def _format(path: Path) -> tuple[str, str, str]:
    try:
        return FORMATS[path.suffix.lower()]
    except KeyError:
        known = " ".join(FORMATS)
        raise InputError(
            f"{path.name}: no map format is known by the suffix '{path.suffix}'. Use one of: {known}"
        ) from None
