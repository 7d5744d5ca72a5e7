"""Communities of sources: who is like whom, and what somebody with few reports borrows."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import gammaln
from sklearn.metrics import adjusted_rand_score

import crowdfield as cf
from crowdfield.inference import communities as c

GROUPS = np.array([[[0.95, 0.05], [0.05, 0.95]], [[0.5, 0.5], [0.5, 0.5]], [[0.05, 0.95], [0.05, 0.95]]])
BASE = np.array([[2.0, 1.0], [1.0, 2.0]])
THREE = np.repeat(BASE[None], 3, axis=0)  # three pseudo-sources that have said the same


def counts(seed=0, sources=150, reports=30):
    """Counts of labels [S, J, L] that sources of three groups give to known states."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 3, sources)
    state = rng.integers(0, 2, (sources, reports))
    said = (rng.random((sources, reports)) < GROUPS[group[:, None], state, 1]).astype(int)
    n = np.zeros((sources, 2, 2))
    np.add.at(n, (np.arange(sources)[:, None], state, said), 1.0)
    return group, n


def test_hidden_groups_are_found_with_their_matrices():
    group, n = counts()
    found = c.update(c.start(3, BASE, n, np.ones(len(n), dtype=bool)), n, BASE, c.SETTLED_STEPS)
    assert len(found.beta) == 3
    assert adjusted_rand_score(group, c.memberships(found, n).argmax(1)) > 0.9
    pi = found.beta / found.beta.sum(-1, keepdims=True)
    order = [int(np.abs(pi - truth).sum((1, 2)).argmin()) for truth in GROUPS]
    np.testing.assert_allclose(pi[order], GROUPS, atol=0.06)


def test_one_kind_of_people_is_one_community():
    rng = np.random.default_rng(1)
    X = rng.integers(0, 12, (900, 2)).astype(float)
    wet = X[:, 0] > 6
    said = np.where(rng.random(900) < 0.8, wet, ~wet).astype(int)
    model = cf.HeatmapBCC(lengthscale=3.0, communities="learn").fit(X, said, rng.integers(0, 90, 900))
    assert len(model.communities_.beta) == 1


def test_learning_raises_the_likelihood_of_the_counts():
    _, n = counts(2)
    now = c.start(3, BASE, n, np.ones(len(n), dtype=bool))
    values = [c.log_likelihood(now, n)]
    for _ in range(6):
        now = c.update(now, n, BASE, steps=5)
        values.append(c.log_likelihood(now, n))
    assert np.diff(values).min() > 0.0 and values[-1] > values[0] + 100.0


def test_sources_with_few_reports_are_shrunk_to_their_community():
    one = c.Communities(np.array([[[18.0, 2.0], [2.0, 18.0]]]), np.ones(1), np.ones(3, dtype=bool))
    silent, odd_once, odd_often = np.zeros((2, 2)), np.array([[0.0, 1.0], [0.0, 0.0]]), np.array([[0.0, 900.0], [0, 0]])
    n = np.stack([silent, odd_once, odd_often])
    alpha = c.alpha0(one, n, np.ones((3, 2, 2))) + n
    pi = alpha / alpha.sum(-1, keepdims=True)
    assert pi[0, 0, 0] == pytest.approx(0.9)
    assert pi[1, 0, 0] == pytest.approx(18.0 / 21.0)
    assert pi[2, 0, 0] < 0.03 and pi[2, 1, 1] == pytest.approx(0.9)  # of the other state it said nothing


def test_a_source_with_a_prior_of_its_own_belongs_to_no_community():
    _, n = counts(3)
    free = np.ones(len(n), dtype=bool)
    free[0] = False
    own = np.full_like(n, 7.0)
    found = c.update(c.start(2, BASE, n, free), n, BASE)
    np.testing.assert_array_equal(c.alpha0(found, n, own)[0], own[0])
    changed = n.copy()
    changed[0] *= 50.0
    np.testing.assert_allclose(c.update(c.start(2, BASE, n, free), changed, BASE).beta, found.beta)


@pytest.fixture(scope="module")
def fitted():
    """Many sources with few reports on a map that is easy: 120 people, 3 groups."""
    rng = np.random.default_rng(0)
    group = rng.integers(0, 3, 120)
    n = np.where(rng.random(120) < 0.4, 18, 4)
    s = np.repeat(np.arange(120), n)
    X = rng.integers(0, 12, (len(s), 2)).astype(float)
    truth = (X[:, 0] + X[:, 1] > 11).astype(int)
    y = (rng.random(len(s)) < GROUPS[group[s], truth, 1]).astype(int)
    model = cf.HeatmapBCC(lengthscale=5.0, communities=3, tol=1e-3).fit(X, y, s)
    return model, group, n, (X, y, s)


