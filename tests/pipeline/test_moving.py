"""Maps that move, from files: the moment that is shown, and what cannot be combined with it."""

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.text import Text

from crowdfield import pipeline, plot
from crowdfield.data import Reports
from crowdfield.errors import DataWarning, InputError

DAY = 86_400.0
START = 1_263_254_400.0  # 2010-01-12


def front(n=90, *, timed=True):
    """A flood that moves east, from 2010-01-12 on, a tenth of a degree in ten days."""
    rng = np.random.default_rng(4)
    places = np.column_stack([rng.uniform(-72.4, -72.3, n), rng.uniform(18.5, 18.6, n)])
    days = np.sort(rng.uniform(0.0, 10.0, n))
    wet = places[:, 0] < -72.4 + 0.01 * days
    said = np.where(wet == (rng.random(n) < 0.95), "flooded", "dry")
    time = START + DAY * days if timed else None
    return Reports.from_arrays(places, said, rng.integers(0, 5, n), time=time, crs="EPSG:4326")


def flooded(fused, west, east):
    """The mean probability of a flood between two shares of the map's width."""
    columns = fused.heatmap.grid.columns
    return float(fused.heatmap.of("flooded")[:, int(west * columns) : int(east * columns)].mean())


def test_a_map_that_moves_follows_the_front():
    settings = pipeline.Settings(cell="1km", lengthscale="3km", moving=True)
    last = pipeline.fuse(front(), settings)
    first = pipeline.fuse(front(), settings, moment="2010-01-14T12:00")
    assert first.heatmap.metadata["moment"] == "2010-01-14T12:00:00Z"
    assert flooded(last, 0.4, 0.7) > flooded(first, 0.4, 0.7) + 0.4
    assert flooded(first, 0.0, 0.15) > flooded(first, 0.7, 1.0) + 0.2
    assert last.reports.places.shape[1] == 2 and last.heatmap.metadata["lengthscale_hours"] > 0
    words = [text.get_text() for axes in plot.sheet(first.heatmap).axes for text in axes.findobj(Text)]
    assert any("as it was on" in text and "2010" in text for text in words)
    # All that a run is asked for is of the moment.
    assert [look.rank for look in pipeline.next_looks(last, 3)] == [1, 2, 3]
    assert set(last.table()["source"]) == set(range(5))


def test_reports_without_a_time_are_left_out_and_told():
    reports = front()
    some = replace(reports, time=np.where(np.arange(len(reports)) < 10, np.nan, reports.time))
    with pytest.warns(DataWarning, match="10 reports without a time"):
        fused = pipeline.fuse(some, cell="2km", lengthscale="3km", moving=True)
    assert len(fused.reports) == 80
    with pytest.raises(InputError, match="no report has a time"):
        pipeline.fuse(front(timed=False), cell="2km", lengthscale="3km", moving=True)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"moment": "2011-01-01"}, "outside the time of the reports"),
        ({"moment": "soon"}, "is not a moment"),
        ({"silence": 1.0}, "neither silence, nor"),
        ({"grades": ["dry", "flooded"]}, "neither silence, nor"),
        ({"fit": lambda model, reports: model}, "over a cluster"),
    ],
)
def test_what_a_map_that_moves_cannot_do_is_refused_with_the_reason(options, says):
    with pytest.raises(InputError, match=says):
        pipeline.fuse(front(20), cell="2km", lengthscale="3km", moving=True, **options)


def test_moments_are_of_maps_that_move_and_such_runs_are_not_continued(tmp_path):
    with pytest.raises(InputError, match="maps that move only"):
        pipeline.Settings(moment="2010-01-14")
    fused = pipeline.fuse(front(30), cell="2km", lengthscale="3km", moving=True)
    with pytest.raises(InputError, match="cannot be continued"):
        pipeline.extend(fused, front(40))
    with pytest.raises(InputError, match="cannot be saved"):
        pipeline.save_run(fused, tmp_path / "run.cf")
