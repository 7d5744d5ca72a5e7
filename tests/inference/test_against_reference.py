"""The fast variational code against the equations written slowly and literally (tests/reference.py)."""

import numpy as np
import pytest
from tests import reference as ref
from tests import reference_collapsed, reference_coupled

import crowdfield as cf
from crowdfield.inference import coupling

LENGTHSCALE = 4.0


def made_up(J, L, *, seed, N=16, R=50, S=4):
    """States in bands from west to east; most sources mostly right, the last a coin. Labels may be fewer or more."""
    rng = np.random.default_rng(seed)
    X = np.sort(rng.random((N, 2)) * 10.0, axis=0)
    X = X[np.lexsort((X[:, 1], X[:, 0]))]
    t = (X[:, 0] * J / 10.0).astype(int)
    site = np.concatenate([np.arange(N), rng.integers(0, N, R - N)])
    source = np.concatenate([np.arange(S), rng.integers(0, S, R - S)])
    said = np.where(rng.random(R) < 0.8, t[site] % L, rng.integers(0, L, R))
    label = np.where(source == S - 1, rng.integers(0, L, R), said)
    label[:L] = np.arange(L)
    return X, site, source, label


def diagonal(S, J, L):
    alpha0 = np.ones((S, J, L))
    for j in range(J):
        alpha0[:, j, j % L] += 1.0
    return alpha0


CASES = {
    "two states": dict(J=2, L=2, seed=1),
    "two states, three labels": dict(J=2, L=3, seed=2),
    "a prior mean": dict(J=2, L=2, seed=3, mean=[0.7]),
    "a firm and small scale": dict(J=2, L=2, seed=4, a0=8.0, b0=3.0),
    "a trusted source": dict(J=2, L=2, seed=5, trusted=True),
    "known states": dict(J=2, L=2, seed=6, known={3: 1, 7: 0}),
    "three states": dict(J=3, L=3, seed=7, N=12, R=40),
    "three states, four labels, a prior mean": dict(J=3, L=4, seed=8, N=12, R=40, mean=[0.4, 0.0, -0.6]),
    "three states, one known": dict(J=3, L=3, seed=9, N=12, R=40, known={2: 1}),
}


def both(J, L, seed, mean=None, a0=1.0, b0=1.0, trusted=False, known=None, **size):
    """The same problem for the reference and for the estimator."""
    X, site, source, label = made_up(J, L, seed=seed, **size)
    S = int(source.max()) + 1
    alpha0 = diagonal(S, J, L)
    if trusted:
        alpha0[0] += 100.0 * np.eye(J, L)
    F = 1 if J == 2 else J
    mu = None if mean is None else np.broadcast_to(np.asarray(mean, float), (len(X), F)).copy()
    problem = ref.Problem(
        X, site.tolist(), source.tolist(), label.tolist(), alpha0, a0, b0, LENGTHSCALE, mu, known or {}
    )
    prior_mean = 0.0 if mean is None else (mean[0] if J == 2 else list(mean))
    settings = dict(
        lengthscale=LENGTHSCALE,
        confusion_prior={s: alpha0[s] for s in range(S)},
        scale_shape=a0,
        scale_rate=b0,
        prior_mean=prior_mean,
        states=list(range(J)),
        labels=list(range(L)),
        engine="exact",
        tol=1e-11,
        max_iter=5000,
    )
    gold = None if not known else (X[list(known)], list(known.values()))

    def fit(**kw):
        return cf.HeatmapBCC(**settings, **kw).fit(X[site], label, sources=source, gold=gold)

    return problem, fit


