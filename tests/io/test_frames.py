"""A data frame is read as a file of the same table would be, whichever library made it."""

import geopandas
import numpy as np
import pandas as pd
import polars
import pyarrow
import pytest
import shapely

from crowdfield import io
from crowdfield.errors import DataWarning, InputError

TABLE = {
    "latitude": [-19.8, -19.81, -19.82, -19.83],
    "longitude": [34.8, 34.81, 34.82, 34.83],
    "status": ["dry", "flooded", "flooded", "dry"],
    "reporter": ["a", "b", "a", "c"],
    "reported_at": ["2026-11-17T04:00:00Z", "2026-11-17T05:00:00+01:00", "2026-11-17 06:00", "2026-11-18"],
}


@pytest.mark.parametrize("make", [pd.DataFrame, polars.DataFrame, pyarrow.table], ids=["pandas", "polars", "arrow"])
def test_any_frame_gives_the_reports_of_the_same_file(make, tmp_path):
    path = tmp_path / "reports.csv"
    pd.DataFrame(TABLE).to_csv(path, index=False)
    expected, found = io.read(path).reports, io.from_frame(make(TABLE))
    np.testing.assert_allclose(found.places, expected.places)
    assert (found.labels, found.sources, found.crs) == (expected.labels, expected.sources, expected.crs)
    assert (found.label == expected.label).all() and (found.source == expected.source).all()
    np.testing.assert_allclose(np.asarray(found.time), np.asarray(expected.time))


def test_a_geoframe_brings_its_own_places_and_system():
    frame = pd.DataFrame(TABLE)
    points = geopandas.GeoDataFrame(
        frame.drop(columns=["latitude", "longitude"]),
        geometry=geopandas.points_from_xy(frame["longitude"], frame["latitude"], crs="EPSG:4326").to_crs("EPSG:32736"),
    )
    found = io.from_frame(points)
    assert found.crs == "EPSG:32736" and found.places[0, 1] > 7_000_000
    squares = points.set_geometry(shapely.buffer(points.geometry.to_numpy(), 10.0)).set_crs("EPSG:32736")
    np.testing.assert_allclose(io.from_frame(squares).places, found.places, atol=10)


def test_labels_keep_their_type_and_can_be_set_against_all_others():
    frame = pd.DataFrame({**TABLE, "status": [0, 2, 1, 2]})
    assert io.from_frame(frame).labels == (0, 1, 2)
    assert io.from_frame(frame, positive="2").labels == ("not 2", "2")
    assert io.from_frame(frame, label_map={"1": "2", "0": False}).labels == (2,)


def test_rows_without_a_place_or_a_label_are_counted_and_left_out():
    frame = pd.DataFrame({**TABLE, "status": ["dry", None, "flooded", " "], "latitude": [-19.8, -19.8, np.nan, -19.8]})
    with pytest.warns(DataWarning, match="3 of 4 rows"):
        assert len(io.from_frame(frame)) == 1


@pytest.mark.parametrize(
    ("frame", "options", "words"),
    [
        (pd.DataFrame({"a": [1]}), {}, "latitude and longitude and label"),
        (pd.DataFrame(TABLE), {"label": "nope"}, "no column 'nope'"),
        (pd.DataFrame({**TABLE, "latitude": ["x"] * 4}), {}, "not a number"),
        (pd.DataFrame({**TABLE, "latitude": [118.0] * 4}), {}, "swapped"),
        (pd.DataFrame({**TABLE, "reported_at": ["soon"] * 4}), {}, "not a time"),
        ([1, 2, 3], {}, "data frame"),
        (geopandas.GeoDataFrame({"label": ["a"]}, geometry=[shapely.Point(0, 0)]), {}, "no reference system"),
    ],
)
def test_what_cannot_be_used_is_named(frame, options, words):
    with pytest.raises(InputError, match=words):
        io.from_frame(frame, **options)


def test_columns_of_probabilities_are_scores():
    frame = pd.DataFrame(
        {
            "lat": [18.5, 18.6, 18.7, 18.8],
            "lon": [-72.3] * 4,
            "label": ["wet", None, "dry", None],
            "p_wet": [np.nan, 0.3, np.nan, 0.6],
            "p_dry": [np.nan, 0.7, np.nan, 0.4],
        }
    )
    reports = io.from_frame(frame)
    assert [reports.labels[code] for code in reports.label] == ["wet", "dry", "dry", "wet"]
    assert reports.is_score.tolist() == [False, True, False, True] and reports.score[1].tolist() == [0.7, 0.3]
    alone = io.from_frame(frame.iloc[[1, 3]].drop(columns="label"), positive="wet")
    assert alone.labels == ("not wet", "wet") and alone.score.tolist() == [[0.7, 0.3], [0.4, 0.6]]
