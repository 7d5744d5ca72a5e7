"""Sources and map unsure together: algebra against literal sums, the gradient against differences of the objective."""

from functools import partial
from typing import Any

import numpy as np
import pytest

import crowdfield as cf
from crowdfield.inference import iterate
from crowdfield.inference.data import Prior, arrange
from crowdfield.inference.fields.features import FeatureEngine
from crowdfield.inference.fields.inducing import InducingBasis
from crowdfield.inference.joint import method, rows, starting, state, sums
from crowdfield.inference.joint import objective as objective_
from crowdfield.inference.kernels import Matern32, WithLevel
from crowdfield.inference.scale import Gamma
from crowdfield.inference.sites import Sites
from crowdfield.inference.solvers import JointSolver
from crowdfield.simulate import simulate


def problem(states=2, labels=2, reports=160, sources=5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.random((40, 2)) * 8.0
    t = (X[:, 0] * states / 8.0).astype(int)
    site, source = rng.integers(0, 40, reports), rng.integers(0, sources, reports)
    label = np.where(rng.random(reports) < 0.75, t[site] % labels, rng.integers(0, labels, reports))
    data = arrange(X, site, source, label, n_sources=sources, n_labels=labels, n_states=states)
    alpha0 = np.ones((sources, states, labels)) + np.eye(states, labels)
    engine = FeatureEngine(InducingBasis(WithLevel(Matern32(3.0), 1.0), X), X)
    functions = 1 if states == 2 else states
    sites = Sites(data, Prior(alpha0, 1.0, 1.0, np.zeros((40, functions))), engine)
    return sites, method.Method(engine, alpha0, Gamma(1.0, 1.0), partial(sums.sweep, sites))


def settled(made, **kw):
    return iterate.run(made, **kw)


@pytest.mark.parametrize("labels", [1, 2, 3, 5])
def test_moments_of_rows_are_those_of_draws(labels):
    rng = np.random.default_rng(labels)
    logits = rng.standard_normal((3, 2, labels - 1))
    root = 0.6 * rng.standard_normal((3, 2, labels - 1, labels - 1))
    found = rows.moments(logits, root @ root.swapaxes(-1, -2))
    v = logits + np.einsum("sjde,nsje->nsjd", root, rng.standard_normal((40_000, 3, 2, labels - 1)))
    v = np.concatenate([np.zeros((*v.shape[:-1], 1)), v], -1)
    pi = np.exp(v) / np.exp(v).sum(-1, keepdims=True)
    np.testing.assert_allclose(found.pi, pi.mean(0), atol=0.01)
    np.testing.assert_allclose(found.log_pi, np.log(pi).mean(0), atol=0.03)
    alpha = rows.as_dirichlet(found.pi, found.fisher)
    np.testing.assert_allclose(alpha / alpha.sum(-1, keepdims=True), found.pi, atol=1e-12)
    if labels > 1:
        total = alpha.sum(-1)
        spread = (found.pi * (1.0 - found.pi)).sum(-1) / (total + 1.0)
        np.testing.assert_allclose(spread, pi.var(0).sum(-1), atol=0.01)


@pytest.mark.parametrize(("states", "labels"), [(2, 2), (2, 3), (3, 3)])
def test_the_variance_at_a_place_is_that_of_all_its_reports_together(states, labels):
    """x = f + Σ log odds of the reports, every covariance written out: of sources with the field and each other."""
    sites, made = problem(states, labels)
    q = settled(made, max_iter=15).q
    assert len(q.slope) == 5
    phi, data = sites.engine.features(sites.engine.blocks[0]), sites.data
    table = state.table(q)
    assert table.coupling is not None
    slopes = table.coupling.slope
    for i in (0, 7, 20):
        keys = (data.source * labels + data.label)[data.site == i]
        for f in range(len(q.fields)):
            psi = phi[i] + slopes[keys, f].sum(0)
            expected = psi @ q.fields[f].covariance @ psi
            for s in np.unique(keys // labels):
                h = sum(q.directions[s, f, k % labels] for k in keys if k // labels == s)
                expected += h @ q.left[s, f] @ h
            own = phi[i] @ q.fields[f].covariance @ phi[i]
            block = sites.blocks[0]
            each = table.variance[block.key] * (1 if block.repeats is None else block.repeats[:, None])
            direct = np.bincount(block.site, each[:, f], block.n)[i]
            said = sums._said(sites, 0, table.coupling)
            through = sums._covariance_with_field(block, said, table.coupling)[i, f]
            if len(np.unique(keys // labels)) == len(keys):  # nobody reported twice here
                assert own + direct + through == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("states", "labels"), [(2, 2), (2, 3)])
def test_the_gradient_is_that_of_the_objective(states, labels):
    """In the logits of a source, by differences, everything else held."""
    _, made = problem(states, labels)
    at = made.evaluate(settled(made, max_iter=12).state)
    gradient = made.layout.unstack(made._gradient(at.q.alpha0, at.q, at.sums))

    def objective(logits):
        moments = rows.moments(logits, at.q.covariance)
        q = at.q._replace(logits=logits, moments=moments, directions=made.layout.directions(moments.pi))
        return objective_.objective(at.state, q, made.sweep(state.table(q)), made.base).total

    for s, j in ((0, 0), (2, 1), (4, 1)):
        ahead, behind = at.q.logits.copy(), at.q.logits.copy()
        ahead[s, j, 0] += 1e-4
        behind[s, j, 0] -= 1e-4
        slope = (objective(ahead) - objective(behind)) / 2e-4
        assert gradient[s, j, 0] == pytest.approx(slope, abs=2e-3)


@pytest.mark.parametrize("states", [2, 3])
def test_the_objective_rises_to_within_the_slack_and_settles(states):
    _, made = problem(states, states)
    fit = settled(made)
    assert fit.converged
    history = np.array(fit.history)
    assert (history >= np.maximum.accumulate(history) - iterate.Policy().slack).all()
    assert fit.bound.confusion < 0.0 and fit.bound.field < 0.0


def test_states_packed_and_unpacked_are_the_same():
    _, made = problem(3, 3)
    state = settled(made, max_iter=12).state
    again = made.unpack(state, made.pack(state))
    np.testing.assert_allclose(made.assemble(again).logits, made.assemble(state).logits, atol=1e-12)
    assert again.precision == pytest.approx(state.precision)


def test_the_field_adds_no_more_than_the_allowed_variance_to_a_source():
    """Where x is taken for Gaussian, wide sources would promise gain without end."""
    _, made = problem(2, 2, reports=30, sources=8)
    q = settled(made).q
    prior = rows.of_dirichlet(made.alpha0)[1]
    through = q.covariance - made.layout.unblock(q.left)
    assert (through[..., 0, 0] <= rows.MOST_ADDED * prior[..., 0, 0] + 1e-9).all()


def grades(seed, reports=1500, sources=12, side=20):
    """Four grades in bands. Two thirds of the sources mistake neighbours for each other, the others guess."""
    rng = np.random.default_rng(seed)
    grid = np.stack(np.meshgrid(np.arange(side), np.arange(side), indexing="ij"), -1).reshape(-1, 2).astype(float)
    height = grid @ [0.8, 0.6]
    truth = np.searchsorted([0.55, 0.72, 0.85], height / height.max())
    place, source = rng.integers(0, len(grid), reports), rng.integers(0, sources, reports)
    near = np.clip(truth[place] + rng.choice([-1, 0, 1], reports, p=[0.12, 0.76, 0.12]), 0, 3)
    return grid, truth, grid[place], np.where(source % 3 > 0, near, rng.integers(0, 4, reports)), source


@pytest.mark.parametrize("seed", [0, 1])
def test_functions_that_step_side_by_side_do_not_overshoot(seed):
    """Whole steps of four functions went to and fro ever farther, until labels had changed their meaning."""
    grid, truth, X, y, source = grades(seed)
    model = cf.HeatmapBCC(lengthscale=6.0, states=[0, 1, 2, 3], reports_model="one_state").fit(X, y, source)
    solver = model._solved.solver
    assert isinstance(solver, JointSolver)
    made = solver.method
    opening = [made.evaluate(made.init(sweeps)).bound.total for sweeps in (1, 2, 4, 8, 16)]
    assert np.diff(opening).min() > 0.0
    assert (model.predict(grid) == truth).mean() > 0.85


SETTINGS: dict[str, Any] = dict(lengthscale=20.0, confusion_prior=[[2, 1], [1, 2]], scale_rate=1.0)


def test_engines_agree():
    world = simulate(300, rng=np.random.default_rng([2017, 2]), reliable=6, noisy=6)
    given = world.reports.places, world.reports.label, world.reports.source
    exact, *others = (cf.HeatmapBCC(engine=e, **SETTINGS).fit(*given) for e in ("exact", "inducing", "spectral"))
    for other in others:
        for here, there in zip(
            other.predict_rate(world.truth.places), exact.predict_rate(world.truth.places), strict=True
        ):
            np.testing.assert_allclose(here, there, atol=0.01)


def test_collapsed_inference_is_as_accurate_as_gibbs():
    world = simulate(2400, rng=np.random.default_rng([2017, 3]), reliable=10, noisy=10)
    said = world.reports
    given = said.places[:400], said.label[:400], said.source[:400]
    nlpd = {}
    for inference in ("collapsed", "gibbs"):
        model = cf.HeatmapBCC(inference=inference, random_state=0, **SETTINGS).fit(*given)
        rate, sd = model.predict_rate(world.truth.places)
        nlpd[inference] = cf.metrics.nlpd_beta(world.truth.rho[:, 1], rate[:, 1], sd[:, 1] ** 2)
    assert nlpd["collapsed"] < nlpd["gibbs"] + 0.1


class Hill:
    """A method with one number: Newton's step on −(x − 3)², started too far."""

    def __init__(self, overshoot=1.0):
        self.overshoot, self.evaluated = overshoot, 0

    def init(self, sweeps):
        return np.array([10.0])

    def is_whole(self, state):
        return True

    def joined(self, state):
        return state

    def evaluate(self, state):
        self.evaluated += 1
        from types import SimpleNamespace

        bound = SimpleNamespace(total=float(-((state[0] - 3.0) ** 2)))
        return SimpleNamespace(state=state, q=None, bound=bound)

    def step(self, at, length):
        return at.state + length * self.overshoot * (3.0 - at.state)

    def pack(self, state):
        return state

    def unpack(self, like, z):
        return z

    def readout(self, state, image):
        return image - state

    def change(self, old, new):
        return float(abs(new.state[0] - old.state[0]))

    def direction(self, old, new):
        return new.state - old.state


@pytest.mark.parametrize("overshoot", [0.3, 1.0, 1.9, 5.0])
def test_the_policy_settles_where_the_objective_is_highest(overshoot):
    fit = iterate.run(Hill(overshoot), tol=1e-6)
    assert fit.converged and abs(fit.state[0] - 3.0) < 0.2
    assert (np.diff(np.maximum.accumulate(fit.history)) >= 0.0).all()


def test_a_fit_that_stalls_far_from_convergence_does_not_claim_to_have_converged():
    fit = iterate.run(Hill(-1.0), tol=1e-6)
    assert not fit.converged and fit.state[0] == 10.0


class Ledge(Hill):
    """The same, but every step from the end of a short opening lowers the objective."""

    def init(self, sweeps):
        return np.array([10.0 if sweeps <= iterate.Policy().opening else 9.0])

    def step(self, at, length):
        return at.state + 100.0 * length if at.state[0] >= 10.0 else super().step(at, length)


def test_a_stalled_fit_starts_again_with_a_longer_opening():
    fit = iterate.run(Ledge(), tol=1e-6)
    assert fit.converged and abs(fit.state[0] - 3.0) < 0.2


class Cliff(Hill):
    """The same, but far out a state has no q."""

    def evaluate(self, state):
        if state[0] > 50.0:
            raise np.linalg.LinAlgError("Matrix is not positive definite")
        return super().evaluate(state)


def test_an_earlier_state_without_a_q_leads_to_a_fit_from_the_prior():
    fit = iterate.run(Cliff(1.0), start=np.array([60.0]), tol=1e-6)
    assert fit.converged and abs(fit.state[0] - 3.0) < 0.2


def test_a_fit_has_converged_when_steps_change_nothing_or_little_and_not_the_objective():
    policy = iterate.Policy(loose_factor=10.0, large=1e4, negligible_gain=1e-6)
    assert policy.has_converged(change=0.9e-4, gain=5.0, objective=-1e5, tol=1e-4)
    assert policy.has_converged(change=0.9e-3, gain=0.09, objective=-1e5, tol=1e-4)
    assert not policy.has_converged(change=0.9e-3, gain=0.11, objective=-1e5, tol=1e-4)
    assert not policy.has_converged(change=1.1e-3, gain=0.0, objective=-1e5, tol=1e-4)
    assert not policy.has_converged(change=1.1e-4, gain=0.0, objective=-1e4, tol=1e-4)  # few reports
    assert policy.has_converged(change=0.9e-3, gain=5.0, objective=-1e4, tol=1e-4, is_whole=False)
    assert not policy.has_converged(change=1.1e-3, gain=0.0, objective=-1e4, tol=1e-4, is_whole=False)
    assert policy.has_converged(change=0.9e-2, gain=0.9, objective=-1e5, tol=1e-4, is_whole=False)
    assert not policy.has_converged(change=0.9e-2, gain=1.1, objective=-1e5, tol=1e-4, is_whole=False)


def test_the_allowed_fall_of_the_objective_grows_with_the_objective():
    policy = iterate.Policy()
    assert not policy.accepts(-1.0, 0.0)
    assert policy.accepts(-1e6 - 1.0, -1e6)


def test_steps_shrink_when_they_oscillate_and_grow_otherwise():
    policy = iterate.Policy()
    assert policy.next_length(1.0, turned=False) == 1.0
    assert policy.next_length(1.0, turned=True) == policy.shrinkage
    assert policy.next_length(0.01, turned=True) == policy.shortest_shrunk
    assert not policy.accepts(np.nan, 0.0) and policy.accepts(-0.5 * policy.slack, 0.0)


def test_after_many_passes_the_objective_must_rise():
    policy = iterate.Policy()
    late = policy.full_slack_passes + 5 * policy.slack_half_life
    assert policy.accepts(-0.5 * policy.slack, 0.0, policy.full_slack_passes)
    assert not policy.accepts(-0.5 * policy.slack, 0.0, late) and policy.accepts(0.0, 0.0, late)


def test_one_more_report_on_the_same_features_starts_from_what_was_learned():
    rng = np.random.default_rng(2)
    X = rng.uniform(0, 10, (1500, 2))
    said = (X[:, 0] > 5) ^ (rng.random(1500) < 0.2)
    source = rng.integers(0, 12, 1500)
    settings: dict[str, Any] = {"lengthscale": 3.0, "reports_model": "one_state", "confusion_prior": [[2, 1], [1, 2]]}
    model = cf.HeatmapBCC(**settings).fit(X[1:], said[1:], sources=source[1:])
    sweeps = model.n_iter_
    model.partial_fit(X[:1], said[:1], sources=source[:1])
    assert model.n_iter_ < sweeps / 2
    anew = cf.HeatmapBCC(**settings).fit(X, said, sources=source)
    np.testing.assert_allclose(model.predict_proba(X[:200]), anew.predict_proba(X[:200]), atol=2e-3)  # 1e-3 of either


def test_a_warm_start_with_the_same_features_begins_at_the_posterior_of_the_earlier_fit():
    """So that the objective judges every step from there, the first one included."""
    _, made = problem(seed=5)
    earlier = settled(made)
    start = made.warm_start(earlier)
    assert made.evaluate(start).q is earlier.q
    begun = made.assemble(start.state)
    np.testing.assert_allclose(begun.fields[0].mean, earlier.q.fields[0].mean, atol=1e-10)
    np.testing.assert_allclose(begun.logits, earlier.q.logits, atol=1e-10)
    again = settled(made, start=start)
    assert again.n_iter <= 4 and again.bound.total == pytest.approx(earlier.bound.total, abs=1e-6)


@pytest.mark.parametrize("states", [2, 3])
def test_new_sources_join_an_earlier_fit_with_their_prior_and_are_coupled_to_the_field(states):
    sites, made = problem(states, labels=states, seed=6)
    known = sites.data._replace(
        **{name: getattr(sites.data, name)[sites.data.source < 4] for name in ("site", "source", "label")}
    )
    before = Sites(known._replace(n_sources=4), sites.prior._replace(alpha0=made.alpha0[:4]), sites.engine)
    fewer = method.Method(sites.engine, made.alpha0[:4], made.scale_prior, partial(sums.sweep, before))
    earlier = settled(fewer)
    extended = JointSolver(before, fewer).with_new_sources(earlier, made.alpha0[4:])
    q = made.assemble(made.warm_start(extended))
    np.testing.assert_allclose(q.logits[:4], earlier.q.logits, atol=1e-10)
    np.testing.assert_allclose(q.logits[4], rows.of_dirichlet(made.alpha0[4:])[0][0], atol=1e-10)
    assert q.position.tolist() == [0, 1, 2, 3, 4]
    warm, cold = settled(made, start=made.warm_start(extended), tol=1e-6), settled(made, tol=1e-6)
    assert warm.bound.total == pytest.approx(cold.bound.total, abs=1e-3)


def test_a_warm_start_from_another_length_scale_is_close_to_the_solution():
    """Other features, so that no weight means the same: places and sources carry what was learned."""
    sites, made = problem(seed=3)
    engine = FeatureEngine(InducingBasis(WithLevel(Matern32(3.3), 1.0), sites.data.X), sites.data.X)
    there = Sites(sites.data, sites.prior, engine)
    other = method.Method(engine, made.alpha0, made.scale_prior, partial(sums.sweep, there))
    cold = settled(other, tol=1e-6)
    start = other.warm_start(settled(made, tol=1e-6))
    assert isinstance(start, state.State)
    assert other.is_whole(start) and abs(other.evaluate(start).bound.total - cold.bound.total) < 0.5
    warm = settled(other, start=start, tol=1e-6)
    assert warm.n_iter < cold.n_iter and warm.bound.total == pytest.approx(cold.bound.total, abs=1e-3)


def test_a_warm_start_keeps_sources_of_few_reports_if_these_are_the_same_reports():
    """Little is known about such sources, but another length-scale has nothing to add to it."""
    sites, made = problem(reports=400, sources=80, seed=4)
    engine = FeatureEngine(InducingBasis(WithLevel(Matern32(3.3), 1.0), sites.data.X), sites.data.X)
    there = Sites(sites.data, sites.prior, engine)
    other = method.Method(engine, made.alpha0, made.scale_prior, partial(sums.sweep, there))
    learned = settled(made)
    assert starting.unknown(learned.q).mean() > 0.5
    assert not starting.elsewhere(other, learned.q)[1]


def test_a_warm_start_learns_unknown_sources_from_their_expected_counts():
    sites, made = problem(reports=400, sources=20, seed=4)
    few = sites.data._replace(
        **{name: getattr(sites.data, name)[sites.data.source < 4] for name in ("site", "source", "label")}
    )
    engine = FeatureEngine(InducingBasis(WithLevel(Matern32(3.3), 1.0), sites.data.X), sites.data.X)
    part = Sites(few, sites.prior, engine)
    earlier = settled(method.Method(engine, made.alpha0, made.scale_prior, partial(sums.sweep, part)))
    found, anew = starting.elsewhere(made, earlier.q)
    assert anew
    at = sums.sweep(sites, state.table_elsewhere(earlier.q))
    expected = rows.of_dirichlet(made.alpha0 + at.counts)[0]
    np.testing.assert_allclose(found.rows.logits, expected)
