"""Minibatches against sweeps over all sites: the same answer, by shrinking steps."""

from __future__ import annotations

import numpy as np
import pytest

from crowdfield.errors import InputError
from crowdfield.inference import quadrature, settle, svi, vb
from crowdfield.inference.data import Prior, arrange, contrast
from crowdfield.inference.fields.features import FeatureEngine
from crowdfield.inference.fields.inducing import InducingBasis
from crowdfield.inference.kernels import Matern32
from crowdfield.inference.sites import Sites
from crowdfield.metrics import auc, cross_entropy

SOURCES = 20


def world(n: int = 2500):
    """Reports of good and of useless sources on a smooth field, two sources at some of the places."""
    rng = np.random.default_rng(0)
    X = rng.random((n, 2)) * 4
    waves, phase, height = rng.standard_t(4, (60, 2)), rng.random(60) * 6.3, rng.standard_normal(60) * 0.3
    truth = rng.random(n) < 1 / (1 + np.exp(-(np.cos(X @ waves.T + phase) @ height)))
    site = np.concatenate([np.arange(n), rng.choice(n, n // 5, replace=False)])
    source = rng.integers(0, SOURCES, len(site))
    correct = rng.random(len(site)) < np.where(source < SOURCES // 2, 0.9, 0.5)
    label = np.where(correct, truth[site], ~truth[site]).astype(np.int64)
    data = arrange(X, site, source, label, n_sources=SOURCES, n_labels=2, n_states=2)
    prior = Prior(np.tile([[2.0, 1.0], [1.0, 2.0]], (SOURCES, 1, 1)), 1.0, 1.0, np.zeros((n, 1)))
    return data, prior, truth


def rate(q, X):
    mean, variance = q.fields[0].at(X)
    return quadrature.rate_moments(mean[:, None], variance[:, None], contrast(2))[0][:, 1]


def test_minibatches_agree_with_the_full_batch():
    data, prior, truth = world()
    basis = InducingBasis(Matern32(1.0), data.X, 50)
    scheme = vb.SCHEMES["polya_gamma"]
    sites = Sites(data, prior, FeatureEngine(basis, data.X))
    full = settle.run(vb.Iteration.over(sites, scheme))
    fit, targets = svi.run(data, prior, basis, scheme, rng=np.random.default_rng(1), batch=100)
    assert fit.converged
    whole = vb.responsibilities(sites, scheme, full.q)
    for stochastic, batch in ((targets[:, 1], whole[:, 1]), (rate(fit.q, data.X), rate(full.q, data.X))):
        assert auc(truth, stochastic) == pytest.approx(auc(truth, batch), abs=0.01)
        assert cross_entropy(truth, stochastic) == pytest.approx(cross_entropy(truth, batch), abs=0.02)
    # The bound of what minibatches found is a bound too, and not far below the best.
    assert full.bound.total - 0.005 * abs(full.bound.total) < fit.bound.total <= full.bound.total + 1e-6
    np.testing.assert_allclose(np.log(fit.q.scale.mean), np.log(full.q.scale.mean), atol=0.35)


def test_one_batch_with_full_steps_is_the_plain_update():
    """The natural gradient of the whole, at length one, is coordinate ascent."""
    data, prior, _ = world(300)
    basis, scheme = InducingBasis(Matern32(1.0), data.X, 20), vb.SCHEMES["polya_gamma"]
    iteration = vb.Iteration.over(Sites(data, prior, FeatureEngine(basis, data.X)), scheme)
    plain = iteration.evaluate(iteration.start()).image
    one = svi.Schedule(delay=1.0, forgetting=1.0)
    assert one.step(0) == 1.0
    fit, _ = svi.run(data, prior, basis, scheme, rng=np.random.default_rng(0), batch=300, schedule=one, max_epochs=1)
    np.testing.assert_allclose(fit.state.pack(), plain.pack(), atol=1e-9)


def test_shuffling_changes_nothing_but_the_order():
    data, prior, _ = world(400)
    shuffled, _, order = svi.shuffle(data, prior, np.random.default_rng(2))
    np.testing.assert_array_equal(shuffled.X, data.X[order])
    assert np.all(np.diff(shuffled.site) >= 0)

    def reports(d):
        return sorted(zip(map(tuple, d.X[d.site]), d.source, d.label, strict=True))

    assert reports(shuffled) == reports(data)


def test_targets_come_back_in_the_order_of_the_data():
    data, prior, _ = world(400)
    known = np.full(400, -1, np.int32)
    known[:50] = 1
    basis = InducingBasis(Matern32(1.0), data.X, 10)
    _, targets = svi.run(
        data._replace(known=known), prior, basis, vb.SCHEMES["polya_gamma"], rng=np.random.default_rng(3), max_epochs=1
    )
    np.testing.assert_allclose(targets[:50, 1], 1.0)
    assert np.all(targets[50:, 1] < 1.0)


def test_steps_satisfy_robbins_and_monro():
    data, prior = world(50)[:2]
    with pytest.raises(InputError, match="forgetting"):
        svi.run(
            data,
            prior,
            InducingBasis(Matern32(1.0), np.zeros((1, 2))),
            vb.SCHEMES["polya_gamma"],
            rng=np.random.default_rng(0),
            schedule=svi.Schedule(1.0, 0.5),
        )