@pytest.mark.parametrize("linearisation", ["polya_gamma", "ekf"])
@pytest.mark.parametrize("case", CASES)
def test_variational_bayes_is_the_reference(case, linearisation):
    problem, fit = both(**CASES[case])
    slow = ref.variational_bayes(problem, linearisation)
    fast = fit(inference="vb", linearisation=linearisation)
    close = dict(rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(fast.posterior_, slow.r, **close)
    np.testing.assert_allclose(fast.alpha_, slow.alpha, **close)
    np.testing.assert_allclose(fast.scale_, slow.e_scale, **close)
    mean, variance = fast.predict_latent(problem.X)
    np.testing.assert_allclose(mean, slow.f_hat, **close)
    np.testing.assert_allclose(variance, slow.variance, **close)
    # Beyond two states the package's quadrature is coarser than the reference's.
    order = 48 if problem.J == 2 else 15
    loose = close if problem.J == 2 else dict(rtol=2e-3, atol=2e-4)
    terms = ref.bound(slow, linearisation, order)
    found = fast.bound_terms_
    tight = close if linearisation == "polya_gamma" else loose
    np.testing.assert_allclose(found["field"], terms["field"], **close)
    np.testing.assert_allclose(found["scale"], terms["scale"], **close)
    np.testing.assert_allclose(found["confusion"], terms["confusion"], **close)
    np.testing.assert_allclose(found["targets"], terms["log_likelihood"] + terms["targets"], **tight)
    np.testing.assert_allclose(fast.bound_, sum(terms.values()), **tight)
    # Away from the sites, and at them, where the reports multiply in.
    X_new = np.concatenate([np.random.default_rng(0).random((5, 2)) * 10.0, problem.X[:3]])
    mu_new = np.broadcast_to(problem.prior_mean[:1], (len(X_new), problem.F))
    mean, variance = ref.predict_latent(slow, X_new, mu_new)
    np.testing.assert_allclose(fast.predict_latent(X_new)[0], mean, **close)
    np.testing.assert_allclose(fast.predict_latent(X_new)[1], variance, **close)
    rate, sd = ref.rate_moments(mean, variance, order)
    np.testing.assert_allclose(fast.predict_rate(X_new)[0], rate, **loose)
    np.testing.assert_allclose(fast.predict_rate(X_new)[1], sd, **loose)
    np.testing.assert_allclose(fast.predict_proba(X_new), ref.predict_state(slow, X_new, mu_new, order), **loose)


COLLAPSED = {
    "two states": dict(J=2, L=2, seed=1),
    "two states, three labels, a prior mean": dict(J=2, L=3, seed=2, mean=[0.5]),
    "a trusted source and known states": dict(J=2, L=2, seed=5, trusted=True, known={3: 1, 7: 0}),
    "three states": dict(J=3, L=3, seed=7, N=12, R=40),
}


@pytest.fixture
def uncoupled(monkeypatch):
    """As it is with many reports: sources held while the field is looked at, each report left out of their counts."""
    monkeypatch.setattr(coupling, "MOST_REPORTS", 0)


@pytest.mark.parametrize("case", COLLAPSED)
def test_collapsed_inference_ends_at_a_fixed_point_of_the_reference(case, uncoupled):
    """With a firm prior on ς, so that the two grids of ς integrate alike.

    The quadrature under q(f) is part of the scheme: the reference uses as many nodes as the package.
    """
    problem, fit = both(a0=12.0, b0=8.0, **COLLAPSED[case])
    fast = fit(inference="collapsed")
    mean, variance = fast.predict_latent(problem.X)
    slow = reference_collapsed.collapsed_map(
        problem, mean, variance, fast.posterior_, fast.scale_[0], order=20 if problem.J == 2 else 5
    )
    np.testing.assert_allclose(slow.r, fast.posterior_, atol=1e-6)
    np.testing.assert_allclose(slow.alpha, fast.alpha_, atol=1e-6)
    np.testing.assert_allclose(slow.f_hat, mean, atol=1e-5)  # the grids of ς differ
    np.testing.assert_allclose(slow.variance, variance, atol=1e-5)
    np.testing.assert_allclose(reference_collapsed.geometric_mean(slow.scale), fast.scale_, rtol=1e-5)


def test_collapsed_inference_agrees_with_plain_damped_iteration(uncoupled):
    problem, fit = both(a0=12.0, b0=8.0, **COLLAPSED["a trusted source and known states"])
    slow = reference_collapsed.collapsed(problem, order=20)
    fast = fit(inference="collapsed")
    close = dict(rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(fast.posterior_, slow.r, **close)
    np.testing.assert_allclose(fast.alpha_, slow.alpha, **close)
    np.testing.assert_allclose(fast.scale_, reference_collapsed.geometric_mean(slow.scale), **close)
    X_new = np.random.default_rng(0).random((5, 2)) * 10.0
    mean, variance = reference_collapsed.predict_latent_collapsed(slow, X_new, np.zeros((5, 1)))
    np.testing.assert_allclose(fast.predict_latent(X_new)[0], mean, **close)
    np.testing.assert_allclose(fast.predict_latent(X_new)[1], variance, **close)


@pytest.mark.parametrize("case", [c for c in COLLAPSED if COLLAPSED[c]["J"] == 2])
def test_coupled_inference_agrees_with_plain_damped_iteration(case):
    problem, fit = both(a0=12.0, b0=8.0, **COLLAPSED[case])
    slow = reference_coupled.coupled(problem)
    fast = fit(inference="collapsed")
    assert fast._solved.fit.state.coupling is not None
    close = dict(rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(fast.posterior_, slow.r, **close)
    np.testing.assert_allclose(fast.alpha_, slow.alpha, **close)
    np.testing.assert_allclose(np.log(fast.scale_[0]), slow.log_scale, **close)
    mean, variance = fast.predict_latent(problem.X)
    np.testing.assert_allclose(mean[:, 0], slow.f_hat, **close)
    np.testing.assert_allclose(variance[:, 0], np.diag(slow.covariance), **close)