def test_groups_are_found_while_the_map_is_not_known(fitted):
    model, group, n, _ = fitted
    table = model.source_table().set_index("source").loc[np.arange(120)]
    known = n >= 10
    assert adjusted_rand_score(group[known], table.community.to_numpy()[known]) >= 0.8
    assert ((table.membership > 1 / 3) & (table.membership <= 1.0)).all()


def test_communities_improve_on_separate_matrices(fitted):
    model, _, _, (X, y, s) = fitted
    grid = np.stack(np.meshgrid(np.arange(12.0), np.arange(12.0)), -1).reshape(-1, 2)
    truth = (grid.sum(1) > 11).astype(int)
    alone = cf.HeatmapBCC(lengthscale=5.0, tol=1e-3).fit(X, y, s)

    def loss(m):
        return -np.log2(m.predict_proba(grid)[np.arange(len(grid)), truth]).mean()

    assert loss(model) < loss(alone)


def test_an_unseen_source_is_like_the_population(fitted):
    model, _, _, _ = fitted
    population = model.communities_.population
    np.testing.assert_allclose(population, np.einsum("k,kjl->jl", model.communities_.weight, model.communities_.beta))
    newcomer = c.alpha0(
        model.communities_._replace(free=np.ones(1, dtype=bool)), np.zeros((1, 2, 2)), np.ones((1, 2, 2))
    )
    np.testing.assert_allclose(newcomer[0], population)


def test_any_step_of_the_packed_communities_leads_to_communities():
    rng = np.random.default_rng(3)
    given = c.Communities(rng.gamma(2.0, size=(3, 2, 4)) + c.LEAST, rng.dirichlet(np.ones(3)), np.ones(7, dtype=bool))
    back = c.unpack(given, c.pack(given))
    np.testing.assert_allclose(back.beta, given.beta)
    np.testing.assert_allclose(back.weight, given.weight)
    elsewhere = c.unpack(given, c.pack(given) + 5.0 * rng.standard_normal(3 * 2 * 4 + 3))
    assert (elsewhere.beta >= c.LEAST).all() and (elsewhere.weight > 0).all()
    assert elsewhere.weight.sum() == pytest.approx(1.0)


def test_part_of_the_way_between_communities_is_on_the_scale_of_pack():
    rng = np.random.default_rng(4)
    old, new = (
        c.Communities(rng.gamma(2.0, size=(3, 2, 4)) + c.LEAST, rng.dirichlet(np.ones(3)), np.ones(7, dtype=bool))
        for _ in range(2)
    )
    assert c.part_way(old, new, 1.0) is new
    none = c.part_way(old, new, 0.0)
    np.testing.assert_allclose(none.beta, old.beta)
    np.testing.assert_allclose(none.weight, old.weight)
    part = c.part_way(old, new, 0.3)
    np.testing.assert_allclose(part.beta, old.beta**0.7 * new.beta**0.3)
    expected = old.weight**0.7 * new.weight**0.3
    np.testing.assert_allclose(part.weight, expected / expected.sum())


def test_the_hyperprior_is_that_of_some_sources_with_the_reports_of_base():
    """Against a sum written out: every source that the base counts as gives its labels one by one."""
    beta = np.array([[[5.0, 2.0], [1.0, 4.0]], [[3.0, 3.0], [0.5, 9.0]]])
    given = c.Communities(beta, np.array([0.6, 0.4]), np.ones(4, dtype=bool))
    seen = strength = 0.0
    for matrix in beta:
        for j in range(2):
            one_source = []
            for label in range(2):
                for before in range(int(BASE[j, label])):  # Pólya's urn: a label makes itself more probable
                    drawn = sum(BASE[j, :label]) + before
                    one_source.append(np.log((matrix[j, label] + before) / (matrix[j].sum() + drawn)))
            seen += 3.0 * sum(one_source)
            strength += matrix[j].sum()
    sizes = np.log(0.6) + np.log(0.4)
    assert c.log_hyperprior(given, THREE) == pytest.approx(seen - 0.01 * strength + sizes)


