"""Every layout, from files as people have them."""

import gzip
import json
import os
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from crowdfield import geography, io
from crowdfield.errors import InputError, ReportFormatError

DATA = Path(os.environ.get("CROWDFIELD_DATA", Path(__file__).parents[2] / ".." / "shared" / "data"))
HAITI = DATA / "haiti" / "exported_ushahidi.csv"
needs_haiti = pytest.mark.skipif(
    not HAITI.exists(), reason="the Haiti data are not here; CROWDFIELD_DATA names their folder"
)


def write(folder, name, text, encoding="utf-8"):
    path = folder / name
    path.write_bytes(text.encode(encoding) if isinstance(text, str) else text)
    return path


def said(result):
    """(longitude, latitude, label, source) of each report."""
    r = result.reports
    return [
        (*place, r.labels[label], r.sources[source])
        for place, label, source in zip(r.places.tolist(), r.label.tolist(), r.source.tolist(), strict=True)
    ]


PLAIN = "source,lat,lon,label,time\nann,18.5,-72.3,1,2010-01-12T16:53:00Z\nbob,18.6,-72.4,0,2010-01-12T17:00:00Z\n"
WANTED = [(-72.3, 18.5, 1, "ann"), (-72.4, 18.6, 0, "bob")]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("plain.csv", PLAIN),
        ("tabs.tsv", PLAIN.replace(",", "\t")),
        ("semicolons.csv", PLAIN.replace(",", ";")),
        ("bom.csv", "\ufeff" + PLAIN),
        ("windows.csv", PLAIN.replace("\n", "\r\n")),
        ("old_mac.csv", PLAIN.replace("\n", "\r")),
        ("quoted.csv", "\n".join(",".join(f'"{c}"' for c in line.split(",")) for line in PLAIN.splitlines())),
        ("decimal_commas.csv", PLAIN.replace(",", ";").replace(".", ",")),
        ("synonyms.csv", PLAIN.replace("source,lat,lon,label,time", "Worker ID,Latitude,lng,Value,created_at")),
        ("upper.csv", PLAIN.replace("source,lat,lon,label,time", "USER,Y,X,CLASS,DATE")),
        ("hxl.csv", PLAIN.replace("time\n", "time\n#meta+source,#geo+lat,#geo+lon,#status,#date\n", 1)),
        ("blank_lines.csv", PLAIN.replace("\nbob", "\n\n\nbob")),
        ("spaces.csv", PLAIN.replace(",", " , ")),
    ],
)
def test_a_plain_table_is_read_however_it_is_written(tmp_path, name, text):
    result = io.read(write(tmp_path, name, text))
    assert said(result) == WANTED
    assert result.reports.time.tolist() == [1263315180.0, 1263315600.0]
    assert (result.read, result.used, result.duplicate, result.rejected) == (2, 2, 0, 0)
    assert result.layout == "plain" and result.reports.crs == "EPSG:4326"


def test_columns_are_known_by_their_hxl_tags_where_names_say_nothing(tmp_path):
    text = "qui,o1,o2,quoi\n#contact+code,#geo+lat,#geo+lon,#status+flood\nann,18.5,-72.3,oui\nbob,18.6,-72.4,non\n"
    result = io.read(write(tmp_path, "hxl.csv", text))
    assert said(result) == [(-72.3, 18.5, "oui", "ann"), (-72.4, 18.6, "non", "bob")]


