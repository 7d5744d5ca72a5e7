"""What a crowd has in common is uncertain, too: algebra and objective against one dense Gaussian."""

import numpy as np
import pytest

import crowdfield as cf
from crowdfield.inference import communities
from crowdfield.inference.joint import crowd, sources
from crowdfield.inference.joint.rows import Layout, Rows, covariance_of

SOURCES, WEIGHTS = 6, 7


def positive(rng, *shape):
    root = rng.standard_normal((*shape, 2 * shape[-1]))
    return root @ root.swapaxes(-1, -2)


def posed(functions, d, seed):
    """Rows of six sources, of which the last is not coupled and the one before has a prior of its own."""
    rng = np.random.default_rng(seed)
    prior, reports = positive(rng, SOURCES, functions, d), positive(rng, SOURCES, functions, d)
    coupled, free = np.arange(SOURCES) < SOURCES - 1, np.arange(SOURCES) != SOURCES - 2
    projected = 0.3 * rng.standard_normal((coupled.sum(), functions, d, WEIGHTS))
    logits, gradient = rng.standard_normal((2, SOURCES, functions, d))
    rows = Rows(logits, prior, reports, gradient, projected, np.where(coupled, np.arange(SOURCES), -1))
    return rows, free, positive(rng, functions, d), positive(rng, functions, WEIGHTS) + 9.0


def dense(rows, free, hyperprior, of_weights, f):
    """The precision of weights, mean row and the logits of coupled sources, entry by entry."""
    left, d, m = covariance_of(rows.prior, rows.reports), rows.prior.shape[-1], WEIGHTS
    coupled, c = np.flatnonzero(rows.position >= 0), slice(WEIGHTS, WEIGHTS + d)
    out = np.zeros((m + d + len(coupled) * d,) * 2)
    out[:m, :m] = of_weights
    out[c, c] = hyperprior[f] / crowd.LARGEST_SHARE + sum(rows.prior[s, f] for s in range(SOURCES) if free[s])
    for i, s in enumerate(coupled):
        own = slice(m + d + i * d, m + d + (i + 1) * d)
        out[own, own] = np.linalg.inv(left[s, f])
        out[own, :m], out[:m, own] = -rows.projected[i, f], -rows.projected[i, f].T
        if free[s]:
            out[own, c] = out[c, own] = -rows.prior[s, f]
    return out


@pytest.mark.parametrize(("functions", "d"), [(1, 2), (3, 2), (1, 4)])
def test_eliminating_sources_and_crowd_is_that_of_the_dense_gaussian(functions, d):
    rows, free, hyperprior, of_weights = posed(functions, d, seed=functions + d)
    left, coupled = covariance_of(rows.prior, rows.reports), rows.position >= 0
    found = crowd.given_weights(hyperprior, free, rows, left)
    given = sources.GivenWeights(left, left[coupled] @ rows.projected, found)
    for f in range(functions):
        lost, m = given.lost(f, rows), WEIGHTS
        precision = dense(rows, free, hyperprior, of_weights[f] + np.eye(m) * np.linalg.norm(lost) ** 2, f)
        covariance = np.linalg.inv(precision)
        marginal = np.linalg.inv(precision[:m, :m] - lost.T @ lost)
        np.testing.assert_allclose(marginal, covariance[:m, :m], rtol=1e-8, atol=1e-12)
        joint = found.covariance(f, marginal)
        np.testing.assert_allclose(joint, covariance[: m + d, : m + d], rtol=1e-8, atol=1e-12)
        slope = np.concatenate([given.slope[:, f], found.follows[:, f]], axis=-1).reshape(-1, m + d)
        np.testing.assert_allclose(slope @ joint, covariance[m + d :, : m + d], rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize(("functions", "d"), [(1, 2), (2, 1)])
def test_what_the_objective_gains_is_the_expected_prior_around_the_crowd(functions, d):
    rows, free, hyperprior, of_weights = posed(functions, d, seed=4)
    left, coupled = covariance_of(rows.prior, rows.reports), np.flatnonzero(rows.position >= 0)
    found = crowd.given_weights(hyperprior, free, rows, left)
    slope = np.concatenate([left[coupled] @ rows.projected, found.follows], axis=-1)
    covariances = [np.linalg.inv(each) for each in of_weights]
    joint = [found.covariance(f, each) for f, each in enumerate(covariances)]
    shared = np.stack([slope[:, f] @ joint[f] for f in range(functions)], axis=1)
    expected = 0.0
    for f in range(functions):
        of_c, H = joint[f][WEIGHTS:, WEIGHTS:], hyperprior[f] / crowd.LARGEST_SHARE
        expected += 0.5 * (np.linalg.slogdet(H)[1] + np.linalg.slogdet(found.left[f])[1] + d - np.trace(H @ of_c))
        for i, s in enumerate(coupled):
            if free[s]:  # −½ (v − c)ᵀP(v − c) instead of −½ vᵀPv
                expected += np.trace(rows.prior[s, f] @ (shared[i, f, :, WEIGHTS:] - 0.5 * of_c))
    assert found.gain(covariances, shared) == pytest.approx(expected, rel=1e-9)


def test_the_hyperprior_tells_what_its_pseudo_sources_tell():
    """Differences of the log density of pseudo-sources in the logits of the mean row, all sources of a kind known."""
    base, total = np.repeat([[[2.0, 1.0], [1.0, 2.0]]], 3, axis=0), 1e9
    beta = total * np.array([[0.7, 0.3], [0.4, 0.6]])

    def log_density(logit, j):
        p = 1.0 / (1.0 + np.exp(-logit))
        return (base[:, j] * np.log([1.0 - p, p])).sum()

    found = crowd.information_of_hyperprior(beta, base, Layout.of(2, 2))[0]
    for j, p in ((0, 0.3), (1, 0.6)):
        at, h = np.log(p / (1.0 - p)), 1e-3
        curvature = (log_density(at + h, j) - 2.0 * log_density(at, j) + log_density(at - h, j)) / h**2
        assert found[j, j] == pytest.approx(-curvature, rel=1e-5)


def test_only_a_prior_that_all_share_is_uncertain():
    rows, free, _, _ = posed(1, 2, seed=0)
    layout, base = Layout.of(2, 2), np.ones((1, 2, 2)) + np.eye(2)
    assert sources.given_weights(rows, layout, None, None).crowd is None
    logits = rows._replace(logits=np.zeros((SOURCES, 2, 1)))
    for k in (1, 2):
        shared = communities.Communities(np.repeat(base, k, axis=0), np.full(k, 1.0 / k), free)
        assert (sources.given_weights(logits, layout, shared, base).crowd is None) == (k > 1)


def test_the_crowds_mean_row_is_known_once_many_sources_are():
    """It is as uncertain as the limit allows with few reports, and far less with many."""
    rng = np.random.default_rng(2)
    X, truth = rng.random((4000, 2)) * 8.0, rng.random(4000) < 0.4
    source = rng.integers(0, 80, 4000)
    said = np.where(rng.random(4000) < 0.8, truth, ~truth).astype(int)
    share = []
    for n in (60, 4000):
        model = cf.HeatmapBCC(lengthscale=2.0, reports_model="one_state").fit(X[:n], said[:n], source[:n])
        found = model._solved.fit.q.crowd
        share.append(np.linalg.eigvalsh(found.hyperprior[0] @ found.left[0]).max())
    assert 0.9 < share[0] <= 1.0 and share[1] < 0.7 * share[0]
