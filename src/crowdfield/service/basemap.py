"""The outlines of the world under the map, without internet.

They are Natural Earth's, from the npm package world-atlas. Like every other dependency, they are fetched by name and
version and are not part of this repository: ``python -m crowdfield.service.basemap`` puts them next to the page (``make
setup`` runs it), and wheels include them. Without them the map has a plain background.

The coarse outlines of the world are made at set-up; those around a situation once, by a helper process, when the
situation is first shown.
"""

import base64
import gzip
import hashlib
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import shapely

from crowdfield.data import Region
from crowdfield.outlines import OUTLINES, VENDOR, countries

PACKAGE = "world-atlas@2.0.2"
INTEGRITY = "sha512-IXfV0qwlKXpckz1FhwXVwKRjiIhOnWttOskm5CtxMsjgE/MXAYRHWJqgXOpM8IkcPBoXnyTU5lFHcYa5ChG0LQ=="
MEMBER = "package/countries-10m.json"
WORLD = VENDOR / "world.json.gz"
# Outlines reach at least this many degrees beyond a region.
LEAST_MARGIN = 3.0
# Levels of detail in degrees; the first is the file's own.
LEVELS = (0.0, 0.005, 0.02, 0.1)
# A region is drawn about this many pixels wide: details finer than its width divided by this would not show.
PIXELS = 1000


def ground_box(region: Region) -> Region:
    """A box well beyond the region, so that there are outlines when the user moves the map."""
    width = region.width
    wide, high = max(LEAST_MARGIN, 2 * width), max(LEAST_MARGIN, 2 * (region.north - region.south))
    south, north = max(-90.0, region.south - high), min(90.0, region.north + high)
    if width + 2 * wide >= 360.0:
        return Region(-180.0, south, 180.0, north)
    return Region(_wrapped(region.west - wide), south, _wrapped(region.east + wide), north)


def around(box: Region, detail: float = 0.0) -> dict[str, Any]:
    """The countries within a box as GeoJSON, without details smaller than `detail` degrees; empty if the outlines are
    not installed."""
    west, south, east, north = box
    tolerance = max((level for level in LEVELS if level <= detail), default=0.0)
    digits = 4 if tolerance < 0.01 else 3 if tolerance < 0.05 else 2
    shapes, (x0, y0, x1, y1) = countries(tolerance)
    spans = [(west, east)] if west <= east else [(west, 180.0), (-180.0, east)]
    features = []
    for left, right in spans:
        near = (x0 <= right) & (x1 >= left) & (y0 <= north) & (y1 >= south)
        # Coordinates were rounded for the file, so some outlines touch themselves: repair those first.
        cut = shapely.clip_by_rect(shapely.make_valid(shapes[near]), left, south, right, north)
        cut = shapely.set_precision(cut, 10.0**-digits, mode="pointwise")
        features += [_feature(shape, digits) for shape in cut[~shapely.is_empty(cut)]]
        # Rounding, here again, makes narrow places touch themselves.
        sea = shapely.difference(shapely.box(left, south, right, north), shapely.union_all(shapely.make_valid(cut)))
        if len(shapes) and not sea.is_empty:
            # The page draws the sea over maps that are about the land only.
            features.append(_feature(sea, digits, sea=True))
    return {"type": "FeatureCollection", "features": features}


def _feature(shape: Any, digits: int, **properties: Any) -> dict[str, Any]:
    geometry = _rounded(shapely.geometry.mapping(shape), digits)
    return {"type": "Feature", "properties": properties, "geometry": geometry}


def world() -> dict[str, Any]:
    """All countries with coarse outlines, for a page that shows no map yet."""
    return around(Region(-180.0, -90.0, 180.0, 90.0), LEVELS[-1])


def _wrapped(longitude: float) -> float:
    return (longitude + 180.0) % 360.0 - 180.0


def _rounded(value: Any, digits: int) -> Any:
    if isinstance(value, float):
        return round(value, digits)
    if isinstance(value, dict):
        return {name: _rounded(inner, digits) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(inner, digits) for inner in value]
    return value


def build() -> None:
    """Make the coarse world, compressed, so that no server computes it; anew at every set-up, as this code may have
    changed since the last one."""
    if OUTLINES.is_file():
        body = json.dumps(world(), separators=(",", ":")).encode()
        WORLD.write_bytes(gzip.compress(body, 9, mtime=0))


def fetch() -> str | None:
    """Fetch the outlines with npm and check them; None on success, else what went wrong."""
    if OUTLINES.is_file():
        return None
    npm = shutil.which("npm")
    if npm is None:
        return "npm is not installed"
    with tempfile.TemporaryDirectory() as folder:
        command = [npm, "pack", PACKAGE, "--pack-destination", folder, "--silent"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        packed = next(Path(folder).glob("*.tgz"), None)
        if done.returncode or packed is None:
            return f"npm could not fetch {PACKAGE}"
        digest = base64.b64encode(hashlib.sha512(packed.read_bytes()).digest()).decode()
        if f"sha512-{digest}" != INTEGRITY:
            return f"the checksum of {PACKAGE} is wrong"
        with tarfile.open(packed) as archive:
            member = archive.extractfile(MEMBER)
            assert member is not None
            OUTLINES.parent.mkdir(exist_ok=True)
            OUTLINES.write_bytes(member.read())
    return None


if __name__ == "__main__":
    obstacle = fetch()
    if obstacle is not None:
        print(f"The live map will have no basemap: {obstacle}.", file=sys.stderr)
    build()
