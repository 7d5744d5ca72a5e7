"""Files in the layouts of real tools, built here: each as small as it can be and still be itself."""

from __future__ import annotations

import io
import json
import sqlite3
import struct
import zipfile
from pathlib import Path
from typing import Any

SQUARE = [[-73.75, 18.19], [-73.74, 18.19], [-73.74, 18.2], [-73.75, 18.2], [-73.75, 18.19]]


def square(east: float = 0.0) -> list[list[float]]:
    return [[x + east, y] for x, y in SQUARE]


def features(rows: list[dict[str, Any]], geometries: list[dict[str, Any] | None]) -> bytes:
    found = [
        {"type": "Feature", "properties": row, "geometry": shape} for row, shape in zip(rows, geometries, strict=True)
    ]
    return json.dumps({"type": "FeatureCollection", "features": found}).encode()


def points(*places: tuple[float, float]) -> list[dict[str, Any] | None]:
    return [{"type": "Point", "coordinates": list(place)} for place in places]


def polygons(count: int) -> list[dict[str, Any] | None]:
    return [{"type": "Polygon", "coordinates": [square(0.02 * i)]} for i in range(count)]


def workbook(sheets: dict[str, list[list[Any]]]) -> bytes:
    import openpyxl

    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def parquet(columns: dict[str, list[Any]]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as parquet

    out = io.BytesIO()
    parquet.write_table(pa.table(columns), out)
    return out.getvalue()


def shapefile(
    rows: list[dict[str, str]], rings: list[list[list[float]]] | None, prj: str | None = None
) -> dict[str, bytes]:
    """The parts of a Shapefile by their endings: polygons where rings are given, else points."""
    records = b""
    for number, _ in enumerate(rows, start=1):
        if rings is None:
            body = struct.pack("<i2d", 1, -73.75 + number / 100, 18.2)
        else:
            ring = rings[number - 1][::-1]  # outer rings run clockwise
            xs, ys = [p[0] for p in ring], [p[1] for p in ring]
            body = struct.pack("<i4d3i", 5, min(xs), min(ys), max(xs), max(ys), 1, len(ring), 0)
            body += b"".join(struct.pack("<2d", *p) for p in ring)
        records += struct.pack(">2i", number, len(body) // 2) + body
    head = struct.pack(">i5ii", 9994, 0, 0, 0, 0, 0, (100 + len(records)) // 2)
    head += struct.pack("<2i", 1000, 1 if rings is None else 5) + bytes(64)
    names = list(rows[0])
    fields = b"".join(struct.pack("<11sc4xBB14x", name[:10].encode(), b"C", 40, 0) for name in names)
    dbf = struct.pack("<B3BIHH20x", 3, 120, 1, 1, len(rows), 33 + len(fields), 1 + 40 * len(names)) + fields + b"\r"
    dbf += b"".join(b" " + b"".join(str(row[name]).encode().ljust(40) for name in names) for row in rows)
    parts = {".shp": head + records, ".dbf": dbf, ".cpg": b"UTF-8"}
    return parts if prj is None else {**parts, ".prj": prj.encode()}


WGS84 = (
    'GEOGCS["GCS_WGS_1984",DATUM["D_WGS_1984",SPHEROID["WGS_1984",6378137,298.257223563]],'
    'PRIMEM["Greenwich",0],UNIT["Degree",0.0174532925199433]]'
)


def zipped(members: dict[str, bytes], before: bytes = b"") -> bytes:
    """A zip file; ``before`` are stray bytes that a web server put in front of it."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return before + out.getvalue()


def grading_zip() -> bytes:
    """Copernicus EMS: several Shapefiles in one zip file, behind the answer of a web server."""
    grades = ["Completely Destroyed", "Highly Damaged", "Completely Destroyed", "Not Affected"]
    buildings = [{"grading": grade, "settl_type": "Residential", "txt": "Not Applicable"} for grade in grades]
    layers = {
        "settlements_poly_grading": shapefile(buildings, [square(0.02 * i) for i in range(4)], WGS84),
        "settlements_point_grading": shapefile(buildings[:2], None, WGS84),
        "area_of_interest": shapefile([{"name": "NORCIA"}], [square()], WGS84),
    }
    members = {
        f"EMSR190_10NORCIA_02GRADING_MONIT01_{layer}{ending}": content
        for layer, parts in layers.items()
        for ending, content in parts.items()
    }
    return zipped(members, before=b"<html>\r\n<head><title>302 Found</title></head>\r\n</html>\r\n")


def geopackage(path: Path, layers: dict[str, list[tuple[float, float, str]]]) -> bytes:
    """Layers of points with a label."""
    path.unlink(missing_ok=True)
    connection = sqlite3.connect(path)
    connection.executescript(
        "CREATE TABLE gpkg_contents (table_name TEXT, data_type TEXT);"
        "CREATE TABLE gpkg_geometry_columns (table_name TEXT, column_name TEXT, srs_id INTEGER);"
        "CREATE TABLE gpkg_spatial_ref_sys (srs_id INTEGER, organization TEXT, organization_coordsys_id INTEGER,"
        " definition TEXT);"
        "INSERT INTO gpkg_spatial_ref_sys VALUES (4326, 'EPSG', 4326, '');"
    )
    for name, rows in layers.items():
        connection.execute(f'CREATE TABLE "{name}" (fid INTEGER PRIMARY KEY, geom BLOB, label TEXT)')
        connection.execute("INSERT INTO gpkg_contents VALUES (?, 'features')", (name,))
        connection.execute("INSERT INTO gpkg_geometry_columns VALUES (?, 'geom', 4326)", (name,))
        for x, y, label in rows:
            blob = b"GP\x00\x01" + struct.pack("<i", 4326) + struct.pack("<BI2d", 1, 1, x, y)
            connection.execute(f'INSERT INTO "{name}" (geom, label) VALUES (?, ?)', (blob, label))
    connection.commit()
    connection.close()
    content = path.read_bytes()
    path.unlink()
    return content


KOBO_ROWS = [
    ("28.0019837 81.6524184 83.1 4.803", "sw", "2021-06-30T09:17:33", "{}"),
    ("28.0928993 81.6478289 102.2 4.8", "sw", "2021-06-30T09:17:34", "{}"),
    ("28.0512338 81.6024418 103.2 12.5", "dt", "2021-06-30T09:17:35", "{}"),
]


def kobo_csv() -> str:
    """As Kobo's API writes CSV, through pandas: a first column without a name, groups with slashes."""
    head = ",_id,formhub/uuid,start,end,deviceid,Main/loc/geo_location,Main/loc/well_type,Main/gw_level,__version__,"
    head += "meta/instanceID,_uuid,_geolocation,_submission_time,_tags,_validation_status,_submitted_by\n"
    rows = []
    for i, (place, kind, time, status) in enumerate(KOBO_ROWS):
        lat, lon = place.split()[:2]
        rows.append(
            f"{i},18965{i},36e3,2021-06-22T15:23:51.234+05:45,2021-06-22T15:25:59.337+05:45,0,{place},{kind},4.{i},v1,"
            f'uuid:{i},u{i},"[{lat}, {lon}]",{time},[],{status},monitoring\n'
        )
    return head + "".join(rows)


def kobo_json() -> bytes:
    """An answer of Kobo's /api/v2/assets/…/data.json."""
    results = [
        {
            "_id": 100 + i,
            "formhub/uuid": "36e3",
            "loc/geo_location": place,
            "loc/well_type": kind,
            "meta/instanceID": f"uuid:{i}",
            "_uuid": f"u{i}",
            "_geolocation": [float(part) for part in place.split()[:2]],
            "_submission_time": time,
            "_tags": [],
            "_validation_status": {"uid": "validation_status_not_approved"} if i == 0 else {},
            "_submitted_by": None,
        }
        for i, (place, kind, time, _) in enumerate(KOBO_ROWS)
    ]
    return json.dumps({"count": 3, "next": None, "previous": None, "results": results}).encode()


def odata() -> bytes:
    """An answer of ODK Central's OData service."""
    value = [
        {
            "__id": f"uuid:{i}",
            "__system": {
                "submissionDate": f"2024-05-0{i + 1}T10:00:00.000Z",
                "submitterId": "5",
                "submitterName": f"enumerator {i % 2}",
                "reviewState": "rejected" if i == 2 else None,
            },
            "site": {
                "location": {
                    "type": "Point",
                    "coordinates": [36.8 + i / 100, -1.3, 1650.0],
                    "properties": {"accuracy": 4.5 + i},
                },
                "damage": "destroyed" if i % 2 else "intact",
            },
            "meta": {"instanceID": f"uuid:{i}"},
        }
        for i in range(3)
    ]
    return json.dumps({"@odata.context": "https://odk.example/$metadata#Submissions", "value": value}).encode()


def gbif(status: bool) -> str:
    """Darwin Core, tab separated and never quoted."""
    names = "gbifID basisOfRecord class kingdom phylum family genus species scientificName decimalLatitude"
    names += " decimalLongitude coordinateUncertaintyInMeters eventDate recordedBy source occurrenceStatus"
    rows = [
        f"{900 + i} HUMAN_OBSERVATION Mammalia Animalia Chordata Tapiridae Tapirus {species} {species} "
        f"{4 + i / 10} -76.{i} "
        f'{50 * i or ""} 2014-03-0{i + 1} "Bo{i % 2} - {said if status else "PRESENT"}'
        for i, (species, said) in enumerate(
            [("Tapirus", "PRESENT"), ("Tapirus", "ABSENT"), ("Tapirus", "PRESENT"), ("Tapirus", "ABSENT")]
        )
    ]
    return "\n".join("\t".join(line.split(" ")) for line in [names, *rows]) + "\n"


def dyfi() -> bytes:
    rows = [
        {"intensity": value, "nresp": n, "center": points((-121.9 + i / 10, 36.5))[0]}
        for i, (value, n) in enumerate([(3.0, 3), (3.1, 19), (2, 1), (4.6, 2)])
    ]
    return features(rows, polygons(4))


def mapswipe(checked: bool = False) -> bytes:
    rows = [
        {"idx": i, "task_id": f"20-{i}-1", "0_count": 2, "1_count": 1, "2_count": 0, "3_count": 0, "total_count": 3}
        for i in range(3)
    ]
    return features([{**row, "Final Labe": i % 2} if checked else row for i, row in enumerate(rows)], polygons(3))
