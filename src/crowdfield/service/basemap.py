"""The ground under the map, without internet: outlines of countries, rivers, lakes and the names of places.

``python -m crowdfield.service.basemap`` fetches what that needs (`crowdfield.service.vendoring`); ``make setup`` runs
it. Without it the map has a plain background.

The coarse outlines of the world are made at set-up; the ground of a situation once, by a helper process, when the
situation is first shown.
"""

import gzip
import json
from typing import Any

import numpy as np
import shapely

from crowdfield.data import Region
from crowdfield.landmarks import COARSER, PLACES, WATERS, Place, largest_waters, places_within
from crowdfield.outlines import OUTLINES, VENDOR, countries
from crowdfield.service.vendoring import fetch_missing

WORLD = VENDOR / "world.json.gz"
# The ground reaches at least this many degrees beyond a region.
LEAST_MARGIN = 3.0
# Levels of detail in degrees: the file's own, then from 0.0022 to that of the world and a little beyond.
WORLD_DETAIL = 0.1
LEVELS = (0.0, *(WORLD_DETAIL * COARSER**k for k in range(-11, 4)))
# A region is drawn about this many pixels wide: details finer than its width divided by this would not show.
PIXELS = 1000
# Rivers and lakes that are shorter than this many such pixels are left out.
LEAST_WATER = 16
# The most coordinates of outlines (of land or of sea, which has about as many), and of rivers and lakes: coasts with
# many islands, and continents, are drawn with less detail. With these the page and the ground of any region are less
# than 700 kB, compressed (docs/benchmarks/service.md).
MOST_OUTLINE, MOST_WATER = 12_000, 9_000
# How many places are named at most, the largest first: within a region, and around it.
PLACES_WITHIN, PLACES_AROUND = 200, 60
CREDITS = ((OUTLINES, "Natural Earth"), (WATERS, "GSHHG"), (PLACES, "GeoNames (CC BY 4.0)"))


def ground(region: Region, *, landmarks: bool = True) -> dict[str, Any]:
    """What is drawn under the map of a region, as GeoJSON, no finer than a page can draw it; `landmarks`: rivers, lakes
    and names too."""
    detail = max(region.width, region.north - region.south) / PIXELS
    box = ground_box(region)
    found = around(box, detail)
    if landmarks:
        found["features"] += [*_waters(box, detail), *_places(region, box)]
        found["attribution"] = " · ".join(name for path, name in CREDITS if path.is_file())
    return found


def ground_box(region: Region) -> Region:
    """A box well beyond the region on all sides, so that there is ground on a screen of any shape, and when the user
    moves the map."""
    margin = max(LEAST_MARGIN, region.width, region.north - region.south)
    south, north = max(-90.0, region.south - margin), min(90.0, region.north + margin)
    if region.width + 2 * margin >= 360.0:
        return Region(-180.0, south, 180.0, north)
    return Region(_wrapped(region.west - margin), south, _wrapped(region.east + margin), north)


def around(box: Region, detail: float = 0.0) -> dict[str, Any]:
    """The countries within a box as GeoJSON, without details smaller than `detail` degrees; empty if the outlines are
    not installed."""
    first = sum(level <= detail for level in LEVELS) - 1
    for tolerance in LEVELS[first:]:
        digits = _digits(tolerance)
        parts = [_land(span, tolerance, digits) for span in _spans(box)]
        if sum(int(shapely.get_num_coordinates(land).sum()) for land in parts) <= MOST_OUTLINE:
            break
    features = []
    for span, land in zip(_spans(box), parts, strict=True):
        features += [_feature(shape, digits) for shape in land]
        # Rounding makes narrow places touch themselves.
        sea = shapely.difference(shapely.box(*span), shapely.union_all(shapely.make_valid(land)))
        if OUTLINES.is_file() and not sea.is_empty:
            # The page draws the sea over maps that are about the land only.
            features.append(_feature(sea, digits, sea=True))
    return {"type": "FeatureCollection", "features": features}


def _land(span: Region, tolerance: float, digits: int) -> Any:
    """The countries within a box that does not cross the antimeridian, cut to it, with rounded coordinates."""
    shapes, (x0, y0, x1, y1) = countries(tolerance)
    west, south, east, north = span
    visible = np.maximum(x1 - x0, y1 - y0) > tolerance  # no islands that are smaller than the detail
    near = shapes[visible & (x0 <= east) & (x1 >= west) & (y0 <= north) & (y1 >= south)]
    # Coordinates were rounded for the file, so some outlines touch themselves: repair those first.
    cut = shapely.clip_by_rect(shapely.make_valid(near), west, south, east, north)
    cut = shapely.set_precision(cut, 10.0**-digits, mode="pointwise")
    return cut[~shapely.is_empty(cut)]


def _waters(box: Region, detail: float) -> list[dict[str, Any]]:
    """Rivers and lakes; of very many the largest, with less detail."""
    chosen = largest_waters(_spans(box), detail, LEAST_WATER, MOST_WATER)
    return [_feature(shape, _digits(detail), kind=kind) for kind, shape in chosen]


def _places(region: Region, box: Region) -> list[dict[str, Any]]:
    """The largest places of the region, with their other names for the search, and the largest around it."""
    within = [_place(place, names=place.others) for place in places_within(region, PLACES_WITHIN)]
    return within + [_place(place) for place in places_within(box, PLACES_AROUND, outside=region)]


def _place(place: Place, **properties: Any) -> dict[str, Any]:
    point = shapely.Point(place.longitude, place.latitude)
    known = {"kind": "place", "name": place.name, "population": place.population}
    return _feature(point, _digits(0.0), **known, **properties)


def _feature(shape: Any, digits: int, **properties: Any) -> dict[str, Any]:
    geometry = _rounded(shapely.geometry.mapping(shape), digits)
    return {"type": "Feature", "properties": properties, "geometry": geometry}


def world() -> dict[str, Any]:
    """All countries with coarse outlines, for a page that shows no map yet."""
    return around(Region(-180.0, -90.0, 180.0, 90.0), WORLD_DETAIL)


def _spans(box: Region) -> list[Region]:
    """The parts of a box on both sides of the antimeridian."""
    if box.west <= box.east:
        return [box]
    return [span for span in (box._replace(east=180.0), box._replace(west=-180.0)) if span.west < span.east]


def _wrapped(longitude: float) -> float:
    return (longitude + 180.0) % 360.0 - 180.0


def _digits(detail: float) -> int:
    """How many decimals of a degree show what has this detail."""
    return 4 if detail < 0.01 else 3 if detail < 0.05 else 2


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


if __name__ == "__main__":
    fetch_missing()
    build()
