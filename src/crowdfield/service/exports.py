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
from crowdfield.service.moments import as_text
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
# An exported page may run its script when it is opened from a file, but not when it is opened from this server.
SANDBOX = {"Content-Security-Policy": "default-src 'none'; sandbox"}


def check_form(form: str) -> None:
    """Raise an error if the format is unknown, before any work is done."""
    from crowdfield import io  # imported here: the writers need pandas and more

    if f".{form}" not in io.FORMATS:
        known = " ".join(sorted(name[1:] for name in io.FORMATS))
        raise Problem(404, f"there is no such map format; use one of: {known}")


def write(
    now: MapArrays, form: str, target: Path, *, reports: NDArray[np.int32] | None = None
) -> tuple[Path, str, dict[str, str]]:
    """Write the map to `target` in the format `form` (a file ending); returns the file, its media type and its headers.

    `reports` replaces the counts of reports by those that the caller may see.
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
    if now.moment is not None:
        name += f"-{as_text(now.moment).replace(':', '')}"
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        # A PNG from here is put on other maps: it has only the colours, and files that georeference it.
        options = {"bare": True} if suffix == ".png" else {}
        path = io.write(heatmap, Path(folder) / f"{name}{suffix}", **options)
        return bundle(path, target)


def bundle(path: Path, target: Path) -> tuple[Path, str, dict[str, str]]:
    """Move a written file, together with those written next to it, to `target`; returns it with media type and
    headers."""
    made, suffix = sorted(path.parent.iterdir()), path.suffix
    # A picture needs the file that georeferences it. A CSV table can be read without its description, and a spreadsheet
    # that loads the address needs the table itself.
    if len(made) > 1 and suffix != ".csv":
        suffix, path = ".zip", path.with_suffix(".zip")
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for file in made:
                archive.write(file, file.name)
    headers = {"Content-Disposition": f'attachment; filename="{path.stem}{suffix}"', **SANDBOX}
    path.rename(target)
    return target, MEDIA.get(suffix, "application/octet-stream"), headers
