"""Moves of field and crowd together: they leave the posterior as it is, and make its draws independent sooner."""

import numpy as np
import pytest
from scipy.special import digamma, expit, logsumexp, polygamma

import crowdfield as cf
from crowdfield import simulate
from crowdfield.inference import gibbs, sampling
from crowdfield.inference.communities import STRENGTH_RATE, log_dirichlet_multinomial, speaks_against
from crowdfield.inference.community_sampling import CommunityPrior, CommunityState
from crowdfield.inference.confusion_prior import FixedPrior
from crowdfield.inference.data import Prior, arrange
from crowdfield.inference.diagnostics import effective_sample_size
from crowdfield.inference.fields.inducing import InducingBasis
from crowdfield.inference.fields.spectral import SpectralBasis
from crowdfield.inference.gibbs import State, draw_log_pi
from crowdfield.inference.kernels import WithLevel, kernel
from crowdfield.inference.refined_draws import ALONG_RIDGE
from crowdfield.inference.ridge import Ridge

CHAINS, SOURCES = 6_000, 3
SHAPE, RATE = 3.0, 2.0


def silent(states, confusion, basis=SpectralBasis):
    """A sampler of places that nobody reported on: its posterior is the prior."""
    X = np.random.default_rng(0).uniform(0.0, 10.0, (30, 2))
    nobody = np.empty(0, dtype=np.int64)
    data = arrange(X, nobody, nobody, nobody, n_sources=SOURCES, n_labels=states, n_states=states)
    functions = 1 if states == 2 else states
    prior = Prior(np.ones((SOURCES, states, states)), SHAPE, RATE, np.full((len(X), functions), -0.5))
    return gibbs.Sampler(data, prior, basis(WithLevel(kernel("matern32", 8.0), 1.0), X), confusion)


def base(states):
    return 1.0 + np.eye(states)


def population(said, count, rng):
    """Draws of one row β [count, L] of the hyperprior, whose pseudo-sources said this [B, L]: by rejection."""
    kept = np.empty((0, said.shape[1]))
    while len(kept) < count:
        beta = rng.exponential(1.0 / STRENGTH_RATE, (40 * count, said.shape[1]))
        log_p = sum(log_dirichlet_multinomial(row, beta) - row @ np.log(row / row.sum()) for row in said)
        kept = np.concatenate([kept, beta[np.log(rng.random(len(beta))) < log_p]])
    return kept[:count]


def drawn_from_prior(sampler, rng):
    """One exact draw of everything per chain."""
    scale = rng.standard_gamma(SHAPE, CHAINS) / RATE
    weights = rng.standard_normal((CHAINS, sampler.functions, sampler.design.size)) / np.sqrt(scale)[:, None, None]
    confusion = sampler.confusion.init(CHAINS, rng)
    if isinstance(sampler.confusion, CommunityPrior):
        pseudo, states = sampler.confusion.pseudo, range(sampler.data.n_states)
        beta = np.stack([population(pseudo[:, :, j], 2 * CHAINS, rng) for j in states], axis=2)
        meaning = (beta / beta.sum(1, keepdims=True)).swapaxes(1, 2)
        opposite = [speaks_against(base(len(states)), meaning, j, k) for j in states for k in states if j < k]
        beta = beta[~np.any(opposite, axis=0)][:CHAINS, None]
        confusion = CommunityState(beta, np.ones((CHAINS, 1)), np.zeros((CHAINS, SOURCES), dtype=np.int64))
    alpha = np.broadcast_to(sampler.confusion.alpha0(confusion), sampler.table_shape(CHAINS))
    return State(weights, scale, draw_log_pi(alpha, rng), confusion, sampler.design.evaluate(weights))


def crowd(states):
    """A prior that is learned; the last source has its own."""
    own = np.broadcast_to(base(states), (SOURCES, states, states)).copy()
    return CommunityPrior(1, np.stack([base(states)] * 3), own, np.array([True, True, False]))


PRIORS = {"given": lambda J: FixedPrior(np.broadcast_to(base(J), (SOURCES, J, J)).copy()), "learned": crowd}


