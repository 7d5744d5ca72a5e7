"""Communities inside the sampler: β against numerical integration, groups found, the few borrowing from the many."""

import numpy as np
import pytest

from crowdfield.inference import community_sampling as cs
from crowdfield.inference import sampling
from crowdfield.inference.communities import STRENGTH_RATE, Communities, log_dirichlet_multinomial
from crowdfield.inference.data import Prior, arrange
from crowdfield.inference.fields.inducing import InducingBasis
from crowdfield.inference.kernels import kernel

BASE = np.array([[2.0, 1.0], [1.0, 2.0]])


def test_the_draws_of_a_shared_prior_are_those_of_its_density():
    """One community, counts given: moments of log β_11 and log β_12 by integration on a grid."""
    counts = np.zeros((1, 4, 2, 2))
    counts[0, :, :, 0] = [[9, 1], [5, 0], [7, 2], [0, 1]]
    prior = cs.CommunityPrior(1, BASE, np.broadcast_to(BASE, (4, 2, 2)), np.ones(4, bool))
    rng = np.random.default_rng(0)
    chains = 40
    state = prior.init(chains, rng)
    draws = []
    repeated = np.broadcast_to(counts, (chains, 4, 2, 2))
    for sweep in range(500):
        state = prior.step(state, repeated, rng)
        if sweep >= 50:
            draws.append(np.log(state.beta[:, 0, :, 0]))
    seen = np.concatenate(draws)
    grid = np.linspace(-6.0, 8.0, 400)
    a, b = np.meshgrid(grid, grid, indexing="ij")
    beta = np.exp(np.stack([a, b], axis=-1))[..., None]  # [.., L, 1]
    log_density = a + b - STRENGTH_RATE * beta.sum(axis=(-2, -1))
    for row, times in [*((row, 1.0) for row in counts[0, :, :, 0]), (BASE[0], 1.0)]:
        log_density += times * log_dirichlet_multinomial(np.asarray(row)[:, None], beta, cs.LABELS)[..., 0]
    mass = np.exp(log_density - log_density.max())
    mass /= mass.sum()
    expected = np.array([(mass * a).sum(), (mass * b).sum()])
    np.testing.assert_allclose(seen.mean(axis=0), expected, atol=0.12)
    assert (seen[:, 0] - seen[:, 1]).mean() == pytest.approx(expected[0] - expected[1], abs=0.06)
    assert seen[:, 0].std() == pytest.approx(np.sqrt((mass * (a - expected[0]) ** 2).sum()), rel=0.15)


def crowd(rng, groups, reports):
    """Sources of three kinds report on one map; half of its places are on either side of a border."""
    X = np.stack(np.meshgrid(np.arange(12.0), np.arange(12.0)), -1).reshape(-1, 2)
    t = (X[:, 0] > 5.5).astype(int)
    source = np.repeat(np.arange(len(groups)), reports)
    site = rng.integers(0, len(X), len(source))
    right = np.array([[0.95, 0.95], [0.5, 0.5], [0.95, 0.25]])[groups[source], t[site]]
    label = np.where(rng.random(len(source)) < right, t[site], 1 - t[site])
    return X, t, site, source, label


@pytest.mark.parametrize("k", [3, "learn"])
def test_hidden_groups_are_found_and_sources_with_few_reports_borrow_from_them(k):
    rng = np.random.default_rng(1)
    groups = np.repeat([0, 1, 2], [20, 12, 12])
    reports = np.where(np.arange(44) % 4 == 0, 2, 25)
    X, t, site, source, label = crowd(rng, groups, reports)
    data = arrange(X, site, source, label, n_sources=44, n_labels=2, n_states=2)
    prior = Prior(np.broadcast_to(BASE, (44, 2, 2)).copy(), 1.0, 1.0, np.zeros((len(X), 1)))
    confusion = cs.CommunityPrior(k, BASE, prior.alpha0, np.ones(44, bool))
    basis = InducingBasis(kernel("matern32", 6.0), X, size=40)
    drawn = sampling.run(data, prior, basis, np.random.default_rng(2), sweeps=600, draws=400, confusion=confusion)
    communities, share = cs.summarise(confusion, drawn.confusion_states)
    np.testing.assert_allclose(share.sum(axis=1), 1.0)
    np.testing.assert_allclose(communities.weight.sum(), 1.0)
    talkative = reports == 25
    states = drawn.confusion_states
    together = np.mean([(s.member[c][:, None] == s.member[c]) for s in states for c in range(4)], axis=0)
    same = groups[:, None] == groups
    pairs = talkative[:, None] & talkative & ~np.eye(44, dtype=bool)
    assert together[pairs & same].mean() > 0.7
    assert together[pairs & ~same].mean() < 0.15
    # Two reports alone would say little; the crowd says that most are good or known kinds of bad.
    few = ~talkative & (groups == 0)
    assert drawn.confusion_mean[few, 0, 0].mean() > 0.75
    assert (drawn.target.argmax(axis=1) == t).mean() > 0.93


