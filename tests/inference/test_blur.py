"""Places that are known only roughly: averages of the kernel, damped features, and what is lost."""

import numpy as np
import pytest

from crowdfield.inference import blur, kernels
from crowdfield.inference.blur import Blurred
from crowdfield.inference.fields.blurred import BlurredSpectralBasis
from crowdfield.inference.fields.exact import ExactBasis
from crowdfield.inference.fields.inducing import InducingBasis
from crowdfield.inference.kernels import Radial, kernel, space_time


def averaged_by_brute_force(k, x, z, variance):
    nodes, weights = np.polynomial.hermite_e.hermegauss(50)
    weights = weights / weights.sum()
    total = 0.0
    for a, wa in zip(nodes, weights, strict=True):
        for b, wb in zip(nodes, weights, strict=True):
            moved = x.copy()
            moved[:, :2] += np.sqrt(variance) * np.array([a, b])
            total = total + wa * wb * k.covariance(moved, z)
    return total


@pytest.mark.parametrize(
    "k",
    [
        kernel("matern12", 2.0),
        kernel("matern32", [1.5, 3.0]),
        kernel("matern52", 2.0),
        kernel("rbf", 2.0),
        space_time("matern32", 2.0, "matern12", 1.0),
    ],
    ids=["matern12", "anisotropic", "matern52", "rbf", "space-time"],
)
def test_the_kernel_of_an_inexact_place_is_the_average_over_where_it_may_be(k):
    rng, D = np.random.default_rng(0), 3 if isinstance(k, kernels.Product) else 2
    x, z = rng.uniform(-2, 2, (2, D)), rng.uniform(-2, 2, (4, D))
    lifted = Blurred(k, D)
    found = lifted.covariance(np.column_stack([x, [0.6, 0.6]]), np.column_stack([z, [0.3] * 4]))
    assert found == pytest.approx(averaged_by_brute_force(k, x, z, 0.6**2 + 0.3**2), abs=2e-4)
    assert lifted.covariance(x, z) == pytest.approx(k.covariance(x, z), abs=0)  # D columns are exact places


def test_a_kernel_without_a_closed_form_is_averaged_by_quadrature():
    class Own(Radial):
        def of_distance(self, r):
            return np.exp(-0.5 * r**2)

        def density_of_frequency(self, xi, dimension):
            raise NotImplementedError

    x, z = np.zeros((1, 2)), np.array([[0.5, 0.2], [2.0, 1.0]])
    given = (x, z, (np.array([0.5]), np.array([0.0, 0.4])), (0, 1))
    assert Own(1.5).averaged(*given) == pytest.approx(kernel("rbf", 1.5).averaged(*given), abs=1e-4)


@pytest.fixture(scope="module")
def places():
    rng = np.random.default_rng(1)
    return np.column_stack([rng.uniform(0, 10, (60, 2)), rng.choice([0.0, 0.5, 1.5], 60)])


@pytest.mark.parametrize("basis", [ExactBasis, InducingBasis, BlurredSpectralBasis])
def test_every_basis_has_the_covariance_of_averages(places, basis):
    k = Blurred(kernel("matern52", 2.5), 2)
    made = basis(k, places, 1e-3, max_size=20_000) if basis is BlurredSpectralBasis else basis(k, places)
    phi = made.features(places)
    assert phi @ phi.T == pytest.approx(k.covariance(places, places), abs=3e-3)
    assert (made.residual(places) >= 0).all() and made.residual(places).max() < 3e-3


def test_damped_transforms_are_those_of_the_dense_features(places):
    basis = BlurredSpectralBasis(Blurred(kernel("matern52", 2.5), 2), places, 5e-3, max_size=20_000)
    rng, points, phi = np.random.default_rng(2), basis.locate(places), basis.features(places)
    eta, lam, m = rng.standard_normal(60), rng.random(60), basis.size
    linear, quadratic = basis.summarise(points, eta, lam)
    assert linear == pytest.approx(phi.T @ eta, abs=1e-6)
    assert basis.gram(quadratic) == pytest.approx(phi.T @ (lam[:, None] * phi), abs=1e-6)
    root = rng.standard_normal((m, 5))
    mean, variance = basis.moments(points, basis.fold(root[:, 0], root @ root.T))
    assert mean == pytest.approx(phi @ root[:, 0], abs=1e-6)
    assert variance == pytest.approx(((phi @ root) ** 2).sum(1), abs=1e-6)
    assert basis.evaluate(points, root) == pytest.approx(phi @ root, abs=1e-6)
    rows, group, values = rng.integers(0, 60, 90), rng.integers(0, 4, 90), rng.standard_normal(90)
    weights = rng.standard_normal((4, m))
    pairs = basis.pairs(points, rows, group, 4)
    assert pairs.evaluate(weights) == pytest.approx(np.einsum("rm,rm->r", phi[rows], weights[group]), abs=1e-6)
    sums = np.zeros((4, m))
    np.add.at(sums, group, values[:, None] * phi[rows])
    assert pairs.project(values) == pytest.approx(sums, abs=1e-6)


def test_lost_variance_is_the_prior_variance_minus_that_of_averages(places):
    k = kernel("rbf", 2.0)
    lost = blur.lost_variance(Blurred(k, 2), places)
    s = places[:, 2]
    assert lost == pytest.approx(1.0 - 4.0 / (4.0 + 2.0 * s**2))  # closed form for the squared exponential in the plane
    assert blur.lost_variance(k, places[:, :2]) is None


@pytest.mark.parametrize("D", [1, 2, 3])
def test_averages_of_functions_are_exact_for_polynomials_of_degree_four(D):
    X = np.zeros((2, D + 1))
    X[:, 0], X[1, D] = 1.0, 0.5
    found = blur.averaged(lambda x: x[:, 0] ** 4, X, D)
    assert found == pytest.approx([1.0, 1.0 + 6.0 * 0.25 + 3.0 * 0.25**2])
    assert len(blur.evaluated_places(X, D)) == 2 + (2 if D == 1 else 6)
