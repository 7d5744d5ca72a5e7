"""Reports: built right or not at all, and never changed."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from crowdfield.data import Grid, Reports
from crowdfield.errors import InputError

PLACES = [[0.0, 1.0], [2.0, 3.0], [0.0, 1.0]]


@given(arrays.arrays(np.float64, st.tuples(st.integers(0, 30), st.integers(1, 3)), elements=st.integers(-2, 2)))
def test_sites_are_the_distinct_places_and_each_report_finds_its_own(places):
    sites = Reports.from_arrays(places, np.zeros(len(places), int)).sites()
    assert np.array_equal(sites.places[sites.site], places)
    assert np.array_equal(sites.places, np.unique(places, axis=0))


def test_minus_zero_is_zero():
    assert len(Reports.from_arrays([[0.0, -0.0], [-0.0, 0.0]], [1, 1]).sites().places) == 1


def test_sites_do_not_depend_on_the_order_of_the_reports():
    places = np.random.default_rng(0).integers(0, 5, (40, 2)).astype(float)
    there = Reports.from_arrays(places, np.zeros(40, int)).sites()
    back = Reports.from_arrays(places[::-1], np.zeros(40, int)).sites()
    assert np.array_equal(there.places, back.places)
    assert np.array_equal(there.site, back.site[::-1])


def test_codes_are_sorted_unless_the_order_is_given():
    reports = Reports.from_arrays(PLACES, ["no", "yes", "no"], ["b", "a", "b"])
    assert reports.labels == ("no", "yes") and reports.label.tolist() == [0, 1, 0]
    assert reports.sources == ("a", "b") and reports.source.tolist() == [1, 0, 1]
    fixed = Reports.from_arrays(PLACES, ["no", "yes", "no"], labels=["yes", "no", "unsure"])
    assert fixed.labels == ("yes", "no", "unsure") and fixed.label.tolist() == [1, 0, 1]
    assert fixed.sources == ("all",)


def test_values_that_cannot_be_sorted_keep_their_first_order():
    assert Reports.from_arrays(PLACES, ["b", 1, "a"]).labels == ("b", 1, "a")
    assert Reports.from_arrays(PLACES, [("x", 1), ("w", 2), ("x", 1)]).labels == (("w", 2), ("x", 1))


def test_numpy_values_become_plain_ones():
    assert all(type(label) is int for label in Reports.from_arrays(PLACES, np.array([3, 1, 3])).labels)


def test_nobody_can_change_the_reports():
    places = np.array(PLACES)
    reports = Reports.from_arrays(places, [0, 1, 0], time=np.zeros(3))
    places[0, 0] = 99.0
    assert reports.places[0, 0] == 0.0
    for array in (reports.places, reports.label, reports.source, reports.time):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    with pytest.raises(AttributeError):
        reports.crs = "EPSG:4326"  # type: ignore[misc]


def test_a_frame_round_trips():
    reports = Reports.from_arrays(PLACES, ["no", "yes", "no"], ["b", "a", "b"], time=[1.0, math.nan, 3.0], id="xyz")
    back = Reports.from_frame(reports.to_frame())
    assert np.array_equal(back.places, reports.places) and back.time is not None
    np.testing.assert_array_equal(back.time, np.asarray(reports.time))
    assert (back.labels, back.sources, back.id) == (reports.labels, reports.sources, reports.id)
    assert np.array_equal(back.label, reports.label) and np.array_equal(back.source, reports.source)


@pytest.mark.parametrize(
    ("crs", "dimensions", "names"),
    [
        ("EPSG:4326", 2, ["lon", "lat"]),
        ("EPSG:32618", 2, ["easting", "northing"]),
        (None, 3, ["x1", "x2", "x3"]),
        (None, 1, ["x1"]),
    ],
)
def test_frame_columns_are_named_for_the_crs(crs, dimensions, names):
    reports = Reports.from_arrays(np.arange(2.0 * dimensions).reshape(2, dimensions), [0, 1], crs=crs)
    assert list(reports.to_frame().columns[:dimensions]) == names
    assert np.array_equal(Reports.from_frame(reports.to_frame(), crs=crs).places, reports.places)


def test_times_may_be_dates():
    dates = np.array(["1970-01-02", "NaT", "2010-01-12T16:53:10"], dtype="datetime64[s]")
    time = Reports.from_arrays(PLACES, [0, 1, 0], time=dates).time
    assert time[0] == 86400 and math.isnan(time[1]) and time[2] == 1263315190


def test_snapping_moves_reports_to_the_centres_of_their_cells():
    grid = Grid(0, 4, 0, 4, columns=2, rows=2, crs="EPSG:32618")
    snapped = Reports.from_arrays([[0.1, 3.9], [3.0, 0.5]], ["a", "b"], id=[7, 8]).snap(grid)
    assert snapped.places.tolist() == [[1.0, 3.0], [3.0, 1.0]]
    assert (snapped.id, snapped.crs, snapped.labels) == ((7, 8), "EPSG:32618", ("a", "b"))


def test_a_report_outside_the_grid_is_an_error_or_dropped():
    grid, reports = Grid(0, 1, 0, 1, 1, 1), Reports.from_arrays([[0.5, 0.5], [5.0, 5.0]], ["a", "b"], ["s", "t"])
    with pytest.raises(InputError, match="1 of 2 reports lie outside"):
        reports.snap(grid)
    kept = reports.snap(grid, outside="drop")
    assert len(kept) == 1 and kept.labels == ("a", "b") and kept.sources == ("s", "t")


def test_reports_and_grid_must_speak_of_the_same_crs():
    with pytest.raises(InputError, match="Project the reports first"):
        Reports.from_arrays([[0.5, 0.5]], ["a"], crs="EPSG:4326").snap(Grid(0, 1, 0, 1, 1, 1, crs="EPSG:32618"))


def test_no_reports_are_a_table_too():
    empty = Reports.from_arrays(np.empty((0, 2)), [], [], labels=["no", "yes"])
    assert len(empty) == 0 and len(empty.sites().places) == 0 and empty.labels == ("no", "yes")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"places": [1.0, 2.0], "label": [0, 1]}, r"\[R, D\]"),
        ({"places": [["a", "b"]], "label": [0]}, "must be numbers"),
        ({"places": [[0, 1], [math.nan, 0]], "label": [0, 1]}, "report 1 has coordinate nan in column 0"),
        ({"places": [[0, math.inf]], "label": [0]}, "report 0 has coordinate inf in column 1"),
        ({"places": [[0, 1]], "label": [0, 1]}, "give one per report"),
        ({"places": [[0, 1]], "label": "x"}, "single value"),
        ({"places": [[0, 1]], "label": [None]}, "report 0 has no label"),
        ({"places": [[0, 1]], "label": [math.nan]}, "report 0 has no label"),
        ({"places": [[0, 1]], "label": [["x"]]}, "hashable"),
        ({"places": [[0, 1]], "label": [0], "source": [None]}, "report 0 has no source"),
        ({"places": [[0, 1]], "label": [0], "source": ["a", "b"]}, "give one per report"),
        ({"places": [[0, 1]], "label": ["a"], "labels": ["b", "c"]}, "not among the labels"),
        ({"places": [[0, 1]], "label": ["a"], "labels": ["a", "a"]}, "must be distinct"),
        ({"places": [[0, 1]], "label": ["a"], "sources": ["a", "b"]}, "no source is given"),
        ({"places": [[0, 1]], "label": ["a"], "time": [0, 1]}, "give one per report"),
        ({"places": [[0, 1]], "label": ["a"], "time": [math.inf]}, "infinite time"),
        ({"places": [[0, 1]], "label": ["a"], "time": ["today"]}, "seconds since 1970"),
        ({"places": [[0, 1]], "label": ["a"], "id": [1, 2]}, "2 ids"),
    ],
)
def test_wrong_reports_say_what_is_wrong(arguments, says):
    with pytest.raises(InputError, match=says):
        Reports.from_arrays(**arguments)


@pytest.mark.parametrize(
    ("codes", "says"),
    [
        ([0, 2], r"must lie in 0..1"),
        ([-1, 0], r"must lie in 0..1"),
        ([0.5, 1], "integer codes"),
        ([0], "one per report"),
    ],
)
def test_wrong_codes_say_what_is_wrong(codes, says):
    with pytest.raises(InputError, match=says):
        Reports(np.array([[0.0, 0.0], [1.0, 1.0]]), np.array(codes), np.zeros(2, int), ("a", "b"), ("all",))


@pytest.mark.parametrize(
    ("frame", "says"),
    [
        (pd.DataFrame({"x": [1], "label": [1]}), "no coordinate columns"),
        (pd.DataFrame({"x": [1], "y": [1]}), "no column 'label'"),
    ],
)
def test_a_table_without_its_columns_says_which(frame, says):
    with pytest.raises(InputError, match=says):
        Reports.from_frame(frame)
