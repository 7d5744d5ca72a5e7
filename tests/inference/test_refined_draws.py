"""Draws of q, and the same draws moved to the exact posterior: both have the moments that they should have."""

import numpy as np
import pytest
from scipy.special import expit

import crowdfield as cf
from crowdfield import simulate
from crowdfield.inference import gibbs, refined_draws, sampling
from crowdfield.inference.community_sampling import CommunityPrior
from crowdfield.inference.data import arrange
from crowdfield.inference.diagnostics import effective_sample_size
from crowdfield.inference.joint.rows import Layout

FIXED = [[2.0, 1.0], [1.0, 2.0]]


def fitted(states=2, n=60, seed=5, **settings):
    """Few reports of sources that often err: a wide posterior, of which a Gaussian covers a part."""
    said = simulate.simulate(
        n, rng=np.random.default_rng(seed), places=(12, 12), lengthscale=4.0, reliable=4, noisy=4, states=states
    ).reports
    names = np.array(said.labels)[said.label], np.array(said.sources)[said.source]
    model = cf.HeatmapBCC(lengthscale=4.0, reports_model="one_state", states=tuple(range(states)), **settings)
    return model.fit(said.places, names[0], sources=names[1])


@pytest.fixture(scope="module")
def few():
    """With a prior of the sources that is given, and does not move."""
    return fitted(confusion_prior=FIXED)


@pytest.fixture(scope="module")
def few_of_a_crowd():
    """With a prior of the sources that is learned from all of them."""
    return fitted(communities=1)


@pytest.mark.parametrize("states", [2, 3])
def test_draws_of_q_have_its_moments(states):
    model = fitted(states)
    q, size = model._solved.fit.q, 20_000
    drawn = refined_draws.of_q(q, size, np.random.default_rng(0))
    np.testing.assert_allclose(np.exp(drawn.log_pi).sum(-1), 1.0, atol=1e-12)
    assert np.log(drawn.scale).mean() == pytest.approx(q.fields[0].scale.mean_log, abs=0.02)
    v = drawn.log_pi[..., 1:] - drawn.log_pi[..., :1]  # [n, S, J, D]
    variance = np.einsum("sjdd->sjd", q.covariance)
    assert np.abs((v.mean(0) - q.logits) / np.sqrt(variance)).max() < 5.0 / np.sqrt(size)
    np.testing.assert_allclose(v.var(0) / variance, 1.0, atol=0.06)
    stacked = Layout.of(*q.alpha0.shape[1:]).stack(v.reshape(size * len(q.alpha0), *v.shape[2:]))
    stacked = stacked.reshape(size, len(q.alpha0), *stacked.shape[1:])  # [n, S, F, d]
    for f, field in enumerate(q.fields):
        w = drawn.weights[:, f] - field.mean
        np.testing.assert_allclose(w.var(0), np.diag(field.covariance), rtol=0.06)
        together = np.einsum("nsd,nm->sdm", stacked[:, :, f] - stacked[:, :, f].mean(0), w) / size
        limit = 6.0 / np.sqrt(size) * stacked[:, :, f].std(0)[..., None] * w.std(0)
        assert (np.abs(together[q.position >= 0] - q.shared[:, f]) < limit[q.position >= 0]).all()


def summaries(weights, scale, log_pi, phi):
    """Of every draw: log ς, the mean rate of two districts and of the map, one source's accuracy: [n, 5]."""
    rate = expit(weights[:, 0] @ phi.T)
    half = rate.shape[1] // 2
    accuracy = np.exp(log_pi[:, 0, 0, 0])
    return np.stack([np.log(scale), rate[:, :half].mean(1), rate[:, half:].mean(1), rate.mean(1), accuracy], axis=1)


def crowd_prior(model):
    posed = model._posed
    return CommunityPrior(1, posed.base, posed.prior.alpha0, ~posed.own)


def long_run(model, sweeps=2_500, chains=4, confusion=None):
    """The same summaries of a long run of the sampler: [chains, sweeps, 5]."""
    q, posed = model._solved.fit.q, model._posed
    basis = q.fields[0].basis
    sampler = gibbs.Sampler(posed.data, posed.prior, basis, confusion)
    rng = np.random.default_rng(1)
    state, step_size = sampling.warmed_up(sampler, chains, 300, rng)
    phi, out = basis.features(posed.data.X), []
    for _ in range(sweeps):
        state, _ = sampler.step(state, rng, step_size)
        out.append(summaries(state.weights, state.scale, state.log_pi, phi))
    return np.stack(out, axis=1)


@pytest.fixture(scope="module")
def exact(few):
    return long_run(few)


def test_refined_draws_agree_with_a_long_run_of_gibbs_where_q_is_too_narrow(few, exact):
    q, posed, size = few._solved.fit.q, few._posed, 800
    phi = q.fields[0].basis.features(posed.data.X)
    mean, sd = exact.mean((0, 1)), exact.std((0, 1))
    independent = np.array([effective_sample_size(exact[:, :, i]) for i in range(exact.shape[2])])
    drawn = refined_draws.refined(posed.data, posed.prior, q, size, np.random.default_rng(2))
    assert drawn is not None
    found = summaries(drawn.weights, drawn.scale, drawn.log_pi, phi)
    error = sd * np.sqrt(1.0 / size + 1.0 / independent)
    assert (np.abs(found.mean(0) - mean) < 4.0 * error).all()
    np.testing.assert_allclose(found.std(0) / sd, 1.0, atol=0.15)
    start = refined_draws.of_q(q, size, np.random.default_rng(2))
    before = summaries(start.weights, start.scale, start.log_pi, phi)
    assert (before.std(0) / sd)[0] < 0.75  # q does not know how little is known of the amplitude
    assert (before.std(0) / sd)[3] < 0.95  # and is too sure of the mean of the map


