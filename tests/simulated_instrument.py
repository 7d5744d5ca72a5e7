"""The instrument model drawn forwards, for tests of its sampler and for benchmarks of its calibration."""

from typing import NamedTuple

import numpy as np

from crowdfield.inference.instrument import (
    fitting,
    iterate,
    linear,
    link,
    model,
    responses,
    selection,
    sources_sampling,
)
from crowdfield.inference.instrument.grid import LEAST_NUGGET

SCORES = np.array([-0.5, 0.5, 0.0])


class Truth(NamedTuple):
    """Everything that the model draws before anybody reports."""

    smooth: float
    nugget: float
    level: float
    f: np.ndarray  # [N]
    g: np.ndarray  # [N]
    mean: np.ndarray  # [d] of the population
    variance: np.ndarray  # [d]
    theta: np.ndarray  # [S, d]
    link: np.ndarray  # [2]


def draw(rng, kernel, X, n_sources, labels, prior):
    """All parameters from their prior, the field at places X."""
    smooth = prior.smooth_rate / rng.gamma(prior.smooth_shape)
    nugget = max(prior.nugget_rate / rng.gamma(prior.nugget_shape), LEAST_NUGGET)
    level = linear.INTERCEPT_SD * rng.standard_normal()
    root = np.linalg.cholesky(kernel.covariance(X, X) + 1e-9 * np.eye(len(X)))
    f = level + np.sqrt(smooth) * root @ rng.standard_normal(len(X))
    g = f + np.sqrt(nugget) * rng.standard_normal(len(X))
    pseudo, expected = 0.5 * fitting.PSEUDO_SOURCES, sources_sampling.expected_variances(labels)
    variance = pseudo * expected / rng.gamma(pseudo, size=labels)
    mean = np.concatenate([[1.0, 0.0], sources_sampling.MEAN_SD * rng.standard_normal(labels - 2)])
    theta = mean + np.sqrt(variance) * rng.standard_normal((n_sources, labels))
    truth_link = np.array([1.0, 0.0]) + np.sqrt([variance[0], link.SHIFT_SD**2]) * rng.standard_normal(2)
    return Truth(smooth, nugget, level, f, g, mean, variance, theta, truth_link)


def say(rng, theta, g, site, source):
    """A label for every report: [R]."""
    labels = theta.shape[1]
    logits = theta[source, :1] * SCORES[:labels] * g[site, None]
    logits += theta[source, 1:] @ responses.lean_design(SCORES[:labels]).T
    p = np.exp(logits - logits.max(1, keepdims=True)).cumsum(1)
    return np.minimum((p < rng.random((len(site), 1)) * p[:, -1:]).sum(1), labels - 1)


def be(rng, truth_link, g):
    """The state of every place."""
    return rng.random(len(g)) < 1.0 / (1.0 + np.exp(-(truth_link[0] * g + truth_link[1])))


def checks_of(site, log_ratio):
    """Places whose second state is e^log_ratio times as likely as the first, apart from the crowd; ±∞ for gold."""
    said = np.stack([-log_ratio, log_ratio], axis=1)
    return link.Checks(site, np.minimum(said, 0.0))


def problem(kernel, X, site, source, label, n_sources, labels, prior, checks=None, seed=0):
    none = checks_of(np.zeros(0, np.int64), np.zeros(0))
    observed = fitting.Observed.of(
        site, source, label, np.ones(len(site), dtype=np.int64), len(X), n_sources, SCORES[:labels], checks or none
    )
    rows = selection.Reported(site, source, label, np.ones(len(site), dtype=np.int64))
    return model.Problem(X, rows, observed, linear.Columns(), prior, kernel, "exact", seed)


def converged(asked):
    """A converged fit, and the same continued for far longer: the bound rises, and more steps change nothing."""
    fitted = model.fit(asked, None, iterate.Policy())
    assert fitted.settled.converged
    assert np.diff(fitted.settled.history).min(initial=0.0) >= -1e-9 * abs(fitted.settled.history[-1])
    patient = iterate.Policy(tol=1e-9, max_iter=5 * fitted.settled.n_iter)
    longer = model.fit(asked, fitted.state, patient, learn_variances=False)
    np.testing.assert_allclose(longer.site_states, fitted.site_states, atol=1e-3)
    return fitted, longer
