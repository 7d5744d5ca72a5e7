"""HeatmapBCC(inference="gibbs"): the same contract, and close to VB where VB is close to the truth."""

from typing import Any

import numpy as np
import pytest

import crowdfield as cf


def simulated(seed, states=2, reports=150, sources=5, side=8):
    """A field with bands of states; four sources are mostly right, one guesses."""
    rng = np.random.default_rng(seed)
    grid = np.stack(np.meshgrid(np.arange(side), np.arange(side)), -1).reshape(-1, 2).astype(float)
    t = (grid[:, 0] * states // side).astype(int)
    place, source = rng.integers(0, len(grid), reports), rng.integers(0, sources, reports)
    right = rng.random(reports) < np.where(source < sources - 1, 0.85, 1.0 / states)
    label = np.where(right, t[place], rng.integers(0, states, reports))
    return grid, grid[place], label, source


@pytest.mark.parametrize(("seed", "states"), [(0, 2), (1, 2), (2, 3)])
def test_gibbs_and_vb_agree_on_the_states_of_small_problems(seed, states):
    grid, X, y, sources = simulated(seed, states)
    prior = np.ones((states, states)) + np.eye(states)  # the paper's inference learns no prior of the crowd
    settings: dict[str, Any] = dict(
        lengthscale=4.0, scale_shape=4.0, scale_rate=4.0, random_state=0, confusion_prior=prior
    )
    sampled = cf.HeatmapBCC(inference="gibbs", **settings).fit(X, y, sources=sources)
    # Two runs of the sampler differ by 0.003 on average: what is left is the error of the approximation, which is up to
    # 0.028 for "vb" and 0.010 for "collapsed" in these three sets.
    for other, most in (("vb", 0.035), ("collapsed", 0.015)):
        approximate = cf.HeatmapBCC(inference=other, **settings).fit(X, y, sources=sources)
        difference = np.abs(sampled.predict_proba(grid) - approximate.predict_proba(grid))
        assert difference.mean() < most, other
        assert np.abs(sampled.confusion_ - approximate.confusion_).mean() < 0.012, other  # 0.008 at most


def test_a_sampled_model_offers_the_same_queries():
    grid, X, y, sources = simulated(3)
    model = cf.HeatmapBCC(inference="gibbs", lengthscale=4.0, random_state=0).fit(X, y, sources=sources)
    rate, sd = model.predict_rate(grid)
    np.testing.assert_allclose(rate.sum(axis=1), 1.0, atol=1e-9)
    np.testing.assert_allclose(sd[:, 0], sd[:, 1], atol=1e-9)
    mean, variance = model.predict_latent(grid)
    assert mean.shape == variance.shape == (len(grid), 1)
    assert np.corrcoef(mean[:, 0], rate[:, 1])[0, 1] > 0.95
    assert model.diagnostics_.worst_rhat < 1.1
    assert model.diagnostics_.least_ess > 100
    table = model.source_table()
    assert table["source"].iloc[-1] == 4  # the coin tells least
    assert ((table.accuracy_low < table.accuracy) & (table.accuracy < table.accuracy_high)).all()


def test_the_same_random_state_gives_the_same_map():
    grid, X, y, sources = simulated(4)
    first, second = (
        cf.HeatmapBCC(inference="gibbs", lengthscale=4.0, random_state=7).fit(X, y, sources=sources).predict_proba(grid)
        for _ in range(2)
    )
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("engine", ["exact", "inducing", "spectral"])
def test_every_engine_samples_the_same_posterior(engine):
    grid, X, y, sources = simulated(5)
    settings: dict[str, Any] = dict(inference="gibbs", lengthscale=4.0, scale_shape=4.0, scale_rate=4.0, random_state=0)
    model = cf.HeatmapBCC(engine=engine, **settings).fit(X, y, sources=sources)
    auto = cf.HeatmapBCC(**settings).fit(X, y, sources=sources)
    assert np.abs(model.predict_proba(grid) - auto.predict_proba(grid)).mean() < 0.006  # 0.003 by chance


def test_communities_are_sampled_too():
    _, X, y, sources = simulated(6, reports=240, sources=8)
    model = cf.HeatmapBCC(inference="gibbs", lengthscale=4.0, communities=1, random_state=0)
    model.fit(X, y, sources=np.where(sources == 7, 0, sources))
    assert model.communities_.beta.shape == (1, 2, 2)
    population = model.communities_.population / model.communities_.population.sum(axis=1, keepdims=True)
    assert population.diagonal().min() > 0.7  # most sources are right most of the time
    assert (model.source_table()["community"] == 0).all()
