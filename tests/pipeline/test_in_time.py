"""Live maps in the time of events: fits that continue one another, and what is asked of a model at one moment."""

import numpy as np
import pytest
import scipy.sparse as sp
import shapely

import crowdfield as cf
from crowdfield import pipeline
from crowdfield.errors import DataWarning, InputError
from crowdfield.io.areas import NamedAreas
from crowdfield.pipeline import totals
from crowdfield.pipeline.districts import Located

GRID = cf.Grid(west=0, east=12_000, south=0, north=12_000, columns=12, rows=12)
NORTH, SOUTH = shapely.box(0, 6_000, 12_000, 12_000), shapely.box(0, 0, 12_000, 6_000)


def front(n, rng):
    """A flood that moves east, one kilometre an hour: places with the hour of each report as their third column."""
    hours, places = np.sort(rng.uniform(0, 10, n)), rng.uniform(0, 12_000, (n, 2))
    wet = places[:, 0] < 1_000 + 1_000 * hours
    said = np.where(np.where(rng.random(n) < 0.9, wet, ~wet), "wet", "dry")
    return cf.Reports.from_arrays(np.column_stack([places, hours]), said, rng.integers(0, 5, n), labels=["dry", "wet"])


@pytest.fixture(scope="module")
def moving():
    reports = front(240, np.random.default_rng(0))
    settings = pipeline.Settings(states=["dry", "wet"], seed=0)
    return reports, settings, pipeline.hold(pipeline.learn(settings, reports, GRID, most=120))


def test_the_same_place_is_dry_before_the_front_and_wet_after_it(moving):
    _, _, model = moving
    early, late = (pipeline.AtTime(model, hour).predict_rate(np.array([[6_000.0, 6_000.0]]))[0] for hour in (1.0, 9.5))
    assert early[0, 1] < 0.4 and late[0, 1] > 0.6


def test_scales_of_space_and_time_found_on_a_part_are_kept_for_all_and_in_later_fits(moving):
    reports, _, model = moving
    found = np.asarray(model.lengthscale_)
    assert found[0] == found[1] != found[2]
    assert np.allclose(model.kernel.lengthscales(3), found)
    later = pipeline.update(model, front(10, np.random.default_rng(1)), sweeps=20, tolerance=0.01)
    assert np.allclose(later.lengthscale_, found) and len(later.reports_) == len(reports) + 10


def test_reports_that_all_say_the_same_are_fitted_with_fixed_scales(moving):
    reports, settings, _ = moving
    alike = reports.take(reports.label == 1)
    with pytest.warns(DataWarning, match="All reports say 'wet'"):
        assert pipeline.learn(settings, alike, GRID).lengthscale_[0] == 1_200.0


def test_suggestions_at_a_moment_keep_their_distance_in_metres(moving):
    _, _, model = moving
    at = pipeline.AtTime(model, 5.0)
    heatmap = pipeline.make_map(at, GRID, np.zeros(GRID.shape, dtype=np.int64))
    places = np.array([(look.easting, look.northing) for look in pipeline.looks_of(at, heatmap, 4)])
    apart = np.linalg.norm(places[:, None] - places[None], axis=2)[np.triu_indices(4, 1)]
    assert len(places) == 4 and apart.min() >= 1_000.0


def test_figures_of_districts_follow_the_moment(moving):
    _, _, model = moving
    areas = NamedAreas(("north", "south"), np.array([NORTH, SOUTH], dtype=object))
    north = np.arange(GRID.size) < GRID.size // 2
    located = Located(sp.csr_matrix(np.vstack([north, ~north]).astype(float)), np.zeros(2), np.zeros(2, dtype=bool))

    def share(asked, hour):
        heatmap = pipeline.make_map(pipeline.AtTime(model, hour), GRID, np.zeros(GRID.shape, dtype=np.int64))
        each, options = totals.square_kilometres(GRID), totals.TotalsOptions(draws=200)
        shown = totals.shown_field(heatmap)
        return totals.of_map(asked, heatmap, areas, located, shown, each, np.zeros(2), options).table["share_wet"]

    assert (share(pipeline.AtTime(model, 9.5), 9.5) > share(pipeline.AtTime(model, 1.0), 1.0) + 0.3).all()
    with pytest.raises(InputError, match="need a moment"):
        share(model, 1.0)


def test_the_distance_of_a_report_is_in_metres_whatever_its_hour(moving):
    reports, _, model = moving
    place = reports.places[0] + [0.0, 0.0, 5.0]
    assert model.explain(place, "wet")["distance"].min() == pytest.approx(0.0)
