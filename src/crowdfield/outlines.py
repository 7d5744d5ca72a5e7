"""The outlines of the world's countries, for pictures and for the ground of the live map.

They are Natural Earth's 1:10m, from the npm package world-atlas; `crowdfield.service.basemap` fetches them at set-up.
Where they are missing, maps are drawn without a coast.
"""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import shapely
from numpy.typing import NDArray

VENDOR = Path(__file__).parent / "service" / "static" / "vendor"
OUTLINES = VENDOR / "countries-10m.json"
# The file's coordinates are whole steps of 0.0036° of longitude and 0.0017° of latitude: a region narrower than
# this many degrees would show a few straight lines, not its coast.
NARROWEST = 0.4


@lru_cache(maxsize=2)
def countries(tolerance: float = 0.0) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """All polygons, and their bounds [4, P]."""
    found = decode(json.loads(OUTLINES.read_text()), "countries", tolerance) if OUTLINES.is_file() else []
    shapes = np.array(found, dtype=object)
    return shapes, shapely.bounds(shapes).reshape(-1, 4).T


def decode(topology: dict[str, Any], name: str, tolerance: float = 0.0) -> list[shapely.Geometry]:
    """The polygons of an object of a TopoJSON file: rings are chains of shared arcs, stored as whole-number steps.

    Arcs are simplified before they are joined, so that neighbours still share their border.
    """
    scale, shift = (np.asarray(topology["transform"][part]) for part in ("scale", "translate"))
    arcs = [np.cumsum(np.asarray(arc), axis=0) * scale + shift for arc in topology["arcs"]]
    if tolerance > 0:
        lines = shapely.simplify([shapely.LineString(arc) for arc in arcs], tolerance, preserve_topology=False)
        arcs = [shapely.get_coordinates(line) for line in lines]

    def ring(parts: list[int]) -> NDArray[np.float64]:
        # ~i is arc i backwards; each arc begins where the one before ends.
        lines = [arcs[~i][::-1] if i < 0 else arcs[i] for i in parts]
        return np.concatenate([line if k == 0 else line[1:] for k, line in enumerate(lines)])

    shapes: list[shapely.Geometry] = []
    for geometry in topology["objects"][name]["geometries"]:
        pieces = geometry.get("arcs", [])
        for piece in [pieces] if geometry["type"] == "Polygon" else pieces:
            shell, *holes = [ring(parts) for parts in piece]
            # Rounding, here or when the file was made, leaves some islets with two points.
            if len(shell) >= 4:
                shapes += _within_one_turn(shell, [hole for hole in holes if len(hole) >= 4])
    return shapes


def _within_one_turn(shell: NDArray[np.float64], holes: list[NDArray[np.float64]]) -> list[shapely.Geometry]:
    """A polygon, cut at the antimeridian where it crosses that: the file's rings jump there from one side to the other.

    A ring that goes once around the Earth lies around a pole, which it does not name.
    """
    if np.abs(np.diff(shell[:, 0])).max() <= 180.0:
        return [shapely.Polygon(shell, holes)]
    longitude, latitude = np.unwrap(shell[:, 0], period=360.0), shell[:, 1]
    if abs(longitude[-1] - longitude[0]) > 180.0:
        pole = 90.0 if latitude.mean() > 0.0 else -90.0
        longitude, latitude = np.r_[longitude, longitude[[-1, 0]]], np.r_[latitude, pole, pole]
    longitude = longitude - 360.0 * np.round(0.5 * (longitude.min() + longitude.max()) / 360.0)
    whole = shapely.make_valid(shapely.Polygon(np.column_stack([longitude, latitude]), holes))
    pieces: list[shapely.Geometry] = []
    for turn in (-360.0, 0.0, 360.0):
        cut = shapely.clip_by_rect(whole, turn - 180.0, -90.0, turn + 180.0, 90.0)
        moved = shapely.transform(cut, lambda places, by=turn: places - np.array([by, 0.0]))
        pieces += [part for part in shapely.get_parts(moved) if part.geom_type == "Polygon"]
    return pieces


def too_small(west: float, south: float, east: float, north: float) -> bool:
    """Whether a box in degrees is too small for the detail of outlines."""
    return east - west < NARROWEST or north - south < NARROWEST / 2


def land(west: float, south: float, east: float, north: float) -> list[shapely.Geometry]:
    """The countries within a box in degrees (east may exceed 180 where it crosses the antimeridian), cut to it.

    Empty where the outlines are missing, and where the box is too small for their detail.
    """
    if too_small(west, south, east, north):
        return []
    shapes, (x0, y0, x1, y1) = countries()
    found = []
    for turn in (-360.0, 0.0, 360.0):
        left, right = west - turn, east - turn
        near = (x0 <= right) & (x1 >= left) & (y0 <= north) & (y1 >= south)
        for shape in shapely.make_valid(shapes[near]):
            cut = shapely.clip_by_rect(shape, left, south, right, north)
            if not cut.is_empty:
                found.append(shapely.transform(cut, lambda places, by=turn: places + np.array([by, 0.0])))
    return found
