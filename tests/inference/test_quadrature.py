"""Expectations by nodes, against very many nodes."""

import numpy as np
import pytest
from scipy.special import expit

from crowdfield.inference import linearise, quadrature
from crowdfield.inference.data import contrast
from crowdfield.inference.softmax_moments import softmax_moments


@pytest.mark.parametrize("widest", [0.0, 0.2, *(sd for sd, _ in quadrature.ENOUGH)])
def test_enough_nodes_are_enough(widest):
    x, w = np.polynomial.hermite_e.hermegauss(140)
    fine = np.stack([x, w / w.sum()])
    for mean in (-3.0, -0.7, 0.0, 0.4, 2.5):
        for sd in (widest, 0.7 * widest):
            got, expected = (
                [w @ expit(mean + sd * x), w @ expit(mean + sd * x) ** 2, w @ np.logaddexp(0.0, mean + sd * x)]
                for x, w in (quadrature.enough_nodes(widest), fine)
            )
            np.testing.assert_allclose(got, expected, atol=2e-7)


def test_wide_gaussians_get_all_nodes():
    assert len(quadrature.enough_nodes(3.0)[1]) == len(quadrature.nodes(1)[1])


def test_two_states_are_the_general_case():
    """The short way through one log odds, beside the sum over states, gold and overwhelming evidence included."""
    rng = np.random.default_rng(0)
    mean, variance = 2.0 * rng.standard_normal((60, 1)), rng.random((60, 1)) ** 2
    likelihood = -np.abs(3.0 * rng.standard_normal((60, 2)))  # of reports that were made: no probability exceeds one
    likelihood[:4] = [[0.0, -np.inf], [-np.inf, -2.0], [-900.0, -1.0], [-1.0, -900.0]]
    local = linearise.collapsed(mean, variance, likelihood, contrast(2), np.zeros((60, 1)))
    f, w = quadrature.latent_nodes(mean, variance, fine=True)
    logits = np.concatenate([np.zeros_like(f), f], -1)
    prior = quadrature.logsumexp(logits)
    joint = logits + likelihood[:, None]
    r = np.exp(joint - np.logaddexp(joint[..., 0], joint[..., 1])[..., None])
    rho = expit(f[..., 0])
    np.testing.assert_allclose(local.r, np.einsum("nqj,q->nj", r, w), atol=1e-6)
    np.testing.assert_allclose(local.missing[:, 0], (r[..., 0] * r[..., 1]) @ w, atol=1e-6)
    lam = np.maximum((rho * (1 - rho) - r[..., 0] * r[..., 1]) @ w, linearise.SMALLEST_PRECISION)
    np.testing.assert_allclose(local.lam[:, 0], lam, atol=1e-6)
    np.testing.assert_allclose(local.eta[:, 0], (r[..., 1] - rho) @ w + lam * mean[:, 0], atol=1e-5)
    evidence = (np.logaddexp(joint[..., 0], joint[..., 1]) - prior) @ w
    assert local.bound == pytest.approx(float(evidence.sum()), rel=1e-8)


def test_nodes_of_many_functions_are_the_same_in_any_order_and_exact_to_the_fifth_degree():
    for functions in (4, 6):
        mesh, weight = quadrature.nodes(functions)
        assert (weight > 0.0).all()
        np.testing.assert_allclose(weight.sum(), 1.0)
        np.testing.assert_allclose(mesh.T @ (weight[:, None] * mesh), np.eye(functions), atol=1e-12)
        np.testing.assert_allclose(weight @ mesh**4, 3.0)
        np.testing.assert_allclose(weight @ (mesh[:, 0] * mesh[:, 1]) ** 2, 1.0)
        swapped = mesh[:, [1, 0, *range(2, functions)]]
        assert {tuple(row) for row in mesh.round(9)} == {tuple(row) for row in swapped.round(9)}


def test_probabilities_of_correlated_logits_are_permuted_with_the_states():
    rng = np.random.default_rng(0)
    for J in (3, 4):
        mean, root = rng.normal(size=(5, J)), rng.normal(size=(5, J, J))
        covariance, order = root @ root.transpose(0, 2, 1), np.arange(J)[::-1]
        for fine in (False, True):
            one = softmax_moments(mean, covariance, fine)
            other = softmax_moments(mean[:, order], covariance[:, order][:, :, order], fine)
            np.testing.assert_allclose(one[0][:, order], other[0], atol=1e-9)
            np.testing.assert_allclose(one[1][:, order], other[1], atol=1e-9)
            np.testing.assert_allclose(one[0].sum(1), 1.0)


@pytest.mark.parametrize("states", [2, 3])
def test_a_site_with_all_the_missing_information_is_that_of_a_known_state(states):
    """Share 1 leaves the gradient and adds what not knowing the state takes away: a step is then one of EM."""
    rng = np.random.default_rng(7)
    functions = 1 if states == 2 else states
    mean, variance = rng.normal(size=(60, functions)), rng.uniform(0.05, 2.0, (60, functions))
    likelihood = 2.0 * rng.normal(size=(60, states))
    local = linearise.collapsed(mean, variance, likelihood, contrast(states), np.zeros((60, functions)))
    assert linearise.with_more_curvature(local, mean, 0.0) is local
    whole = linearise.with_more_curvature(local, mean, 1.0)
    np.testing.assert_allclose(whole.eta - whole.lam * mean, local.eta - local.lam * mean, atol=1e-12)
    known = linearise.collapsed(mean, variance, np.zeros((60, states)), contrast(states), np.zeros((60, functions)))
    complete = known.missing  # E[ρ(1 − ρ)]: reports that say nothing leave all of it missing
    usual = local.lam > linearise.SMALLEST_PRECISION  # elsewhere the site's precision is not that of the objective
    assert usual.mean() > 0.3
    np.testing.assert_allclose(whole.lam[usual], complete[usual], rtol=1e-8)
    half = linearise.with_more_curvature(local, mean, 0.5)
    np.testing.assert_allclose(half.lam, 0.5 * (local.lam + whole.lam))
    np.testing.assert_allclose(half.eta, 0.5 * (local.eta + whole.eta))
