"""What is not known of the variances widens the answers of the fast inference, up to those of the exact posterior."""

import numpy as np
from tests.inference.instrument.test_instrument import crowd, problem

from crowdfield.inference.instrument import iterate, model, sampling, unsure_variances


def widths(joint):
    return np.sqrt(np.einsum("sdd->sd", joint.sources))


def test_uncertain_variances_widen_intervals_of_few_sources_more_than_of_many():
    ratio = {}
    for sources, reports in ((4, 120), (30, 6000)):
        X, site, source, label, *_ = crowd(41, n_places=80, n_sources=sources, reports=reports)
        fitted = model.fit(problem(X, site, source, label, sources), None, iterate.Policy())
        ratio[sources] = (widths(fitted.joint) / widths(fitted.held)).mean()
        assert fitted.joint.variances.nugget > fitted.held.variances.nugget
        assert (np.linalg.eigvalsh(fitted.joint.q.covariance) > 0.0).all()
    assert ratio[4] > 1.1 and 1.0 < ratio[30] < 1.1


def test_the_slope_of_the_evidence_vanishes_where_the_variances_were_learned():
    X, site, source, label, *_ = crowd(42, n_places=50, n_sources=6, reports=300)
    asked = problem(X, site, source, label, 6)
    policy = iterate.Policy(variance_tol=1e-5, variance_sweeps=500, unsure_variances=False)
    fitted = model.fit(asked, None, policy)
    slope = unsure_variances._slope(asked.observed, fitted.design, asked.prior, fitted.settled.at)
    np.testing.assert_allclose(slope, 0.0, atol=0.02)


def test_fast_inference_has_the_width_of_the_exact_posterior():
    X, site, source, label, *_ = crowd(43, n_places=40, n_sources=8, reports=240)
    elsewhere = np.random.default_rng(43).uniform(0, 10, (20, 2))
    asked = problem(X, site, source, label, 8)
    exact = sampling.run(asked, warm_up=150, sweeps=350)
    fitted = model.fit(asked, None, iterate.Policy())
    ratio = widths(fitted.joint) / exact.draws.theta.std(0)
    assert 0.8 < ratio[:, 0].mean() < 1.2 and 0.8 < ratio[:, 1].mean() < 1.2
    apart = np.abs(fitted.state.theta - exact.draws.theta.mean(0)) / exact.draws.theta.std(0)
    assert apart.mean() < 0.4
    fast, slow = fitted.rate(elsewhere), exact.rate(elsewhere)
    assert np.abs(fast[0] - slow[0]).mean() < 0.03
    assert 0.9 < (fast[1] / slow[1]).mean() < 1.1