def test_utf_16_and_compressed_tables_are_read_as_they_are(tmp_path):
    assert said(io.read(write(tmp_path, "wide.csv", PLAIN, "utf-16"))) == WANTED
    assert said(io.read(write(tmp_path, "packed.csv.gz", gzip.compress(PLAIN.encode())))) == WANTED
    with zipfile.ZipFile(tmp_path / "packed.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("__MACOSX/._reports.csv", "x")
        archive.writestr("reports.csv", PLAIN)
    assert said(io.read(tmp_path / "packed.zip")) == WANTED


def test_the_statement_says_what_was_found_and_how_columns_were_mapped(tmp_path):
    result = io.read(
        write(tmp_path, "f.csv", PLAIN.replace("source,lat,lon,label", "worker;lat;lng;value").replace(",", ";"))
    )
    assert result.statement == (
        "f.csv: a plain table cut at semicolons; latitude from lat, longitude from lng, label from value, "
        "source from worker, time from time"
    )
    assert "\n" not in result.statement


def test_columns_can_be_named_and_labels_chosen(tmp_path):
    path = write(
        tmp_path, "odd.csv", "p,q,who,what\n18.5,-72.3,ann,Collapsed\n18.6,-72.4,bob,intact\n18.7,-72.4,cat,unsure\n"
    )
    result = io.read(path, lat="p", lon="Q", source="who", label="what", positive="collapsed")
    assert said(result) == [
        (-72.3, 18.5, "collapsed", "ann"),
        (-72.4, 18.6, "not collapsed", "bob"),
        (-72.4, 18.7, "not collapsed", "cat"),
    ]
    assert result.reports.labels == ("not collapsed", "collapsed")
    labels = write(tmp_path, "map.toml", '[labels]\ncollapsed = "damaged"\nintact = "safe"\nunsure = false\n')
    mapped = io.read(path, lat="p", lon="q", source="who", label="what", label_map=labels)
    assert [r[2] for r in said(mapped)] == ["damaged", "safe"]
    assert (mapped.used, mapped.rejected) == (2, 1)
    assert mapped.rejects[0] == (4, "what", "the label 'unsure' is mapped to nothing.")


def test_letter_case_does_not_make_two_labels(tmp_path):
    result = io.read(write(tmp_path, "c.csv", "lat,lon,label\n1,2,Flood\n1,3,flood \n1,4,FLOOD\n1,5,dry\n"))
    assert result.reports.labels == ("Flood", "dry") and result.reports.label.tolist() == [0, 0, 0, 1]


def test_a_region_leaves_out_what_lies_elsewhere(tmp_path):
    result = io.read(write(tmp_path, "plain.csv", PLAIN), region="-72.35,18,-72.2,19")
    assert said(result) == WANTED[:1]
    assert result.rejects[0].reason == "lies outside the region." and result.read == 2


def test_metres_are_brought_to_degrees_by_their_system(tmp_path):
    east, north = geography.transform([[-72.3, 18.5]], "EPSG:4326", "EPSG:32618")[0]
    path = write(tmp_path, "utm.csv", f"easting,northing,label\n{east},{north},yes\n")
    assert io.read(path, crs="EPSG:32618").reports.places[0] == pytest.approx([-72.3, 18.5], abs=1e-9)
    with pytest.raises(ReportFormatError, match="--crs"):
        io.read(path)
    local = io.read(path, crs="local")
    assert local.reports.crs is None and local.reports.places[0].tolist() == [east, north]


@needs_haiti
def test_the_haiti_export_gives_the_papers_2723_reports_without_options():
    result = io.read(HAITI)
    assert (result.layout, result.read) == ("haiti", 3603)
    box = geography.parse_region("-72.6,18.2,-72.0,18.8")
    assert geography.within(box, *result.reports.places.T).sum() == 2723
    assert result.reports.labels == ("no emergency", "emergency") and (result.reports.label == 1).all()
    assert result.states == result.reports.labels
    assert "1c. People trapped" in result.reports.sources and "5a. Collapsed structure" in result.reports.sources
    assert result.used + result.duplicate + result.rejected == result.read


@needs_haiti
def test_every_haiti_report_can_be_read_by_naming_its_source():
    assert io.read(HAITI, source="CATEGORY").used == 3603
    chosen = io.read(HAITI, positive="Collapsed structure")
    assert chosen.used == 3603 and chosen.reports.sources == ("not verified", "verified")


USHAHIDI_3 = """Post ID,Survey,Post Status,Created (UTC),Updated (UTC),Post Date (UTC),Contact ID,Contact,\
Data Source ID,Source,Unstructured Description,Title,Where?.lat,Where?.lon,Category
#id,,,#date,,,,,,,,,#geo+lat,#geo+lon,#category
12,Flood,published,2021-01-02 10:00:00,2021-01-02 10:00:00,2021-01-02 09:30:00,7,+509,3,SMS,water here,t,18.5,-72.3,\
"Flooded road, Needs help"
13,Flood,published,2021-01-02 11:00:00,2021-01-02 10:00:00,2021-01-02 10:30:00,,,,Web,"all, dry",t,18.6,-72.4,Dry
"""


@pytest.mark.parametrize("second", ["#id,,,#date,,,,,,,,,#geo+lat,#geo+lon,#category", ",,,,,,,,,,,,,,"])
def test_ushahidi_3_skips_its_second_row_and_takes_the_first_of_a_list(tmp_path, second):
    lines = USHAHIDI_3.splitlines()
    lines[1] = second
    result = io.read(write(tmp_path, "posts.csv", "\n".join(lines) + "\n"))
    assert (result.layout, result.read, result.used) == ("ushahidi", 2, 2)
    assert said(result) == [(-72.3, 18.5, "Flooded road", "contact 7"), (-72.4, 18.6, "Dry", "Web")]
    assert result.reports.id == ("12", "13") and result.reports.time[0] == 1609579800.0


def test_ushahidi_3_finds_what_is_asked_for_anywhere_in_a_list(tmp_path):
    result = io.read(write(tmp_path, "posts.csv", USHAHIDI_3), positive="needs help")
    assert [label for _, _, label, _ in said(result)] == ["needs help", "not needs help"]


def test_ushahidi_3_takes_each_post_from_its_own_survey(tmp_path):
    header = "Post ID,Survey,Post Status,Source,Location.lat,Location.lon,Type,Location.lat,Location.lon,Type"
    rows = [
        "1,A,published,SMS,18.5,-72.3,Flood,,,",
        "2,B,published,Web,,,,18.6,-72.4,Dry",
        "3,B,published,Web,,,,18.7,-72.4,",
    ]
    result = io.read(write(tmp_path, "posts.csv", "\n".join([header, "," * 9, *rows]) + "\n"))
    assert said(result) == [(-72.3, 18.5, "Flood", "SMS"), (-72.4, 18.6, "Dry", "Web")]
    assert (result.read, result.rejects[0].line, result.rejects[0].reason) == (3, 5, "has no label.")


USHAHIDI_2 = """#,INCIDENT TITLE,INCIDENT DATE,LOCATION,DESCRIPTION,CATEGORY,LATITUDE,LONGITUDE,APPROVED,VERIFIED
1,A,2011-03-11 05:46:00,Sendai,Roads &amp; bridges &quot;gone&quot;,"Roads &amp; Rail, Power, ",38.26,140.87,YES,NO
2,B,2011-03-11 06:00:00,Tokyo,no power,"Power, ",35.68,139.69,YES,YES
"""


def test_ushahidi_2_makes_each_first_category_a_source(tmp_path):
    for text in (USHAHIDI_2, USHAHIDI_2.replace("#,INC", "Serial,INC")):
        result = io.read(write(tmp_path, "incidents.csv", text))
        assert result.layout == "ushahidi2" and result.reports.labels == ("not reported", "reported")
        assert said(result) == [(140.87, 38.26, "reported", "Roads & Rail"), (139.69, 35.68, "reported", "Power")]


def classification(number, annotations, subject, *, user="ann", metadata=None):
    cells = {
        "classification_id": number,
        "user_name": user,
        "user_id": "",
        "user_ip": "ab",
        "workflow_id": 1,
        "workflow_name": "w",
        "workflow_version": "1.1",
        "created_at": "2016-04-20 10:00:00 UTC",
        "gold_standard": "",
        "expert": "",
        "metadata": json.dumps(metadata or {"subject_dimensions": [{"naturalWidth": 400, "naturalHeight": 200}]}),
        "annotations": json.dumps(annotations),
        "subject_data": json.dumps({"99": subject}),
        "subject_ids": 99,
    }
    return cells


def zooniverse(folder, *rows):
    import csv

    path = folder / "classifications.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        out = csv.DictWriter(file, rows[0].keys())
        out.writeheader()
        out.writerows(rows)
    return path


DEGREES = {"#lon_min": "10", "lon_max": 14, "lat_min": 1, "lat_max": 3}


def mark(**shape):
    return [{"task": "T0", "value": [{"tool": 0, "tool_label": "Structural damage", **shape}]}]


@pytest.mark.parametrize(
    "subject",
    [
        DEGREES,
        {"//upper_left_lon": 10, "upper_left_lat": 3, "lower_right_lon": "14", "lower_right_lat": 1},
        {
            "minx": 1113194.9079327357,
            "maxx": 1558472.8711058302,
            "miny": 111325.1428663851,
            "maxy": 334111.1714019596,
        },
    ],
)
@pytest.mark.parametrize(
    "shape",
    [
        {"x": 100, "y": 50},
        {"x": 90, "y": 40, "width": 20, "height": 20},
        {"x1": 80, "y1": 50, "x2": 120, "y2": 50},
        {"points": [{"x": 100, "y": 40}, {"x": 100, "y": 60}]},
        {"pathX": [90, 110, 110, 90], "pathY": [40, 40, 60, 60], "toolType": "freehandLine"},
    ],
)
def test_zooniverse_marks_get_their_place_from_the_corners(tmp_path, subject, shape):
    result = io.read(zooniverse(tmp_path, classification(1, mark(**shape), subject)))
    assert result.layout == "zooniverse" and result.reports.labels == ("Structural damage",)
    # A web map's latitudes are not quite linear: within a thousandth of a degree here.
    assert result.reports.places[0] == pytest.approx([11.0, 2.5], abs=2e-3)


def test_zooniverse_saw_nothing_is_a_negative_for_every_covered_cell(tmp_path):
    path = zooniverse(
        tmp_path,
        classification(1, [{"task": "T0", "value": []}], DEGREES, user="not-logged-in-1f"),
        classification(2, mark(x=1, y=1), DEGREES),
    )
    result = io.read(path)
    nothing = [report for report in said(result) if report[2] == "nothing"]
    assert len(nothing) == 16 and {r[3] for r in nothing} == {"not-logged-in-1f"}
    assert sorted({r[0] for r in nothing}) == [10.5, 11.5, 12.5, 13.5]
    assert (result.read, result.used, len(result.reports)) == (2, 2, 17)
    finer = io.read(path, cell="50km")
    assert (finer.reports.label == finer.reports.labels.index("nothing")).sum() == 9 * 5
    with_two = io.read(path, positive="structural damage")
    assert with_two.reports.labels == ("not structural damage", "structural damage")


def test_columns_that_a_layout_has_no_use_for_are_not_ignored_in_silence(tmp_path):
    with pytest.raises(InputError, match="--lat y does not apply"):
        io.read(zooniverse(tmp_path, classification(1, mark(x=1, y=1), DEGREES)), lat="y")
    with pytest.raises(InputError, match="--label x does not apply"):
        io.read(write(tmp_path, "agg.csv", MAPSWIPE), label="x")


def test_zooniverse_rows_that_cannot_be_placed_say_why(tmp_path):
    bad = classification(5, mark(x=1, y=1), DEGREES)
    bad["annotations"] = "{not json"
    result = io.read(
        zooniverse(
            tmp_path,
            classification(1, mark(x=1, y=1), DEGREES),
            classification(2, mark(x=1, y=1), {"title": "no corners"}),
            classification(3, mark(x=9000, y=1), DEGREES),
            classification(4, mark(x=1, y=1), DEGREES, metadata={"subject_dimensions": [None]}),
            bad,
            classification(1, mark(x=1, y=1), DEGREES),
            classification(6, [{"task": "T1", "value": "Yes"}], DEGREES),
        )
    )
    assert (result.read, result.used, result.duplicate, result.rejected) == (7, 2, 1, 4)
    assert [reject.line for reject in result.rejects] == [3, 4, 5, 6]
    for reject, word in zip(result.rejects, ("corners", "off its image", "size of the image", "not JSON"), strict=True):
        assert word in reject.reason
    assert said(result)[1][:3] == (12.0, 2.0, "Yes")


def test_zooniverse_answers_come_in_many_shapes(tmp_path):
    answers = [
        "![icon.png](https://example.org/a.png =60x) Damaged",
        ["Damaged"],
        3,
        [{"task": "T0", "value": "Damaged"}, {"task": "T2", "value": None}],
    ]
    rows = [classification(i, [{"task": "T0", "value": answer}], DEGREES) for i, answer in enumerate(answers)]
    for row in rows:
        del row["classification_id"], row["user_name"]
    result = io.read(zooniverse(tmp_path, *rows), duplicates="keep")
    assert [r[2:] for r in said(result)] == [("Damaged", "ab"), ("Damaged", "ab"), ("3", "ab"), ("Damaged", "ab")]


SEEN = {"task": "T1", "task_label": "What do you see?"}
USABLE = {"task": "T0", "task_label": "Is the image clear?"}
SEVERAL = [  # the answers of three volunteers to a question that allows several, and to one that does not
    [USABLE | {"value": "Yes"}, SEEN | {"value": ["Water", "Damage"]}],
    [USABLE | {"value": "No"}, SEEN | {"value": []}],
    [USABLE | {"value": "Yes"}, SEEN | {"value": ["Damage"]}],
    [USABLE | {"value": "Yes"}],
]
SELECTED = [
    [{"task": "T2", "value": [{"select_label": k, "option": True, "value": 0, "label": v} for k, v in chosen.items()]}]
    for chosen in ({"Country": "Haiti", "Damage": "Some"}, {"Country": "Nepal", "Damage": "None seen"})
]


@pytest.mark.parametrize(
    ("rows", "label", "expected"),
    [
        (SEVERAL, "Water", ["Water", "not Water", "not Water", None]),
        (SEVERAL, "damage", ["damage", "not damage", "damage", None]),
        (SEVERAL, "T0", ["Yes", "No", "Yes", "Yes"]),
        (SEVERAL, "is the image clear?", ["Yes", "No", "Yes", "Yes"]),
        ([row[:1] for row in SEVERAL], None, ["Yes", "No", "Yes", "Yes"]),
        (
            [[USABLE | {"value": "Yes"}, SEEN | {"value": word}] for word in ("Water", "Damage")],
            None,
            ["Water", "Damage"],
        ),
        (SELECTED, "Damage", ["Some", "None seen"]),
        (SELECTED, "Country", ["Haiti", "Nepal"]),
    ],
)
def test_zooniverse_answers_to_the_question_that_is_asked_for(tmp_path, rows, label, expected):
    """Classifications that do not answer it are rejected."""
    path = zooniverse(tmp_path, *(classification(i, row, DEGREES) for i, row in enumerate(rows)))
    result = io.read(path, label=label, duplicates="keep")
    assert [r[2] for r in said(result)] == [word for word in expected if word is not None]
    assert result.rejected == expected.count(None)


@pytest.mark.parametrize(
    ("rows", "label", "message"),
    [
        (SEVERAL, None, r"several questions: 'T0 'Is the image clear\?'', 'T1 .*--label T0"),
        (SEVERAL, "T1", "'What do you see\\?' allows several answers at once.*--label 'Water'"),
        ([row[1:2] for row in SEVERAL[:3]], None, "allows several answers at once.*--label 'Water'"),
        (SEVERAL, "Fire", "no question and no answer is called 'Fire'"),
        (SELECTED, None, "several questions.*Country.*Damage.*--label T2"),
    ],
)
def test_zooniverse_files_with_several_questions_or_answers_are_asked_about(tmp_path, rows, label, message):
    path = zooniverse(tmp_path, *(classification(i, row, DEGREES) for i, row in enumerate(rows)))
    with pytest.raises(ReportFormatError, match=message):
        io.read(path, label=label)


MAPSWIPE = """idx,task_id,0_count,1_count,2_count,3_count,total_count,0_share,1_share,2_share,3_share,agreement,geom
0,18-1-1,2,3,1,0,6,,,,,,"POLYGON ((10 1, 12 1, 12 3, 10 3, 10 1))"
1,18-1-2,0,0,0,4,4,,,,,,"POLYGON ((10 1, 12 1, 12 3, 10 3, 10 1))"
2,18-1-1,2,3,1,0,6,,,,,,"POLYGON ((10 1, 12 1, 12 3, 10 3, 10 1))"
3,18-1-3,two,0,0,0,0,,,,,,"POLYGON ((10 1, 12 1, 12 3, 10 3, 10 1))"
4,18-1-4,1,0,0,0,1,,,,,,POLYGON oops
"""


def test_mapswipe_counts_become_as_many_reports(tmp_path):
    result = io.read(write(tmp_path, "agg.csv", MAPSWIPE))
    assert result.layout == "mapswipe" and result.states == ("no", "yes")
    assert result.reports.labels == ("maybe", "no", "yes")
    assert np.bincount(result.reports.label).tolist() == [1, 2, 3]
    assert (result.reports.places == [11.0, 2.0]).all()
    assert (result.read, result.used, result.duplicate, result.rejected) == (5, 1, 1, 3)
    assert [r.reason for r in result.rejects] == [
        "has no votes, or all of them say that the imagery is bad.",
        "'two' is not a count.",
        "its geometry is not WKT.",
    ]


def test_zooniverse_answering_no_where_others_draw_is_seeing_nothing(tmp_path):
    """The first question sends on only those who see something; the others never reach the drawing."""
    no, yes = ({"task": "T1", "task_label": "Any damage?", "value": word} for word in ("No", "Yes"))
    path = zooniverse(
        tmp_path,
        classification(1, [yes, *mark(x=100, y=50)], DEGREES),
        classification(2, [no], DEGREES, user="careful"),
    )
    result = io.read(path)
    assert result.reports.labels == ("Structural damage", "nothing") and len(result.reports) == 1 + 16
    asked_only = io.read(zooniverse(tmp_path, classification(1, [yes], DEGREES), classification(2, [no], DEGREES)))
    assert asked_only.reports.labels == ("No", "Yes") and len(asked_only.reports) == 2


FULL = """project_id,group_id,user_id,task_id,timestamp,start_time,end_time,result
-Mx,g101,anna,18-1205-870,2021-09-08 09:10:22.266,2021-09-08 09:06:14.339,2021-09-08 09:10:22.266,1
-Mx,g101,anna,18-1206-870,2021-09-08 09:10:22.266,2021-09-08 09:06:14.339,2021-09-08 09:10:22.266,0
-Mx,g101,ben,18-1205-870,2021-09-08 08:43:55.5,2021-09-08 08:42:06.63,2021-09-08 08:43:55.5,2
-Mx,g101,ben,18-1206-870,2021-09-08 08:43:55.5,2021-09-08 08:42:06.63,2021-09-08 08:43:55.5,3
-Mx,g101,ben,t7,2021-09-08 08:43:55.5,2021-09-08 08:42:06.63,2021-09-08 08:43:55.5,1
-Mx,g101,ben,18-1207-870,2021-09-08 08:43:55.5,2021-09-08 08:42:06.63,2021-09-08 08:43:55.5,9
"""


def test_mapswipe_full_results_keep_who_said_what(tmp_path):
    import shapely

    result = io.read(write(tmp_path, "results.csv", FULL))
    assert result.layout == "mapswipe-results" and result.states == ("no", "yes")
    assert [row[2:4] for row in said(result)] == [("yes", "anna"), ("no", "anna"), ("maybe", "ben")]
    assert (result.read, result.used, result.duplicate, result.rejected) == (6, 3, 0, 3)
    assert [r.column for r in result.rejects] == ["result", "task_id", "result"]
    # A tile is 360° / 2^18 wide; its northern edge is where the web map puts row 870.
    tile = 360 / 2**18
    north, south = (np.degrees(np.arctan(np.sinh(np.pi * (1 - 2 * row / 2**18)))) for row in (870, 871))
    box = shapely.box(1205 * tile - 180, south, 1206 * tile - 180, north)
    assert result.reports.places[0] == pytest.approx([box.centroid.x, box.centroid.y], abs=tile / 100)


def test_mapswipe_counts_in_geojson_may_be_written_as_decimals(tmp_path):
    corners = [[10.0, 1.0], [12.0, 1.0], [12.0, 3.0], [10.0, 3.0], [10.0, 1.0]]
    counts = {"idx": 0.0, "task_id": "18-1-1", "0_count": 2.0, "1_count": 1.0, "2_count": 0.0, "3_count": 1.0}
    feature = {
        "type": "Feature",
        "properties": {**counts, "total_count": 4.0, "0_share": 0.5, "agreement": 1 / 3},
        "geometry": {"type": "MultiPolygon", "coordinates": [[corners]]},
    }
    text = json.dumps({"type": "FeatureCollection", "name": "tmp", "features": [feature]})
    result = io.read(write(tmp_path, "agg_results.geojson", text))
    assert result.layout == "geojson (mapswipe)" and [row[2] for row in said(result)] == ["no", "no", "yes"]


KOBO = """start;flooded;_gps_latitude;_gps_longitude;_gps_altitude;_gps_precision;_id;_uuid;_submission_time;\
_validation_status;_submitted_by
2021-01-01;yes;18,5;-72,3;0;5;1;u1;2021-01-01T10:00:00;validation_status_approved;eve
2021-01-01;no;18,6;-72,4;0;5;2;u2;2021-01-01T11:00:00;validation_status_not_approved;eve
2021-01-01;no;18,7;-72,4;0;5;3;u3;2021-01-01T12:00:00;;fay
"""


def test_kobo_leaves_out_what_was_not_approved(tmp_path):
    result = io.read(write(tmp_path, "kobo.csv", KOBO))
    assert result.layout == "kobo"
    assert said(result) == [(-72.3, 18.5, "yes", "eve"), (-72.4, 18.7, "no", "fay")]
    assert (result.rejects[0].line, result.rejects[0].column) == (3, "_validation_status")
    assert result.reports.id == ("u1", "u3")


SURVEY = """start,Your name,What do you see?,_Where are you?_latitude,_Where are you?_longitude,_uuid
2021-01-01,eve,water everywhere,18.5,-72.3,a
2021-01-01,fay,nothing,18.6,-72.4,b
2021-01-01,gus,nothing,18.7,-72.4,c
2021-01-01,hal,n/a,18.7,-72.4,d
2021-01-01,ida,water everywhere,n/a,n/a,e
"""


def test_kobo_finds_the_question_by_its_answers_and_skips_what_was_not_filled(tmp_path):
    result = io.read(write(tmp_path, "survey.csv", SURVEY))
    assert result.columns["label"] == "What do you see?"
    assert [label for _, _, label, _ in said(result)] == ["water everywhere", "nothing", "nothing"]
    assert [(r.line, r.reason) for r in result.rejects] == [(5, "has no label."), (6, "has no latitude.")]


def test_odk_names_its_columns_with_a_hyphen(tmp_path):
    header = "SubmissionDate,site-Latitude,site-Longitude,site-Accuracy,group/damage,KEY,SubmitterName"
    text = f"{header}\n2021-01-01T10:00:00Z,1,2,5,high,k,eve\n"
    result = io.read(write(tmp_path, "odk.csv", text))
    assert result.layout == "kobo" and said(result) == [(2.0, 1.0, "high", "eve")]


def test_the_upload_status_of_odk_is_not_taken_for_an_answer(tmp_path):
    """As ODK Central writes it: groups joined by hyphens, and rows that end before their last, empty columns."""
    text = (
        "SubmissionDate,meta-instanceID,reporter,place-corner-Latitude,place-corner-Longitude,place-corner-Accuracy,"
        "habitat-damage_type,habitat-damage_type_photo,KEY,SubmitterID,SubmitterName,Status\n"
        "2019-09-18T08:51:07.481Z,uuid:a,Eve,-31.9,115.8,4.2,collapsed,1.jpg,uuid:a,241,app-user\n"
        "2019-09-18T06:20:25.780Z,uuid:b,Eve,-31.8,115.9,4.2,intact,2.jpg,uuid:b,241,app-user\n"
    )
    result = io.read(write(tmp_path, "odk.csv", text))
    assert said(result) == [(115.8, -31.9, "collapsed", "app-user"), (115.9, -31.8, "intact", "app-user")]


@pytest.fixture
def features():
    geopandas = pytest.importorskip("geopandas")
    import shapely

    return geopandas.GeoDataFrame(
        {"worker": ["ann", "bob", None], "damage": ["high", "low", "low"]},
        geometry=[shapely.Point(-72.3, 18.5), shapely.Point(-72.4, 18.6), shapely.Point(-72.5, 18.7)],
        crs="EPSG:4326",
    )


POINTS = [(-72.3, 18.5, "high", "ann"), (-72.4, 18.6, "low", "bob"), (-72.5, 18.7, "low", "unknown")]


@pytest.mark.parametrize(
    ("name", "driver", "layout"),
    [("p.geojson", "GeoJSON", "geojson"), ("p.gpkg", "GPKG", "gpkg"), ("p.shp", "ESRI Shapefile", "shapefile")],
)
@pytest.mark.parametrize("crs", ["EPSG:4326", "EPSG:32618"])
def test_vector_files_are_read_in_any_system(tmp_path, features, name, driver, layout, crs):
    features.to_crs(crs).to_file(tmp_path / name, driver=driver)
    result = io.read(tmp_path / name)
    assert result.layout == layout
    for found, wanted in zip(said(result), POINTS, strict=True):
        assert found[:2] == pytest.approx(wanted[:2], abs=1e-6) and found[2:] == wanted[2:]


def test_geoparquet_and_zipped_shapefiles_are_read(tmp_path, features):
    features.to_parquet(tmp_path / "p.parquet")
    assert said(io.read(tmp_path / "p.parquet")) == POINTS
    features.to_file(tmp_path / "p.shp")
    with zipfile.ZipFile(tmp_path / "p.zip", "w") as archive:
        for part in ("shp", "shx", "dbf", "prj"):
            archive.write(tmp_path / f"p.{part}", f"p.{part}")
    assert io.read(tmp_path / "p.zip").used == 3


def test_kml_placemarks_say_their_name(tmp_path):
    text = (
        '<?xml version="1.0" encoding="UTF-8"?><kml xmlns="http://www.opengis.net/kml/2.2"><Document>'
        "<Placemark><name>flooded</name><Point><coordinates>-72.3,18.5,0</coordinates></Point></Placemark>"
        "<Placemark><name>dry</name><Point><coordinates>-72.4,18.6,0</coordinates></Point></Placemark>"
        "</Document></kml>"
    )
    result = io.read(write(tmp_path, "p.kml", text))
    assert said(result) == [(-72.3, 18.5, "flooded", "all"), (-72.4, 18.6, "dry", "all")]


def test_only_points_are_reports(tmp_path):
    shapes = [
        {"type": "Point", "coordinates": [1, 2]},
        {"type": "LineString", "coordinates": [[1, 2], [3, 4]]},
        None,
    ]
    collection = {
        "type": "FeatureCollection",
        "features": [{"type": "Feature", "properties": {"label": "x"}, "geometry": shape} for shape in shapes],
    }
    result = io.read(write(tmp_path, "mixed.geojson", json.dumps(collection)))
    assert (result.read, result.used, result.rejected) == (3, 1, 2)
    assert [r.reason for r in result.rejects] == ["is LineString, not a point.", "is empty, not a point."]


def test_no_reader_of_reports_needs_gdal(tmp_path, features, monkeypatch):
    for name, driver in (("p.geojson", "GeoJSON"), ("p.gpkg", "GPKG"), ("p.kml", "KML"), ("p.shp", "ESRI Shapefile")):
        features.rename(columns={"damage": "Name"}).to_file(tmp_path / name, driver=driver)
    features.to_parquet(tmp_path / "p.parquet")
    for library in ("geopandas", "pyogrio", "rasterio", "fiona", "osgeo"):
        monkeypatch.setitem(sys.modules, library, None)
    for name in ("p.geojson", "p.gpkg", "p.kml", "p.shp", "p.parquet"):
        assert io.read(tmp_path / name, label=None if name == "p.parquet" else "Name").used == 3


def test_duplicates_count_once_unless_they_are_to_be_kept(tmp_path):
    rows = ["ann,1,2,yes,2020-01-01", "ann,1,2,yes,2020-01-01", "ann,1,2,no,2020-01-01", "bob,1,2,yes,2020-01-01"]
    path = write(tmp_path, "d.csv", "source,lat,lon,label,time\n" + "\n".join(rows) + "\n")
    once = io.read(path)
    assert (once.read, once.used, once.duplicate) == (4, 3, 1)
    kept = io.read(path, duplicates="keep")
    assert (kept.used, kept.duplicate) == (4, 0)
    with pytest.raises(InputError, match="'once', 'keep' or 'events'"):
        io.read(path, duplicates="never")  # type: ignore[arg-type]


def test_an_id_decides_what_is_a_duplicate(tmp_path):
    same_id = "id,source,lat,lon,label\n1,ann,1,2,yes\n1,ann,3,4,no\n2,ann,1,2,yes\n,ann,1,2,yes\n,ann,1,2,yes\n"
    result = io.read(write(tmp_path, "d.csv", same_id))
    # Row 2 repeats an id; rows without one fall back to what they say.
    assert (result.used, result.duplicate) == (3, 2)


def test_an_id_that_several_sources_share_is_that_of_a_thing(tmp_path):
    rows = [(thing, source, "yes" if thing else "no") for thing in range(3) for source in ("ann", "bob")]
    lines = [f"{thing},{source},{thing},2,{label}" for thing, source, label in rows]
    result = io.read(write(tmp_path, "d.csv", "\n".join(["id,source,lat,lon,label", *lines, lines[0]])))
    assert (result.used, result.duplicate) == (6, 1)
    assert result.reports.id == (None,) * 6  # a live map would take equal ids for one report sent twice


def test_large_ids_are_not_rounded_into_duplicates(tmp_path):
    ids = "id,lat,lon,label\n12345678901234567890123,1,2,a\n12345678901234567890124,1,2,b\n007,1,2,a\n7,1,2,b\n"
    assert io.read(write(tmp_path, "d.csv", ids)).used == 4


def test_reports_that_nothing_tells_apart_are_not_duplicates(tmp_path):
    assert io.read(write(tmp_path, "d.csv", "lat,lon,label\n1,2,yes\n1,2,yes\n")).used == 2


def test_copied_messages_are_flagged_as_one_event(tmp_path):
    words = "the bridge at the market is gone"
    rows = [
        f"a,1,2,yes,2020-01-01T10:00:00,{words}",
        f"b,1,2,yes,2020-01-01T10:05:00,{words.upper()}",
        f"c,1,2,yes,2020-01-01T18:00:00,{words}",
        "d,1,2,yes,2020-01-01T10:00:00,help",
        "e,1,2,yes,2020-01-01T10:00:00,help",
    ]
    path = write(tmp_path, "e.csv", "source,lat,lon,label,time,message\n" + "\n".join(rows) + "\n")
    result = io.read(path)
    assert result.events.tolist() == [0, 0, -1, -1, -1] and result.copied == 1 and result.used == 5
    assert io.read(path, duplicates="events").used == 4


@pytest.mark.parametrize(
    ("cells", "seconds"),
    [
        (["13/01/2010", "02/01/2010"], [1263340800, 1262390400]),
        (["01/13/2010", "02/01/2010"], [1263340800, 1264982400]),
        (["2010-01-13", "13.01.2010 4:53"], [1263340800, 1263358380]),
        (["1263340800", "1263340800000"], [1263340800, 1263340800]),
        (["2010/01/13", "2010-01-13 04:53"], [1263340800, 1263358380]),
        (["13 January 2010", "Jan 13, 2010 4:53 PM"], [1263340800, 1263401580]),
        (["2010-01-13T00:00:00+02:00", "2010-01-13T00:00:00Z"], [1263333600, 1263340800]),
    ],
)
def test_times_are_read_in_the_order_the_file_shows(tmp_path, cells, seconds):
    text = "lat,lon,label,time\n" + "".join(f'1,{i},x,"{cell}"\n' for i, cell in enumerate(cells))
    assert io.read(write(tmp_path, "t.csv", text)).reports.time.tolist() == seconds


def test_a_report_whose_time_cannot_be_read_is_kept_and_noted(tmp_path):
    result = io.read(write(tmp_path, "t.csv", "lat,lon,label,time\n1,2,x,yesterday\n1,3,y,31/02/2010\n1,4,y,\n"))
    assert result.used == 3 and np.isnan(np.asarray(result.reports.time)).all()
    assert any("2 times in column 'time' could not be read" in note for note in result.notes)


def test_ambiguous_dates_are_noted(tmp_path):
    path = write(tmp_path, "t.csv", "lat,lon,label,date\n1,2,x,03/04/2010\n1,2,y,05/06/2010\n")
    assert any("day/month/year" in note for note in io.read(path).notes)
    assert io.read(path, dates="mdy").reports.time[0] == 1267660800


def test_what_a_careful_reader_should_know_is_noted(tmp_path):
    result = io.read(write(tmp_path, "n.csv", "lat,lon,label\n0,0,x\n1,1,x\n"))
    assert any("all reports say 'x'" in note for note in result.notes)
    assert any("0° N 0° E" in note for note in result.notes)


def test_inspect_is_plain_json_and_adds_up(tmp_path):
    found = io.inspect(write(tmp_path, "plain.csv", PLAIN + "eve,oops,1,1,\n"))
    json.dumps(found)
    assert found["read"] == found["used"] + found["duplicate"] + found["rejected"] == 3
    assert found["layout"] == "plain" and found["columns"]["lat"] == "lat"
    assert found["region"] == [-72.4, 18.5, -72.3, 18.6] and found["labels"] == {"0": 1, "1": 1}
    assert found["rejects"] == [{"line": 4, "column": "lat", "reason": "latitude 'oops' is not a number."}]


def test_rejects_are_written_beside_the_file_and_cannot_run_in_a_spreadsheet(tmp_path):
    path = write(tmp_path, "r.csv", "=lat(),lon,label\n1,2,x\n=cmd(),2,x\n")
    result = io.read(path, lat="=lat()")
    written = result.write_rejects()
    assert written == tmp_path / "r.csv.rejects.csv"
    assert written.read_text().splitlines()[1].startswith("3,'=lat(),")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["r.csv", "r.csv.rejects.csv"]


def test_rejects_go_elsewhere_where_the_files_own_folder_cannot_be_written(tmp_path, monkeypatch):
    from crowdfield.io import result as results
    from crowdfield.io import table

    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    result = io.read(write(tmp_path, "r.csv", "lat,lon,label\n1,2,x\nbad,2,x\n"))
    write_rows = table.write_rows

    def guarded(names, rows, path):
        if path.parent == tmp_path:
            raise PermissionError(13, "Permission denied")
        write_rows(names, rows, path)

    monkeypatch.setattr(results, "write_rows", guarded)
    assert result.write_rejects() == here / "r.csv.rejects.csv"
    elsewhere = tmp_path / "results"
    elsewhere.mkdir()
    assert result.write_rejects(instead=elsewhere) == elsewhere / "r.csv.rejects.csv"
    with pytest.raises(InputError, match="Permission denied"):
        result.write_rejects(tmp_path / "x.csv")


def test_lines_are_counted_through_quoted_line_breaks(tmp_path):
    text = 'lat,lon,label,text\n1,2,x,"one\ntwo\nthree"\n\nbad,2,x,y\n'
    assert io.read(write(tmp_path, "l.csv", text)).rejects[0].line == 6


def test_progress_is_reported_and_reaches_the_end(tmp_path):
    path = write(tmp_path, "plain.csv", PLAIN * 1)
    calls = []
    io.read(path, progress=lambda done, total: calls.append((done, total)))
    assert calls[-1] == (path.stat().st_size, path.stat().st_size)
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)


