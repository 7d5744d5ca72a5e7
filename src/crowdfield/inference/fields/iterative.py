"""Beyond a few thousand Fourier features: the same basis, with products by FFT in place of an m × m matrix.

Σ λ φφᵀ is a convolution on the lattice of frequencies, so its product with a vector is a product of two functions on a
grid: two FFTs. With A = Σ λ φφᵀ + ς I and a preconditioner P = RRᵀ (dense on the frequencies of largest weight,
diagonal on the rest):

    the mean        A⁻¹ b by preconditioned conjugate gradients;
    the covariance  through draws w = R⁻ᵀ Ã^{−½} z with Ã = R⁻¹AR⁻ᵀ and fixed z ~ N(0, I), by Lanczos;
    log |A|, tr A⁻¹ from the same Lanczos runs (stochastic Lanczos quadrature).

Every estimate is what P gives exactly, plus the sampled difference between A and P for the same z. P is close to A
where sites are dense and even, and there is then little left to sample.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import scipy.fft
import scipy.linalg as sla
from numpy.typing import NDArray

from crowdfield.errors import NumericalError
from crowdfield.inference import scale as scale_
from crowdfield.inference.fields.base import (
    BLOCK,
    Array,
    ScaleNodes,
    Statistics,
    cholesky,
    cut,
    inverse_from_cholesky,
)
from crowdfield.inference.fields.spectral import Complex, Folded, Points, SpectralBasis

PROBES = 24
HEAD = 400  # frequencies that the preconditioner treats densely
STEPS = 80  # of Lanczos, at most
SETTLED = 1e-4  # of the last coefficient of Ã^{−½} z: what one more step would add
RESIDUAL = 1e-8  # of conjugate gradients, relative
MAX_SOLVE = 2000
CHUNK = 8  # probes whose Krylov bases are in memory at a time


class Convolution:
    """W ↦ (Σ λ φφᵀ) W for weights [m, 2c], two real functions to a complex transform."""

    def __init__(self, basis: SpectralBasis, statistics: Array):
        self.basis = basis
        # Frequencies reach K and differences 2K: on 4K + 1 points what wraps around misses the frequencies kept.
        self.shape = tuple(scipy.fft.next_fast_len(n) for n in basis.modes)
        strides = np.cumprod((1, *self.shape[:0:-1]))[::-1]
        self.ahead = (basis.lattice % self.shape) @ strides
        self.behind = (-basis.lattice % self.shape) @ strides
        half = statistics[: basis.entries] - 1j * statistics[basis.entries :]  # Λ(−q), q ≥ 0
        wide = np.concatenate([half[:0:-1].conj(), half]).reshape(basis.modes)
        padded = np.zeros(self.shape, complex)
        middle = tuple(slice(0, n) for n in basis.modes)
        padded[middle] = wide
        padded = np.roll(padded, [-(n // 2) for n in basis.modes], tuple(range(len(self.shape))))
        self.density = scipy.fft.ifftn(padded, norm="forward", workers=-1).real

    def __call__(self, W: Array) -> Array:
        n, axes = len(self.basis.position), tuple(range(1, len(self.shape) + 1))
        scaled = self.basis.amplitude[:, None] * W
        cos, sin = scaled[:n].T, np.zeros((W.shape[1], n))
        sin[:, 1:] = scaled[n:].T
        first, second = slice(0, None, 2), slice(1, None, 2)
        grid = np.zeros((W.shape[1] // 2, int(np.prod(self.shape))), complex)
        grid[:, self.behind] = 0.5 * ((cos[first] - sin[second]) + 1j * (cos[second] + sin[first]))
        grid[:, self.ahead] = 0.5 * ((cos[first] + sin[second]) + 1j * (cos[second] - sin[first]))
        grid[:, 0] *= 2.0  # the constant is its own mirror image
        values = scipy.fft.ifftn(grid.reshape(-1, *self.shape), axes=axes, norm="forward", workers=-1, overwrite_x=True)
        values *= self.density
        product = scipy.fft.fftn(values, axes=axes, norm="forward", workers=-1, overwrite_x=True)
        product = product.reshape(len(grid), -1)
        plus, minus = product[:, self.ahead], product[:, self.behind].conj()
        one, two = 0.5 * (plus + minus), -0.5j * (plus - minus)
        out = np.empty_like(W)
        for columns, spectrum in ((first, one), (second, two)):
            out[:n, columns] = spectrum.real.T
            out[n:, columns] = -spectrum.imag.T[1:]
        out *= self.basis.amplitude[:, None]
        return out


@dataclass(frozen=True)
class Preconditioner:
    """P = RRᵀ: the Gram matrix plus ς, dense on the head and diagonal on the tail."""

    head: NDArray[np.int64]  # features
    root: Array  # of the head, lower
    tail: Array  # [m] square roots of the diagonal; 1 on the head

    @classmethod
    def of(cls, basis: SpectralBasis, statistics: Array, precision: float) -> Preconditioner:
        head = basis.columns_of(head_of(basis))
        block = basis.gram(statistics, head_of(basis))
        block[np.diag_indices_from(block)] += precision
        total, doubled = statistics[0], np.zeros(len(basis.position))
        doubled[:] = statistics[2 * basis.position]  # cos² = (1 + cos 2a)/2, sin² = (1 − cos 2a)/2
        diagonal = 0.5 * basis.amplitude**2 * np.concatenate([total + doubled, (total - doubled)[1:]])
        tail = np.sqrt(np.maximum(diagonal, 0.0) + precision)
        tail[head] = 1.0
        return cls(head, cholesky(block, "the head of the posterior precision"), tail)

    def _with_head(self, W: Array, transposed: bool) -> Array:
        out = W / self.tail[:, None]
        out[self.head] = sla.solve_triangular(
            self.root, W[self.head], lower=True, trans=int(transposed), check_finite=False
        )
        return np.asarray(out)

    def whiten(self, W: Array) -> Array:
        """R⁻¹ W"""
        return self._with_head(W, False)

    def spread(self, W: Array) -> Array:
        """R⁻ᵀ W"""
        return self._with_head(W, True)

    @property
    def log_det(self) -> float:
        return 2.0 * float(np.log(np.diag(self.root)).sum() + np.log(self.tail).sum())


def head_of(basis: SpectralBasis) -> NDArray[np.int64]:
    """The frequencies of largest weight, the zeroth first."""
    order = np.argsort(-basis.amplitude[1 : len(basis.position)], kind="stable")[:HEAD] + 1
    return np.concatenate([[0], np.sort(order)])


def lanczos(product: Callable[[Array], Array], Z: Array) -> tuple[Array, Array]:
    """Ã^{−½} z and zᵀ log(Ã) z for every column of Z, by Lanczos with reorthogonalisation."""
    norm = np.linalg.norm(Z, axis=0)
    V = [Z / norm]
    alpha: list[Array] = []
    beta: list[Array] = []
    for step in range(STEPS):
        W = product(V[-1])
        alpha.append((W * V[-1]).sum(0))
        W -= alpha[-1] * V[-1]
        if step:
            W -= beta[-1] * V[-2]
        for v in V:  # rounding lets old directions back in
            W -= (v * W).sum(0) * v
        roots, logs = _functions_of_tridiagonal(np.array(alpha), np.array(beta))
        beta.append(np.linalg.norm(W, axis=0))
        if np.abs(roots[-1]).max() < SETTLED * np.abs(roots[0]).max() or beta[-1].max() < 1e-12:
            break
        V.append(W / np.maximum(beta[-1], 1e-300))
    out = np.zeros_like(Z)
    for v, r in zip(V, roots, strict=False):
        out += v * r
    return out * norm, logs * norm**2


def _functions_of_tridiagonal(alpha: Array, beta: Array) -> tuple[Array, Array]:
    """T^{−½} e₁ [steps, probes] and e₁ᵀ log(T) e₁ [probes] for the tridiagonal matrix of each probe."""
    roots, logs = np.empty_like(alpha), np.empty(alpha.shape[1])
    for j in range(alpha.shape[1]):
        theta, U = sla.eigh_tridiagonal(alpha[:, j], beta[:, j] if len(beta) else np.empty(0))
        if theta[0] <= 0.0:
            raise NumericalError("the posterior precision of the features is not positive definite.")
        roots[:, j] = U @ (U[0] / np.sqrt(theta))
        logs[j] = (U[0] ** 2) @ np.log(theta)
    return roots, logs


def conjugate_gradients(product: Callable[[Array], Array], solve: Callable[[Array], Array], b: Array) -> Array:
    """A⁻¹ b, given products with A and solutions of the preconditioner."""
    x, r = np.zeros_like(b), b.copy()
    z = solve(r)
    p, rho, target = z.copy(), float(r @ z), RESIDUAL * float(np.linalg.norm(b))
    for _ in range(MAX_SOLVE):
        if np.linalg.norm(r) <= target:
            return x
        Ap = product(p)
        step = rho / float(p @ Ap)
        x += step * p
        r -= step * Ap
        z = solve(r)
        rho, old = float(r @ z), rho
        p = z + (rho / old) * p
    raise NumericalError(
        f"conjugate gradients had not converged after {MAX_SOLVE} steps. Use a longer length-scale, a larger tolerance "
        "on the kernel, or engine='inducing'."
    )


@dataclass(frozen=True)
class System:
    """A = Σ λ φφᵀ + ς I, and what can be asked of it."""

    basis: SpectralBasis
    convolution: Convolution
    preconditioner: Preconditioner
    precision: float

    def solve(self, b: Array) -> Array:
        P = self.preconditioner

        def product(w: Array) -> Array:
            pair = np.column_stack([w, np.zeros_like(w)])  # the transform takes two functions
            return np.asarray(self.convolution(pair)[:, 0] + self.precision * w)

        return conjugate_gradients(product, lambda r: P.spread(P.whiten(r[:, None]))[:, 0], b)

    def draw(self, Z: Array) -> tuple[Array, Array]:
        """Weights [m, S] ~ N(0, A⁻¹) of white noise Z [m, S], and zᵀ log(Ã) z."""
        P, parts, logs = self.preconditioner, [], []

        def product(V: Array) -> Array:
            spread = P.spread(V)
            return P.whiten(self.convolution(spread) + self.precision * spread)

        for start in range(0, Z.shape[1], CHUNK):
            root, log = lanczos(product, Z[:, start : start + CHUNK])
            parts.append(P.spread(root))
            logs.append(log)
        return np.hstack(parts), np.concatenate(logs)


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
        return self.mean

    def moments(self, points: Points) -> tuple[Array, Array]:
        basis = self.system.basis
        n = points.angles.shape[1]
        if points.decay is not None:  # the constant part does not decay with the others: draws alone know that
            waves = basis.evaluate(points, np.column_stack([self.mean, self.draws]))
            return waves[:, 0], np.asarray((waves[:, 1:] ** 2).mean(1))
        both = Folded(basis.mean_spectrum(self.mean) + 1j * self.control_spectrum, 0.0, self.control_spectrum, 0.0)
        mean, known = basis.moments(points, both)
        total = np.zeros(n)
        for s in range(self.draws.shape[1]):  # a pair at a time: nothing of size n × S is formed
            pair = basis.evaluate(points, np.column_stack([self.draws[:, s], self.controls[:, s]]))
            total += pair[:, 0] ** 2 - pair[:, 1] ** 2
        sampled = total / self.draws.shape[1]
        # A sampled difference can outweigh what it corrects; a tenth of that is then the least we claim.
        return mean, np.maximum(known + sampled, 0.1 * known)

    def at(self, X: Array) -> tuple[Array, Array]:
        basis = self.system.basis
        mean, variance = np.empty(len(X)), np.empty(len(X))
        for start in range(0, len(X), BLOCK):
            part = slice(start, start + BLOCK)
            mean[part], variance[part] = self.as_sites(X[part])
            variance[part] += basis.residual(X[part]) * self.scale.mean_inverse
        return mean, variance

    def as_sites(self, X: Array) -> tuple[Array, Array]:
        return self.moments(self.system.basis.locate(X))

    def covariance_at(self, X: Array) -> Array:
        """From the draws: a rough answer, good enough to spread a batch of places."""
        waves = self.system.basis.evaluate(self.system.basis.locate(X), self.draws)
        return np.asarray(waves @ waves.T / self.draws.shape[1])

    def sample(self, X: Array, size: int, rng: np.random.Generator) -> Array:
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
        block: int | None = None,
    ):
        self.basis, self.size, self.n_sites = basis, basis.size, len(X)
        self.blocks = cut(len(X), block)
        self._points = {b.start: basis.locate(X[b]) for b in self.blocks}
        rng = np.random.default_rng(0) if rng is None else rng
        self.noise = rng.standard_normal((basis.size, probes + probes % 2))

    def summarise(self, block: slice, eta: Array, lam: Array) -> Statistics:
        return Statistics(*self.basis.summarise(self._points[block.start], eta, lam))

    def empty(self) -> Statistics:
        nowhere, nothing = self.basis.locate(np.empty((0, self.basis.dimension))), np.empty(0)
        return Statistics(*self.basis.summarise(nowhere, nothing, nothing))

    def at_sites(self, field: IterativeField, block: slice) -> tuple[Array, Array]:
        return field.moments(self._points[block.start])

    def influence(self, field: IterativeField, x: Array, block: slice) -> Array:
        weights = field.system.solve(self.basis.features(x)[0])
        return self.basis.evaluate(self._points[block.start], weights)

    def posterior(self, statistics: Statistics, precision: float) -> IterativeField:
        basis, b = self.basis, statistics.linear
        P = Preconditioner.of(basis, statistics.quadratic, precision)
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
        P = Preconditioner.of(self.basis, statistics.quadratic, precision)
        system = System(self.basis, Convolution(self.basis, statistics.quadratic), P, precision)
        return system.solve(statistics.linear)

    def look_ahead(self, statistics: Statistics, precision: float, field: IterativeField, share: float) -> Statistics:
        return statistics  # two more solves would cost what they save

    def posterior_integrated(
        self, statistics: Sequence[Statistics], shape: float, rate: float, near: float
    ) -> tuple[IterativeField, ...]:
        """With thousands of directions settled p(ς | sites) is narrow: its mean, in MacKay's form, stands for it."""
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
        return basis.variance_spectrum(head, head_of(basis)) + basis.spectrum(coefficients)
