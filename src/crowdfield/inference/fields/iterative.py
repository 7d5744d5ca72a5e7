"""Beyond a few thousand Fourier features: the same basis, with products by FFT in place of an m × m matrix.

Σ λ φφᵀ is a convolution on the lattice of frequencies, so its product with a vector is a product of two functions on a
grid: two FFTs. With A = Σ λ φφᵀ + ς I and a preconditioner P = RRᵀ (dense on the frequencies of largest weight,
diagonal on the rest):

    the mean        A⁻¹ b by preconditioned conjugate gradients;
    the covariance  through draws w = R⁻ᵀ Ã^{−½} z with Ã = R⁻¹AR⁻ᵀ and fixed z ~ N(0, I), by Lanczos;
    log |A|, tr A⁻¹ from the same Lanczos runs (stochastic Lanczos quadrature).

Every estimate is the exact value for P plus the sampled difference between A and P for the same z (a control variate).
P is close to A where sites are dense and even, and then the sampled part is small.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from crowdfield.inference import scale as scale_
from crowdfield.inference.fields.base import (
    BLOCK,
    Array,
    ScaleNodes,
    Statistics,
    cut,
    inverse_from_cholesky,
)
from crowdfield.inference.fields.krylov import HEAD, Convolution, Preconditioner, System, head_of
from crowdfield.inference.fields.nufft import Complex
from crowdfield.inference.fields.spectral import Folded, Points, SpectralBasis

PROBES = 24


@dataclass(frozen=True)
class IterativeField:
    """q(w) by its mean, fixed draws, and the draws that the preconditioner alone would have given."""

    system: System
    mean: Array
    draws: Array  # [m, S] of N(0, A⁻¹)
    controls: Array  # [m, S] of N(0, P⁻¹), from the same noise
    scale: ScaleNodes
    energy: float
    informed: float
    log_det: float
    kl: float
    control_spectrum: Complex = field(repr=False)  # of φᵀ P⁻¹ φ

    @property
    def readout(self) -> Array:
        """The mean given the state's ς, in coordinates of prior variance about 1/ς: the input of acceleration."""
        return self.mean

    def moments(self, points: Points) -> tuple[Array, Array]:
        """Mean of f at the points, and its variance from draws with control variates.   [n], [n]"""
        basis = self.system.basis
        n = points.angles.shape[1]
        if points.decay is not None:  # the constant does not decay, which only draws account for
            waves = basis.evaluate(points, np.column_stack([self.mean, self.draws]))
            return waves[:, 0], np.asarray((waves[:, 1:] ** 2).mean(1))
        both = Folded(basis.mean_spectrum(self.mean) + 1j * self.control_spectrum, 0.0, self.control_spectrum, 0.0)
        mean, known = basis.moments(points, both)
        total = np.zeros(n)
        for s in range(self.draws.shape[1]):  # a pair at a time: nothing of size n × S is formed
            pair = basis.evaluate(points, np.column_stack([self.draws[:, s], self.controls[:, s]]))
            total += pair[:, 0] ** 2 - pair[:, 1] ** 2
        sampled = total / self.draws.shape[1]
        # A sampled difference can exceed what it corrects; keep at least a tenth of the control variance.
        return mean, np.maximum(known + sampled, 0.1 * known)

    def at(self, X: Array) -> tuple[Array, Array]:
        """Mean and variance of f at any places, in blocks.   [M, D] -> [M], [M]"""
        basis = self.system.basis
        mean, variance = np.empty(len(X)), np.empty(len(X))
        for start in range(0, len(X), BLOCK):
            part = slice(start, start + BLOCK)
            mean[part], variance[part] = self.as_sites(X[part])
            variance[part] += basis.residual(X[part]) * self.scale.mean_inverse
        return mean, variance

    def as_sites(self, X: Array) -> tuple[Array, Array]:
        """Mean and variance of g at X as the engine computes them at sites: without the basis' truncated variance."""
        return self.moments(self.system.basis.locate(X))

    def covariance_at(self, X: Array) -> Array:
        """A rough estimate from the draws, good enough to spread out a batch of places."""
        waves = self.system.basis.evaluate(self.system.basis.locate(X), self.draws)
        return np.asarray(waves @ waves.T / self.draws.shape[1])

    def sample(self, X: Array, size: int, rng: np.random.Generator) -> Array:
        """Joint draws of g at places: [size, M]."""
        noise = rng.standard_normal((len(self.mean), size + size % 2))
        weights = self.mean[:, None] + self.system.draw(noise)[0][:, :size]
        return self.system.basis.evaluate(self.system.basis.locate(X), weights).T


