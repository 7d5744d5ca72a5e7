"""Maps as polygons, one per cell: GeoJSON, GeoPackage, GeoParquet; and areas to look at next."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crowdfield.data import Grid, Heatmap
from crowdfield.errors import InputError
from crowdfield.io.atomic import replacing
from crowdfield.io.layers import GEOPACKAGE, description, flat, layers, plain
from crowdfield.io.requirements import library, reference_system

LOOK_FORMATS = (".geojson", ".json", ".kml")
Ring = list[list[float]]
# 1e-7° is about a centimetre; more digits would claim a precision that no report has.
DIGITS = 7


def write_geojson(heatmap: Heatmap, path: str | Path) -> None:
    """GeoJSON (RFC 7946): WGS 84, polygons split at the antimeridian, metadata as a foreign member."""
    crs = reference_system(heatmap, "GeoJSON")
    values, keep = columns(heatmap)
    geometry = geographic(cell_rings(heatmap.grid)[keep], crs)
    names = list(values)
    rows = zip(*values.values(), strict=True)
    features = (
        {"type": "Feature", "id": int(cell), "properties": dict(zip(names, row, strict=True)), "geometry": shape}
        for cell, row, shape in zip(np.flatnonzero(keep), rows, geometry, strict=True)
    )
    with replacing(path) as temporary:
        write_features(temporary, features, {"metadata": description(heatmap)})


def write_looks(
    places: ArrayLike,
    path: str | Path,
    *,
    crs: str,
    size: float,
    properties: Sequence[Mapping[str, Any]] = (),
    metadata: Mapping[str, Any] | None = None,
) -> None:
    """Write areas to look at next as GeoJSON polygons, in order: the form a tasking tool imports.

    Parameters
    ----------
    places : array_like [n, 2]
        Centres of the areas.
    path : path
        The file.
    crs : str
        The reference system of the places.
    size : float
        Side of the squares, in the units of ``crs``.
    properties : sequence of mapping, optional
        What else is known about each area.
    metadata : mapping, optional
        To be kept with the file.

    Examples
    --------
    >>> import crowdfield as cf
    >>> cf.io.write_looks([[780806.0, 2052004.0]], "areas.geojson", crs="EPSG:32618", size=500.0)
    """
    centres = np.asarray(places, dtype=np.float64).reshape(-1, 2)
    if not (np.isfinite(size) and size > 0):
        raise InputError(f"the size of an area must be positive, not {size!r}.")
    shapes = geographic(_squares(centres, np.array([size, size])), crs)
    more = properties or [{}] * len(centres)
    if Path(path).suffix.lower() == ".kml":
        from crowdfield.io.kml import write_areas

        write_areas(shapes, [{"rank": rank, **plain(extra)} for rank, extra in enumerate(more, 1)], path)
        return
    features = (
        {"type": "Feature", "properties": {"rank": rank, **plain(extra)}, "geometry": shape}
        for rank, (extra, shape) in enumerate(zip(more, shapes, strict=True), 1)
    )
    with replacing(path) as temporary:
        write_features(temporary, features, {"metadata": plain(dict(metadata or {}))})


def write_geopackage(heatmap: Heatmap, path: str | Path) -> None:
    """GeoPackage in the map's own reference system, layer `heatmap`."""
    pyogrio = library("pyogrio")
    frame = heatmap.to_geodataframe()
    with replacing(path) as temporary:
        pyogrio.write_dataframe(
            frame, temporary, layer="heatmap", dataset_metadata=flat(description(heatmap)), **GEOPACKAGE
        )


def write_geoparquet(heatmap: Heatmap, path: str | Path) -> None:
    """GeoParquet in the map's own reference system; metadata under the key `crowdfield`."""
    library("pyarrow")
    import pyarrow.parquet

    frame = heatmap.to_geodataframe()
    with replacing(path) as temporary:
        draft = temporary.with_suffix(".draft")
        frame.to_parquet(draft, index=False)
        table = pyarrow.parquet.read_table(draft)
        about = {**(table.schema.metadata or {}), b"crowdfield": json.dumps(description(heatmap)).encode()}
        pyarrow.parquet.write_table(table.replace_schema_metadata(about), temporary, compression="zstd")


