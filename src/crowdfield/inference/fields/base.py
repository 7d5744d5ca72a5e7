"""The protocols of engines and fields, and the integral over the inverse scale that engines share.

A latent function is written f = μ + g, with g a zero-mean Gaussian process of covariance k / ς. Whatever
approximates the likelihood gives, at every site, a Gaussian pseudo-observation exp(η g − ½ λ g²). An engine turns
those sites into *statistics*, which are sums over sites and so add up over blocks, files and machines, and turns
statistics into a Gaussian posterior. Everything that the rest of inference needs of a posterior is listed in `Field`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import scipy.linalg as sla
from scipy.special import gammaln

from crowdfield.arrays import Array as Array
from crowdfield.errors import NumericalError
from crowdfield.inference.kernels import Kernel

BLOCK = 1 << 18  # largest number of sites or output places processed at a time
PARTS, SMALLEST_BLOCK = 8, 1 << 15  # sites are cut into so many blocks, for the cores to share, but not into crumbs:
# what a source's function costs to prepare, it costs in every block
TRUST = 2.0  # in log ς: a factor of seven to each side
NODES = 33


@dataclass(frozen=True)
class Statistics:
    """Sums over sites that determine q(g): Σ η φ, and Σ λ φφᵀ in whatever form the engine keeps it."""

    linear: Array
    quadratic: Array

    def __add__(self, other: Statistics) -> Statistics:
        return Statistics(self.linear + other.linear, self.quadratic + other.quadratic)

    def towards(self, other: Statistics, share: float) -> Statistics:
        """Interpolate to other statistics in natural parameters: share 0 is this, share 1 the other."""
        rest = 1.0 - share
        return Statistics(rest * self.linear + share * other.linear, rest * self.quadratic + share * other.quadratic)


class ScaleNodes(NamedTuple):
    """A discrete distribution of the inverse scale ς: one node for a plug-in, a grid where ς is integrated."""

    nodes: Array
    weights: Array
    kl: float = 0.0  # KL(q(ς) ‖ p(ς)), where it is integrated
    log_evidence: float = 0.0  # log p(sites) with ς integrated, up to what does not depend on the prior of the field

    @property
    def mean(self) -> float:
        """E[ς]."""
        return float(self.weights @ self.nodes)

    @property
    def mean_log(self) -> float:
        """E[log ς]."""
        return float(self.weights @ np.log(self.nodes))

    @property
    def geometric_mean(self) -> float:
        """exp E[log ς]."""
        return float(np.exp(self.mean_log))

    @property
    def mean_inverse(self) -> float:
        """E[1/ς]."""
        return float(self.weights @ (1.0 / self.nodes))


class Field(Protocol):
    """A posterior of g: Gaussian given ς, and its first two moments when ς has several nodes."""

    @property
    def scale(self) -> ScaleNodes:
        """The distribution of ς."""
        ...

    @property
    def readout(self) -> Array:
        """The mean given the state's ς, in coordinates of prior variance about 1/ς: the input of acceleration."""
        ...

    @property
    def energy(self) -> float:
        """E[gᵀ K⁻¹ g], what the update of ς needs."""
        ...

    @property
    def informed(self) -> float:
        """tr(ΛΣ), the effective number of parameters that the sites determine."""
        ...

    @property
    def log_det(self) -> float:
        """log |Σ K⁻¹|, averaged over the nodes of ς."""
        ...

    @property
    def kl(self) -> float:
        """KL(q(g | ς) ‖ p(g | ς)), averaged over the nodes of ς."""
        ...

    def at(self, X: Array) -> tuple[Array, Array]:
        """Mean and variance of g at any places [M, D]."""
        ...

    def as_sites(self, X: Array) -> tuple[Array, Array]:
        """Mean and variance of g at X as the engine computes them at its sites: without the basis' truncated
        variance."""
        ...

    def covariance_at(self, X: Array) -> Array:
        """The joint covariance of g at up to a few thousand places: [M, M]."""
        ...

    def sample(self, X: Array, size: int, rng: np.random.Generator) -> Array:
        """Joint draws of g at places: [size, M]."""
        ...


class Engine(Protocol):
    """Sites in, posterior out. Holds the places of the sites and the kernel, and no state of the inference."""

    name: str
    kernel: Kernel
    size: int  # the number of Gaussian variables: N for the exact engine, m for features
    n_sites: int
    blocks: list[slice]  # consecutive blocks of sites, processed one at a time to limit memory

    def summarise(self, block: slice, eta: Array, lam: Array) -> Statistics:
        """Additive statistics of one block of sites: natural parameters eta, lam [n] as sums over features."""
        ...

    def empty(self) -> Statistics:
        """The statistics of no sites."""
        ...

    def posterior(self, statistics: Statistics, precision: float) -> Field:
        """q(g) for a given number ς = precision."""
        ...

    def readout(self, statistics: Statistics, precision: float) -> Array:
        """The readout of `posterior` alone, without the cost of a covariance."""
        ...

    def posterior_integrated(
        self, statistics: Sequence[Statistics], shape: float, rate: float, near: float
    ) -> Sequence[Field]:
        """q(g) of functions that share ς ~ Gamma(shape, rate), with ς integrated on a grid around `near`."""
        ...

    def extrapolate(self, statistics: Statistics, precision: float, field: Any, share: float) -> Statistics:
        """Statistics of the mean to which repeated updates like this one, from `field`, would lead.

        A step A⁻¹b − m that sees only a share of the curvature is too short; (ςI + shareΛ)⁻¹A times it is Newton's
        step. An engine that does not support this returns the statistics unchanged.
        """
        ...

    def at_sites(self, field: Any, block: slice) -> tuple[Array, Array]:
        """Mean and variance of g at the sites of a block."""
        ...

    def influence(self, field: Any, x: Array, block: slice) -> Array:
        """a_i with E[g(x)] = Σ_i a_i η_i, for the sites of a block: how far each site's η moves the place x [1, D]."""
        ...


