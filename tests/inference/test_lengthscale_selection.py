"""Learning a length-scale from the evidence of one fit's sites, against fits at other length-scales."""

import numpy as np
import pytest

import crowdfield as cf
from crowdfield.data import Reports
from crowdfield.inference import lengthscale_selection, selection, solvers
from crowdfield.inference.fields.exact import ExactBasis
from crowdfield.inference.fields.features import FeatureEngine
from crowdfield.inference.fields.other_kernels import WeightsLikelihood
from crowdfield.inference.fields.spectral import SpectralBasis
from crowdfield.inference.kernels import WithLevel, kernel
from crowdfield.inference.scale import Gamma
from crowdfield.models import problem


def _posed(sites, sources, seed, lengthscale=2.0):
    """A field of known length-scale 2, read by sources of which some guess; what is expected of these is given."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 10, (sites, 2))
    root = np.linalg.cholesky(kernel("matern32", 2.0).covariance(X, X) + 1e-9 * np.eye(sites))
    truth = rng.random(sites) < 1.0 / (1.0 + np.exp(-2.5 * root @ rng.normal(size=sites)))
    source = rng.integers(0, sources, sites)
    said = np.where(rng.random(sites) < rng.uniform(0.5, 0.95, sources)[source], truth, ~truth)
    model = cf.HeatmapBCC(lengthscale=lengthscale, confusion_prior=[[2, 1], [1, 2]])
    reports = Reports.from_arrays(X, said.astype(int), source)
    gold = problem.gold(None, (0, 1), 2)
    return problem.pose(model, reports, (0, 1), gold)


def _brute_force(basis, other, X, lam, eta, prior, near):
    """log ∫ p(ς) N(g | 0, K/ς) exp(ηᵀg − ½ gᵀΛg) on a fine grid of log ς."""
    K = other.covariance(X, X)
    log_scales = np.log(near) + np.linspace(-6.0, 6.0, 2001)
    values = []
    for log_scale in log_scales:
        C = K * np.exp(-log_scale)
        B = np.eye(len(X)) + C * lam
        values.append(
            -0.5 * np.linalg.slogdet(B)[1]
            + 0.5 * eta @ np.linalg.solve(B, C @ eta)
            + prior.shape * log_scale
            - prior.rate * np.exp(log_scale)
        )
    top = max(values)
    return top + np.log(np.exp(np.array(values) - top).sum() * (log_scales[1] - log_scales[0]))


@pytest.mark.parametrize("basis", [ExactBasis, lambda k, X: SpectralBasis(k, X, 2e-4)], ids=["exact", "spectral"])
def test_the_evidence_under_another_length_scale_is_the_integral_over_field_and_scale(basis):
    rng = np.random.default_rng(0)
    X, lam, eta = rng.uniform(0, 10, (40, 2)), rng.uniform(0.05, 0.5, 40), rng.normal(size=40)
    prior, near = Gamma(40.0, 40.0), 1.0
    own = WithLevel(kernel("matern52", 2.0), 0.5)
    b = basis(own, X)
    engine = FeatureEngine(b, X)
    sites = engine.diagonal(engine.summarise(engine.blocks[0], eta, lam))
    likelihood = WeightsLikelihood(b, [sites], prior, near)
    lengths = (1.6, 2.0, 3.0)
    ours = [likelihood.log_evidence(own.with_lengthscale(length)) for length in lengths]
    exact = [_brute_force(b, own.with_lengthscale(length), X, lam, eta, prior, near) for length in lengths]
    assert np.diff(ours) == pytest.approx(np.diff(exact), abs=0.01)  # the grid of ς and what Fourier features leave out


@pytest.mark.parametrize("length", [1.5, 6.0])  # below the top of the objective, and above it
def test_at_its_own_length_scale_the_evidence_of_a_fit_slopes_as_the_objective_of_fits_does(length):
    posed, step = _posed(sites=350, sources=8, seed=4), 0.02

    def fitted(log_length):
        at = posed.with_lengthscales(np.full(2, np.exp(log_length)))
        return at, selection.solve(at, None, max_iter=500, tol=1e-7)

    ends = np.log(length) + np.array([-step, step])
    by_fits = np.diff([fitted(end)[1].fit.bound.total for end in ends])[0] / (2 * step)
    at, solved = fitted(np.log(length))
    likelihood = solved.solver.weights_likelihood(solved.fit)
    evidences = [likelihood.log_evidence(at.field_kernel.with_lengthscale(float(np.exp(end)))) for end in ends]
    by_evidence = np.diff(evidences)[0] / (2 * step)
    # Not equal: precisions of sites that would be negative are raised to zero, so that q is not quite at the top.
    assert abs(by_fits) > 1.4 and by_evidence == pytest.approx(by_fits, abs=1.0)


@pytest.mark.parametrize("seed", [0, 1])
def test_alternating_fits_and_evidences_finds_the_length_scale_of_a_search_over_fits(seed):
    posed = _posed(sites=600, sources=20, seed=seed, lengthscale="learn")
    found = lengthscale_selection.learn(posed, None)
    groups = lengthscale_selection._groups(posed, posed.data.X)
    slow = lengthscale_selection._by_fits(posed, groups, None)
    quick, long = (np.log(each.posed.kernel.lengthscales(2)[0]) for each in (found, slow))
    assert abs(quick - long) < 0.25 * slow.log_sd[0]  # far less than reports can tell
    assert found.log_sd[0] == pytest.approx(slow.log_sd[0], rel=0.4)  # ten points of a curve, against nine


def test_a_search_on_fewer_features_finds_the_same_length_scale():
    posed = _posed(sites=1_500, sources=20, seed=2, lengthscale="learn")
    short = posed.with_lengthscales(np.full(2, 0.8))
    assert short.search_engine().size < 0.7 * short.engine().size
    few, all_of_them = (lengthscale_selection.learn(short, None, how) for how in (solvers.for_search, solvers.here))
    quick, slow = (np.log(each.posed.kernel.lengthscales(2)[0]) for each in (few, all_of_them))
    assert abs(quick - slow) < 0.5 * all_of_them.log_sd[0]


def test_separate_columns_get_separate_length_scales():
    rng = np.random.default_rng(5)
    X = rng.uniform(0, 10, (900, 2))
    truth = np.sin(X[:, 0] * 2.5) > 0  # changes along the first column only
    source = rng.integers(0, 5, 900)
    said = np.where(rng.random(900) < 0.9, truth, ~truth)
    model = cf.HeatmapBCC(lengthscale=["learn", "learn"], reports_model="one_state").fit(X, said, sources=source)
    across, along = model.lengthscale_
    assert along > 3.0 * across and np.isfinite(model.lengthscale_log_sd_).all()


def test_a_column_in_which_all_reports_agree_keeps_its_length_scale():
    rng = np.random.default_rng(6)
    X = np.column_stack([rng.uniform(0, 10, 200), np.full(200, 4.0)])
    said = (X[:, 0] > 5) ^ (rng.random(200) < 0.1)
    model = cf.HeatmapBCC(lengthscale=["learn", "learn"], reports_model="one_state").fit(X, said)
    assert model.lengthscale_[1] == 1.0 and np.isinf(model.lengthscale_log_sd_[1])
