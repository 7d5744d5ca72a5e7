"""Split-R̂ and effective sample size, on chains whose answers are known."""

import numpy as np
import pytest

from crowdfield.inference.diagnostics import effective_sample_size, split_rhat


def autoregressive(phi, chains=4, n=4000, seed=0):
    rng = np.random.default_rng(seed)
    x = np.empty((chains, n))
    x[:, 0] = rng.standard_normal(chains)
    for i in range(1, n):
        x[:, i] = phi * x[:, i - 1] + np.sqrt(1.0 - phi**2) * rng.standard_normal(chains)
    return x


@pytest.mark.parametrize("phi", [-0.3, 0.0, 0.5, 0.9])
def test_the_effective_size_of_an_ar1_chain_is_n_times_one_minus_phi_over_one_plus_phi(phi):
    trace = autoregressive(phi)
    expected = trace.size * (1.0 - phi) / (1.0 + phi)
    assert effective_sample_size(trace) == pytest.approx(expected, rel=0.2)
    assert split_rhat(trace) < 1.02


def test_chains_in_different_places_are_noticed():
    trace = autoregressive(0.5)
    trace[0] += 3.0
    assert split_rhat(trace) > 1.3
    assert effective_sample_size(trace) < 40


def test_a_drift_that_all_chains_share_is_noticed():
    trace = autoregressive(0.0, n=400) + np.linspace(0.0, 4.0, 400)
    assert split_rhat(trace) > 1.3


def test_the_variance_of_the_mean_is_what_the_effective_size_says():
    traces = [autoregressive(0.8, chains=2, n=500, seed=s) for s in range(200)]
    spread = np.var([t.mean() for t in traces])
    sizes = np.mean([effective_sample_size(t) for t in traces])
    assert 1.0 / sizes == pytest.approx(spread, rel=0.25)


def test_constant_traces_and_stuck_chains_are_distinguished():
    assert split_rhat(np.full((4, 100), 2.0)) == 1.0
    assert effective_sample_size(np.full((4, 100), 2.0)) == 400
    assert split_rhat(np.repeat([[0.0], [1.0]], 100, axis=1)) == np.inf
