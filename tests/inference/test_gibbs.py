"""The sampler against everything that is known without it: enumeration, the prior, and the model's own simulator."""

from itertools import product

import numpy as np
import pytest
from scipy.special import gammaln
from scipy.stats import chi2

from crowdfield.errors import ConvergenceWarning
from crowdfield.inference import gibbs, sampling
from crowdfield.inference.data import Prior, arrange
from crowdfield.inference.diagnostics import effective_sample_size
from crowdfield.inference.fields.inducing import InducingBasis
from crowdfield.inference.fields.spectral import SpectralBasis
from crowdfield.inference.kernels import kernel

MATERN = kernel("matern32", 3.0)


def diagonal_prior(sources, states, labels, diagonal=3.0):
    alpha = np.ones((sources, states, labels))
    for j in range(states):
        alpha[:, j, j % labels] = diagonal
    return alpha


def problem(
    X, site, source, label, *, states=2, labels=2, sources=2, shape=4.0, rate=4.0, mean=0.0, known=None, alpha0=None
):
    functions = 1 if states == 2 else states
    data = arrange(
        np.asarray(X, float),
        np.asarray(site, np.int64),
        np.asarray(source, np.int64),
        np.asarray(label, np.int64),
        n_sources=sources,
        n_labels=labels,
        n_states=states,
        known=None if known is None else np.asarray(known, np.int64),
    )
    alpha0 = diagonal_prior(sources, states, labels) if alpha0 is None else alpha0
    mu = np.broadcast_to(np.asarray(mean, float), (len(X), functions)).copy()
    return data, Prior(alpha0, shape, rate, mu)


def enumerate_states(data, prior, order):
    """E[t] by summing over every t, with f integrated by quadrature; ς at its prior mean."""
    functions = prior.mean.shape[1]
    covariance = MATERN.covariance(data.X, data.X) * prior.rate / prior.shape
    root = np.linalg.cholesky(covariance)
    x, w = np.polynomial.hermite_e.hermegauss(order)
    nodes = np.array(list(product(x, repeat=data.n_sites * functions))).reshape(-1, data.n_sites, functions)
    weights = np.prod(list(product(w / w.sum(), repeat=data.n_sites * functions)), axis=1)
    f = prior.mean + np.einsum("nm,qmf->qnf", root, nodes)
    logits = np.concatenate([np.zeros_like(f), f], axis=2) if functions == 1 else f
    rho = np.exp(logits) / np.exp(logits).sum(axis=2, keepdims=True)
    target, total = np.zeros((data.n_sites, data.n_states)), 0.0
    for t in product(range(data.n_states), repeat=data.n_sites):
        if any(k >= 0 and k != j for k, j in zip(data.known, t, strict=True)):
            continue
        alpha = prior.alpha0.copy()
        for i, s, c in zip(data.site, data.source, data.label, strict=True):
            alpha[s, t[i], c] += 1.0
        log_counts = (gammaln(alpha).sum(-1) - gammaln(alpha.sum(-1))).sum()
        p = np.exp(log_counts) * (weights @ np.prod([rho[:, i, j] for i, j in enumerate(t)], axis=0))
        total += p
        target[range(data.n_sites), t] += p
    return target / total


@pytest.mark.parametrize(
    ("states", "labels", "known", "mean", "order"),
    [
        (2, 2, [-1, -1, -1], 0.0, 20),
        (2, 3, [-1, 1, -1], 0.5, 20),
        (3, 3, [-1, -1], [0.0, 0.5, -0.5], 7),
        (3, 2, [2, -1], 0.0, 7),
    ],
)
def test_states_agree_with_enumeration(states, labels, known, mean, order):
    rng = np.random.default_rng(1)
    n = len(known)
    X = np.array([[0.0, 0.0], [1.0, 0.5], [2.5, 2.0]])[:n]
    site, source, label = rng.integers(0, n, 7), rng.integers(0, 2, 7), rng.integers(0, labels, 7)
    # A firm prior on ς, so that enumeration may hold it fixed.
    data, prior = problem(
        X, site, source, label, states=states, labels=labels, shape=4000.0, rate=2000.0, mean=mean, known=known
    )
    basis = InducingBasis(MATERN, X, tolerance=1e-12)
    posterior = sampling.run(data, prior, basis, np.random.default_rng(0), sweeps=1000)
    expected = enumerate_states(data, prior, order)
    # The standard error of a run, over runs with eight seeds, is 0.005 at most: four of them.
    np.testing.assert_allclose(posterior.target, expected, atol=0.02)
    for i, state in enumerate(known):
        if state >= 0:
            assert posterior.target[i, state] == 1.0


