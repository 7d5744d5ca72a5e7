"""GPClassifier and IBCCGP: a field over labels taken at their word."""

from typing import Any

import numpy as np
import pytest

import crowdfield as cf
from crowdfield.errors import InputError


@pytest.fixture(scope="module")
def world():
    """Every report on a target of its own, as in the model, by truthful sources."""
    return cf.simulate.simulate(
        500, rng=np.random.default_rng(2), places=(15, 15), continuous=True, lengthscale=6.0, inverse_scale=0.1
    )


def arrays(world):
    return world.reported.places, world.reported.t, world.reports.source


def test_the_bound_rises_and_more_sweeps_change_nothing(world):
    X, y, sources = arrays(world)
    model = cf.GPClassifier(lengthscale=6.0).fit(X, y, sources)
    assert np.diff(model.bound_history_).min() > -1e-9 * abs(model.bound_)
    longer = cf.GPClassifier(lengthscale=6.0, tol=1e-8, max_iter=1000).fit(X, y, sources)
    assert np.abs(longer.predict_proba(X) - model.predict_proba(X)).max() < 1e-3


def test_recovers_the_rate_of_a_field_from_truthful_reports(world):
    model = cf.GPClassifier(lengthscale=6.0).fit(*arrays(world))
    mean, sd = model.predict_rate(world.truth.places)
    assert np.corrcoef(mean[:, 1], world.truth.rho[:, 1])[0, 1] > 0.8
    latent, variance = model.predict_latent(world.truth.places)
    assert latent.shape == variance.shape == (225, 1) and (sd > 0).all()


def test_engines_agree(world):
    X, y, sources = arrays(world)
    exact, spectral = (cf.GPClassifier(lengthscale=6.0, engine=e).fit(X, y, sources) for e in ("exact", "spectral"))
    assert (exact.engine_, spectral.engine_) == ("exact", "spectral")
    assert np.abs(exact.predict_proba(X) - spectral.predict_proba(X)).max() < 0.01


def test_far_from_all_reports_it_says_the_prior_mean(world):
    model = cf.GPClassifier(lengthscale=6.0, prior_mean=-1.0).fit(*arrays(world))
    latent, variance = model.predict_latent([[1e4, 1e4]])
    assert latent[0, 0] == pytest.approx(-1.0, abs=1e-6)
    assert variance[0, 0] == pytest.approx(1.0 / model.scale_[0], rel=0.2)


def test_votes_count_as_often_as_they_are_cast():
    """Twice the same report is twice the evidence: log odds move further from the prior."""
    X = np.array([[0.0, 0.0], [50.0, 0.0]])
    once = cf.GPClassifier(lengthscale=5.0).fit(X, [0, 1]).predict_proba(X)[1, 1]
    five = cf.GPClassifier(lengthscale=5.0).fit(np.repeat(X, 5, axis=0), [0] * 5 + [1] * 5).predict_proba(X)[1, 1]
    assert 0.5 < once < five


def test_learns_the_length_scale(world):
    """Within a factor of two of the truth, with the truth not far outside of what it thinks possible."""
    model = cf.GPClassifier(lengthscale="learn").fit(*arrays(world))
    assert 3.0 < model.lengthscale_[0] < 12.0
    assert abs(np.log(model.lengthscale_[0] / 6.0)) < 3.0 * model.learned_.log_sd
    assert model.bound_ >= cf.GPClassifier(lengthscale=30.0).fit(*arrays(world)).bound_


def test_ibcc_gp_is_a_field_over_the_posterior_of_ibcc(world):
    X, y, sources = arrays(world)
    model = cf.IBCCGP(lengthscale=6.0).fit(X, y, sources)
    ibcc = cf.IBCC().fit(X, y, sources)
    np.testing.assert_allclose(model.confusion_, ibcc.confusion_)
    direct = cf.GPClassifier(lengthscale=6.0, states=(0, 1)).fit(ibcc.places_, ibcc.predict(ibcc.places_))
    # Verdicts rounded and verdicts shared out tell nearly the same field.
    assert np.corrcoef(direct.predict_proba(X)[:, 1], model.predict_proba(X)[:, 1])[0, 1] > 0.95


def test_three_states_permute_with_their_names():
    rng = np.random.default_rng(4)
    X = rng.uniform(0, 10, (60, 2))
    y = (X[:, 0] // 3.4).astype(int)
    a, b = (cf.GPClassifier(lengthscale=5.0, tol=1e-3).fit(X, names[y]) for names in np.array([[0, 1, 2], [2, 0, 1]]))
    np.testing.assert_allclose(a.predict_proba(X), b.predict_proba(X)[:, [2, 0, 1]], atol=1e-6)


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "lengthscale": (dict(lengthscale=-1.0), "lengthscale must be a positive"),
    "lengthscale word": (dict(lengthscale="guess"), "learn"),
    "too many lengthscales": (dict(lengthscale=[1.0, 2.0, 3.0]), "columns"),
    "scale": (dict(scale_rate=0.0), "scale_rate"),
    "engine": (dict(engine="warp"), "engine"),
    "prior mean": (dict(prior_mean=[1.0, 2.0, 3.0]), "prior_mean"),
    "kernel": (dict(kernel="magic"), "kernel"),
    "label that is no state": (dict(states=[1, 2]), "no states"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_parameters_are_named(case):
    parameters, message = BAD[case]
    with pytest.raises(InputError, match=message):
        cf.GPClassifier(**parameters).fit(np.eye(4, 2), [0, 1, 0, 1])
