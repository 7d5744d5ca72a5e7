"""The outlines of the world under the map, without internet.

They are Natural Earth's, from the npm package world-atlas. As with every other dependency, its files are fetched by
name and version and are not part of this repository: ``python -m crowdfield.service.basemap`` puts them beside the page
(``make setup`` does), and a wheel takes them along. Without them the map is drawn on a plain ground.
"""

import base64
import hashlib
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import shapely
from numpy.typing import NDArray

PACKAGE = "world-atlas@2.0.2"
INTEGRITY = "sha512-IXfV0qwlKXpckz1FhwXVwKRjiIhOnWttOskm5CtxMsjgE/MXAYRHWJqgXOpM8IkcPBoXnyTU5lFHcYa5ChG0LQ=="
MEMBER = "package/countries-10m.json"
OUTLINES = Path(__file__).parent / "static" / "vendor" / "countries-10m.json"


def around(west: float, east: float, south: float, north: float) -> dict[str, Any]:
    """The countries within a box of degrees, as GeoJSON; empty where the outlines were not fetched."""
    shapes, (x0, y0, x1, y1) = countries()
    spans = [(west, east)] if west <= east else [(west, 180.0), (-180.0, east)]
    features = []
    for left, right in spans:
        near = (x0 <= right) & (x1 >= left) & (y0 <= north) & (y1 >= south)
        # Coordinates were rounded for the file; what that made touch itself is set right first.
        for shape in shapely.make_valid(shapes[near]):
            cut = shapely.clip_by_rect(shape, left, south, right, north)
            if not cut.is_empty:
                features.append({"type": "Feature", "properties": {}, "geometry": shapely.geometry.mapping(cut)})
    return {"type": "FeatureCollection", "features": features}


@lru_cache(maxsize=1)
def countries() -> tuple[NDArray[Any], NDArray[np.float64]]:
    """All polygons, and their bounds [4, P]."""
    found = decode(json.loads(OUTLINES.read_text()), "countries") if OUTLINES.is_file() else []
    shapes = np.array(found, dtype=object)
    return shapes, shapely.bounds(shapes).reshape(-1, 4).T


def decode(topology: dict[str, Any], name: str) -> list[shapely.Geometry]:
    """The polygons of an object of a TopoJSON file: rings are chains of shared arcs, stored as whole-number steps."""
    scale, shift = (np.asarray(topology["transform"][part]) for part in ("scale", "translate"))
    arcs = [np.cumsum(np.asarray(arc), axis=0) * scale + shift for arc in topology["arcs"]]

    def ring(parts: list[int]) -> NDArray[np.float64]:
        # ~i is arc i backwards; each arc begins where the one before ends.
        lines = [arcs[~i][::-1] if i < 0 else arcs[i] for i in parts]
        return np.concatenate([line if k == 0 else line[1:] for k, line in enumerate(lines)])

    shapes: list[shapely.Geometry] = []
    for geometry in topology["objects"][name]["geometries"]:
        pieces = geometry.get("arcs", [])
        for piece in [pieces] if geometry["type"] == "Polygon" else pieces:
            shell, *holes = [ring(parts) for parts in piece]
            # Rounding left some islets with two points.
            if len(shell) >= 4:
                shapes.append(shapely.Polygon(shell, [hole for hole in holes if len(hole) >= 4]))
    return shapes


def fetch() -> str | None:
    """Fetch the outlines with npm and check them; None when done, else what kept us."""
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
            return f"{PACKAGE} is not the one we know"
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
