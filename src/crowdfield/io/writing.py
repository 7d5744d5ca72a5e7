"""Writing and reading maps in any format: the suffix of the file selects it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from crowdfield.data import Heatmap
from crowdfield.errors import InputError, MissingDependencyError

# suffix: (module, function, what it is). Modules are imported when used: most runs write one format.
FORMATS = {
    ".tif": ("raster", "write_cog", "cloud-optimised GeoTIFF"),
    ".tiff": ("raster", "write_cog", "cloud-optimised GeoTIFF"),
    ".nc": ("raster", "write_netcdf", "NetCDF"),
    ".png": ("picture", "write_picture", "PNG picture"),
    ".svg": ("picture", "write_picture", "SVG picture"),
    ".pdf": ("picture", "write_picture", "PDF picture"),
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
            f"{path.name}: only maps in .tif and .nc files can be read back. Write one of those to convert it later."
        )
    from crowdfield.io.maps import read_raster

    return read_raster(path)


# What each format needs beside what is always installed.
_NEEDS = {
    ".tif": ("rasterio",),
    ".tiff": ("rasterio",),
    ".nc": ("xarray", "h5netcdf"),
    ".gpkg": ("pyogrio", "geopandas"),
    ".parquet": ("pyarrow", "geopandas"),
}


def check_output(path: str | Path, formats: Iterable[str] | None = None) -> None:
    """Raise an error if a file cannot be written, before the work whose result it is to hold.

    Checked are its format, its folder, and the packages that the format needs. Nothing is written.

    Parameters
    ----------
    path : path
        The file to be written.
    formats : iterable of str, optional
        The suffixes that are possible; by default those of maps, `FORMATS`.

    Raises
    ------
    InputError
        If the suffix is unknown, or the folder does not exist or cannot be written to.
    MissingDependencyError
        If the format needs a package that is not installed.

    Examples
    --------
    >>> import crowdfield as cf
    >>> cf.io.check_output("flood.csv")
    >>> cf.io.check_output("flood.doc", [".html", ".pdf"])
    Traceback (most recent call last):
    crowdfield.errors.InputError: flood.doc: the suffix '.doc' is not supported. Use one of: .html .pdf
    """
    path = Path(path)
    if formats is None:
        check_format(path)
    elif path.suffix.lower() not in formats:
        raise InputError(f"{path.name}: the suffix '{path.suffix}' is not supported. Use one of: {' '.join(formats)}")
    if path.is_dir():
        raise InputError(f"{path} is a folder. Name a file in it.")
    folder = path.absolute().parent
    if not folder.exists():
        raise InputError(f"there is no folder {folder} to write {path.name} into. Create it first.")
    if not folder.is_dir():
        raise InputError(f"{folder} is a file, so nothing can be written into it. Name a folder.")
    if not os.access(folder, os.W_OK):
        raise InputError(f"no permission to write into the folder {folder}. Choose another.")
    missing = [name for name in _NEEDS.get(path.suffix.lower(), ()) if find_spec(name) is None]
    if missing:
        raise MissingDependencyError(
            f"{path.name}: this format needs {missing[0]}, which is not installed. Install it with: pip install "
            "'crowdfield[geo]'"
        )


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
            f"{path.name}: there is no map format with the suffix '{path.suffix}'. Use one of: {known}"
        ) from None