def test_learning_raises_the_likelihood_with_the_hyperprior_to_its_top():
    """What `update` raises is the likelihood of the counts and the hyperprior together: no change of β raises it."""
    _, n = counts(5, sources=40, reports=12)
    free = np.ones(len(n), dtype=bool)
    found = c.start(1, BASE, n, free)
    for _ in range(20):
        found = c.update(found, n, BASE, c.SETTLED_STEPS)

    def both(beta):
        at = found._replace(beta=beta)
        return c.log_likelihood(at, n) + c.log_hyperprior(at, BASE)

    for index in np.ndindex(found.beta.shape):
        step = np.ones(found.beta.shape)
        step[index] = np.exp(0.01)
        slope = (both(found.beta * step) - both(found.beta / step)) / 0.02
        assert abs(slope) < 0.01


@pytest.mark.parametrize("reports", [20, 200, 5_000])
def test_the_penalty_of_a_community_approximates_its_exact_evidence(reports):
    """Sources that are all alike share one row: its evidence is a ratio of beta functions.

    The base is some sources more: together they are a Dirichlet prior of the row with all their reports.
    """
    said = np.array([0.7, 0.3]) * reports
    n = np.zeros((reports, 2, 2))
    n[:, 0] = said / reports  # one report each, all about the first state
    tight = c.Communities(1e6 * np.array([[said / reports, [1 / 3, 2 / 3]]]), np.ones(1), np.ones(reports, dtype=bool))
    base = THREE[:, 0].sum(0)
    exact = (gammaln(said + base) - gammaln(base)).sum() - gammaln(reports + base.sum()) + gammaln(base.sum())
    at_best = float((said * np.log(said / reports)).sum())
    assert at_best - c.penalty(tight, n, THREE) == pytest.approx(exact, abs=0.1)


def test_reports_by_few_sources_are_less_informative_about_a_community_than_by_many():
    beta = np.array([[[6.0, 2.0], [2.0, 6.0]]])
    few, many = np.full((3, 2, 2), 100.0), np.full((300, 2, 2), 1.0)
    prices = [c.penalty(c.Communities(beta, np.ones(1), np.ones(len(n), dtype=bool)), n, BASE) for n in (few, many)]
    assert 0.0 < prices[0] < prices[1] - 1.0


def inverted(sources=40):
    """Counts of a crowd that says 1 a little more often where the state is 0."""
    rng = np.random.default_rng(3)
    n = np.zeros((sources, 2, 2))
    n[:, 0] = rng.multinomial(30, [0.2, 0.8], sources)
    n[:, 1] = rng.multinomial(10, [0.35, 0.65], sources)
    return n


def test_a_crowd_never_means_the_opposite_of_what_it_says():
    """The fixed point is the constrained maximum by a general optimiser: one mean row, two strengths."""
    n = inverted()
    crowd = c.start(1, THREE, n, np.ones(len(n), dtype=bool))

    def at(z):
        mean = 1.0 / (1.0 + np.exp(-z[0]))
        return crowd._replace(beta=np.exp(z[1:])[None, :, None] * np.array([1.0 - mean, mean]))

    def objective(z):
        return -(c.log_likelihood(at(z), n) + c.log_hyperprior(at(z), THREE))

    options = {"xatol": 1e-9, "fatol": 1e-11, "maxiter": 2000}
    best = at(minimize(objective, np.array([1.0, 2.0, 2.0]), method="Nelder-Mead", options=options).x)
    np.testing.assert_allclose(c.update(best, n, THREE, steps=1).beta, best.beta, rtol=1e-6)
    rows = c.update(crowd, n, THREE, c.SETTLED_STEPS).beta[0]
    rows = rows / rows.sum(-1, keepdims=True)
    np.testing.assert_allclose(rows[0], rows[1], rtol=1e-9)
    np.testing.assert_allclose(rows[0], best.beta[0, 0] / best.beta[0, 0].sum(), atol=0.01)


def test_one_community_of_several_may_mean_the_opposite():
    n = inverted()
    found = c.update(c.start(2, THREE, n, np.ones(len(n), dtype=bool)), n, THREE, c.SETTLED_STEPS)
    said = found.beta[..., 1] / found.beta.sum(-1)  # P(label 1) in both states, by community
    assert (said[:, 0] > said[:, 1]).any()


def test_labels_that_speak_for_their_own_state_leave_the_crowd_as_it_is():
    n = inverted()[:, ::-1]
    crowd = c.start(1, THREE, n, np.ones(len(n), dtype=bool))
    rows = c.update(crowd, n, THREE, c.SETTLED_STEPS).beta[0]
    rows = rows / rows.sum(-1, keepdims=True)
    np.testing.assert_allclose(rows, [[0.35, 0.65], [0.2, 0.8]], atol=0.05)
