"""Where to look next: apart from each other, on land, as GeoJSON or KML; and maps that do not fit the machine."""

from typing import Any

import numpy as np
import pytest

from crowdfield import io, pipeline
from crowdfield.data import Grid, Reports
from crowdfield.errors import InputError
from crowdfield.io import land
from crowdfield.models.heatmap_bcc import HeatmapBCC
from crowdfield.outlines import OUTLINES
from crowdfield.pipeline import looks, sizes

needs_outlines = pytest.mark.skipif(not OUTLINES.is_file(), reason="the outlines of countries are not installed")


@pytest.fixture(scope="module")
def fused():
    """A coast in the south of Haiti: land in the north, sea in the south."""
    rng = np.random.default_rng(0)
    places = np.column_stack([rng.uniform(-73.85, -73.65, 80), rng.uniform(18.19, 18.25, 80)])
    labels = np.where(places[:, 0] > -73.75, "damaged", "intact")
    labels = np.where(rng.random(80) < 0.2, "intact", labels)
    reports = Reports.from_arrays(places, labels, rng.integers(0, 5, 80), crs="EPSG:4326")
    settings: dict[str, Any] = {
        "lengthscale": "3km",
        "cell": "500m",
        "region": (-73.9, 18.0, -73.6, 18.3),
        "inference": "vb",
    }
    return pipeline.fuse(reports, **settings)


@needs_outlines
def test_no_suggested_place_is_at_sea_or_close_to_another(fused):
    found = pipeline.next_looks(fused, 12)
    places = np.array([(look.easting, look.northing) for look in found])
    on_land = land.on_land(fused.heatmap.grid)
    assert not on_land.all() and on_land.any()
    assert on_land.ravel()[fused.heatmap.grid.index(places)].all()
    apart = np.linalg.norm(places[:, None] - places[None], axis=2)[~np.eye(len(places), dtype=bool)]
    assert len(found) == 12 and apart.min() >= 0.5 * 3000


@needs_outlines
def test_where_reports_are_from_the_sea_places_at_sea_are_meant(fused):
    grid = fused.heatmap.grid
    places = grid.centres()[~land.on_land(grid).ravel()][::20]
    at_sea = HeatmapBCC(lengthscale=3000.0).fit(
        places, np.where(places[:, 0] > places[:, 0].mean(), "damaged", "intact")
    )
    assert looks._reachable(at_sea, fused.heatmap).all()


def test_places_to_look_at_are_written_as_kml(fused, tmp_path):
    pipeline.write_looks(fused, pipeline.next_looks(fused, 3), tmp_path / "looks.kml")
    with pytest.raises(Exception, match="Polygon, not a point"):
        io.read(tmp_path / "looks.kml", label="state")
    read = io.read(tmp_path / "looks.kml", label="state", polygons="inner-point")
    assert len(read.reports) == 3 and set(read.reports.labels) <= {"damaged", "intact"}


def test_three_states_are_scored(tmp_path):
    rng = np.random.default_rng(1)
    places = np.column_stack([rng.uniform(-73.85, -73.65, 90), rng.uniform(18.19, 18.25, 90)])
    labels = np.array(["a", "b", "c"])[np.digitize(places[:, 0], [-73.78, -73.72])]
    reports = Reports.from_arrays(places, labels, crs="EPSG:4326")
    run = pipeline.fuse(reports, lengthscale="3km", cell="1km", inference="vb", states=["a", "b", "c"])
    found = pipeline.score(run, reports)
    assert found["accuracy"] > 0.8 and found["auc"] > 0.9 and 0 <= found["calibration_error"] < 0.5
    with pytest.raises(InputError, match="--label"):
        pipeline.score(run, Reports.from_arrays(places, ["x"] * 90, crs="EPSG:4326"))


def test_a_map_that_does_not_fit_says_which_cells_would(monkeypatch):
    monkeypatch.setattr(sizes, "machine_memory", lambda: 2.0 * 2**30)
    grid = Grid(west=0, east=100_000, south=0, north=100_000, columns=10_000, rows=10_000, crs="EPSG:32618")
    with pytest.raises(InputError, match=r"10,000 × 10,000 cells of 10 m.*GiB of memory.*Use --cell 50m or larger"):
        sizes.check_size(grid, 2)
    sizes.check_size(Grid.from_cell((0, 0, 100_000, 100_000), 50, "EPSG:32618"), 2)
