"""A map version as a file, through the writers of `crowdfield.io`."""

import tempfile
import zipfile
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from crowdfield import __version__
from crowdfield.service.maps import MapArrays
from crowdfield.service.problems import Problem

MEDIA = {
    ".tif": "image/tiff; application=geotiff",
    ".geojson": "application/geo+json",
    ".gpkg": "application/geopackage+sqlite3",
    ".parquet": "application/vnd.apache.parquet",
    ".kml": "application/vnd.google-earth.kml+xml",
    ".kmz": "application/vnd.google-earth.kmz",
    ".csv": "text/csv; charset=utf-8",
    ".nc": "application/x-netcdf",
    ".html": "text/html; charset=utf-8",
    ".png": "application/zip",
    ".svg": "image/svg+xml",
    ".pdf": "application/pdf",
    ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    ".zip": "application/zip",
}
# A page that is saved and opened from a file may run its own script there; opened from here it must not.
SANDBOX = {"Content-Security-Policy": "default-src 'none'; sandbox"}


def check_form(form: str) -> None:
    """Refuse an unknown format before anything is made."""
    from crowdfield import io  # late: the writers bring pandas and more

    if f".{form}" not in io.FORMATS:
        known = " ".join(sorted(name[1:] for name in io.FORMATS))
        raise Problem(404, f"no map format is known by this name; use one of: {known}")


def write(
    now: MapArrays, form: str, target: Path, *, reports: NDArray[np.int32] | None = None
) -> tuple[Path, str, dict[str, str]]:
    """Write the map in the format of this file ending to `target`; the file, its media type and its headers.

    `reports` replaces the counts of reports by those that may be told.
    """
    from crowdfield import io

    check_form(form)
    suffix = f".{form}"
    if reports is not None:
        now = replace(now, reports=reports)
    heatmap = now.heatmap(
        software=f"crowdfield {__version__}",
        created=datetime.fromtimestamp(now.info.created, UTC).isoformat(timespec="seconds"),
    )
    name = f"{now.situation.id}-v{now.info.number}"
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        # A picture from here is laid on maps: the colours alone, with the files that say where they lie.
        options = {"bare": True} if suffix == ".png" else {}
        path = io.write(heatmap, Path(folder) / f"{name}{suffix}", **options)
        return bundle(path, target)


def bundle(path: Path, target: Path) -> tuple[Path, str, dict[str, str]]:
    """Move a file that was written, with those that were written beside it, to `target`; its media type and headers."""
    made, suffix = sorted(path.parent.iterdir()), path.suffix
    # A picture needs the file that says where it lies. A table is read without its description, and a spreadsheet that
    # follows the address wants the table itself.
    if len(made) > 1 and suffix != ".csv":
        suffix, path = ".zip", path.with_suffix(".zip")
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for file in made:
                archive.write(file, file.name)
    headers = {"Content-Disposition": f'attachment; filename="{path.stem}{suffix}"', **SANDBOX}
    path.rename(target)
    return target, MEDIA.get(suffix, "application/octet-stream"), headers
