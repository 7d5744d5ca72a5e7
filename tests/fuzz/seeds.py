"""The seeds that fuzzing starts from, all made here: `python -m tests.fuzz.seeds` writes them to `corpus/`."""

from __future__ import annotations

import gzip
import io
import json
import struct
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from tests.io.hostile import GPX, KML, PLACEMARK, WAYPOINT, WKB_POINT, geopackage, geoparquet, shp

from crowdfield.box import message

FOLDER = Path(__file__).parent / "corpus"
POLYGON = "POLYGON ((1 1, 2 1, 2 2, 1 1))"


def seeds() -> Iterator[tuple[str, str, bytes]]:
    """(target, name, content)"""
    yield from _tables()
    yield from _features()
    yield from _binary()


def _tables() -> Iterator[tuple[str, str, bytes]]:
    plain = "source,lat,lon,label,time,id,text\nann,18.5,-72.3,yes,2010-01-13 04:53,1,help\nbob,18,6,no,13/01/2010,2,\n"
    yield "table", "plain.csv", plain.encode()
    yield "table", "semicolons.csv", plain.replace(",", ";").encode("utf-8-sig")
    yield "table", "tabs-utf16.txt", plain.replace(",", "\t").encode("utf-16")
    yield "table", "quoted.csv", b'lat,lon,label\n"1,5","2,5","a ""b""\nc"\n1,2\n1,2,3,4\n'
    yield "table", "hxl.csv", b"a,b,c\n#geo+lat,#geo+lon,#status\n1,2,x\n"
    yield "table", "kobo.csv", b"_q_latitude,_q_longitude,damage,_uuid,_validation_status\n1,2,high,u,not_approved\n"
    yield "archive", "plain.csv.gz", gzip.compress(plain.encode(), mtime=0)
    for name, inside in (("table.zip", "r.csv"), ("hidden.zip", "__MACOSX/r.csv")):
        yield "archive", name, _zip({inside: plain.encode()})
    yield "archive", "points.kmz", _zip({"doc.kml": KML.replace("{inside}", PLACEMARK).encode()})
    yield "archive", "shapes.zip", _zip({"s.shp": shp([(1, 2)]), "s.dbf": _dbf(), "s.cpg": b"UTF-8"})
    yield "mapswipe", "counts.csv", f'idx,task_id,0_count,1_count,2_count,geom\n1,18-1-2,1,2,0,"{POLYGON}"\n'.encode()
    yield "mapswipe", "results.csv", b"task_id,user_id,result,timestamp\n18-1205-870,u,1,2020-01-01T00:00:00Z\n"
    yield (
        "ushahidi",
        "v2.csv",
        (
            b"#,INCIDENT TITLE,INCIDENT DATE,LOCATION,DESCRIPTION,CATEGORY,LATITUDE,LONGITUDE,VERIFIED\n"
            b'1,t,2010-01-13 04:53:00,l,d,"a &amp; b, c, ",18.5,-72.3,NO\n'
        ),
    )
    yield (
        "ushahidi",
        "v3.csv",
        (
            b"Post ID,Survey,Post Status,Contact ID,Source,Post Date (UTC),Where.lat,Where.lon,Damage\n"
            b"1,s,published,2,SMS,2016-08-11 10:00:00,1.5,2.5,high\n"
        ),
    )
    yield (
        "ushahidi",
        "haiti.csv",
        (b"ID,CATEGORY,DATE,TIME,LAT,LON,TITLE,VERIFIED\n1,1c. Trapped,13/1/2010,4.08.00,18.5,-72.3,t,YES\n"),
    )
    marks = json.dumps([{"task": "T0", "value": [{"tool_label": "damage", "x": 5, "y": 6}]}]).replace('"', '""')
    where = json.dumps({"1": {"lon_min": 1, "lon_max": 2, "lat_min": 1, "lat_max": 2, "crs": 4326}}).replace('"', '""')
    size = json.dumps({"subject_dimensions": [{"naturalWidth": 10, "naturalHeight": 10}]}).replace('"', '""')
    head = "classification_id,user_name,created_at,metadata,annotations,subject_data\n"
    yield "zooniverse", "marks.csv", f'{head}1,ann,2015-05-01 10:41:59 UTC,"{size}","{marks}","{where}"\n'.encode()


