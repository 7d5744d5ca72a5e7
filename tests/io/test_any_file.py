"""Whatever is in a file: it is read, or it is our own error; and the rows add up."""

import csv
import io as text_io
import json

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crowdfield import io
from crowdfield.errors import CrowdfieldError

relaxed = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


def check(folder, content, **options):
    path = folder / "any"
    path.write_bytes(content)
    try:
        result = io.read(path, **options)
    except CrowdfieldError as error:
        assert str(error)
        return
    assert result.used + result.duplicate + result.rejected == result.read
    assert len(result.rejects) == result.rejected
    assert len(result.reports) >= result.used >= 1
    json.dumps(result.summary())


STARTS = [
    b"",
    b"\xef\xbb\xbf",
    b"\xff\xfe",
    b"\x1f\x8b\x08\x00",
    b"PK\x03\x04",
    b"SQLite format 3\x00",
    b"PAR1",
    b"\x00\x00\x27\x0a",
    b'{"type": "FeatureCollection", "features": [',
    b'<?xml version="1.0"?><kml xmlns="http://www.opengis.net/kml/2.2">',
    b"lat,lon,label\n",
    b"lat;lon;label\n",
]


@relaxed
@given(start=st.sampled_from(STARTS), rest=st.binary(max_size=300))
def test_bytes_never_crash_a_reader(tmp_path, start, rest):
    check(tmp_path, start + rest)


CELL = st.one_of(
    st.sampled_from(
        [
            "",
            " ",
            "1",
            "-72.5",
            "18,5",
            "1e400",
            "nan",
            "inf",
            "yes",
            "NO",
            "03/04/2010",
            "31/02/2010",
            "2010-01-12",
            "\x00",
        ]
    ),
    st.floats().map(str),
    st.text(max_size=8),
    st.dates().map(str),
    st.sampled_from(
        ["1/13/2010 5:00", "13.1.2010 25.61", "99999999999999999999", "1_000", '"', '"a', "a\nb", "=1+1", "True"]
    ),
)
HEADERS = [
    ["source", "lat", "lon", "label", "time", "id", "text"],
    ["ID", "CATEGORY", "DATE", "TIME", "LAT", "LON", "TITLE", "VERIFIED"],
    [
        "#",
        "INCIDENT TITLE",
        "INCIDENT DATE",
        "LOCATION",
        "DESCRIPTION",
        "CATEGORY",
        "LATITUDE",
        "LONGITUDE",
        "VERIFIED",
    ],
    ["Post ID", "Survey", "Post Status", "Contact ID", "Source", "Post Date (UTC)", "Where.lat", "Where.lon", "Damage"],
    ["_q_latitude", "_q_longitude", "damage", "_uuid", "_submission_time", "_validation_status"],
    ["idx", "task_id", "0_count", "1_count", "2_count", "geom"],
]


@relaxed
@given(
    header=st.sampled_from(HEADERS),
    rows=st.lists(st.lists(CELL, min_size=1, max_size=10), max_size=8),
    delimiter=st.sampled_from(",;\t"),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    duplicates=st.sampled_from(["once", "keep", "events"]),
)
def test_tables_of_any_cells_add_up(tmp_path, header, rows, delimiter, quoting, duplicates):
    out = text_io.StringIO()
    writer = csv.writer(out, delimiter=delimiter, quoting=quoting, escapechar="\\")
    writer.writerow(header)
    writer.writerows(rows)
    check(tmp_path, out.getvalue().encode("utf-8", "surrogatepass"), duplicates=duplicates)


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-500, 500), st.floats(), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(
                ["value", "x", "y", "tool_label", "lon_min", "lon_max", "lat_min", "lat_max", "minx", "crs"]
            ),
            inner,
            max_size=5,
        ),
    ),
    max_leaves=8,
)


@relaxed
@given(st.lists(st.tuples(JSON, JSON, JSON), min_size=1, max_size=4))
def test_zooniverse_rows_of_any_json_add_up(tmp_path, rows):
    corners = {"lon_min": 1, "lon_max": 2, "lat_min": 1, "lat_max": 2}
    out = text_io.StringIO()
    writer = csv.writer(out)
    writer.writerow(["classification_id", "user_name", "created_at", "metadata", "annotations", "subject_data"])
    for number, (metadata, annotations, subject) in enumerate(rows):
        known = {"1": {**corners, **subject}} if isinstance(subject, dict) else {"1": corners}
        writer.writerow(
            [number, "ann", "", *(json.dumps(part) for part in (metadata, [{"value": annotations}], known))]
        )
    check(tmp_path, out.getvalue().encode())


GEOMETRY = st.one_of(
    st.none(),
    st.builds(lambda x, y: {"type": "Point", "coordinates": [x, y]}, st.floats(-400, 400), st.floats(-200, 200)),
    JSON,
)


@relaxed
@given(st.lists(st.tuples(GEOMETRY, JSON), max_size=4))
def test_geojson_of_any_features_adds_up(tmp_path, features):
    collection = {
        "type": "FeatureCollection",
        "features": [{"type": "Feature", "geometry": g, "properties": {"label": p}} for g, p in features],
    }
    check(tmp_path, json.dumps(collection).encode())
