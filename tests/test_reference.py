"""The reference itself: limits and symmetries in which the answer is known without it."""

import numpy as np
import pytest
from scipy.special import gammaln
from tests import reference as ref

LINEARISATIONS = ("polya_gamma", "ekf")


def problem(J=2, L=2, *, seed=1, N=14, R=45, S=4, **kw):
    """States in bands from west to east; the first sources mostly right, the last a coin."""
    rng = np.random.default_rng(seed)
    X = rng.random((N, 2)) * 10.0
    t = (X[:, 0] * J / 10.0).astype(int)
    site, source = rng.integers(0, N, R), rng.integers(0, S, R)
    label = [
        int(t[i] % L) if s < S - 1 and rng.random() < 0.85 else int(rng.integers(L))
        for i, s in zip(site, source, strict=True)
    ]
    alpha0 = np.ones((S, J, L))
    for j in range(J):
        alpha0[:, j, j % L] += 1.0
    return ref.Problem(X, [int(i) for i in site], [int(s) for s in source], label, alpha0, lengthscale=4.0, **kw)


def without_reports(p):
    return ref.Problem(p.X, [], [], [], p.alpha0, p.a0, p.b0, p.lengthscale, p.mu, p.known)


@pytest.mark.parametrize("linearisation", LINEARISATIONS)
@pytest.mark.parametrize("J", [2, 3])
def test_no_reports_leave_means_and_confusion_at_the_prior(linearisation, J):
    q = ref.variational_bayes(without_reports(problem(J, J, N=8)), linearisation)
    np.testing.assert_allclose(q.f_hat - q.f_hat.mean(1, keepdims=True) * (J > 2), 0.0, atol=1e-9)
    np.testing.assert_allclose(q.r, 1.0 / J, atol=1e-9)
    np.testing.assert_array_equal(q.alpha, q.problem.alpha0)


@pytest.mark.parametrize("linearisation", LINEARISATIONS)
def test_one_trusted_source_decides(linearisation):
    p = problem()
    alpha0 = np.concatenate([p.alpha0, [[[4500.0, 1.0], [1.0, 4500.0]]]])
    before = ref.variational_bayes(p, linearisation)
    i = int(np.argmax(np.abs(before.r[:, 1] - 0.5)))  # the site they agree on most
    says = int(before.r[i, 1] < 0.5)
    told = ref.Problem(p.X, [*p.site, i], [*p.source, 4], [*p.label, says], alpha0, lengthscale=p.lengthscale)
    after = ref.variational_bayes(told, linearisation)
    assert before.r[i, says] < 0.1
    assert after.r[i, says] > 0.9


def test_the_polya_gamma_bound_rises_and_ends_at_the_stated_terms():
    for J in (2, 3):
        p = problem(J, J, N=10, R=30)
        q = ref.variational_bayes(p, "polya_gamma", every_bound=True)
        assert np.diff(q.history).min() > -1e-9
        assert sum(ref.bound(q, "polya_gamma").values()) == pytest.approx(q.history[-1], abs=1e-9)


def test_the_bound_is_below_the_evidence():
    """Two sites, one source, ς nearly fixed: the evidence by quadrature over f and by summing t and Beta integrals."""
    p = ref.Problem(
        np.array([[0.0], [1.0]]), [0, 1, 1], [0, 0, 0], [0, 1, 1], np.array([[[2.0, 1.0], [1.0, 2.0]]]), a0=1e6, b0=1e6
    )
    f, w = ref.gaussian_nodes(np.zeros(2), np.ones(2), 40)
    f = f @ np.linalg.cholesky(p.K).T
    evidence = 0.0
    for t0 in range(2):
        for t1 in range(2):
            rho = np.prod([1.0 / (1.0 + np.exp(-f[:, i] * (2 * t - 1))) for i, t in enumerate((t0, t1))], axis=0)
            r = np.eye(2)[[t0, t1]]
            alpha = ref.update_pi(p, r)
            log_dirichlet = sum(
                gammaln(alpha[0, j]).sum()
                - gammaln(alpha[0, j].sum())
                - gammaln(p.alpha0[0, j]).sum()
                + gammaln(p.alpha0[0, j].sum())
                for j in range(2)
            )
            evidence += (w @ rho) * np.exp(log_dirichlet)
    for linearisation in LINEARISATIONS:
        total = sum(ref.bound(ref.variational_bayes(p, linearisation), linearisation).values())
        assert np.log(evidence) - 1.0 < total < np.log(evidence)


@pytest.mark.parametrize("linearisation", LINEARISATIONS)
def test_permuting_the_states_permutes_the_answer(linearisation):
    p = problem(3, 3, N=10, R=30)
    order = np.array([2, 0, 1])
    permuted = ref.Problem(p.X, p.site, p.source, p.label, p.alpha0[:, order], lengthscale=p.lengthscale)
    a, b = ref.variational_bayes(p, linearisation), ref.variational_bayes(permuted, linearisation)
    np.testing.assert_allclose(b.r, a.r[:, order], atol=1e-8)


def test_the_paper_kalman_gain_gives_the_same_prediction_as_the_sites():
    """f̂* = μ* + W*(r − σ(f̂) + G(f̂ − μ)) and Σ* = K̂** − W* G K̂*, as printed."""
    p = problem(mu=np.full((14, 1), 0.3))
    q = ref.variational_bayes(p, "ekf")
    X_new, mu_new = np.array([[2.0, 3.0], [9.0, 1.0]]), np.full((2, 1), 0.3)
    sigma = 1.0 / (1.0 + np.exp(-q.f_hat[:, 0]))
    G = np.diag(sigma * (1.0 - sigma))
    nu0, total = ref.beta_prior(p)
    Q, _ = ref.ekf_noise(nu0, total, q.r[:, 1:])
    K_hat, K_star = p.K / q.e_scale, ref.matern32(X_new, p.X, p.lengthscale) / q.e_scale
    W = K_star @ G @ np.linalg.inv(G @ K_hat @ G + np.diag(Q[:, 0]))
    mean = 0.3 + W @ (q.r[:, 1] - sigma + G @ (q.f_hat[:, 0] - 0.3))
    variance = 1.0 / q.e_scale - np.diag(W @ G @ K_star.T)
    got_mean, got_variance = ref.predict_latent(q, X_new, mu_new)
    np.testing.assert_allclose(got_mean[:, 0], mean, atol=1e-8)
    np.testing.assert_allclose(got_variance[:, 0], variance, atol=1e-8)
    np.testing.assert_allclose(ref.predict_latent(q, p.X, p.mu)[0], q.f_hat, atol=1e-7)


def test_states_predicted_at_sites_are_the_responsibilities():
    p = problem(known={2: 1})
    q = ref.variational_bayes(p, "polya_gamma")
    np.testing.assert_allclose(ref.predict_state(q, p.X, p.prior_mean), q.r, atol=1e-7)
    assert q.r[2, 1] == 1.0