def _features() -> Iterator[tuple[str, str, bytes]]:
    point = {"type": "Point", "coordinates": [-72.3, 18.5]}
    ring = [[1, 1], [2, 1], [2, 2], [1, 1]]
    made = [
        {"type": "Feature", "id": 1, "properties": {"label": "dry", "n": 1.0}, "geometry": point},
        {"type": "Feature", "properties": None, "geometry": {"type": "Polygon", "coordinates": [ring]}},
        {"type": "Feature", "properties": {"label": None}, "geometry": None},
    ]
    name = {"type": "name", "properties": {"name": "urn:ogc:def:crs:EPSG::4326"}}
    yield (
        "geojson",
        "collection.geojson",
        json.dumps({"type": "FeatureCollection", "crs": name, "features": made}).encode(),
    )
    yield "geojson", "lines.geojson", "\n".join(json.dumps(feature) for feature in made).encode()
    yield "geojson", "geometry.geojson", json.dumps(point).encode()
    esri = {"spatialReference": {"wkid": 4326}, "features": [{"attributes": {"a": 1}, "geometry": {"x": 1, "y": 2}}]}
    yield "geojson", "esri.json", json.dumps(esri).encode()
    polygon = "<Polygon><outerBoundaryIs><LinearRing><coordinates>1,1 2,1 2,2 1,1</coordinates></LinearRing>"
    data = '<ExtendedData><Data name="a"><value>b</value></Data><SchemaData><SimpleData name="c">d</SimpleData>'
    polygon, data = f"{polygon}</outerBoundaryIs></Polygon>", f"{data}</SchemaData></ExtendedData>"
    inside = f"{PLACEMARK}<Placemark id='2'>{data}{polygon}</Placemark>"
    yield "kml", "placemarks.kml", KML.replace("{inside}", f"<Folder>{inside}</Folder>").encode()
    fields = "<time>2024-01-01T00:00:00Z</time><extensions><x:d xmlns:x='u'>high</x:d></extensions>"
    track = "<trk><trkseg><trkpt lat='1' lon='2'/></trkseg></trk>"
    yield (
        "gpx",
        "waypoints.gpx",
        GPX.replace("{inside}", f"{WAYPOINT}<wpt lat='1' lon='2'>{fields}</wpt>{track}").encode(),
    )
    points = [{"type": "Point", "coordinates": [1, 2], "properties": {"label": "dry"}, "id": 1}]
    topology = {
        "type": "Topology",
        "transform": {"scale": [0.1, 0.1], "translate": [5, 6]},
        "objects": {"reports": {"type": "GeometryCollection", "geometries": points}},
        "arcs": [],
    }
    yield "geojson", "points.topojson", json.dumps(topology).encode()
    page = "<html><meta charset=windows-1252><table><tr><th>lat<th>lon<th>label<tr><td x:num='1.25'>1.3<td>2<td>a&amp;b"
    yield "html", "table.xls", f"<!-- x -->{page}<tr><td colspan=2>3</td><td>c<br>d</td></tr></table></html>".encode()
    yield "geometry", "polygon.wkt", POLYGON.encode()
    yield "geometry", "multipoint.wkt", b"MULTIPOINT Z ((1 2 3), (4 5 6))"
    yield "system", "utm", b"EPSG:32618"
    yield "system", "urn", b"urn:ogc:def:crs:OGC:1.3:CRS84"
    yield (
        "system",
        "plain.prj",
        (
            b'GEOGCS["GCS_WGS_1984",DATUM["D_WGS_1984",SPHEROID["WGS_1984",6378137.0,298.257223563]],'
            b'PRIMEM["Greenwich",0.0],UNIT["Degree",0.0174532925199433]]'
        ),
    )


def _binary() -> Iterator[tuple[str, str, bytes]]:
    with tempfile.TemporaryDirectory() as folder:
        yield "geopackage", "reports.gpkg", geopackage(Path(folder) / "r.gpkg").read_bytes()
        columns = {"geometry": [WKB_POINT, None], "label": ["dry", "wet"], "n": [1.5, None], "flag": [True, False]}
        for name, compression in (("plain", "none"), ("packed", "zstd")):
            path = geoparquet(Path(folder) / f"{name}.parquet", columns, compression=compression)
            yield "parquet", path.name, path.read_bytes()
    points = shp([(1.0, 2.0), (3.0, 4.0)])
    yield "shapefile", "points", len(points).to_bytes(2, "little") + points + _dbf()
    ring = struct.pack("<8d", 1, 1, 1, 2, 2, 2, 1, 1)
    content = struct.pack("<i4d3i", 5, 1, 1, 2, 2, 1, 4, 0) + ring
    polygon = shp([]) + struct.pack(">2i", 1, len(content) // 2) + content
    yield "shapefile", "polygon", len(polygon).to_bytes(2, "little") + polygon + _dbf()
    yield "geometry", "point.wkb", WKB_POINT
    multi = struct.pack("<BII", 1, 6, 1) + struct.pack("<BIII", 1, 3, 1, 4) + ring
    yield "geometry", "multipolygon.wkb", multi
    yield "answer", "arrays", b"".join(message.packed({"a": 1}, {"x": np.arange(3.0), "y": np.zeros((2, 2), bool)}))


def _zip(members: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0)), content)
    return out.getvalue()


def _dbf() -> bytes:
    fields = [(b"label", b"C", 8), (b"n", b"N", 6), (b"day", b"D", 8), (b"flag", b"L", 1)]
    described = b"".join(
        name.ljust(11, b"\x00") + kind + b"\x00" * 4 + bytes([size, 0]) + b"\x00" * 14 for name, kind, size in fields
    )
    rows = [b" dry       1.50" + b"20100113T", b" flooded     7        ?"]
    width = 1 + sum(size for _, _, size in fields)
    header = struct.pack("<4BIHH20x", 3, 120, 1, 1, len(rows), 32 + len(described) + 1, width)
    return header + described + b"\r" + b"".join(row.ljust(width) for row in rows) + b"\x1a"


def write() -> None:
    for target, name, content in seeds():
        path = FOLDER / target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


if __name__ == "__main__":
    write()
