"""A report ends up in the cell it came from, anywhere on Earth, through every step and other people's software."""

import csv

import numpy as np
import pytest
import rasterio
from hypothesis import given, settings
from hypothesis import strategies as st
from rasterio.warp import transform as gdal_transform

from crowdfield import geography, io
from crowdfield.data import Heatmap


@settings(max_examples=12, deadline=None)
@given(
    lon=st.floats(-180, 179.99),
    lat=st.floats(-86, 86),
    cell=st.sampled_from([100.0, 250.0, 2000.0]),
    seed=st.integers(0, 2**32 - 1),
)
@pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")
def test_read_project_grid_write(tmp_path_factory, lon, lat, cell, seed):
    folder = tmp_path_factory.mktemp("trip")
    rng = np.random.default_rng(seed)
    spread = 0.05 / np.cos(np.radians(lat))
    places = np.column_stack([lon + rng.uniform(-spread, spread, 12), lat + rng.uniform(-0.05, 0.05, 12)])
    places[:, 0] = geography.wrap(places[:, 0])
    with (folder / "reports.csv").open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["source", "lat", "lon", "label"])
        out.writerows([i, repr(y), repr(x), i % 2] for i, (x, y) in enumerate(places.tolist()))

    reports = io.read(folder / "reports.csv").reports
    grid = geography.make_grid(reports, cell=cell)
    counts = grid.counts(geography.project(reports, grid.crs).places)
    assert counts.sum() == 12
    half = np.full((*grid.shape, 2), 0.5)
    path = io.write(Heatmap(grid, (0, 1), half, half * 0.1, counts), folder / "map.tif")

    with rasterio.open(path) as file:
        east, north = gdal_transform("EPSG:4326", file.crs, places[:, 0], places[:, 1])
        band = file.descriptions.index("reports") + 1
        # GDAL's own projection may put a place on an edge into the neighbour: look half a cell around.
        for x, y in zip(east, north, strict=True):
            around = [(x + dx, y + dy) for dx in (-cell / 2, 0, cell / 2) for dy in (-cell / 2, 0, cell / 2)]
            assert np.nanmax([value[0] for value in file.sample(around, band)]) >= 1
