"""Files that cannot be read: the error names the file, the line, the column and what to do."""

import gzip
import zipfile

import pytest

from crowdfield import io
from crowdfield.errors import CrowdfieldError, InputError, ReportFormatError
from crowdfield.io import limits

HEADER = "source,lat,lon,label,time\n"

# name: (content, line, column, what the message says)
BAD = {
    "swapped latitude and longitude": (
        HEADER + "a,118.2,18.5,1,\nb,-172.3,18.5,0,\n",
        2,
        "lat",
        r"latitude 118.2 is outside \[-90, 90\]. Are the coordinate columns swapped\? .*--lat 'lon' --lon 'lat'",
    ),
    "empty": ("", None, None, "the file is empty"),
    "only blank lines": ("\n \n\n", None, None, "the file is empty"),
    "header only": (HEADER, 1, None, "a header but no reports"),
    "wrong delimiter": ("source:lat:lon:label\na:1:2:x\n", 1, None, "is the delimiter one of , ; tab or"),
    "a line of 10 MB": (HEADER + "a,1,2,x,\n" + "y" * 10_000_000 + "\n", 3, None, "longer than 8 MiB"),
    "no latitude": ("source,lon,label\na,1,x\n", 1, None, "no column for the latitude among .* --lat NAME"),
    "no label": ("source,lat,lon\na,1,2\n", 1, None, "no column for the label among .* --label NAME"),
    "no coordinates": ("a,b\n1,2\n", 1, None, "no column for the latitude and longitude and label"),
    "a quote never closed": (HEADER + 'a,1,2,"x,\nb,1,2,y,\n', 2, None, "opened and never closed"),
    "dates in three orders": (
        HEADER + "a,1,2,x,2010-01-13\nb,1,2,x,13/01/2010\nc,1,2,x,01/25/2010\n",
        4,
        "time",
        "'01/25/2010' is month first, but '13/01/2010' on line 3 is day first. .*--dates dmy",
    ),
    "nothing usable": (
        HEADER + "a,one,2,x,\nb,,2,x,\n",
        2,
        "lat",
        "none of the 2 rows can be used. The first: latitude 'one'",
    ),
    "metres": (HEADER + "a,2045000,785000,x,\n", 2, "lat", "If they are metres, name their system with --crs"),
    "not GeoJSON": ('{"type": "Topology"', None, None, "looks like GeoJSON but cannot be read"),
    "no features": ('{"type": "FeatureCollection", "features": []}', None, None, "contains no features"),
    "a database": (b"SQLite format 3\x00" + b"\x00" * 100, None, None, "looks like a GeoPackage but cannot be read"),
    "half a parquet": (b"PAR1" + b"\x15" * 50, None, None, "looks like GeoParquet but cannot be read"),
    "half a gzip": (gzip.compress(HEADER.encode() * 100)[:40], None, None, "Is the file complete"),
    "half a zip": (b"PK\x03\x04" + b"\x00" * 60, None, None, "not a zip file that can be read"),
    "an image": (b"\x89PNG\r\n\x1a\n" + b"\x00" * 20, None, None, "is a PNG picture, which is not read"),
}


@pytest.mark.parametrize("case", BAD)
def test_the_error_names_file_line_column_and_remedy(tmp_path, case):
    content, line, column, message = BAD[case]
    path = tmp_path / "reports.csv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(ReportFormatError, match=f"(?s)reports.csv.*{message}") as caught:
        io.read(path)
    if line is not None:
        assert caught.value.line == line
    if column is not None:
        assert caught.value.column == column
    assert [p.name for p in tmp_path.iterdir()] == ["reports.csv"]