class IterativeEngine:
    """The spectral engine for many features. The noise of its draws is fixed, so that iterations can converge."""

    name = "spectral"

    def __init__(
        self,
        basis: SpectralBasis,
        X: Array,
        rng: np.random.Generator | None = None,
        *,
        probes: int = PROBES,
        head: int = HEAD,
        block: int | None = None,
    ):
        self.basis, self.kernel, self.size, self.n_sites = basis, basis.kernel, basis.size, len(X)
        self.blocks = cut(len(X), block)
        self._points = {b.start: basis.locate(X[b]) for b in self.blocks}
        self._head = head_of(basis, head)
        rng = np.random.default_rng(0) if rng is None else rng
        self.noise = rng.standard_normal((basis.size, probes + probes % 2))

    def summarise(self, block: slice, eta: Array, lam: Array) -> Statistics:
        """Additive statistics of one block of sites: natural parameters eta, lam [n] as sums over features."""
        return Statistics(*self.basis.summarise(self._points[block.start], eta, lam))

    def empty(self) -> Statistics:
        """The statistics of no sites."""
        nowhere, nothing = self.basis.locate(np.empty((0, self.basis.dimension))), np.empty(0)
        return Statistics(*self.basis.summarise(nowhere, nothing, nothing))

    def at_sites(self, field: IterativeField, block: slice) -> tuple[Array, Array]:
        """Mean and variance of g at the sites of a block."""
        return field.moments(self._points[block.start])

    def influence(self, field: IterativeField, x: Array, block: slice) -> Array:
        """a_i with E[g(x)] = Σ_i a_i η_i, for the sites of a block: how far each site's η moves the place x [1, D]."""
        weights = field.system.solve(self.basis.features(x)[0])
        return self.basis.evaluate(self._points[block.start], weights)

    def posterior(self, statistics: Statistics, precision: float) -> IterativeField:
        """q(w) by conjugate gradients: its mean, and draws that stand for its covariance."""
        basis, b = self.basis, statistics.linear
        P = Preconditioner.of(basis, statistics.quadratic, precision, self._head)
        system = System(basis, Convolution(basis, statistics.quadratic), P, precision)
        mean = system.solve(b)
        draws, logs = system.draw(self.noise)
        controls = P.spread(self.noise)
        head_covariance = inverse_from_cholesky(P.root)
        tail_variance = P.tail**-2
        tail_variance[P.head] = 0.0
        trace = float(
            np.trace(head_covariance) + tail_variance.sum() + ((draws**2).sum(0) - (controls**2).sum(0)).mean()
        )
        log_det = -(P.log_det + float(logs.mean()))
        energy = trace + float(mean @ mean)
        informed = self.size - precision * trace
        return IterativeField(
            system=system,
            mean=mean,
            draws=draws,
            controls=controls,
            scale=ScaleNodes(np.array([precision]), np.ones(1)),
            energy=energy,
            informed=informed,
            log_det=log_det,
            kl=0.5 * (precision * energy - self.size - self.size * np.log(precision) - log_det),
            control_spectrum=self._control_spectrum(head_covariance, tail_variance),
        )

    def readout(self, statistics: Statistics, precision: float) -> Array:
        """The readout of `posterior` alone, without the cost of a covariance."""
        P = Preconditioner.of(self.basis, statistics.quadratic, precision, self._head)
        system = System(self.basis, Convolution(self.basis, statistics.quadratic), P, precision)
        return system.solve(statistics.linear)

    def extrapolate(self, statistics: Statistics, precision: float, field: IterativeField, share: float) -> Statistics:
        """Statistics of the mean to which repeated updates like this one, from `field`, would lead."""
        return statistics  # two more solves would cost as much as they save

    def posterior_integrated(
        self, statistics: Sequence[Statistics], shape: float, rate: float, near: float
    ) -> tuple[IterativeField, ...]:
        """q(g) with ς at its posterior mean (MacKay's form): with thousands of features p(ς | sites) is narrow."""
        fields = [self.posterior(s, near) for s in statistics]
        prior, informed = scale_.Gamma(shape, rate), sum(f.informed for f in fields)
        size, energy = self.size * len(fields), sum(f.energy for f in fields)
        mean = scale_.next_mean(prior, size, informed, energy, near)
        settled = shape + 0.5 * informed
        kl = scale_.kl(scale_.Gamma(settled, settled / mean), prior)
        return tuple(replace(f, scale=ScaleNodes(np.array([mean]), np.ones(1), kl)) for f in fields)

    def _control_spectrum(self, head: Array, tail: Array) -> Complex:
        """φᵀ P⁻¹ φ: the head folded as any covariance; the tail's cos² and sin² are waves of twice the frequency."""
        basis, n = self.basis, len(self.basis.position)
        scaled = tail * basis.amplitude**2
        cos, sin = scaled[:n], np.concatenate([[0.0], scaled[n:]])
        coefficients = np.zeros(2 * basis.entries)
        np.add.at(coefficients, 2 * basis.position, 0.5 * (cos - sin))
        coefficients[0] += 0.5 * float((cos + sin).sum())
        return basis.variance_spectrum(head, self._head) + basis.spectrum(coefficients)
