"""Simulated worlds obey the model they are drawn from."""

import numpy as np
import pytest
from scipy.special import expit

from crowdfield.data import Grid
from crowdfield.errors import InputError
from crowdfield.inference.kernels import kernel, space_time
from crowdfield.simulate import draw_crowd, draw_field, draw_reports, simulate


def rng(seed=0):
    return np.random.default_rng(seed)


@pytest.mark.parametrize("method", ["dense", "features"])
@pytest.mark.parametrize("name", ["matern32", "matern52", "rbf"])
def test_field_has_the_kernel_covariance(method, name):
    X = np.array([[0.0, 0.0], [5.0, 0.0], [0.0, 20.0]])
    generator = rng(1)
    draws = np.array(
        [draw_field(X, kernel=name, lengthscale=10.0, inverse_scale=2.0, method=method, rng=generator).f[:, 0]
         for _ in range(3000)]
    )  # fmt: skip
    expected = kernel(name, 10.0).covariance(X, X) / 2.0
    assert np.abs(np.cov(draws.T) - expected).max() < 0.05


def test_features_follow_a_separable_kernel():
    X = np.array([[0.0, 0.0, 0.0], [3.0, 0.0, 0.0], [0.0, 0.0, 2.0]])
    k = space_time("matern32", 5.0, "rbf", 1.0)
    generator = rng(2)
    draws = np.array([draw_field(X, kernel=k, inverse_scale=1.0, method="features", rng=generator).f[:, 0]
                      for _ in range(3000)])  # fmt: skip
    assert np.abs(np.cov(draws.T) - k.covariance(X, X)).max() < 0.08


def test_two_states_are_one_function_and_its_sigmoid():
    field = draw_field(rng().random((50, 2)), lengthscale=0.3, rng=rng(3))
    assert field.f.shape == (50, 1)
    np.testing.assert_allclose(field.rho[:, 1], expit(field.f[:, 0]), rtol=1e-12)


def test_states_are_drawn_with_the_rates_that_the_mean_sets():
    mean = np.log([0.2, 0.3, 0.5]).tolist()
    field = draw_field(
        rng().random((40_000, 2)), states=("low", "middle", "high"), inverse_scale=1e8, prior_mean=mean, rng=rng(4)
    )
    np.testing.assert_allclose(np.bincount(field.t) / 40_000, [0.2, 0.3, 0.5], atol=0.01)


def test_prior_mean_may_be_a_function_of_place():
    X = rng().random((100, 2))
    field = draw_field(X, inverse_scale=1e10, prior_mean=lambda places: 3 * places[:, 0], rng=rng(5))
    np.testing.assert_allclose(field.f[:, 0], 3 * X[:, 0], atol=1e-3)


def test_crowd_kinds_have_the_papers_means():
    crowd = draw_crowd(reliable=2000, noisy=2000, biased=2000, rng=rng(6))
    by_kind = {k: crowd.confusion[np.array(crowd.kinds) == k].mean(0) for k in ("reliable", "noisy", "biased")}
    np.testing.assert_allclose(by_kind["reliable"], [[10 / 11, 1 / 11], [1 / 11, 10 / 11]], atol=0.01)
    np.testing.assert_allclose(by_kind["noisy"], 0.5, atol=0.01)
    np.testing.assert_allclose(by_kind["biased"], [[7 / 8, 1 / 8], [6 / 8, 2 / 8]], atol=0.01)
    np.testing.assert_allclose(crowd.confusion.sum(-1), 1.0, rtol=1e-12)


def test_reports_follow_the_confusion_matrices():
    world = simulate(60_000, reliable=2, noisy=1, biased=1, states=3, labels=("a", "b", "c", "d"), rng=rng(7))
    t = world.reported.t[world.site]
    for s in range(4):
        for j in range(3):
            mine = (world.reports.source == s) & (t == j)
            seen = np.bincount(world.reports.label[mine], minlength=4) / mine.sum()
            np.testing.assert_allclose(seen, world.crowd.confusion[s, j], atol=0.05)


def test_grid_reports_lie_on_the_lattice_and_continuous_ones_do_not():
    grid = simulate(500, rng=rng(8))
    assert grid.truth is grid.reported and len(grid.truth) == 1600
    np.testing.assert_array_equal(grid.reports.places, grid.truth.places[grid.site])
    free = simulate(500, continuous=True, rng=rng(8))
    assert len(free.truth) == 1600 and len(np.unique(free.reported.places, axis=0)) == 500
    assert free.reports.places.min() >= 0 and free.reports.places.max() <= 39
    # One function: near an output place, a report's f is nearly the output's.
    gap = np.abs(free.reported.places[:, None] - free.truth.places[None]).max(2)
    near = gap.argmin(1)
    assert np.abs(free.reported.f[:, 0] - free.truth.f[near, 0]).mean() < 0.1


def test_grid_places_are_the_cell_centres():
    grid = Grid(100.0, 200.0, 0.0, 50.0, columns=10, rows=5)
    world = simulate(50, places=grid, lengthscale=30.0, rng=rng(9))
    np.testing.assert_array_equal(world.truth.places, grid.centres())


def test_the_same_generator_state_gives_the_same_world():
    a, b, c = simulate(100, rng=rng(10)), simulate(100, rng=rng(10)), simulate(100, rng=rng(11))
    np.testing.assert_array_equal(a.truth.f, b.truth.f)
    np.testing.assert_array_equal(a.reports.label, b.reports.label)
    assert not np.array_equal(a.truth.f, c.truth.f)


def test_truth_cannot_be_changed():
    world = simulate(10, rng=rng())
    for array in (world.truth.f, world.truth.rho, world.truth.t, world.crowd.confusion, world.site):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


BAD = {
    "no reports": (lambda: simulate(0, rng=rng()), "reports must be a whole number"),
    "nobody": (lambda: draw_crowd(reliable=0, noisy=0, rng=rng()), "at least one source"),
    "negative crowd": (lambda: draw_crowd(reliable=-1, rng=rng()), "reliable must be"),
    "one state": (lambda: draw_field([[0.0, 0.0]], states=1, rng=rng()), "two states"),
    "twice the same state": (lambda: draw_field([[0.0]], states=("a", "a"), rng=rng()), "different names"),
    "inverse scale": (lambda: draw_field([[0.0]], inverse_scale=0.0, rng=rng()), "inverse_scale"),
    "NaN place": (lambda: draw_field([[np.nan, 0.0]], rng=rng()), "finite"),
    "method": (lambda: draw_field([[0.0]], method="magic", rng=rng()), "method"),
    "prior mean": (lambda: draw_field([[0.0]], prior_mean=[1.0, 2.0], rng=rng()), "prior_mean"),
    "kernel": (lambda: draw_field([[0.0]], kernel="magic", rng=rng()), "kernel"),
    "names": (lambda: draw_crowd(sources=["a"], rng=rng()), "names in sources"),
    "states differ": (
        lambda: draw_reports(draw_field([[0.0]], rng=rng()), draw_crowd(states=3, rng=rng()), 5, rng=rng()),
        "states",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_the_error_names_what_is_wrong_with_the_input(case):
    call, message = BAD[case]
    with pytest.raises(InputError, match=message):
        call()
