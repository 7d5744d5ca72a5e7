"""A heatmap: its derived layers, and its way into other libraries."""

import builtins
import math
import sys
import types

import numpy as np
import pytest

from crowdfield.data import Grid, Heatmap
from crowdfield.errors import InputError, MissingDependencyError

GRID = Grid(500_000, 500_300, 2_000_000, 2_000_200, columns=3, rows=2, crs="EPSG:32618")


def make(**changes):
    p = np.array([[0.0, 0.5, 0.25], [1.0, 0.9, np.nan]])
    fields = {
        "grid": GRID,
        "states": ("safe", "flood"),
        "probability": np.stack([1 - p, p], axis=-1),
        "sd": np.stack([p * 0 + 0.1] * 2, axis=-1),
        "reports": np.array([[0, 1, 2], [3, 4, 0]]),
        "metadata": {"software": "crowdfield", "settings": {"kernel": "matern32"}},
    }
    return Heatmap(**{**fields, **changes})


def test_entropy_is_in_bits_and_nan_outside_the_mask():
    entropy = make().entropy
    assert entropy[0, 0] == 0 and entropy[0, 1] == 1 and entropy[1, 0] == 0
    assert entropy[0, 2] == pytest.approx(-(0.25 * math.log2(0.25) + 0.75 * math.log2(0.75)))
    assert np.isnan(entropy[1, 2])


def test_the_most_probable_state_is_never_named_outside_the_mask():
    assert np.array_equal(make().most_probable, [[0.0, 0.0, 0.0], [1.0, 1.0, np.nan]], equal_nan=True)


def test_one_state_can_be_asked_for_by_name():
    assert np.array_equal(make().of("flood"), make().probability[..., 1], equal_nan=True)
    with pytest.raises(InputError, match="no state 'fire'"):
        make().of("fire")


def test_nobody_can_change_the_map():
    heatmap = make()
    for array in (heatmap.probability, heatmap.sd, heatmap.reports):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    with pytest.raises(TypeError):
        heatmap.metadata["software"] = "other"


def test_xarray_puts_every_value_at_its_place():
    dataset = make().to_xarray()
    at = dataset.probability.sel(state="flood", x=500_050, y=2_000_050, method=None)
    assert float(at) == 1.0
    assert dataset.spatial_ref.attrs["crs_wkt"].startswith("PROJCRS")
    assert dataset.attrs["software"] == "crowdfield"


def test_geodataframe_has_a_polygon_for_each_cell_inside_the_mask():
    frame = make().to_geodataframe()
    assert len(frame) == 5 and frame.crs.to_epsg() == 32618
    first = frame.iloc[0]
    assert first.geometry.bounds == (500_000, 2_000_100, 500_100, 2_000_200)
    assert first.probability_flood == 0 and first.most_probable == "safe"
    assert frame.iloc[4].most_probable == "flood" and frame.reports.sum() == 10


@pytest.mark.parametrize(("method", "library"), [("to_xarray", "xarray"), ("to_geodataframe", "geopandas")])
def test_a_missing_library_says_how_to_install_it(method, library, monkeypatch):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingDependencyError, match=r"crowdfield\[geo\]"):
        getattr(make(), method)()


def test_plot_hands_the_map_to_the_plotting_module(monkeypatch):
    drawn = types.SimpleNamespace(heatmap=lambda heatmap, **options: (heatmap, options))
    monkeypatch.setitem(sys.modules, "crowdfield.plot", drawn)
    heatmap = make()
    assert heatmap.plot(state="flood") == (heatmap, {"state": "flood"})


def test_the_type_needs_no_optional_library(monkeypatch):
    real = builtins.__import__

    def only_core(name, *rest):
        assert name.partition(".")[0] not in {"xarray", "geopandas", "rasterio"}
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", only_core)
    assert make().entropy[0, 1] == 1


P = np.full((2, 3, 2), 0.5)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"states": ("a",)}, "two different states"),
        ({"states": ("a", "a")}, "two different states"),
        ({"probability": P[:1]}, "must have shape"),
        ({"probability": P + 0.2, "sd": P}, "add up to 1"),
        ({"probability": P * [3, -1], "sd": P}, r"in \[0, 1\]"),
        ({"probability": np.where([True, False], np.nan, P), "sd": P}, "outside the mask"),
        ({"probability": P, "sd": P * np.nan}, "outside the mask"),
        ({"probability": P, "sd": -P}, "at least 0"),
        ({"reports": np.zeros((3, 2), int)}, "count the reports"),
        ({"reports": np.zeros((2, 3))}, "count the reports"),
        ({"reports": -np.ones((2, 3), int)}, "count the reports"),
    ],
)
def test_a_wrong_map_says_what_is_wrong(changes, says):
    with pytest.raises(InputError, match=says):
        make(**changes)
