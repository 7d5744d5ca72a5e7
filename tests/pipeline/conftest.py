import numpy as np
import pytest

from crowdfield import pipeline
from crowdfield.data import Grid, Reports

GRID = Grid(690_000, 702_000, 7_796_000, 7_806_000, 24, 20, "EPSG:32736")


def flood_reports(count: int, seed: int = 0) -> Reports:
    """The east is under water; three of four sources mostly say so."""
    rng = np.random.default_rng(seed)
    places = rng.uniform((GRID.west, GRID.south), (GRID.west + 9_000, GRID.north), (count, 2))
    wet = places[:, 0] > GRID.west + 6_000
    source = rng.integers(0, 4, count)
    said = np.where(rng.uniform(size=count) < np.where(source == 3, 0.5, 0.1), ~wet, wet)
    return Reports.from_arrays(places, np.where(said, "flooded", "dry"), source, crs=GRID.crs)


@pytest.fixture(scope="session")
def runs() -> tuple[pipeline.Fused, pipeline.Fused]:
    """The same flood with 60 reports and with 160."""
    settings = pipeline.Settings(lengthscale="3km", inference="vb")
    about = {"input": [{"file": "<b>reports</b>.csv", "hash": "sha256:00"}]}
    reports = flood_reports(160)
    first = pipeline.fuse_on(reports.take(np.arange(160) < 60), GRID, settings)
    return first, pipeline.fuse_on(reports, GRID, settings, about=about)