@pytest.mark.parametrize("name", PRIORS)
@pytest.mark.parametrize("states", [2, 3])
def test_moves_leave_the_prior_as_it_is(states, name):
    sampler, rng = silent(states, PRIORS[name](states)), np.random.default_rng(1)
    ridge, state = Ridge(sampler), drawn_from_prior(silent(states, PRIORS[name](states)), rng)
    before, accepted = state, []
    for _ in range(15):
        state, share = ridge.step(state, rng)
        accepted.append(share)
    assert 0.1 < np.mean(accepted) < 0.9
    assert np.median(np.abs(np.log(state.scale / before.scale))) > 0.1  # they do move
    np.testing.assert_allclose(state.g, sampler.design.evaluate(state.weights), atol=1e-9)
    np.testing.assert_allclose(logsumexp(state.log_pi, axis=2), 0.0, atol=1e-9)

    def agrees(values, mean, sd):
        assert abs(values.mean() - mean) < 5.0 * sd / np.sqrt(values.shape[0])
        assert values.std() == pytest.approx(sd, rel=0.07)

    agrees(np.log(state.scale), digamma(SHAPE) - np.log(RATE), np.sqrt(polygamma(1, SHAPE)))
    u = state.weights * np.sqrt(state.scale)[:, None, None]
    size = np.sqrt(ridge.level @ ridge.level)
    for f in range(sampler.functions):
        agrees(u[:, f] @ ridge.level / size, 0.0, 1.0)
        np.testing.assert_allclose(u[:, f].std(axis=0), 1.0, atol=0.07)
    # The third source, and all with a given prior, have Dirichlet rows: of log π_00 / π_01 the moments are known.
    for source in range(SOURCES) if name == "given" else [2]:
        a = base(states)[0]
        odds = state.log_pi[:, source, 0, 0] - state.log_pi[:, source, 1, 0]
        agrees(odds, digamma(a[0]) - digamma(a[1]), np.sqrt(polygamma(1, a[0]) + polygamma(1, a[1])))
    if name == "learned":
        for summary in (
            lambda now: np.log(now.confusion.beta[:, 0, 0, 0] / now.confusion.beta[:, 0, 1, 0]),
            lambda now: np.log(now.confusion.beta[:, 0, :, 1].sum(1)),
            lambda now: now.log_pi[:, 0, 1, 1] - now.log_pi[:, 0, 0, 1],
            lambda now: np.exp(now.log_pi[:, 1, 0, 0]) - now.confusion.beta[:, 0, 0, 0],
        ):
            first = summary(before)
            agrees(summary(state), first.mean(), first.std())


@pytest.mark.parametrize("basis", [SpectralBasis, lambda k, X: InducingBasis(k, X, size=20)])
def test_the_level_is_the_same_at_all_places(basis):
    sampler = silent(2, PRIORS["given"](2), basis)
    np.testing.assert_allclose(Ridge(sampler).at_sites, 1.0, atol=0.15)


def test_chains_that_have_no_others_to_learn_from_stay_where_they_are():
    sampler, rng = silent(2, PRIORS["given"](2)), np.random.default_rng(0)
    state = sampler.init(3, rng)
    moved, accepted = Ridge(sampler).step(state, rng)
    assert moved is state and accepted == 0.0


def test_draws_are_independent_sooner_where_the_crowds_prior_is_learned():
    said = simulate.simulate(
        800, rng=np.random.default_rng(3), places=(20, 20), lengthscale=8.0, reliable=8, noisy=8, inverse_scale=0.3
    ).reports
    model = cf.HeatmapBCC(lengthscale=8.0, reports_model="one_state").fit(
        said.places, np.array(said.labels)[said.label], sources=np.array(said.sources)[said.source]
    )
    posed, basis = model._posed, model._solved.fit.q.fields[0].basis
    prior = CommunityPrior(1, posed.base, posed.prior.alpha0, ~posed.own)

    def independent(with_moves):
        """The effective sample size of the mean rate of the map."""
        sampler, rng = gibbs.Sampler(posed.data, posed.prior, basis, prior), np.random.default_rng(4)
        state, step_size = sampling.warmed_up(sampler, 8, 60, rng)
        ridge, trace = Ridge(sampler), []
        for _ in range(240):
            state, _ = sampler.step(state, rng, step_size)
            for _ in range(ALONG_RIDGE):
                state = ridge.step(state, rng)[0] if with_moves else state
                state, _ = sampler.step_along_ridge(state, rng, step_size[1])
            trace.append(expit(state.g[:, 0] + sampler.mean[0]).mean(1))
        return effective_sample_size(np.stack(trace, axis=1))

    assert independent(True) > 1.2 * independent(False)
