"""The sampler of the instrument model against what is known without it: quadrature, the prior, its own simulator."""

from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.special import digamma
from scipy.stats import chi2
from tests import simulated_instrument as simulated

import crowdfield as cf
from crowdfield.errors import ConvergenceWarning, InputError
from crowdfield.inference.diagnostics import effective_sample_size
from crowdfield.inference.fields.exact import ExactBasis
from crowdfield.inference.instrument import fitting, gibbs, linear, sampling, sources_sampling
from crowdfield.inference.instrument.fitting import Prior
from crowdfield.inference.instrument.grid import APPEARANCES
from crowdfield.inference.kernels import kernel

MATERN = kernel("matern32", 3.0)
FIRM = Prior(6.0, 6.0, 6.0, 6.0)


@pytest.fixture
def proper_crowd(monkeypatch):
    """Priors under which moments exist and appearances stay on the grid."""
    monkeypatch.setattr(fitting, "PSEUDO_SOURCES", 12.0)
    monkeypatch.setattr(sources_sampling, "MEAN_SD", 1.0)
    monkeypatch.setattr(linear, "INTERCEPT_SD", 1.0)


def design_of(X):
    return linear.Design(ExactBasis(MATERN, X), linear.Columns(), X)


def sampler_of(problem):
    return gibbs.Sampler(problem.observed, problem.reported, design_of(problem.X), problem.prior)


@pytest.mark.parametrize("labels", [2, 3])
def test_geweke_the_sampler_and_the_model_draw_from_one_joint_distribution(labels, proper_crowd):
    """Alternate a sweep with new reports and checks drawn given appearances, sources and link: everything keeps its
    prior distribution (Geweke 2004, "Getting it right").
    """
    rng = np.random.default_rng(2)
    N, S, R = 4, 2, 10
    X = rng.random((N, 2)) * 5.0
    site, source = rng.integers(0, N, R), rng.integers(0, S, R)

    def observed(label, checks):
        problem = simulated.problem(MATERN, X, site, source, label, S, labels, FIRM, checks)
        return problem.observed, problem.reported

    checks = simulated.checks_of(np.array([0, 2]), np.array([np.inf, 1.5]))
    sites, reported = observed(rng.integers(0, labels, R), checks)
    sampler = gibbs.Sampler(sites, reported, design_of(X), FIRM)
    state, step = sampler.init(1, rng), np.full((sampler.n_steps, 1), 0.8)
    drawn = []
    for _ in range(1500):
        state, info = sampler.step(state, rng, step)
        g, crowd = APPEARANCES[info.appearance[0]], state.crowd
        label = simulated.say(rng, crowd.theta[0], g, site, source)
        true = simulated.be(rng, crowd.link[0], g)
        trusted = true[2] ^ (rng.random() > 1.0 / (1.0 + np.exp(-1.5)))  # right as often as its log ratio says
        checks = simulated.checks_of(
            np.array([0, 2]), np.array([np.inf if true[0] else -np.inf, 1.5 if trusted else -1.5])
        )
        sampler.observed, sampler.reported = observed(label, checks)
        sampler.key = source * labels + label
        drawn.append(functionals(state.smooth[0], state.nugget[0], state.field[0], g, *[part[0] for part in crowd]))
    seen = np.array(drawn)
    direct = []
    for _ in range(4000):
        t = simulated.draw(rng, MATERN, X, S, labels, FIRM)
        direct.append(functionals(t.smooth, t.nugget, t.f, t.g, t.theta, t.link, t.mean, t.variance))
    expected = np.array(direct)
    worth = np.array([effective_sample_size(column[None]) for column in seen.T])
    error = np.sqrt(expected.var(0) / len(expected) + seen.var(0) / worth)
    z = (seen.mean(0) - expected.mean(0)) / np.maximum(error, 1e-12)
    assert np.abs(z).max() < 3.7, z


def functionals(smooth, nugget, f, g, theta, truth_link, mean, variance):
    last = mean[-1] + 1e-9 if len(mean) > 2 else 0.0
    firsts = [np.log(smooth), np.log(nugget), f[0], g[0], *theta[0], *truth_link, *np.log(variance), last]
    # Magnitudes rather than squares: their tails are lighter, so that fewer sweeps tell.
    products = [abs(f[0]), abs(f[0] + f[1]), abs(f[0] - f[1]), abs(g[0]), abs(theta[0, 0] + truth_link[0]), abs(last)]
    return firsts + products