def cell_rings(grid: Grid, cells: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
    """The outline of each cell (or of some), anticlockwise from the south-west, closed.   [cells, 5, 2]"""
    centres = grid.centres()
    return _squares(centres if cells is None else centres[cells], np.array([grid.cell_width, grid.cell_height]))


def geographic(rings: NDArray[np.float64], crs: str) -> Iterator[dict[str, Any]]:
    """GeoJSON geometries in longitude and latitude; one that crosses the antimeridian becomes two polygons."""
    lonlat = to_lonlat(rings.reshape(-1, 2), crs).reshape(rings.shape)
    if not np.isfinite(lonlat).all():
        raise InputError("some cells have no longitude and latitude; is the grid inside the area its crs is made for?")
    lonlat = np.round(lonlat, DIGITS)
    crosses = np.ptp(lonlat[..., 0], axis=1) > 180
    outlines: list[Any] = lonlat.tolist()  # type: ignore[assignment]
    for ring, split in zip(outlines, crosses, strict=True):
        yield _split(ring) if split else {"type": "Polygon", "coordinates": [ring]}


def to_lonlat(places: ArrayLike, crs: str) -> NDArray[np.float64]:
    """(easting, northing) in crs to (longitude, latitude) in WGS 84.   [N, 2] -> [N, 2]"""
    from pyproj import Transformer

    p = np.asarray(places, dtype=np.float64)
    lon, lat = Transformer.from_crs(crs, "EPSG:4326", always_xy=True).transform(p[:, 0], p[:, 1])
    return np.column_stack([lon, lat])


def _split(ring: Ring) -> dict[str, Any]:
    import shapely

    around = np.array(ring)
    around[:, 0] = np.where(around[:, 0] < 0, around[:, 0] + 360, around[:, 0])
    whole = shapely.Polygon(around)
    parts = []
    for west, shift in ((0.0, 0.0), (180.0, 360.0)):
        part = shapely.intersection(whole, shapely.box(west, -90, west + 180, 90))
        if part.geom_type == "Polygon" and not part.is_empty:
            corners = np.array(shapely.orient_polygons(part).exterior.coords)
            parts.append([np.round(corners - [shift, 0.0], DIGITS).tolist()])
    return {"type": "MultiPolygon", "coordinates": parts}


def _squares(centres: NDArray[np.float64], size: NDArray[np.float64]) -> NDArray[np.float64]:
    corners = np.array([[-0.5, -0.5], [0.5, -0.5], [0.5, 0.5], [-0.5, 0.5], [-0.5, -0.5]]) * size
    return centres[:, None, :] + corners


def columns(heatmap: Heatmap) -> tuple[dict[str, list[Any]], NDArray[np.bool_]]:
    """The columns of a vector map, and which cells are in it."""
    keep = heatmap.mask.ravel()
    out: dict[str, list[Any]] = {}
    for name, values in layers(heatmap).items():
        inside = values.ravel()[keep]
        if name == "most_probable":
            out[name] = [plain(heatmap.states[int(code)]) for code in inside]
        elif name == "reports":
            out[name] = inside.astype(int).tolist()
        else:
            out[name] = np.round(inside.astype(np.float64), 7).tolist()
    return out, keep


def write_features(path: Path, features: Iterator[dict[str, Any]], members: Mapping[str, Any]) -> None:
    """One feature per line, written one by one: people can read the file, and tools can compare it."""
    with path.open("w", encoding="utf-8") as file:
        file.write('{"type": "FeatureCollection"')
        for name, value in members.items():
            file.write(f",\n{json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}")
        file.write(',\n"features": [')
        for number, feature in enumerate(features):
            file.write(",\n" if number else "\n")
            file.write(json.dumps(feature, ensure_ascii=False, allow_nan=False))
        file.write("\n]}\n")
