"""Newton steps of sources and field: the same fixed points, reached in fewer sweeps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from crowdfield.inference import confusion, linearise, vb
from crowdfield.inference.data import Block, Data, Prior, contrast
from crowdfield.inference.fields.base import Statistics
from crowdfield.inference.fields.features import FeatureEngine
from crowdfield.inference.fields.inducing import InducingBasis
from crowdfield.inference.kernels import Matern32
from crowdfield.inference.quadrature import softmax
from crowdfield.inference.sites import Sites

SOURCES = 6


def crowd(states: int, labels: int, n: int = 900):
    """One report a place; q(f) fixed, so that only the sources' counts move."""
    rng = np.random.default_rng(states * 10 + labels)
    logits = 1.5 * rng.standard_normal((n, states))
    truth = (softmax(logits).cumsum(1) < rng.random((n, 1))).sum(1)
    source = rng.integers(0, SOURCES, n)
    label = np.where(rng.random(n) < 0.3 + 0.1 * source, truth % labels, rng.integers(0, labels, n))
    block = Block(
        sites=slice(0, n),
        mean=np.zeros((n, 1)),
        site=np.arange(n, dtype=np.int32),
        key=source * labels + label,
        known=np.full(n, -1, np.int32),
        repeats=None,
    )
    alpha0 = np.ones((SOURCES, states, labels)) + np.eye(states, labels)
    return block, logits, alpha0


def update(block: Block, logits, alpha0, counts):
    table = confusion.by_report(confusion.expected_log_pi(alpha0 + counts))
    r = softmax(logits + confusion.sum_by_site(block, table[block.key]))
    labels = alpha0.shape[2]
    return confusion.counts(block, r, SOURCES, labels), confusion.missing(block, r, SOURCES, labels)


@pytest.mark.parametrize(("states", "labels"), [(2, 2), (2, 4), (3, 3), (3, 2)])
def test_a_newton_step_of_the_sources_leads_to_where_plain_updates_converge(states, labels):
    block, logits, alpha0 = crowd(states, labels)
    counts = np.zeros_like(alpha0)
    for _ in range(3000):
        counts, missing = update(block, logits, alpha0, counts)
    settled, _ = update(block, logits, alpha0, counts)
    np.testing.assert_allclose(settled, counts, atol=1e-8)
    # Half a step before: the plain update goes a part of the way, Newton nearly all of it.
    rng = np.random.default_rng(1)
    moved = counts * (1.0 + 0.02 * rng.standard_normal(counts.shape))
    moved *= counts.sum(1, keepdims=True) / moved.sum(1, keepdims=True)  # every report counts once
    image, missing = update(block, logits, alpha0, moved)
    answer = confusion.response(moved, image, alpha0, missing)
    ahead = answer.replace_impossible(moved + answer.step, image)
    assert np.abs(ahead - counts).max() < 0.1 * np.abs(image - counts).max()
    np.testing.assert_allclose(ahead.sum(1), image.sum(1), rtol=1e-9)


def test_a_source_whose_newton_step_has_impossible_counts_keeps_the_plain_update():
    counts, image = np.full((1, 2, 2), 5.0), np.full((1, 2, 2), 5.0)
    image[0, 0] += [4.9, -4.9]
    missing = 4.0 * np.broadcast_to(np.array([[1.0, -1.0], [-1.0, 1.0]]), (1, 2, 2, 2))
    answer = confusion.response(counts, image, np.full((1, 2, 2), 0.5), missing)
    np.testing.assert_array_equal(answer.replace_impossible(counts + answer.step, image), image)


def test_extrapolating_the_field_leads_to_where_plain_updates_converge():
    """Where sites respond to the mean by (1 − c)Λm, updates converge to (ςI + cΛ)⁻¹b: one step of `extrapolate`."""
    rng = np.random.default_rng(0)
    X = rng.random((60, 2)) * 6.0
    engine = FeatureEngine(InducingBasis(Matern32(2.0), X), X)
    share, precision, lam, said = 0.3, 0.7, rng.uniform(0.1, 0.3, 60), rng.standard_normal(60)
    nothing = engine.summarise(engine.blocks[0], np.zeros(60), lam)
    start = engine.posterior(Statistics(rng.standard_normal(engine.size), nothing.quadratic), precision)
    at_sites = engine.at_sites(start, engine.blocks[0])[0]
    image = engine.summarise(engine.blocks[0], said + (1.0 - share) * lam * at_sites, lam)
    ahead = engine.posterior(engine.extrapolate(image, precision, start, share), precision)
    end = engine.posterior(engine.summarise(engine.blocks[0], said, share * lam), precision)
    np.testing.assert_allclose(ahead.mean, end.mean, atol=1e-9)


def test_the_observed_share_is_the_derivative_of_the_slope_in_the_mean():
    """d/dm of r(m) − ½ − λ(m) m, by differences: two states, one site at a time."""
    C, step = contrast(2), 1e-5
    likelihood = np.array([[0.0, 1.2]])
    for m, v in [(-2.0, 0.5), (0.1, 2.0), (1.5, 0.01)]:

        def slope(at: float, v: float = v) -> Any:
            local = linearise.polya_gamma(np.array([[at]]), np.array([[v]]), likelihood, C)
            return local.eta[0, 0] - local.lam[0, 0] * at

        mean, variance = np.array([[m]]), np.array([[v]])
        r = linearise.polya_gamma(mean, variance, likelihood, C).r
        observed, complete = linearise.observed_share(mean, variance, r, C)
        assert observed[0] == pytest.approx(-(slope(m + step) - slope(m - step)) / (2.0 * step), rel=1e-6)
        assert 0.0 < complete[0] <= 0.25


def test_only_a_scheme_with_a_bound_takes_newton_steps():
    rng = np.random.default_rng(4)
    X = rng.random((80, 2)) * 5.0
    for scheme, has_newton_step in (("polya_gamma", True), ("ekf", False)):
        site, source = np.arange(80, dtype=np.int32), rng.integers(0, 5, 80).astype(np.int32)
        label, known = rng.integers(0, 2, 80).astype(np.int32), np.full(80, -1, np.int32)
        data = Data(X, site, source, label, n_sources=5, n_labels=2, n_states=2, known=known, repeats=None)
        prior = Prior(np.tile([[2.0, 1.0], [1.0, 2.0]], (5, 1, 1)), 1.0, 1.0, np.zeros((80, 1)))
        sites = Sites(data, prior, FeatureEngine(InducingBasis(Matern32(2.0), X), X))
        iteration = vb.Iteration.over(sites, vb.SCHEMES[scheme])
        first = iteration.evaluate(iteration.start())
        assert (first.ahead.state is not first.image) == has_newton_step