@pytest.mark.parametrize("states", [2, 3])
def test_without_reports_it_is_the_prior(states):
    X = np.random.default_rng(0).random((12, 2)) * 6.0
    data, prior = problem(X, [], [], [], states=states, labels=states, shape=6.0, rate=3.0, mean=0.4)
    posterior = sampling.run(data, prior, InducingBasis(MATERN, X), np.random.default_rng(1), sweeps=1000)
    functions = prior.mean.shape[1]
    mean, variance = posterior.latent(X, prior.mean)
    # 800 draws are kept. All tolerances are three to four standard errors of as many independent draws: of f (sd 0.77),
    # of its variance (a factor √(2/800) = 5 %), of ς (sd 41 % of its mean), and of probabilities (sd 0.2 at most).
    assert len(posterior.scale) == 800
    np.testing.assert_allclose(mean, 0.4, atol=0.09)
    np.testing.assert_allclose(variance, 3.0 / (6.0 - 1.0), rtol=0.2)  # E[1/ς]
    assert posterior.scale.mean() == pytest.approx(6.0 / 3.0, rel=0.05)
    np.testing.assert_allclose(posterior.confusion_mean, prior.alpha0 / prior.alpha0.sum(-1, keepdims=True), atol=0.02)
    if functions > 1:
        np.testing.assert_allclose(posterior.target, 1.0 / states, atol=0.02)


@pytest.mark.parametrize(("states", "labels"), [(2, 2), (3, 4)])
def test_geweke_the_sampler_and_the_model_draw_from_one_joint_distribution(states, labels):
    """Alternate a sweep with new reports drawn given (t, π): parameters must keep their prior distribution.

    Geweke 2004, "Getting it right": any wrong conditional, or a step that forgets a Jacobian, shifts a moment.
    """
    rng = np.random.default_rng(2)
    X = rng.random((5, 2)) * 5.0
    site, source = np.sort(rng.integers(0, 5, 9)), rng.integers(0, 2, 9)
    known = [-1, -1, -1, -1, -1]
    data, prior = problem(
        X, site, source, rng.integers(0, labels, 9), states=states, labels=labels, mean=0.3, known=known
    )
    sampler = gibbs.Sampler(data, prior, InducingBasis(MATERN, X))
    state = sampler.init(1, rng)
    step = np.full((2, 1), 1.0)
    draws = []
    for _ in range(6000 if states == 2 else 4000):
        state, info = sampler.step(state, rng, step)
        pi = np.exp(state.log_pi[0])  # [S, L, J]
        rows = pi[data.source, :, info.t[0, data.site]]
        label = (rows.cumsum(axis=1) < rng.random((len(rows), 1))).sum(axis=1)
        sampler.key = data.source.astype(np.int64) * labels + label
        f = state.g[0, 0] + prior.mean[:, 0]
        draws.append(
            [np.log(state.scale[0]), f[0], f[0] ** 2, f[0] * f[1], pi[0, 0, 0], pi[1, 1, 0], info.t[0, 0] == 0]
        )
    seen = np.array(draws)
    # The same functionals under the prior, drawn directly.
    n = 40_000
    scale = rng.gamma(4.0, 1.0 / 4.0, n)
    K = MATERN.covariance(X[:2], X[:2])
    g = rng.standard_normal((n, sampler.functions, 2)) @ np.linalg.cholesky(K).T / np.sqrt(scale)[:, None, None]
    f = g + 0.3
    logits = f[:, :, 0]
    rho0 = 1.0 / (1.0 + np.exp(logits[:, 0])) if states == 2 else np.exp(logits[:, 0]) / np.exp(logits).sum(1)
    alpha = prior.alpha0
    expected = np.stack(
        [
            np.log(scale),
            f[:, 0, 0],
            f[:, 0, 0] ** 2,
            f[:, 0, 0] * f[:, 0, 1],
            np.full(n, alpha[0, 0, 0] / alpha[0, 0].sum()),
            np.full(n, alpha[1, 0, 1] / alpha[1, 0].sum()),
            rho0,
        ],
        axis=1,
    )
    error = np.sqrt(
        expected.var(0) / n + seen.var(0) / np.array([effective_sample_size(column[None]) for column in seen.T])
    )
    z = (seen.mean(0) - expected.mean(0)) / error
    assert np.abs(z).max() < 3.5, z


