"""The fast variational code against the equations written slowly and literally (tests/reference.py)."""

from typing import Any

import numpy as np
import pytest
from tests import reference as ref

import crowdfield as cf

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


CASES: dict[str, dict[str, Any]] = {
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
    settings: dict[str, Any] = dict(
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
    close: dict[str, Any] = dict(rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(fast.posterior_, slow.r, **close)
    np.testing.assert_allclose(fast.alpha_, slow.alpha, **close)
    np.testing.assert_allclose(fast.scale_, slow.e_scale, **close)
    mean, variance = fast.predict_latent(problem.X)
    np.testing.assert_allclose(mean, slow.f_hat, **close)
    np.testing.assert_allclose(variance, slow.variance, **close)
    # Beyond two states the package's quadrature is coarser than the reference's.
    order = 48 if problem.J == 2 else 15
    loose: dict[str, Any] = close if problem.J == 2 else dict(rtol=2e-3, atol=2e-4)
    terms = ref.bound(slow, linearisation, order)
    found = fast.bound_terms_
    tight: dict[str, Any] = close if linearisation == "polya_gamma" else loose
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