def test_a_word_among_many_numbers_is_one_rejected_row_and_no_warning(tmp_path):
    """Warnings are errors here: pandas must not remark on a column of two kinds."""
    rows = [f"{18 + i / 1e6},{-72 - i / 1e6},x" for i in range(150_000)]
    rows[120_000] = "somewhere,-72,x,and more"
    result = io.read(write(tmp_path, "long.csv", "lat,lon,label\n" + "\n".join(rows)))
    assert (result.read, result.used, result.rejected) == (150_000, 149_999, 1)
    assert result.rejects[0].line == 120_002 and "more fields" in result.rejects[0].reason


def test_a_table_longer_than_a_chunk_is_one_table(tmp_path, monkeypatch):
    from crowdfield.io import delimited

    monkeypatch.setattr(delimited, "CHUNK", 7)
    rows = [f"s{i % 3},{i / 100},{i / 50},{'yes' if i % 2 else 'no'}" for i in range(50)]
    rows[20] = "s0,,1,yes"
    text = "source,lat,lon,label\n" + "\n".join(rows) + "\n"
    result = io.read(write(tmp_path, "long.csv", text))
    assert (result.read, result.used, result.rejects[0].line) == (50, 49, 22)
    assert result.reports.places[-1].tolist() == [0.98, 0.49] and result.reports.sources == ("s0", "s1", "s2")
