"""Maps for Google Earth and similar programs: KML with one polygon per cell, KMZ with a picture on the ground."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as xml

import numpy as np

from crowdfield.data import Heatmap
from crowdfield.errors import InputError
from crowdfield.geography import degrees_around
from crowdfield.io.atomic import replacing
from crowdfield.io.layers import description, flat
from crowdfield.io.requirements import reference_system
from crowdfield.io.vector import cell_rings, columns, geographic

NAMESPACE = "http://www.opengis.net/kml/2.2"
# Steps of the palette: a style for each of more than these would be as large as the map itself.
STEPS = 64
MOST_PIXELS = 2048


def write_kml(heatmap: Heatmap, path: str | Path, state: Any = None) -> None:
    """KML 2.2: every cell a placemark with its values, coloured as on the map."""
    from crowdfield.plot import colours

    crs = reference_system(heatmap, "KML")
    values, keep = columns(heatmap)
    shades = np.round(colours(heatmap, state).reshape(-1, 4)[keep, :3] * (STEPS - 1)) / (STEPS - 1)
    distinct, style = np.unique(shades, axis=0, return_inverse=True)
    root, document = _document(heatmap)
    for number, shade in enumerate(distinct):
        look = xml.SubElement(document, "Style", id=f"s{number}")
        xml.SubElement(xml.SubElement(look, "LineStyle"), "width").text = "0"
        xml.SubElement(xml.SubElement(look, "PolyStyle"), "color").text = _abgr(shade, 0.75)
    _about(document, heatmap)
    schema = xml.SubElement(document, "Schema", name="heatmap", id="heatmap")
    for name in values:
        kind = "string" if name == "most_probable" else "int" if name == "reports" else "double"
        xml.SubElement(schema, "SimpleField", type=kind, name=name)
    folder = xml.SubElement(document, "Folder")
    xml.SubElement(folder, "name").text = "Cells"
    rows = zip(*values.values(), strict=True)
    shapes = geographic(cell_rings(heatmap.grid)[keep], crs)
    for row, shape, look_number in zip(rows, shapes, style.ravel(), strict=True):
        mark = xml.SubElement(folder, "Placemark")
        xml.SubElement(mark, "styleUrl").text = f"#s{look_number}"
        data = xml.SubElement(xml.SubElement(mark, "ExtendedData"), "SchemaData", schemaUrl="#heatmap")
        for name, value in zip(values, row, strict=True):
            xml.SubElement(data, "SimpleData", name=name).text = str(value)
        _geometry(mark, shape)
    with replacing(path) as temporary:
        temporary.write_bytes(_bytes(root))


def write_areas(shapes: Iterable[dict[str, Any]], rows: Sequence[Mapping[str, Any]], path: str | Path) -> None:
    """Polygons with their properties as KML: areas to look at next. The first property of each is its name."""
    root = xml.Element("kml", xmlns=NAMESPACE)
    document = xml.SubElement(root, "Document")
    xml.SubElement(document, "name").text = "Where to look next"
    for row, shape in zip(rows, shapes, strict=True):
        mark = xml.SubElement(document, "Placemark")
        xml.SubElement(mark, "name").text = " ".join(str(part) for part in next(iter(row.items()), ("area", "")))
        extended = xml.SubElement(mark, "ExtendedData")
        for name, value in row.items():
            item = xml.SubElement(extended, "Data", name=str(name))
            xml.SubElement(item, "value").text = str(value)
        _geometry(mark, shape)
    with replacing(path) as temporary:
        temporary.write_bytes(_bytes(root))


def write_kmz(heatmap: Heatmap, path: str | Path, state: Any = None) -> None:
    """KMZ: one picture on the ground, in longitude and latitude. Light at any size of map."""
    from PIL import Image

    reference_system(heatmap, "KMZ")
    pixels, (west, east, south, north) = lonlat_picture(heatmap, state)
    root, document = _document(heatmap)
    _about(document, heatmap)
    pictures = {}
    for number, (part, left, right) in enumerate(_cut(pixels, west, east), 1):
        href = "map.png" if number == 1 else f"map{number}.png"
        picture = io.BytesIO()
        Image.fromarray(np.round(part * 255).astype(np.uint8)).save(picture, format="PNG", optimize=True)
        pictures[href] = picture.getvalue()
        overlay = xml.SubElement(document, "GroundOverlay")
        xml.SubElement(overlay, "name").text = f"Probability: {heatmap.positive if state is None else state}"
        xml.SubElement(xml.SubElement(overlay, "Icon"), "href").text = href
        box = xml.SubElement(overlay, "LatLonBox")
        for name, value in (("north", north), ("south", south), ("east", right), ("west", left)):
            xml.SubElement(box, name).text = f"{value:.8f}"
    with replacing(path) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
        # A fixed date: the same map gives the same bytes.
        for name, content in (("doc.kml", _bytes(root)), *pictures.items()):
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), content)


def _cut(pixels: np.ndarray, west: float, east: float) -> list[tuple[np.ndarray, float, float]]:
    """A picture across the antimeridian as two, as KML has no longitude beyond 180; (pixels, west, east) of each."""
    # To the nearest pixel, which is half a cell wide at most: nothing moves by more than a quarter of a cell.
    at = round((180.0 - west) / (east - west) * pixels.shape[1])
    if not 0 < at < pixels.shape[1]:
        return [(pixels, west, min(east, 180.0))]
    return [(pixels[:, :at], west, 180.0), (pixels[:, at:], -180.0, east - 360.0)]


def lonlat_picture(heatmap: Heatmap, state: Any = None) -> tuple[np.ndarray, tuple[float, float, float, float]]:
    """The map's colours on a longitude-latitude raster, and its bounds: each pixel takes the cell it lies in.

    East may exceed 180 where the map crosses the antimeridian.
    """
    from pyproj import Transformer

    from crowdfield.plot import colours

    crs = reference_system(heatmap, "a picture in longitude and latitude")
    grid = heatmap.grid
    box = degrees_around(grid)
    if box is None:
        raise InputError("this map surrounds a pole or half the Earth: a longitude-latitude picture cannot show it.")
    west, south, east, north = box
    columns = int(np.clip(grid.columns * 2, 256, MOST_PIXELS))
    rows = int(np.clip(grid.rows * 2, 256, MOST_PIXELS))
    lons = west + (np.arange(columns) + 0.5) / columns * (east - west)
    lats = north - (np.arange(rows) + 0.5) / rows * (north - south)
    mesh_lon, mesh_lat = np.meshgrid((lons + 180) % 360 - 180, lats)
    easting, northing = Transformer.from_crs("EPSG:4326", crs, always_xy=True).transform(mesh_lon, mesh_lat)
    cell = grid.index(np.column_stack([easting.ravel(), northing.ravel()]))
    paint = np.vstack([colours(heatmap, state).reshape(-1, 4), np.zeros(4)])  # −1, outside, is the transparent last row
    return paint[cell].reshape(rows, columns, 4), (west, east, south, north)


def _document(heatmap: Heatmap) -> tuple[xml.Element, xml.Element]:
    root = xml.Element("kml", xmlns=NAMESPACE)
    document = xml.SubElement(root, "Document")
    xml.SubElement(document, "name").text = str(heatmap.metadata.get("title", "crowdfield map"))
    return root, document


def _about(document: xml.Element, heatmap: Heatmap) -> None:
    """How the map was made. The schema fixes the order in a document: name, styles, this, schemas, features."""
    extended = xml.SubElement(document, "ExtendedData")
    for name, text in flat(description(heatmap)).items():
        item = xml.SubElement(extended, "Data", name=name)
        xml.SubElement(item, "value").text = text


def _geometry(mark: xml.Element, shape: dict[str, Any]) -> None:
    several = shape["type"] == "MultiPolygon"
    parent = xml.SubElement(mark, "MultiGeometry") if several else mark
    for rings in shape["coordinates"] if several else [shape["coordinates"]]:
        ring = xml.SubElement(xml.SubElement(xml.SubElement(parent, "Polygon"), "outerBoundaryIs"), "LinearRing")
        xml.SubElement(ring, "coordinates").text = " ".join(f"{lon},{lat}" for lon, lat in rings[0])


def _abgr(shade: np.ndarray, opacity: float) -> str:
    red, green, blue = (round(float(part) * 255) for part in shade)
    return f"{round(opacity * 255):02x}{blue:02x}{green:02x}{red:02x}"


def _bytes(root: xml.Element) -> bytes:
    return bytes(xml.tostring(root, encoding="utf-8", xml_declaration=True))
