"""Matrix-free linear algebra: convolution on the lattice, preconditioner, Lanczos, conjugate gradients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.fft
import scipy.linalg as sla
from numpy.typing import NDArray

from crowdfield.errors import NumericalError
from crowdfield.inference.fields.base import Array, cholesky
from crowdfield.inference.fields.spectral import SpectralBasis

HEAD = 400  # frequencies that the preconditioner treats densely
STEPS = 80  # Lanczos steps, at most
SETTLED = 1e-4  # Lanczos ends when the last coefficient of Ã^{−½} z is below this
RESIDUAL = 1e-8  # relative residual of conjugate gradients
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
    def of(
        cls, basis: SpectralBasis, statistics: Array, precision: float, frequencies: NDArray[np.int64]
    ) -> Preconditioner:
        """A dense block for these frequencies (the head), and the diagonal of the precision for all others."""
        head = basis.columns_of(frequencies)
        block = basis.gram(statistics, frequencies)
        block[np.diag_indices_from(block)] += precision
        total, doubled = statistics[0], np.zeros(len(basis.position))
        doubled[:] = statistics[2 * basis.position]  # cos² = (1 + cos 2a)/2, sin² = (1 − cos 2a)/2
        diagonal = 0.5 * basis.amplitude**2 * np.concatenate([total + doubled, (total - doubled)[1:]])
        tail = np.sqrt(np.maximum(diagonal, 0.0) + precision)
        tail[head] = 1.0
        return cls(head, cholesky(block, "the head of the posterior precision"), tail)

    def _with_head(self, W: Array, transposed: bool) -> Array:
        """Apply the inverse of R (or Rᵀ) to the dense block of low frequencies."""
        out = W / self.tail[:, None]
        out[self.head] = sla.solve_triangular(
            self.root, W[self.head], lower=True, trans=int(transposed), check_finite=False
        )
        return np.asarray(out)

    def whiten(self, W: Array) -> Array:
        """R⁻¹ W, for the factor R of the preconditioner P = RRᵀ: [m, k]."""
        return self._with_head(W, False)

    def spread(self, W: Array) -> Array:
        """R⁻ᵀ W: [m, k]."""
        return self._with_head(W, True)

    @property
    def log_det(self) -> float:
        """log |P|."""
        return 2.0 * float(np.log(np.diag(self.root)).sum() + np.log(self.tail).sum())


def head_of(basis: SpectralBasis, size: int = HEAD) -> NDArray[np.int64]:
    """The zeroth frequency, and `size` others of the largest weight."""
    order = np.argsort(-basis.amplitude[1 : len(basis.position)], kind="stable")[:size] + 1
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


def conjugate_gradients(
    product: Callable[[Array], Array], solve: Callable[[Array], Array], b: Array, most: int = MAX_SOLVE
) -> Array:
    """A⁻¹ b in at most so many steps, given products with A and solutions of the preconditioner."""
    x, r = np.zeros_like(b), b.copy()
    z = solve(r)
    p, rho, target = z.copy(), float(r @ z), RESIDUAL * float(np.linalg.norm(b))
    for _ in range(most):
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
        f"conjugate gradients had not converged after {most} steps. Use a longer length-scale, a larger tolerance "
        "on the kernel, or engine='inducing'."
    )


@dataclass(frozen=True)
class System:
    """A = Σ λ φφᵀ + ς I: linear solves, and draws from N(0, A⁻¹)."""

    basis: SpectralBasis
    convolution: Convolution
    preconditioner: Preconditioner
    precision: float

    def solve(self, b: Array) -> Array:
        """(Gram + ς I)⁻¹ b, by preconditioned conjugate gradients.   [m] -> [m]"""
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