def extremes(X: Array) -> tuple[Array, Array]:
    """The smallest and the largest value of every column: [D], [D]. Thirty times faster than X.min(0), X.max(0)."""
    columns = range(X.shape[1])
    return np.array([X[:, j].min() for j in columns]), np.array([X[:, j].max() for j in columns])


def cut(n_sites: int, block: int | None = None) -> list[slice]:
    """Consecutive blocks of sites; independent of the number of cores, so that sums are reproducible."""
    pairs = min(PARTS // 2, n_sites // (2 * SMALLEST_BLOCK))
    parts = 2 * max(pairs, 1) if n_sites >= SMALLEST_BLOCK else 1
    size = block or min(BLOCK, max(-(-n_sites // parts), 1))
    return [slice(i, min(i + size, n_sites)) for i in range(0, n_sites, size)]


def cholesky(matrix: Array, what: str) -> Array:
    """The lower Cholesky factor of a matrix; `what` names it in the error where it is not positive definite."""
    try:
        return np.asarray(sla.cholesky(matrix, lower=True, check_finite=False))
    except sla.LinAlgError as error:
        raise NumericalError(
            f"{what} is not positive definite. Are coordinates and length-scale in the same unit? "
            "A larger length-scale or fewer near-identical places may help."
        ) from error


def inverse_from_cholesky(root: Array) -> Array:
    """(LLᵀ)⁻¹ from L: a third of the work of solving for every column of the identity."""
    inverse, failed = sla.lapack.dpotri(root, lower=1)
    if failed:
        raise NumericalError("a Cholesky factor has a zero on its diagonal.")
    both = inverse + inverse.T  # zero above the diagonal, as L is
    both[np.diag_indices_from(both)] *= 0.5
    return np.asarray(both)


def integrate_scale(d: Array, p: Array, shape: float, rate: float, near: float) -> ScaleNodes:
    """The posterior of ς on a grid, given the sites of all functions.

    With A = V diag(d) Vᵀ a function's Gram matrix of sites in a basis where the prior is I/ς, and p = Vᵀb, its
    log p(sites | ς) = ½ m log ς − ½ Σ log(ς + d) + ½ Σ p² / (ς + d). Functions are independent given ς: d and p of all
    of them come one after the other, [F m].

    The sites approximate the likelihood only around the q at which they were computed. Far from it, a site of small λ
    keeps rising where the true likelihood levels off, and ς would diverge to 0. So the grid is a trust region: it
    reaches TRUST to each side of log `near`, the ς of the last sweep.
    """

    def log_sites(log_scale: Array) -> Array:
        s = np.exp(log_scale)[:, None]
        return np.asarray(0.5 * (len(d) * log_scale + (p**2 / (s + d)).sum(1) - np.log(s + d).sum(1)))

    def log_density(log_scale: Array) -> Array:  # of log ς, up to the gamma's constant
        return np.asarray(log_sites(log_scale) + shape * log_scale - rate * np.exp(log_scale))

    if not 0.0 < near < np.inf:  # as for sites that have diverged, below
        raise NumericalError("the inverse scale has diverged. Try a larger scale_shape and scale_rate.")
    # A coarse grid finds the mass, and a finer one integrates it: a strong prior may be narrow.
    grid = np.log(near) + np.linspace(-TRUST, TRUST, NODES)
    for _ in range(3):
        values = log_density(grid)
        if not np.abs(values).max() < 1e12:  # an accelerated step may propose such a state, which is then rejected
            raise NumericalError("the inverse scale or a site has diverged. Try a larger scale_shape and scale_rate.")
        kept = np.flatnonzero(values > values.max() - 14.0)
        if len(kept) > NODES // 2:
            break
        grid = np.linspace(grid[max(kept[0] - 1, 0)], grid[min(kept[-1] + 1, NODES - 1)], NODES)
    values = log_density(grid)
    top = values.max()
    mass = np.exp(values - top)
    total = mass.sum() * (grid[1] - grid[0])
    log_evidence = top + np.log(total) + shape * np.log(rate) - gammaln(shape)
    weights = mass / mass.sum()
    return ScaleNodes(
        np.exp(grid), weights, kl=float(weights @ log_sites(grid) - log_evidence), log_evidence=float(log_evidence)
    )


def expected_kl(shrink: Array, means: Array, scale: ScaleNodes) -> float:
    """E_ς KL(N(means, shrink) ‖ N(0, 1/ς)) over independent directions, [m, nodes]."""
    precision = scale.nodes
    each = precision * (shrink + means**2) - 1.0 - np.log(precision * shrink)
    return float(0.5 * each.sum(0) @ scale.weights)
