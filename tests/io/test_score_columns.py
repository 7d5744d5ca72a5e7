"""Files with one column of probabilities per state."""

import json

import numpy as np
import pytest

import crowdfield as cf
from crowdfield.errors import InputError, ReportFormatError

HEADER = "lat,lon,source,label,p_intact,p_damaged,p_destroyed"
ROWS = [
    "18.50,-72.30,ann,intact,,,",
    "18.51,-72.31,bob,destroyed,NA,NA,NA",
    "18.52,-72.32,net,,0.7,0.2,0.1",
    "18.53,-72.33,net,,0.1,0.30,0.6",
    "18.54,-72.34,net,damaged,0.2,0.5,0.3",
]


def write(tmp_path, *lines):
    file = tmp_path / "reports.csv"
    file.write_text("\n".join(lines) + "\n")
    return file


def test_columns_named_after_the_states_are_recognised(tmp_path):
    result = cf.io.read(write(tmp_path, HEADER, *ROWS))
    reports = result.reports
    assert result.used == 5 and reports.labels == ("damaged", "destroyed", "intact")
    assert [reports.labels[code] for code in reports.label] == [
        "intact",
        "destroyed",
        "intact",
        "destroyed",
        "damaged",
    ]
    assert reports.is_score.tolist() == [False, False, True, True, True]
    assert reports.score[2] == pytest.approx([0.2, 0.1, 0.7])
    assert "score from p_intact, p_damaged, p_destroyed" in result.statement


@pytest.mark.parametrize(
    ("header", "options", "states"),
    [
        ("prob_a,prob_b,prob_c", {}, ("a", "b", "c")),
        ("score_a,score_b,score_c", {}, ("a", "b", "c")),
        ("Probability a,Probability b,Probability c", {}, ("a", "b", "c")),
        ("p_1,p_2,p_3", {}, (1, 2, 3)),
        ("a,b,c", {"score_columns": "a,b,c"}, ("a", "b", "c")),
        ("x1,x2,x3", {"score_columns": "dry=x1, wet=x2, deep=x3"}, ("deep", "dry", "wet")),
    ],
)
def test_a_file_of_vectors_alone_needs_no_label(tmp_path, header, options, states):
    file = write(tmp_path, f"lat,lon,{header}", "18.5,-72.3,0.7,0.2,0.1", "18.6,-72.3,0.1,0.30,0.6")
    result = cf.io.read(file, **options)
    assert result.reports.labels == states and result.reports.is_score.all()
    assert result.reports.score.max(axis=1).tolist() == [0.7, 0.6]
    assert "label from the most probable score" in result.statement


def test_numbers_that_are_not_probability_vectors_are_ignored(tmp_path):
    lines = ["lat,lon,label,p_a,p_b", "18.5,-72.3,wet,0.7,0.9", "18.6,-72.3,dry,0.1,0.8"]
    assert cf.io.read(write(tmp_path, *lines)).reports.score is None
    assert cf.io.read(write(tmp_path, HEADER, *ROWS[:2], *ROWS[4:]), score_columns="none").reports.score is None


def test_labels_and_columns_may_be_spelt_differently(tmp_path):
    lines = ["lat,lon,label,p_not_damaged,p_damaged", "18.5,-72.3,Not damaged,,", "18.6,-72.3,,0.1,0.9"]
    assert cf.io.read(write(tmp_path, *lines)).reports.labels == ("Not damaged", "damaged")


def test_states_that_become_one_label_add_up(tmp_path):
    file = write(tmp_path, HEADER, *ROWS)
    hit = cf.io.read(file, positive="destroyed").reports
    assert hit.labels == ("not destroyed", "destroyed")
    assert hit.score[3] == pytest.approx([0.4, 0.6])
    mapped = cf.io.read(file, label_map={"damaged": "hit", "destroyed": "hit"}).reports
    assert mapped.labels == ("hit", "intact") and mapped.score[4] == pytest.approx([0.8, 0.2])
    fewer = cf.io.read(file, label_map={"damaged": False}).reports
    assert fewer.labels == ("destroyed", "intact") and fewer.score[2] == pytest.approx([0.125, 0.875])


def test_properties_of_features_may_be_vectors(tmp_path):
    file = tmp_path / "points.geojson"
    features = [
        {
            "type": "Feature",
            "properties": {"p_wet": p, "p_dry": 1 - p},
            "geometry": {"type": "Point", "coordinates": [-72.3, lat]},
        }
        for p, lat in ((0.75, 18.5), (0.25, 18.6))
    ]
    file.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    reports = cf.io.read(file).reports
    assert reports.labels == ("dry", "wet") and reports.score.tolist() == [[0.25, 0.75], [0.75, 0.25]]


def test_written_reports_with_vectors_are_read_back(tmp_path):
    reports = cf.io.read(write(tmp_path, HEADER, *ROWS)).reports
    again = cf.io.read(cf.io.write_reports(reports, tmp_path / "again.csv")).reports
    assert again.labels == reports.labels
    assert again.score == pytest.approx(reports.score, nan_ok=True)


def test_a_map_is_made_of_a_file_with_vectors(tmp_path):
    rng = np.random.default_rng(0)
    lines = ["lat,lon,source,p_dry,p_wet,p_deep"]
    for lat, lon in rng.uniform(0, 0.1, (30, 2)):
        p = np.array([0.15, 0.15, 0.15])
        p[int(lon * 30)] = 0.7
        lines.append(f"{18 + lat:.5f},{-72 + lon:.5f},net,{','.join(map(str, p))}")
    fused = cf.pipeline.fuse(cf.io.read(write(tmp_path, *lines)).reports, cell="3km", lengthscale="5km")
    assert set(fused.heatmap.states) == {"dry", "wet", "deep"}
    assert fused.model.reports_model_ == "instrument" and np.isfinite(fused.model.source_table()["noise"]).all()
    best = fused.heatmap.probability.mean(axis=0).argmax(axis=1)
    assert [fused.heatmap.states[code] for code in (best[0], best[-1])] == ["dry", "deep"]


@pytest.mark.parametrize(
    ("cells", "says"),
    [
        ("0.7,,0.3", "p_damaged: is empty"),
        ("0.7,0.2,many", "'many' is not a probability"),
        ("0.7,0.2,0.4", "add up to 1.3"),
        ("70,20,10", "'70' is not a probability"),
    ],
)
def test_rows_with_wrong_vectors_are_refused_one_by_one(tmp_path, cells, says):
    result = cf.io.read(
        write(tmp_path, HEADER, *ROWS, f"18.55,-72.35,net,,{cells}"), score_columns="p_intact,p_damaged,p_destroyed"
    )
    assert result.used == 5 and result.rejected == 1
    said = result.rejects[0]
    assert says in f"{said.column}: {said.reason}"


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"score_columns": "p_intact,p_intact=p_damaged,intact=p_destroyed"}, InputError, "each state once"),
        ({"score_columns": "p_intact,p_gone"}, ReportFormatError, "no column 'p_gone'"),
        ({"score": "p_intact"}, InputError, "use only one of them"),
    ],
)
def test_wrong_options_for_vectors_are_refused(tmp_path, options, error, says):
    with pytest.raises(error, match=says):
        cf.io.read(write(tmp_path, HEADER, *ROWS), **options)
