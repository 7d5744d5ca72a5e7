"""Maps that move: a time column with its own scale, a filter for streams, and time alone."""

from typing import Any

import numpy as np
import pytest

import crowdfield as cf
from crowdfield import metrics
from crowdfield.errors import InputError
from crowdfield.inference.kernels import Product, kernel, space_time

CELLS = np.stack(np.meshgrid(np.arange(0.5, 12.0), np.arange(0.5, 6.0)), -1).reshape(-1, 2)


def front(seed=0, reports=450, speed=1.0, hours=10.0):
    """Water west of a front that moves east."""
    rng = np.random.default_rng(seed)
    hour = np.sort(rng.uniform(0, hours, reports))
    X = np.column_stack([rng.uniform(0, 12, reports), rng.uniform(0, 6, reports), hour])
    truth = X[:, 0] < 1.0 + speed * hour
    s = rng.integers(0, 8, reports)
    y = np.where(rng.random(reports) < np.where(s < 6, 0.9, 0.5), truth, ~truth).astype(int)
    return X, y, s


def at(hour):
    return np.column_stack([CELLS, np.full(len(CELLS), hour)])


@pytest.mark.parametrize(("seed", "now"), [(0, 4.0), (1, 8.0)])
def test_the_map_of_now_beats_the_time_blind_map(seed, now):
    X, y, s = front(seed)
    known = X[:, 2] <= now
    moving = cf.HeatmapBCC(kernel=space_time("matern32", 3.0, "matern12", 6.0)).fit(X[known], y[known], s[known])
    blind = cf.HeatmapBCC(lengthscale=3.0).fit(X[known, :2], y[known], s[known])
    truth = (CELLS[:, 0] < 1.0 + now).astype(float)
    with_time = metrics.cross_entropy(truth, moving.predict_rate(at(now))[0][:, 1])
    without = metrics.cross_entropy(truth, blind.predict_rate(CELLS)[0][:, 1])
    assert with_time < without - 0.05


def test_an_infinite_timescale_ignores_time():
    X, y, s = front(2, reports=150)
    still = cf.HeatmapBCC(kernel=space_time("matern32", 3.0, "matern32", 1e9)).fit(X, y, s)
    blind = cf.HeatmapBCC(lengthscale=3.0).fit(X[:, :2], y, s)
    np.testing.assert_allclose(still.predict_rate(at(5.0))[0], blind.predict_rate(CELLS)[0], atol=1e-3)
    np.testing.assert_allclose(still.predict_rate(at(0.0))[0], still.predict_rate(at(10.0))[0], atol=1e-6)


def test_old_reports_fade_to_the_prior():
    X, y, s = front(3, reports=150)
    model = cf.HeatmapBCC(
        kernel=space_time("matern32", 3.0, "matern12", 2.0), prior_mean=-1.0, reports_model="one_state"
    )
    model.fit(X, y, s)
    sure = [np.abs(model.predict_latent(at(hour))[0] + 1.0).mean() for hour in (10.0, 12.0, 15.0, 60.0)]
    assert sure[0] > sure[1] > sure[2] > sure[3] and sure[3] < 1e-3


def test_forgetting_reports_without_influence_leaves_the_current_map():
    X, y, s = front(4, reports=300)
    trusted = np.array([[90.0, 10.0], [10.0, 90.0]])  # so that only the field's memory is at stake
    # A prior mean that is given leaves no level to be learned: a level remembers all reports, however old.
    even: dict[str, Any] = dict(prior_mean=lambda places: np.zeros(len(places)))
    settings: dict[str, Any] = dict(
        kernel=space_time("matern32", 3.0, "matern12", 1.0), confusion_prior=trusted, **even
    )
    model = cf.HeatmapBCC(**settings).fit(X, y, s)
    before = model.predict_rate(at(10.0))[0]
    model.forget_before(10.0, influence=0.01)
    assert X[-len(model.reports_), 2] > 10.0 - np.log(100.0) - 1e-9 and len(model.reports_) < 160
    np.testing.assert_allclose(model.predict_rate(at(10.0))[0], before, atol=0.05)
    kept = len(model.reports_)
    assert len(model.forget_before(10.0).reports_) == kept  # nothing more to forget
    with pytest.raises(InputError, match="influence"):
        model.forget_before(10.0, influence=2.0)


def test_a_model_of_time_alone_finds_the_hours():
    rng = np.random.default_rng(5)
    hour = rng.uniform(0, 24, 200)
    truth = (hour > 8) & (hour < 16)
    y = np.where(rng.random(200) < 0.85, truth, ~truth).astype(int)
    model = cf.HeatmapBCC(lengthscale=3.0).fit(hour[:, None], y, rng.integers(0, 3, 200))
    p = model.predict_rate(np.array([[2.0], [12.0], [22.0]]))[0][:, 1]
    assert p[1] > 0.7 and max(p[0], p[2]) < 0.3


def test_each_factor_learns_a_scale_of_its_own():
    X, y, s = front(6, reports=130)
    slow = X * [1.0, 1.0, 100.0]  # the same in other units
    settings: dict[str, Any] = dict(lengthscale="learn", tol=1e-2, random_state=0)
    model = cf.HeatmapBCC(kernel=space_time("matern32", 3.0, "matern32", 300.0), **settings).fit(slow, y, s)
    space, also_space, time = model.lengthscale_
    assert space == also_space and 0.3 < space <= 12.0 and 100.0 < time <= 1000.0
    assert model.lengthscale_log_sd_.shape == (2,)


def test_length_scales_that_are_given_stay_while_others_are_learned():
    X, y, s = front(6, reports=80)
    scales: Any = [3.0, 3.0, "learn"]
    model = cf.HeatmapBCC(kernel=space_time("matern32", 1.0), lengthscale=scales, tol=1e-2)
    model.fit(X, y, s)
    assert list(model.lengthscale_[:2]) == [3.0, 3.0] and model.lengthscale_[2] > 0.5


def test_a_kernel_of_other_columns_is_named():
    X, y, s = front(6, reports=50)
    with pytest.raises(InputError, match="3 columns, but X has 2"):
        cf.HeatmapBCC(kernel=space_time("matern32", 3.0)).fit(X[:, :2], y, s)
    with pytest.raises(InputError, match="2 columns, but X has 3"):
        cf.HeatmapBCC(kernel=Product((kernel("rbf", 1.0),), ((0, 1),))).fit(X, y, s)


def test_times_of_reports_become_a_column():
    time = np.array(["2010-01-12T22:00", "2010-01-13T01:30"], dtype="datetime64[s]")
    reports = cf.Reports.from_arrays([[1.0, 2.0], [3.0, 4.0]], ["a", "b"], time=time)
    np.testing.assert_allclose(reports.in_time(), [[1.0, 2.0, 0.0], [3.0, 4.0, 3.5]])
    midnight = float(np.datetime64("2010-01-13T00:00", "s").astype(int))
    np.testing.assert_allclose(reports.in_time(since=midnight, unit=60.0)[:, 2], [-120.0, 90.0])
    with pytest.raises(InputError, match="no time"):
        cf.Reports.from_arrays([[1.0, 2.0]], ["a"]).in_time()