def test_simulation_based_calibration():
    """Draw the truth from the prior, reports from the truth: the truth's rank among posterior draws is uniform."""
    rng = np.random.default_rng(3)
    X = rng.random((10, 2)) * 6.0
    basis = InducingBasis(MATERN, X)
    phi = basis.features(X)
    alpha0 = diagonal_prior(2, 2, 2)
    found = []
    for _ in range(60):
        scale = rng.gamma(4.0, 0.25)
        w = rng.standard_normal(basis.size) / np.sqrt(scale)
        f = phi @ w
        t = (rng.random(10) < 1.0 / (1.0 + np.exp(-f))).astype(int)
        pi = np.array([[rng.dirichlet(row) for row in source] for source in alpha0])
        site, source = rng.integers(0, 10, 25), rng.integers(0, 2, 25)
        label = (rng.random(25) < pi[source, t[site], 1]).astype(int)
        data, prior = problem(X, site, source, label, alpha0=alpha0)
        sampler = gibbs.Sampler(data, prior, basis)
        state = sampler.init(19, rng)  # 19 chains, one draw each: independent draws, 20 possible ranks
        for _ in range(45):
            state, _ = sampler.step(state, rng, np.full((2, 19), 1.0))
        draws = np.stack(
            [state.scale, state.g[:, 0, 0], state.g[:, 0].mean(1), np.exp(state.log_pi[:, 0, 0, 0])], axis=1
        )
        found.append((draws < [scale, f[0], f.mean(), pi[0, 0, 0]]).sum(0))
    for column in np.array(found).T:
        counts = np.bincount(column // 5, minlength=4)
        statistic = ((counts - 15.0) ** 2 / 15.0).sum()
        assert chi2.sf(statistic, 3) > 0.005, counts


def simulated(states, seed=4, n=25, reports=90):
    rng = np.random.default_rng(seed)
    X = rng.random((n, 2)) * 10.0
    t = (X[:, 0] * states / 10.0).astype(int)
    site, source = rng.integers(0, n, reports), rng.integers(0, 3, reports)
    right = rng.random(reports) < np.array([0.9, 0.75, 1.0 / states])[source]
    label = np.where(right, t[site], rng.integers(0, states, reports))
    return X, site, source, label


def test_permuting_three_states_permutes_the_answer():
    X, site, source, label = simulated(3)
    order = np.array([2, 0, 1])  # new name of each state
    basis = InducingBasis(MATERN, X)
    found = []
    for name in (np.arange(3), order):
        data, prior = problem(X, site, source, name[label], states=3, labels=3, sources=3)
        found.append(sampling.run(data, prior, basis, np.random.default_rng(5), sweeps=700))
    # Over runs with eight seeds the standard error is 0.027 at the worst place, which mixes slowly, and 0.007 on
    # average. Two runs differ by √2 of it: by up to 0.051, and by 0.008 on average. A wrong name would make it 0.5.
    np.testing.assert_allclose(found[1].target[:, order], found[0].target, atol=0.06)
    assert np.abs(found[1].target[:, order] - found[0].target).mean() < 0.012
    np.testing.assert_allclose(found[0].target.sum(1), 1.0, atol=1e-9)
    assert np.abs(found[0].target - 1.0 / 3.0).max() > 0.5  # there is something to permute


def test_a_known_state_informs_about_its_neighbours_and_its_sources():
    X = np.array([[0.0, 0.0], [0.3, 0.0], [50.0, 0.0]])
    known = [1, -1, -1]
    data, prior = problem(X, [0] * 6, [0] * 6, [0] * 6, sources=1, known=known)  # it says 0 where 1 is true
    posterior = sampling.run(data, prior, InducingBasis(MATERN, X), np.random.default_rng(6))
    assert posterior.target[0, 1] == 1.0
    # Four standard errors, which are 0.005 of probabilities and 0.003 of confusion matrices over runs with ten seeds.
    # The neighbour is at 0.600 in the mean of these; the place far away is at its prior.
    assert posterior.target[1, 1] == pytest.approx(0.6, abs=0.02)
    assert posterior.target[2, 1] == pytest.approx(0.5, abs=0.02)
    expected = (prior.alpha0[0, 1] + [6, 0]) / (prior.alpha0[0, 1].sum() + 6)
    np.testing.assert_allclose(posterior.confusion_mean[0, 1], expected, atol=0.012)
    np.testing.assert_allclose(posterior.confusion_mean[0, 0], [0.75, 0.25], atol=0.012)


def test_one_sweep_is_the_same_through_a_dense_matrix_and_through_transforms(monkeypatch):
    X, site, source, label = simulated(2)
    data, prior = problem(X, site, source, label, sources=3)
    basis = SpectralBasis(MATERN, X)
    out = []
    for entries in (1 << 24, 0):
        monkeypatch.setattr(gibbs, "DENSE_ENTRIES", entries)
        rng = np.random.default_rng(7)
        sampler = gibbs.Sampler(data, prior, basis)
        state = sampler.init(2, rng)
        out.append(sampler.step(state, rng, np.ones((2, 2)))[0])
    # The transforms are accurate to 1e-7 (NUFFT_EPS), the dense matrix to rounding.
    np.testing.assert_allclose(out[0].g, out[1].g, atol=1e-7)
    np.testing.assert_allclose(out[0].scale, out[1].scale, rtol=1e-7)


def test_predictions_are_the_same_in_blocks_and_add_what_the_basis_leaves_out(monkeypatch):
    X, site, source, label = simulated(2)
    data, prior = problem(X, site, source, label, sources=3)
    coarse = InducingBasis(MATERN, X, size=4)
    posterior = sampling.run(data, prior, coarse, np.random.default_rng(8), sweeps=300)
    mean = np.zeros((len(X), 1))
    whole = posterior.rate(X, mean), posterior.latent(X, mean)
    monkeypatch.setattr(sampling, "BLOCK_ENTRIES", 7 * 2 * len(posterior.weights))
    parts = posterior.rate(X, mean), posterior.latent(X, mean)
    np.testing.assert_allclose(np.array(parts[0]), np.array(whole[0]), atol=1e-12)
    np.testing.assert_allclose(np.array(parts[1]), np.array(whole[1]), atol=1e-12)
    far = np.array([[500.0, 500.0]])  # nothing is known there: the prior, all of it left out of the basis
    assert posterior.latent(far, mean[:1])[1][0, 0] == pytest.approx((1.0 / posterior.scale).mean(), rel=1e-6)
    rate, sd = posterior.rate(far, mean[:1])
    # By symmetry, up to four standard errors: what the basis leaves out is drawn once for every draw of the weights.
    assert rate[0, 0] == pytest.approx(0.5, abs=4.0 * sd[0, 0] / np.sqrt(len(posterior.weights)))
    assert sd[0, 0] > 0.1


def test_too_few_sweeps_give_a_warning():
    X, site, source, label = simulated(2)
    data, prior = problem(X, site, source, label, sources=3)
    with pytest.warns(ConvergenceWarning, match="effective sample size"):
        sampling.run(data, prior, InducingBasis(MATERN, X), np.random.default_rng(9), warm_up=2, sweeps=20)


def test_equal_seeds_give_equal_answers():
    X, site, source, label = simulated(2)
    data, prior = problem(X, site, source, label, sources=3)
    basis = InducingBasis(MATERN, X)
    first, second = (sampling.run(data, prior, basis, np.random.default_rng(10), sweeps=300).target for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_rows_of_tiny_pseudo_counts_are_drawn_without_underflow():
    log_pi = gibbs.draw_log_pi(np.full((2000, 1, 2, 1), 1e-4), np.random.default_rng(11))
    assert np.isfinite(log_pi).all()
    np.testing.assert_allclose(np.exp(log_pi).sum(axis=2), 1.0)
    assert np.exp(log_pi)[:, 0, 0, 0].mean() == pytest.approx(
        0.5, abs=0.045
    )  # 2,000 draws of nearly 0 or 1: four of 0.5/√2000