def test_a_zip_bomb_is_stopped_early(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "RATIO_COUNTS_FROM", 2**20)
    body = HEADER.encode() + b"a,1,2,x,\n" * 2_000_000
    (tmp_path / "bomb.csv.gz").write_bytes(gzip.compress(body))
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("bomb.csv", body)
    with zipfile.ZipFile(tmp_path / "shapes.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("bomb.shp", body)
    for name in ("bomb.csv.gz", "bomb.zip", "shapes.zip"):
        with pytest.raises(ReportFormatError, match=f"{name}.*more than 200 times its size"):
            io.read(tmp_path / name)


def test_a_zip_must_hold_one_table(tmp_path):
    with zipfile.ZipFile(tmp_path / "two.zip", "w") as archive:
        archive.writestr("a.csv", HEADER)
        archive.writestr("b.csv", HEADER + "a,1,2,x,\n")
    with pytest.raises(ReportFormatError, match=r"holds 2 files.*'a.csv', 'b.csv'.*--layer NAME"):
        io.read(tmp_path / "two.zip")
    assert len(io.read(tmp_path / "two.zip", layer="b").reports) == 1


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        (
            {"lat": "breite"},
            ReportFormatError,
            "no column 'breite' for the lat; the columns are 'source', 'lat'",
        ),
        ({"format": "word"}, InputError, "no format 'word'; the formats are zooniverse"),
        ({"format": "excel"}, ReportFormatError, "is not an Excel workbook: it is a table of text"),
        ({"format": "zooniverse"}, ReportFormatError, "does not look like Zooniverse classifications"),
        ({"format": "gpkg"}, ReportFormatError, "is not a GeoPackage: it is a table of text"),
        ({"positive": "fire"}, InputError, "no label is 'fire'; the labels are 'x', 'y'"),
        ({"label_map": "no.toml"}, InputError, "no.toml: cannot be read"),
        ({"region": "1,2,3"}, InputError, "west,south,east,north"),
        (
            {"region": "50,50,51,51"},
            ReportFormatError,
            "none of the 2 rows can be used. The first: lies outside the region",
        ),
        ({"crs": "EPSG:0"}, InputError, "not a coordinate reference system"),
        ({"dates": "ymd"}, InputError, "'dmy' or 'mdy'"),
        ({"encoding": "klingon"}, ReportFormatError, "no encoding called 'klingon'"),
    ],
)
def test_options_that_do_not_fit_say_so(tmp_path, options, error, says):
    path = tmp_path / "reports.csv"
    path.write_text(HEADER + "a,1,2,x,2010-01-13\nb,1,2,y,2010-01-14\n")
    with pytest.raises(error, match=says):
        io.read(path, **options)


def test_a_label_map_must_be_flat_toml(tmp_path):
    path, labels = tmp_path / "reports.csv", tmp_path / "labels.toml"
    path.write_text(HEADER + "a,1,2,x,\n")
    for text, says in (("x = [1, 2]", "must hold lines like"), ("x =", "is not TOML")):
        labels.write_text(text)
        with pytest.raises(InputError, match=says):
            io.read(path, label_map=labels)


def test_a_missing_file_is_our_error(tmp_path):
    for path, words in ((tmp_path / "gone.csv", "no such file"), (tmp_path, "is a folder. Name a file")):
        with pytest.raises(CrowdfieldError, match=words):
            io.read(path)


def test_the_right_encoding_can_be_named(tmp_path):
    path = tmp_path / "reports.csv"
    path.write_bytes((HEADER + "a,1,2,café,\n").encode("cp1252"))
    assert io.read(path, encoding="cp1252").reports.labels == ("café",)


def test_rows_with_too_many_fields_are_rejected_and_short_ones_are_not(tmp_path):
    path = tmp_path / "reports.csv"
    path.write_text(HEADER + "a,1,2,x,2010-01-13\nb,b,1,2,y,2010-01-13\nc,1,2,y\nd,1\ne,1,3,y,2010-01-13,\n")
    result = io.read(path)
    assert (result.read, result.used) == (5, 3)
    assert [(r.line, r.reason.split(".")[0]) for r in result.rejects] == [
        (3, "has more fields than the header"),
        (5, "has no longitude"),
    ]
