"""Equispaced Fourier features: maps of any size in one, two and three dimensions.

The spectral density sampled on a lattice of frequencies, ξ = h∘k with k ∈ ℤᴰ and weights w_k = Π h · S(h∘k), is the
Fourier series of the kernel repeated with periods 1/h. So

    k(x − x′) ≈ Σ_k w_k cos 2π ξ_k·(x − x′) = φ(x)·φ(x′),     φ = √w_0, √(2w_k) cos 2πξ_k·x, √(2w_k) sin 2πξ_k·x,

with k over one half of the lattice. Products of two such features are waves of the difference and the sum of their
frequencies, which lie on the same lattice, twice as wide. Hence both heavy sums are one non-uniform FFT each:

    Σ_i λ_i φ(x_i) φ(x_i)ᵀ   all entries are among Λ(q) = Σ_i λ_i e^{2πi (h∘q)·x_i}     (type 1; gather)
    φ(x_i)ᵀ C φ(x_i)         = Σ_q c_q e^{2πi (h∘q)·x_i}, c: C folded along k − k′ and k + k′   (type 2; scatter)

and nothing of size N × m is formed. Greengard, Rachh and Barnett (2022), arXiv 2210.10210, study the regression case.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from math import pi
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crowdfield.errors import InputError
from crowdfield.inference.fields import groups
from crowdfield.inference.fields.base import Array, extremes
from crowdfield.inference.fields.basis import Basis, Codes, Pairs
from crowdfield.inference.fields.groups import Lattice
from crowdfield.inference.fields.lattice import MARGIN, MAX_SIZE, TOLERANCE, alias_distance, frequencies, waves_at
from crowdfield.inference.fields.nufft import Complex, Waves
from crowdfield.inference.fields.visible import visible_weights
from crowdfield.inference.kernels import Kernel

DENSE_ENTRIES = 1 << 22


@dataclass(frozen=True)
class Points:
    """Places as angles in [−π, π), one row per dimension, and how far each lies from the domain."""

    angles: Array  # [D, n]
    decay: Array | None  # k(x, nearest place of the domain) [n]; None where all are inside
    waves: Waves  # of the wide lattice


class Folded(NamedTuple):
    """q(w) as Fourier coefficients of its mean and variance at places, and what concerns the constant feature."""

    both: Complex  # the mean's plus i times the variance's
    constant_mean: float
    with_constant: Complex  # of the covariance with the constant feature's weight
    constant_variance: float


class SpectralBasis(Basis):
    """Fourier features of a stationary kernel on the bounding box of `X` (places, or the corners of a region).

    The box is widened by `margin` length-scales: the domain. The approximate kernel repeats itself, so a place x
    outside the domain is never evaluated there. It is correlated with the domain only through its nearest place c(x),
    φ(x) = k(x, c(x)) φ(c(x)): continuous at the border, and the prior far away. A constant part of the kernel joins the
    feature of frequency zero and does not decay.

    `error` is the largest difference from the kernel at a sample of the domain's distances, `size` is m.
    """

    name = "spectral"

    def __init__(
        self,
        kernel: Kernel,
        X: Array,
        tolerance: float = TOLERANCE,
        *,
        margin: float = MARGIN,
        max_size: int = MAX_SIZE,
    ):
        X = np.asarray(X, float)
        if X.ndim != 2 or not 1 <= X.shape[1] <= 3 or not len(X):
            raise InputError("the spectral engine takes places of one to three columns, at least one place.")
        if not 0.0 < tolerance < 0.5:
            raise InputError(f"the tolerance on the kernel must lie between 0 and 0.5, not {tolerance}.")
        self.kernel, self.tolerance, self.dimension = kernel, tolerance, X.shape[1]
        self._variance = float(kernel.variance(X[:1])[0])  # stationary: the same everywhere
        scales = kernel.lengthscales(self.dimension)
        low, high = extremes(X)
        self.low, self.high = low - margin * scales, high + margin * scales
        self.centre, self._extent = (low + high) / 2.0, high - low
        # Sites lie in the box and predictions at most a margin outside. Their differences stay below the period by
        # the distance at which the kernel has fallen to the tolerance, or a little more where several copies add up.
        widest = (high - low) + margin * scales
        pad = alias_distance(kernel, self.dimension, tolerance)
        if not np.all(np.isfinite(widest + pad)):
            raise InputError("places and length-scales must be finite.")
        for _ in range(12):
            self._lay_lattice(widest + pad, max_size)
            self.error = self._measured_error(high - low)
            if self.error <= tolerance:
                break
            pad = 1.15 * pad
        else:
            raise InputError(
                f"Fourier features reach an error of {self.error:.3g} on the kernel, not the tolerance {tolerance:g}. "
                "Does the kernel's spectral density match its covariance? If so, use engine='inducing'."
            )

    def _lay_lattice(self, period: Array, max_size: int) -> None:
        """Choose the frequencies for a period, and index their differences and sums."""
        self.period = period
        k, weight = frequencies(self.kernel, period, self.tolerance, max_size)
        self.modes = tuple(int(n) for n in 4 * np.abs(k).max(0) + 1)  # the lattice of differences and sums
        strides = np.cumprod((1, *self.modes[:0:-1]))[::-1]
        position = k @ strides  # in the flattened lattice, from its centre; positive on one half
        half = np.flatnonzero(position > 0)
        half = half[np.argsort(position[half])]
        self.lattice = np.concatenate([np.zeros((1, self.dimension), np.int64), k[half]])  # [H + 1, D]
        self.position = np.concatenate([[0], position[half]])
        amplitude = np.sqrt(2.0 * weight[half])
        self._constant = float(weight[np.flatnonzero(position == 0)].sum())  # of the smooth part
        constant = np.sqrt([self._constant + self.kernel.level])
        self.amplitude = np.concatenate([constant, amplitude, amplitude])  # [m]: 1, cosines, sines
        self.size = len(self.amplitude)
        self._half = Lattice.of(self.lattice, self.amplitude) if self.dimension <= 2 else None
        self.entries = (int(np.prod(self.modes)) + 1) // 2  # frequencies q ≥ 0 of the wide lattice
        self.captured = float(weight.sum()) + self.kernel.level

    def is_same_as(self, other: Basis) -> bool:
        """Whether both bases have the same features, so that their weights are interchangeable."""
        if type(other) is not type(self) or not isinstance(other, SpectralBasis):
            return False
        pairs = ((getattr(self, name), getattr(other, name)) for name in ("period", "centre", "lattice", "amplitude"))
        return all(np.array_equal(a, b) for a, b in pairs)

    @cached_property
    def visible(self) -> Array | None:
        """Orthonormal columns U [m, r] such that sites only see Uᵀw; None if they may see most of the weights."""
        gram = partial(SpectralBasis.gram, self)
        return visible_weights(gram, self.modes, self._extent / self.period, self.captured)

    def prior_root(self, kernel: Kernel) -> Array:
        """The amplitudes of the same frequencies under another kernel, beside the own ones: [m]."""
        spacing = 1.0 / self.period
        weight = kernel.spectral_density(self.lattice * spacing) * spacing.prod()
        amplitude = np.sqrt(2.0 * weight[1:])
        constant = np.sqrt([weight[0] + kernel.level])
        return np.asarray(np.concatenate([constant, amplitude, amplitude]) / self.amplitude)

    # -- places ---------------------------------------------------------------------------------------------------

    def covers(self, X: Array) -> NDArray[np.bool_]:
        """Which places lie in the domain: [M]."""
        return np.asarray(np.all([(x >= a) & (x <= b) for x, a, b in zip(X.T, self.low, self.high, strict=True)], 0))

    def locate(self, X: Array) -> Points:
        """Prepare places for repeated use."""
        X = np.asarray(X, float)
        decay, inside = None, X
        if not self.covers(X).all():
            inside = np.clip(X, self.low, self.high)
            decay = self._kernel_of(X - inside)
        angles = np.ascontiguousarray((inside - self.centre).T)
        angles *= (2.0 * pi / self.period)[:, None]
        return Points(angles, decay, Waves(angles, self.modes))

    def residual_at(self, points: Points) -> Array:
        """Prior variance that the basis leaves out at located places: [n]."""
        n, decay = points.angles.shape[1], points.decay
        captured = np.full(n, self.captured)
        if decay is not None:
            constant = self.amplitude[0] ** 2
            captured = (captured - constant) * decay**2 + constant * self._decay_of_constant(decay) ** 2
        # Copies of the kernel add a little variance; where that exceeds what is truncated, nothing is left out.
        return np.asarray(np.maximum(self._variance - captured, 0.0))

    def features(self, X: Array) -> Array:
        """φ as a dense matrix [M, m]: for Gibbs and for tests."""
        return self.features_at(self.locate(X))

    def features_at(self, points: Points) -> Array:
        """φ at located places, as a dense matrix [n, m]."""
        waves = waves_at(points.angles, self.lattice)
        phi = np.hstack([waves.real, waves.imag[:, 1:]]) * self.amplitude
        if points.decay is not None:
            phi *= points.decay[:, None]
            phi[:, 0] = self.amplitude[0] * self._decay_of_constant(points.decay)
        return np.asarray(phi)

    def _decay_of_constant(self, decay: Array) -> Array:
        """The decay of the zero frequency, with φ(x)·φ(x′) = v + decay · k(c(x), x′) for x′ in the domain."""
        level = self.kernel.level
        return np.asarray((level + decay * self._constant) / (level + self._constant))

    def _kernel_of(self, differences: Array) -> Array:
        """The kernel at differences of places."""
        return self.kernel.smooth.covariance(differences, np.zeros((1, self.dimension)))[:, 0]

    def _measured_error(self, extent: Array) -> float:
        """max |φ(x)·φ(x′) − k(x, x′)| over pairs of sites: near ones, where truncation shows, and far ones (copies)."""
        rng = np.random.default_rng(0)  # a fixed seed, independent of the inference
        scales = self.kernel.lengthscales(self.dimension)
        direction = rng.standard_normal((256, self.dimension))
        direction /= np.abs(direction).max(1, keepdims=True)
        near = direction * np.minimum(np.linspace(0.0, 2.0, 256)[:, None] * scales, extent)
        far = rng.uniform(-1.0, 1.0, (256, self.dimension)) * extent
        edges = np.sign(direction[:64]) * extent * rng.integers(0, 2, (64, self.dimension))
        differences = np.vstack([near, far, edges])
        angles = np.ascontiguousarray((differences * (2.0 * pi / self.period)).T)
        coefficients = np.zeros(2 * self.entries)
        coefficients[self.position] = self.amplitude[: len(self.position)] ** 2
        approximate = Waves(angles, self.modes).values(self.spectrum(coefficients)).real
        return float(np.abs(approximate - self.kernel.level - self._kernel_of(differences)).max())

    # -- sums over places: type 1 ---------------------------------------------------------------------------------

    def summarise(self, points: Points, eta: Array, lam: Array) -> tuple[Array, Array]:
        """Both sums by one transform: η and λ are real, so they are combined as η + iλ and separated by symmetry."""
        decay = points.decay
        values = np.empty(points.angles.shape[1], complex)
        values.real = eta if decay is None else eta * decay
        values.imag = lam if decay is None else lam * decay**2
        both = points.waves.sums(values)
        ahead, behind = both[self.entries - 1 :], both[self.entries - 1 :: -1].conj()  # q ≥ 0, and −q mirrored
        linear, quadratic = (ahead + behind) / 2.0, (ahead - behind) / 2j
        return self.sum_of_features(linear), np.concatenate([quadratic.real, quadratic.imag])

    def sum_of_features(self, waves: Complex) -> Array:
        """Sums of e^{i q·θ} over places for q ≥ 0 of the wide lattice, as sums of features: [m]."""
        kept = waves[self.position]
        return np.asarray(np.concatenate([kept.real, kept.imag[1:]]) * self.amplitude)

    def project(self, points: Points, eta: Array) -> Array:
        """Σ_i η_i φ(x_i): [m]."""
        return self.summarise(points, eta, np.zeros_like(eta))[0]

    def gram_statistics(self, points: Points, lam: Array) -> Array:
        """An additive form of Σ_i λ_i φ(x_i) φ(x_i)ᵀ, as small as the basis allows."""
        return self.summarise(points, np.zeros_like(lam), lam)[1]

    def gram(self, statistics: Array, part: NDArray[np.int64] | None = None) -> Array:
        """All of Σ λ φφᵀ, or its rows and columns of some frequencies (`part` of the half lattice, with the zeroth)."""
        # 2 cos a cos b = cos(a−b) + cos(a+b), 2 sin a sin b = cos(a−b) − cos(a+b), 2 cos a sin b = sin(a+b) − sin(a−b).
        position, amplitude = self.position, self.amplitude
        if part is not None:
            position, amplitude = position[part], amplitude[self.columns_of(part)]
        re, im = statistics[: self.entries], statistics[self.entries :]
        difference = np.subtract.outer(position, position)
        n, total = len(position), np.add.outer(position, position)
        cos_difference, cos_total = re[np.abs(difference)], re[total]
        out = np.empty((2 * n - 1, 2 * n - 1))
        out[:n, :n] = cos_difference + cos_total
        out[n:, n:] = (cos_difference - cos_total)[1:, 1:]
        out[:n, n:] = (im[total] - np.sign(difference) * im[np.abs(difference)])[:, 1:]
        out[n:, :n] = out[:n, n:].T
        out *= amplitude
        out *= 0.5 * amplitude[:, None]
        return out

    def columns_of(self, part: NDArray[np.int64]) -> NDArray[np.int64]:
        """The features (cosines, then sines) of some frequencies of the half lattice, the zeroth first among them."""
        return np.concatenate([part, len(self.position) - 1 + part[1:]])

    # -- functions at places: type 2 ------------------------------------------------------------------------------

    def spectrum(self, coefficients: Array) -> Complex:
        """Fourier coefficients on the wide lattice, flattened, of Σ_{q ≥ 0} a_q cos qθ + b_q sin qθ."""
        a, b = coefficients[: self.entries], coefficients[self.entries :]
        half = 0.5 * (a - 1j * b)
        half[0] = a[0]
        return np.concatenate([half[:0:-1].conj(), half])

    def mean_spectrum(self, weights: Array) -> Complex:
        """Fourier coefficients of φ·w on the wide lattice, flattened."""
        scaled, n = weights * self.amplitude, len(self.position)
        coefficients = np.zeros(2 * self.entries)
        coefficients[self.position] = scaled[:n]
        coefficients[self.entries + self.position[1:]] = scaled[n:]
        return self.spectrum(coefficients)

    def variance_spectrum(self, covariance: Array, part: NDArray[np.int64] | None = None) -> Complex:
        """C folded along its frequency differences and sums, by the same three identities as `gram`."""
        position, amplitude = self.position, self.amplitude
        if part is not None:
            position, amplitude = position[part], amplitude[self.columns_of(part)]
        n = len(position)
        scaled = covariance * amplitude * amplitude[:, None]
        cc = scaled[:n, :n]
        ss, cs = np.zeros((2, n, n))
        ss[1:, 1:], cs[:, 1:] = scaled[n:, n:], scaled[:n, n:]
        difference = np.subtract.outer(position, position).ravel()
        total = np.add.outer(position, position).ravel()
        sign, difference = np.sign(difference), np.abs(difference)
        cs = cs.ravel()

        def fold(index: NDArray[np.int64], values: Array) -> Array:
            return np.asarray(np.bincount(index, values, self.entries), float)

        cosines = fold(difference, 0.5 * (cc + ss).ravel()) + fold(total, 0.5 * (cc - ss).ravel())
        sines = fold(total, cs) - fold(difference, sign * cs)
        return self.spectrum(np.concatenate([cosines, sines]))

    def evaluate(self, points: Points, weights: Array) -> Array:
        """φ(x_i)·w: [n] for weights [m], [n, k] for weights [m, k]."""
        columns = weights.reshape(self.size, -1)
        n = points.angles.shape[1]
        if columns.shape[1] > 8 and n * self.size <= DENSE_ENTRIES:  # many draws at few places
            return (self.features_at(points) @ columns).reshape(n, *weights.shape[1:])
        out = np.empty((n, columns.shape[1]))
        for j in range(0, columns.shape[1], 2):  # two real functions to a complex transform
            spectrum = self.mean_spectrum(columns[:, j])
            if j + 1 < columns.shape[1]:
                spectrum = spectrum + 1j * self.mean_spectrum(columns[:, j + 1])
            values = points.waves.values(spectrum)
            out[:, j] = values.real
            if j + 1 < columns.shape[1]:
                out[:, j + 1] = values.imag
        if points.decay is not None:
            out *= points.decay[:, None]
            out += self.undecayed(points.decay)[:, None] * columns[0]
        return out.reshape(-1, *weights.shape[1:])

    def pairs(self, points: Points, rows: Codes, group: Codes, count: int) -> Pairs:
        if self._half is None or points.decay is not None:
            return super().pairs(points, rows, group, count)
        return groups.Places.of(self._half, points.angles[:, rows], group, count)

    def undecayed(self, decay: Array) -> Array:
        """The amount by which the feature of frequency zero exceeds the decay of all others."""
        return np.asarray(self.amplitude[0] * (self._decay_of_constant(decay) - decay))

    def variance(self, points: Points, covariance: Array) -> Array:
        """φ(x_i)ᵀ C φ(x_i) for a symmetric C [m, m]: [n]."""
        return self.moments(points, self.fold(np.zeros(self.size), covariance))[1]

    def fold(self, mean: Array, covariance: Array) -> Folded:
        """Precompute what depends only on q(w) = N(mean, covariance), once for all blocks of sites."""
        both = self.mean_spectrum(mean) + 1j * self.variance_spectrum(covariance)
        return Folded(both, float(mean[0]), self.mean_spectrum(covariance[:, 0]), float(covariance[0, 0]))

    def moments(self, points: Points, folded: Folded) -> tuple[Array, Array]:
        """Mean and variance by one transform, as real and imaginary part."""
        values = points.waves.values(folded.both)
        mean, variance = np.ascontiguousarray(values.real), np.ascontiguousarray(values.imag)
        if points.decay is not None:
            more, decay = self.undecayed(points.decay), points.decay
            with_constant = points.waves.values(folded.with_constant).real
            mean = decay * mean + more * folded.constant_mean
            variance = decay**2 * variance + more * (2.0 * decay * with_constant + more * folded.constant_variance)
        return mean, variance