def test_refined_draws_agree_with_a_long_run_of_gibbs_in_which_the_crowd_is_drawn_too(few_of_a_crowd):
    q, posed, size = few_of_a_crowd._solved.fit.q, few_of_a_crowd._posed, 800
    phi = q.fields[0].basis.features(posed.data.X)
    crowd = crowd_prior(few_of_a_crowd), few_of_a_crowd._solved.fit.state.communities
    run = long_run(few_of_a_crowd, sweeps=6_000, confusion=crowd[0])
    mean, sd = run.mean((0, 1)), run.std((0, 1))
    independent = np.array([effective_sample_size(run[:, :, i]) for i in range(run.shape[2])])
    drawn = refined_draws.refined(posed.data, posed.prior, q, size, np.random.default_rng(2), crowd)
    found = summaries(drawn.weights, drawn.scale, drawn.log_pi, phi)
    error = sd * np.sqrt(1.0 / size + 1.0 / independent)
    assert (np.abs(found.mean(0) - mean) < 4.0 * error).all()
    np.testing.assert_allclose(found.std(0) / sd, 1.0, atol=0.15)
    held = refined_draws.refined(posed.data, posed.prior, q, size, np.random.default_rng(2))
    held = summaries(held.weights, held.scale, held.log_pi, phi)
    assert (held.std(0) / sd)[4] < 0.9  # held where it is, the crowd would be taken as known


def test_moves_along_the_ridge_leave_the_posterior_as_it_is(few, exact):
    """Chains of whole sweeps, and chains with moves along the ridge between them, draw from one distribution."""
    q, posed = few._solved.fit.q, few._posed
    basis = q.fields[0].basis
    sampler, rng = gibbs.Sampler(posed.data, posed.prior, basis), np.random.default_rng(3)
    state, step_size = sampling.warmed_up(sampler, 4, 300, rng)
    phi, moved = basis.features(posed.data.X), []
    for _ in range(1_500):
        state, _ = sampler.step(state, rng, step_size)
        for _ in range(3):
            state, _ = sampler.step_along_ridge(state, rng, step_size[1])
        moved.append(summaries(state.weights, state.scale, state.log_pi, phi))
    ridge = np.stack(moved, axis=1)
    for i in range(exact.shape[2]):
        for power in (1, 2):
            one, other = exact[:, :, i] ** power, ridge[:, :, i] ** power
            error = np.sqrt(one.var() / effective_sample_size(one) + other.var() / effective_sample_size(other))
            assert abs(one.mean() - other.mean()) < 4.0 * error
    # They are worth their while: an equal number of sweeps has more independent draws of ς.
    assert effective_sample_size(ridge[:, :, 0]) > 1.3 * effective_sample_size(exact[:, :1_500, 0])


def test_a_report_that_counts_three_times_is_three_reports(few):
    rng = np.random.default_rng(0)
    X, site, source = rng.random((6, 2)), np.sort(rng.integers(0, 6, 10)), rng.integers(0, 3, 10)
    label, count = rng.integers(0, 2, 10), rng.integers(1, 4, 10)
    once = arrange(X, site, source, label, n_sources=3, n_labels=2, n_states=2, count=count)
    rows = [np.repeat(each, count) for each in (site, source, label)]
    often = arrange(X, *rows, n_sources=3, n_labels=2, n_states=2)
    prior = few._posed.prior._replace(alpha0=np.ones((3, 2, 2)), mean=np.zeros((6, 1)))
    basis = few._solved.fit.q.fields[0].basis
    one, many = gibbs.Sampler(once, prior, basis), gibbs.Sampler(often, prior, basis)
    state = one.init(2, rng)
    np.testing.assert_allclose(one.log_likelihood(state.log_pi), many.log_likelihood(state.log_pi), atol=1e-12)
    t = rng.integers(0, 2, (2, 6))
    np.testing.assert_array_equal(one._counts(t), many._counts(t))


def test_sweeps_become_fewer_gradually_as_they_become_more_expensive(few):
    data = few._posed.data
    sweeps = []
    for places in np.geomspace(50, 100_000, 200).astype(int):
        site = np.arange(places, dtype=np.int32)
        larger = data._replace(X=np.zeros((places, 2)), site=site, source=site % 8, label=site % 2)
        sweeps.append(refined_draws.affordable_sweeps(larger, 1, 200, 200))
    assert sweeps[0] == refined_draws.MOST_SWEEPS and sweeps[-1] == 0
    assert set(np.diff(sweeps)) <= {0, -1}
    assert refined_draws.affordable_sweeps(data, 1, 3_000, 200) == 0


def test_nothing_is_refined_that_is_too_expensive(few, monkeypatch):
    monkeypatch.setattr(refined_draws, "MOST_WORK", 0.0)
    posed = few._posed
    rng = np.random.default_rng(0)
    assert refined_draws.refined(posed.data, posed.prior, few._solved.fit.q, 200, rng) is None
    table = few.totals(few.places_ + 0.1, np.zeros(len(few.places_), int))
    assert 0.0 < table["share_low_1"][0] < table["share_1"][0] < table["share_high_1"][0] < 1.0