def test_simulation_based_calibration(proper_crowd):
    """Draw the truth from the prior, reports from the truth: the truth's rank among posterior draws is uniform."""
    ranks = np.array([ranks_of_one_world(np.random.default_rng([3, seed])) for seed in range(48)])
    for column in ranks.T:
        counts = np.bincount(column // 5, minlength=4)
        assert chi2.sf(((counts - 12.0) ** 2 / 12.0).sum(), 3) > 0.003, ranks


def ranks_of_one_world(rng, places=8, sources=3, reports=30, labels=2, chains=19, sweeps=25):
    """19 chains, one draw each: independent draws, 20 possible ranks of each quantity."""
    X = rng.random((places, 2)) * 6.0
    truth = simulated.draw(rng, MATERN, X, sources, labels, FIRM)
    site, source = rng.integers(0, places, reports), rng.integers(0, sources, reports)
    label = simulated.say(rng, truth.theta, truth.g, site, source)
    true = simulated.be(rng, truth.link, truth.g)
    checks = simulated.checks_of(np.arange(3), np.where(true[:3], np.inf, -np.inf))
    sampler = sampler_of(simulated.problem(MATERN, X, site, source, label, sources, labels, FIRM, checks))
    state, step = sampler.init(chains, rng), np.full((sampler.n_steps, chains), 0.8)
    for _ in range(sweeps):
        state, _ = sampler.step(state, rng, step)
    crowd = state.crowd
    drawn = [state.smooth, state.nugget, state.field[:, 0], state.field.mean(1)]
    drawn += [crowd.theta[:, 0, 0], crowd.theta[:, 0, 1], crowd.variance[:, 0], crowd.variance[:, 1], *crowd.link.T]
    same = [
        truth.smooth,
        truth.nugget,
        truth.f[0],
        truth.f.mean(),
        *truth.theta[0, :2],
        *truth.variance[:2],
        *truth.link,
    ]
    return (np.stack(drawn, axis=1) < same).sum(0)


def test_appearances_agree_with_quadrature():
    """Two places, sources and variances held firm by their priors: E[g] by the sum over a grid of f at both."""
    X = np.array([[0.0, 0.0], [1.5, 0.5]])
    site, source, label = np.array([0, 0, 0, 1]), np.array([0, 0, 0, 0]), np.array([1, 1, 2, 0])
    checks = simulated.checks_of(np.array([1]), np.array([2.0]))
    firm = Prior(4000.0, 6000.0, 4000.0, 3000.0)
    problem = simulated.problem(MATERN, X, site, source, label, 1, 3, firm, checks)
    sampler, rng = sampler_of(problem), np.random.default_rng(5)
    state, step = sampler.init(8, rng), np.full((sampler.n_steps, 8), 0.1)
    held = sources_sampling.Crowd(
        np.tile([1.3, 0.4, -0.2], (8, 1, 1)), np.tile([0.8, 0.3], (8, 1)), state.crowd.mean, state.crowd.variance
    )
    seen = []
    for sweep in range(500):
        state = state._replace(crowd=held)
        likelihood = sampler.likelihood(held)
        state, joint, _ = sampler._collapsed_variances(state, likelihood, rng, step[1:3])
        index = gibbs.drawn(joint, rng)
        truth = sampler._truth(joint, held.link)
        state, _ = sampler._field(state, APPEARANCES[index], rng, step[3])
        if sweep >= 50:
            g = APPEARANCES[index]
            seen.append([g.mean(0), (g**2).mean(0), truth.mean(0)])
    covariance = 1.5 * MATERN.covariance(X, X) + linear.INTERCEPT_SD**2 + 0.75 * np.eye(2)
    table = sampler.likelihood(held)[0]
    grid = np.array(list(product(APPEARANCES, repeat=2)))
    density = np.exp(-0.5 * np.einsum("qi,ij,qj->q", grid, np.linalg.inv(covariance), grid))
    density *= np.outer(table[0], table[1]).ravel()
    density /= density.sum()
    odds = 0.8 * grid + 0.3 + np.array([0.0, 2.0])
    expected = [density @ grid, density @ grid**2, density @ (1.0 / (1.0 + np.exp(-odds)))]
    z = (np.mean(seen, axis=0) - expected) / monte_carlo_error(np.array(seen))
    assert np.abs(z).max() < 3.5, z
    assert (monte_carlo_error(np.array(seen))[[0, 2]] < [[0.06], [0.005]]).all()  # small enough to tell


def monte_carlo_error(draws):
    """The standard error of the mean of draws that depend on each other.   [D, ...] -> [...]"""
    columns = draws.reshape(len(draws), -1).T
    worth = np.array([effective_sample_size(column[None]) for column in columns])
    return (columns.std(axis=1) / np.sqrt(worth)).reshape(draws.shape[1:])


def test_sources_agree_with_quadrature():
    """One source whose appearances are known: mean and deviation of (α, b) by a sum over a fine grid."""
    rng = np.random.default_rng(6)
    counts = np.zeros((1, 2, len(APPEARANCES)))
    counts[0, 1, 35:40], counts[0, 0, 20:25], counts[0, 0, 40] = 2.0, 1.0, 3.0
    mean, variance = np.array([[1.0, 0.0]]), np.array([[0.25, 1.0]])
    draws = []
    flat = np.repeat(counts, 400, axis=0)
    theta = np.repeat(mean, 400, axis=0)
    for _ in range(20):
        theta = sources_sampling._drawn(
            theta, simulated.SCORES[:2], flat, np.repeat(mean, 400, 0), np.repeat(variance, 400, 0), rng
        )
        draws.append(theta)
    seen = np.concatenate(draws[5:])
    alpha, b = np.meshgrid(np.linspace(-2, 4, 241), np.linspace(-5, 5, 241), indexing="ij")
    logits = alpha[..., None] * APPEARANCES + b[..., None]
    log = (counts[0, 1] * -np.logaddexp(0, -logits) + counts[0, 0] * -np.logaddexp(0, logits)).sum(-1)
    density = np.exp(log - log.max() - 0.5 * ((alpha - 1.0) ** 2 / 0.25 + b**2))
    density /= density.sum()
    for drawn, value in ((seen[:, 0], alpha), (seen[:, 1], b)):
        first, second = (density * value).sum(), (density * value**2).sum()
        assert drawn.mean() == pytest.approx(first, abs=0.03)
        assert drawn.std() == pytest.approx(np.sqrt(second - first**2), rel=0.04)


def test_without_reports_it_is_the_prior():
    X = np.random.default_rng(0).random((6, 2)) * 6.0
    nobody = np.zeros(0, np.int64)
    problem = simulated.problem(MATERN, X, nobody, nobody, nobody, 2, 2, Prior(8.0, 8.0, 8.0, 8.0))
    sampled = sampling.run(problem, warm_up=50, sweeps=300)
    draws = sampled.draws
    # Tolerances are two standard errors of the few hundred draws, of which those of the variances follow each other.
    assert np.log(draws.smooth).mean() == pytest.approx(np.log(8.0) - digamma(8.0), abs=0.08)
    assert draws.theta[:, :, 0].mean() == pytest.approx(1.0, abs=0.06)
    assert draws.link.std(0)[1] == pytest.approx(1.0, rel=0.1)
    far = np.array([[500.0, 500.0]])  # all of the field there is left out of the basis
    rate, sd = sampled.rate(far)
    assert rate[0, 1] == pytest.approx(0.5, abs=0.03) and sd[0, 1] == pytest.approx(sampled.prior_rate_sd(), abs=1e-6)
    joint = sampled.sample_rate(X, 50, np.random.default_rng(1))
    assert joint.shape == (50, 6) and ((joint > 0.0) & (joint < 1.0)).all()


def small_crowd(seed=7, places=25, sources=5, reports=150, labels=2):
    rng = np.random.default_rng(seed)
    X = rng.random((places, 2)) * 8.0
    truth = simulated.draw(rng, MATERN, X, sources, labels, Prior(30.0, 60.0, 30.0, 30.0))
    site, source = rng.integers(0, places, reports), rng.integers(0, sources, reports)
    label = simulated.say(rng, truth.theta, truth.g, site, source)
    return X, site, source, label, truth


def test_a_sampled_instrument_model_offers_the_same_queries(monkeypatch):
    monkeypatch.setattr(
        sampling.run, "__kwdefaults__", {**(sampling.run.__kwdefaults__ or {}), "warm_up": 60, "sweeps": 150}
    )
    X, site, source, label, truth = small_crowd(labels=3)
    names = np.array(["no", "yes", "maybe"])
    settings: dict[str, Any] = dict(
        lengthscale=3.0,
        reports_model="instrument",
        states=["no", "yes"],
        labels=["no", "maybe", "yes"],
        scale_rate=1.0,  # a firm prior: so few sweeps would not mix under a wide one
    )
    gold = (X[:4], names[simulated.be(np.random.default_rng(1), truth.link, truth.g[:4]).astype(int)])
    covariates = {"east": lambda places: places[:, 0]}
    arguments = dict(sources=source, gold=gold)
    sampled = cf.HeatmapBCC(inference="gibbs", covariates=covariates, **settings)
    sampled.fit(X[site], names[label], **arguments)
    fast = cf.HeatmapBCC(covariates=covariates, **settings).fit(X[site], names[label], **arguments)
    assert sampled.reports_model_ == "instrument" and sampled.inference_ == "gibbs"
    # What the fast inference may differ by, and the noise of 600 draws.
    assert np.abs(sampled.predict_proba(X) - fast.predict_proba(X)).mean() < 0.05
    np.testing.assert_array_equal(sampled.predict(X[:4]), gold[1])
    assert np.abs(sampled.predict_rate(X)[1] - fast.predict_rate(X)[1]).mean() < 0.05
    variance = sampled.predict_latent(X)[1]
    np.testing.assert_allclose(sampled._predictor.covariance(X)[0].diagonal(), variance[:, 0], rtol=1e-6)
    table = sampled.source_table().sort_values("source")
    assert ((table.sensitivity_low < table.sensitivity) & (table.sensitivity < table.sensitivity_high)).all()
    assert list(table.columns) == list(fast.source_table().columns)
    assert list(sampled.covariate_table().columns) == list(fast.covariate_table().columns)
    assert abs(sampled.score_reports().attrs["bits"] - fast.score_reports().attrs["bits"]) < 0.06
    assert sampled.at_reported_places().sd.max() <= 0.5 and len(sampled.suggest(X, 2)[0]) == 2
    posterior = sampled.to_arviz().posterior
    assert posterior.sizes["chain"] == sampling.CHAINS and posterior["sensitivity"].shape[2] == 5
    with pytest.raises(InputError, match="inference='auto'"):
        sampled.explain(X[0])


@pytest.mark.parametrize("ordered", [True, False])
def test_more_than_two_states_are_refused(ordered):
    X, site, source, label, _ = small_crowd(labels=3)
    model = cf.HeatmapBCC(inference="gibbs", reports_model="instrument", ordered=ordered, lengthscale=3.0)
    with pytest.raises(InputError, match="samples the instrument model of two states, and there are 3"):
        model.fit(X[site], label, sources=source)


def test_equal_seeds_give_equal_draws():
    X, site, source, label, _ = small_crowd()
    problem = simulated.problem(MATERN, X, site, source, label, 5, 2, FIRM)
    with pytest.warns(ConvergenceWarning, match="have not mixed"):
        first, second = (sampling.run(problem, warm_up=10, sweeps=20).site_truth for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_features_by_transforms_give_the_same_sweep_as_a_dense_matrix(monkeypatch):
    X, site, source, label, _ = small_crowd()
    problem = simulated.problem(MATERN, X, site, source, label, 5, 2, FIRM)._replace(engine="spectral")
    found = []
    for entries in (1 << 20, 0):
        monkeypatch.setattr(linear, "DENSE_SPECTRAL", entries)
        with pytest.warns(ConvergenceWarning):
            found.append(sampling.run(problem, warm_up=2, sweeps=4, chains=2).draws.smooth)
    np.testing.assert_allclose(found[0], found[1], rtol=1e-4)
