"""Sources and field unsure together: the algebra against one dense inverse, and the answer against Gibbs."""

import numpy as np
import pytest
import scipy.linalg as sla
from scipy.special import digamma, polygamma

import crowdfield as cf
from crowdfield.errors import DataWarning
from crowdfield.inference import coupling
from crowdfield.simulate import simulate


def row_covariance(alpha):
    return np.diag(polygamma(1, alpha)) - polygamma(1, alpha.sum())


@pytest.mark.parametrize("labels", [2, 4])
def test_the_joint_covariance_is_the_inverse_of_the_joint_precision(labels):
    """All of w, log π_0 and log π_1 in one precision: complete information of each, less what is missing of f + δ."""
    rng, S, m, N, precision = np.random.default_rng(1), 3, 5, 60, 0.8
    alpha = rng.uniform(2.0, 12.0, (S, 2, labels))
    source, label = rng.integers(0, S, N), rng.integers(0, labels, N)
    phi, lam, kappa = rng.standard_normal((N, m)), rng.uniform(0.2, 0.4, N), rng.uniform(0.0, 0.03, N)
    missing, projected = np.zeros((S, labels)), np.zeros((S, labels, m))
    np.add.at(missing, (source, label), kappa)
    np.add.at(projected, (source, label), kappa[:, None] * phi)

    # x_i = φ_i·w + log π_1c − log π_0c as a row over (w, log π_0 of every source, log π_1 of every source).
    design = np.zeros((N, m + 2 * S * labels))
    design[:, :m] = phi
    design[np.arange(N), m + source * labels + label] = -1.0
    design[np.arange(N), m + (S + source) * labels + label] = 1.0
    known = [np.linalg.inv(row_covariance(alpha[s, j])) for j in range(2) for s in range(S)]
    full = sla.block_diag(precision * np.eye(m) + phi.T @ ((lam + kappa)[:, None] * phi), *known)
    covariance = np.linalg.inv(full - design.T @ (kappa[:, None] * design))

    given = coupling.given_field(alpha, coupling.Coupling(missing, projected))
    relief = given.relief(coupling.Coupling(missing, projected))
    field = np.linalg.inv(precision * np.eye(m) + phi.T @ (lam[:, None] * phi) - relief)
    np.testing.assert_allclose(field, covariance[:m, :m], atol=1e-10)
    joint = coupling.with_field(alpha, given, field)
    first, second = covariance[m : m + S * labels], covariance[m + S * labels :]
    np.testing.assert_allclose(joint.with_field.reshape(-1, m), (second - first)[:, :m], atol=1e-10)
    delta = (second - first)[:, m + S * labels :] - (second - first)[:, m : m + S * labels]
    np.testing.assert_allclose(joint.variance.ravel(), np.diag(delta), atol=1e-10)
    # A log probability's mean falls by half of what its variance grows by.
    grown = np.stack([np.diag(covariance)[m:].reshape(2, S, labels)[j] for j in range(2)], axis=1)
    grown -= np.stack([[np.diag(row_covariance(alpha[s, j])) for j in range(2)] for s in range(S)])
    expected = digamma(alpha) - digamma(alpha.sum(-1, keepdims=True)) - 0.5 * grown
    np.testing.assert_allclose(joint.log_pi, expected, atol=1e-10)


def test_without_doubt_there_is_nothing_to_answer():
    alpha = np.random.default_rng(0).uniform(1.0, 5.0, (4, 2, 3))
    given = coupling.given_field(alpha, coupling.Coupling(np.zeros((4, 3)), np.zeros((4, 3, 6))))
    joint = coupling.with_field(alpha, given, np.eye(6))
    np.testing.assert_array_equal(given.relief(coupling.Coupling(np.zeros((4, 3)), np.zeros((4, 3, 6)))), 0.0)
    np.testing.assert_allclose(joint.log_pi, digamma(alpha) - digamma(alpha.sum(-1, keepdims=True)), atol=1e-12)
    expected = [np.diag(row_covariance(a[0]) + row_covariance(a[1])) for a in alpha]
    np.testing.assert_allclose(joint.variance, expected, atol=1e-12)


def test_a_source_of_which_all_is_missing_stays_finite():
    """Improper-like priors make the missing share exceed one; the covariance must stay one."""
    alpha = np.full((1, 2, 2), 0.05)
    given = coupling.given_field(alpha, coupling.Coupling(np.full((1, 2), 4.0), np.zeros((1, 2, 3))))
    assert np.isfinite(given.left).all() and np.linalg.eigvalsh(given.left[0])[0] > 0.0


def crowd(n, seed=2, **setting):
    world = simulate(n, rng=np.random.default_rng([2017, seed]), **setting)
    return world.truth, (world.reports.places, world.reports.label, world.reports.source)


SETTINGS = dict(lengthscale=20.0, confusion_prior=[[2, 1], [1, 2]])


def test_engines_agree():
    truth, given = crowd(300, reliable=6, noisy=6)
    exact, *others = (
        cf.HeatmapBCC(engine=engine, **SETTINGS).fit(*given) for engine in ("exact", "inducing", "spectral")
    )
    for other in others:
        assert other._solved.fit.state.coupling is not None
        for here, there in zip(other.predict_rate(truth.places), exact.predict_rate(truth.places), strict=True):
            np.testing.assert_allclose(here, there, atol=0.015)


@pytest.mark.parametrize("way", ["three states", "many reports", "vb"])
def test_where_it_is_not_meant_for_it_is_not_done(way, monkeypatch):
    monkeypatch.setattr(coupling, "MOST_REPORTS", 199 if way == "many reports" else 10_000)
    _, (X, y, sources) = crowd(200, reliable=6)
    labels = np.arange(200) % 3 if way == "three states" else y
    model = cf.HeatmapBCC(inference="vb" if way == "vb" else "collapsed", lengthscale=20.0).fit(X, labels, sources)
    assert model._solved.fit.state.coupling is None


def test_where_everybody_says_the_same_the_sources_are_held():
    """Nothing tells a flood from a crowd that always says so: map and sources would follow each other for ever."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 20, (120, 2)).astype(float)
    model = cf.HeatmapBCC(lengthscale=5.0, states=["dry", "flooded"], labels=["dry", "flooded"])
    with pytest.warns(DataWarning):
        model.fit(X, ["flooded"] * 120, rng.integers(0, 6, 120))
    assert model.converged_ and model._solved.fit.state.coupling is None


CROWDS = {
    "half of them biased": dict(reliable=10, noisy=0, biased=10),
    "half of them noisy": dict(reliable=10, noisy=10),
}


@pytest.mark.parametrize("setting", CROWDS)
def test_as_near_to_the_truth_as_gibbs_and_nearer_than_with_sources_held(setting):
    truth, given = crowd(2400, seed=3 if "biased" in setting else 2, **CROWDS[setting])
    given = tuple(part[:400] for part in given)
    nlpd = {}
    for name, most in (("coupled", coupling.MOST_REPORTS), ("held", 0), ("gibbs", 0)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(coupling, "MOST_REPORTS", most)
            inference = "gibbs" if name == "gibbs" else "collapsed"
            model = cf.HeatmapBCC(inference=inference, random_state=0, **SETTINGS).fit(*given)
        rate, sd = model.predict_rate(truth.places)
        nlpd[name] = cf.metrics.nlpd_beta(truth.rho[:, 1], rate[:, 1], sd[:, 1] ** 2)
    assert nlpd["coupled"] < nlpd["gibbs"] + 0.1
    assert nlpd["coupled"] < nlpd["held"] - 0.1
