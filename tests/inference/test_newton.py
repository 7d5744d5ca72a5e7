"""Newton's step of sources and field together: where it leads, and what it is made of."""

from __future__ import annotations

import pickle
from math import pi

import numpy as np
import pytest

from crowdfield.inference import newton, settle, vb
from crowdfield.inference.data import Prior, arrange
from crowdfield.inference.fields.cells import Cells
from crowdfield.inference.fields.features import FeatureEngine
from crowdfield.inference.fields.nufft import Waves
from crowdfield.inference.fields.spectral import SpectralBasis
from crowdfield.inference.kernels import Matern32
from crowdfield.inference.sites import Sites

SOURCES = 40


def basis_over(extent: float, dimension: int = 2) -> SpectralBasis:
    return SpectralBasis(Matern32(2.0), np.array([[0.0] * dimension, [extent] * dimension]), 0.02)


def places_of_cells(basis: SpectralBasis) -> np.ndarray:
    """The middles of all cells that lie in the domain."""
    axes = [
        (np.arange(n) - n // 2) * (p / n) + c for n, p, c in zip(basis.modes, basis.period, basis.centre, strict=True)
    ]
    X = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, basis.dimension)
    return np.asarray(X[basis.covers(X)])


def crowd(n: int = 6000, total: int | None = None) -> tuple[Sites, vb.Iteration]:
    """One report at each of n places that lie in the middles of cells; half of the sources toss a coin."""
    rng = np.random.default_rng(3)
    basis = basis_over(8.0)
    middles = places_of_cells(basis)
    X = middles[rng.integers(0, len(middles), n)]
    f = 2.0 * np.sin(X[:, 0]) * np.cos(0.7 * X[:, 1])
    truth = rng.random(n) < 1.0 / (1.0 + np.exp(-f))
    source = rng.integers(0, SOURCES, n)
    label = np.where(rng.random(n) < np.where(source < SOURCES // 2, 0.9, 0.5), truth, ~truth).astype(np.int64)
    data = arrange(X, np.arange(n), source, label, n_sources=SOURCES, n_labels=2, n_states=2)
    prior = Prior(np.tile([[2.0, 1.0], [1.0, 2.0]], (SOURCES, 1, 1)), 1.0, 1.0, np.zeros((n, 1)))
    sites = Sites(data, prior, FeatureEngine(basis, X), 0, total)
    return sites, vb.Iteration.over(sites, vb.SCHEMES["polya_gamma"])


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_cells_give_functions_and_sums_exactly_at_their_middles(dimension):
    basis = basis_over(3.0, dimension)
    cells, X = Cells(basis), places_of_cells(basis)
    points, rng = basis.locate(X), np.random.default_rng(0)
    cell = cells.of(points)
    assert len(np.unique(cell)) == len(X)
    weights, values = rng.standard_normal(basis.size), rng.standard_normal(len(X))
    np.testing.assert_allclose(cells.evaluate(weights)[cell], basis.evaluate(points, weights), atol=1e-6)
    by_cell = np.bincount(cell, values, cells.count).astype(np.float64)
    np.testing.assert_allclose(cells.project(by_cell), basis.project(points, values), atol=1e-4)


def test_a_joint_step_of_sources_and_field_leads_to_a_stationary_point():
    """From a little off the fixed point, with ς held: Newton's step goes nearly all of the way."""
    _, iteration = crowd()
    settled = settle.run(iteration, max_iter=300, tol=1e-9)
    at = iteration.evaluate(settled.state)
    moved = at.state._replace(counts=0.97 * at.state.counts + 0.03 * at.state.counts.mean(1, keepdims=True))
    off = iteration.evaluate(moved)
    assert off.ahead.kind == "joint Newton"
    ahead = off.ahead.state._replace(precision=at.state.precision)
    plain = off.image._replace(precision=at.state.precision)

    def distance(state: vb.State) -> float:
        return float(np.abs(state.counts - at.state.counts).max())

    assert distance(ahead) < 0.1 * distance(plain)


def test_joint_steps_reach_the_bound_of_plain_updates_in_fewer_sweeps():
    _, together = crowd()
    _, apart = crowd(total=6000)  # one partition of a larger set: what its sites answer stays in other processes
    assert not apart.evaluate(apart.start()).summary.second_derivatives
    fast, slow = (settle.run(each, max_iter=300, tol=1e-6) for each in (together, apart))
    assert fast.converged and fast.n_iter < slow.n_iter
    assert fast.bound.total == pytest.approx(slow.bound.total, abs=1e-4)
    np.testing.assert_allclose(fast.q.fields[0].mean, slow.q.fields[0].mean, atol=1e-4)
    np.testing.assert_allclose(fast.state.counts, slow.state.counts, rtol=1e-3, atol=0.1)


def test_conjugate_gradients_solve_and_refuse_indefinite_matrices():
    rng = np.random.default_rng(0)
    root = rng.standard_normal((8, 8))
    A, b = root @ root.T + np.eye(8), rng.standard_normal(8)
    x = newton.conjugate_gradients(lambda v: A @ v, b, lambda v: v / np.diag(A))
    assert x is not None
    assert np.linalg.norm(A @ x - b) < 0.1 * np.linalg.norm(b)
    assert newton.conjugate_gradients(lambda v: -v, b, lambda v: v) is None


def test_waves_are_the_same_in_another_process():
    rng = np.random.default_rng(1)
    angles, spectrum = rng.uniform(-pi, pi, (2, 50)), rng.standard_normal(35) + 1j * rng.standard_normal(35)
    waves = Waves(angles, (5, 7))
    k = np.stack(np.meshgrid(np.arange(-2, 3), np.arange(-3, 4), indexing="ij"), -1).reshape(-1, 2)
    dense = np.exp(1j * angles.T @ k.T)
    for each in (waves, pickle.loads(pickle.dumps(waves))):  # noqa: S301 - made here
        np.testing.assert_allclose(each.values(spectrum), dense @ spectrum, atol=1e-5)
        np.testing.assert_allclose(each.sums(dense[:, 3].copy()), dense.T @ dense[:, 3], atol=1e-5)
