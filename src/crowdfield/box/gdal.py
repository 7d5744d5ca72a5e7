"""GDAL's own switches: nothing from the network, no files beside the one that is opened, no drivers but those named."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

SWITCHES = {
    "GDAL_DRIVER_PATH": "disable",
    "GDAL_DISABLE_READDIR_ON_OPEN": "EMPTY_DIR",
    "GDAL_PAM_ENABLED": "NO",
    "GDAL_HTTP_MAX_RETRY": "0",
    "GDAL_HTTP_TIMEOUT": "1",
    "GDAL_HTTP_CONNECTTIMEOUT": "1",
    "GDAL_HTTP_PROXY": "127.0.0.1:1",
    "CPL_VSIL_CURL_ALLOWED_EXTENSIONS": ".nothing-is-fetched",
    "CPL_VSIL_CURL_ALLOWED_FILENAME": "/vsicurl/nothing-is-fetched",
    "CPL_CURL_ENABLE_VSIMEM": "NO",
    "GDAL_NUM_THREADS": "1",
    "GDAL_CACHEMAX": "64",
    "GDAL_VRT_ENABLE_PYTHON": "NO",
    "OGR_SQLITE_LOAD_EXTENSIONS": "NO",
    "OGR_SQLITE_PRAGMA": "trusted_schema=OFF",
    "PROJ_NETWORK": "OFF",
    "GTIFF_VIRTUAL_MEM_IO": "NO",
    "HDF5_PLUGIN_PRELOAD": "::",  # HDF5: load no filters from elsewhere
}


def only(*drivers: str) -> dict[str, str]:
    """The environment in which GDAL registers these drivers and no others. It must be set before GDAL starts."""
    return {"GDAL_SKIP": ",".join(name for name in all_drivers() if name not in drivers)}


@cache
def all_drivers() -> tuple[str, ...]:
    """The drivers that this build of GDAL has. A process of its own asks: once asked, they are all registered."""
    from crowdfield.box.asking import ask

    return tuple(
        str(name) for name in ask("crowdfield.box.gdal:list_drivers", Path("/"), shown="GDAL").header["drivers"]
    )


def list_drivers(_: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Task of a box: the names of all drivers that are registered."""
    import rasterio

    with rasterio.Env() as gdal:
        return {"drivers": sorted(gdal.drivers())}, {}