def test_sources_with_a_prior_of_their_own_keep_it():
    own = np.broadcast_to(BASE, (3, 2, 2)).copy()
    own[1] = [[450.0, 1.0], [1.0, 450.0]]
    prior = cs.CommunityPrior(2, BASE, own, np.array([True, False, True]))
    rng = np.random.default_rng(3)
    state = prior.init(4, rng)
    for _ in range(5):
        state = prior.step(state, rng.integers(0, 9, (4, 3, 2, 2)).astype(float), rng)
        np.testing.assert_array_equal(prior.alpha0(state)[:, 1], np.broadcast_to(own[1].T, (4, 2, 2)))
        assert (prior.alpha0(state)[:, 0] != own[0].T).all()


def test_chains_start_from_communities_that_were_found():
    beta = np.array([[[9.0, 1.0, 2.0], [1.0, 7.0, 3.0]], [[4.0, 4.0, 1.0], [4.0, 5.0, 6.0]]])
    found = Communities(beta, np.array([0.8, 0.2]), np.ones(500, bool))
    prior = cs.CommunityPrior(2, np.ones((2, 3)), np.ones((500, 2, 3)), found.free)
    state = prior.at(found, 6, np.random.default_rng(4))
    for chain in range(6):
        np.testing.assert_array_equal(state.beta[chain].transpose(0, 2, 1), beta)
        np.testing.assert_array_equal(state.weight[chain], found.weight)
    assert state.member.shape == (6, 500)
    assert (state.member == 1).mean() == pytest.approx(0.2, abs=4.0 * np.sqrt(0.16 / 3_000))
    np.testing.assert_array_equal(prior.alpha0(state)[2, 7].T, beta[state.member[2, 7]])
    state.beta[0] *= 2.0  # chains share no memory: with each other, or with what was found
    np.testing.assert_array_equal(state.beta[1].transpose(0, 2, 1), beta)
    np.testing.assert_array_equal(found.beta, beta)
    moved = prior.step(state, np.zeros((6, 500, 3, 2)), np.random.default_rng(5))
    assert moved.beta.shape == state.beta.shape and moved.weight.shape == state.weight.shape


def test_a_crowd_is_never_drawn_that_means_the_opposite_of_what_it_says():
    counts = np.broadcast_to(np.array([[6.0, 4.0], [24.0, 6.0]]), (8, 30, 2, 2))  # [label, state]: 1 where it is 0
    rng = np.random.default_rng(6)
    drawn = {}
    for k in (1, 2):
        prior = cs.CommunityPrior(k, BASE, np.broadcast_to(BASE, (30, 2, 2)), np.ones(30, bool))
        state = prior.init(8, rng)
        shares = []
        for _ in range(300):
            state = prior.step(state, counts, rng)
            shares.append(state.beta[:, 0, 1] / state.beta[:, 0].sum(axis=1))  # P(label 1) in both states
        drawn[k] = np.array(shares[100:])
    assert (drawn[1][..., 1] >= drawn[1][..., 0] - 1e-9).all()
    assert drawn[1].std(axis=(0, 1)).min() > 0.01  # it moves along the boundary
    assert (drawn[2][..., 1] < drawn[2][..., 0]).mean() > 0.3  # one community of several may mean it
