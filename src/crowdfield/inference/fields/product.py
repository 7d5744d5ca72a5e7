"""Many Fourier series at places that form rows and columns, as the cells of a map do: two matrix products.

e^{i k·θ} is a product over the coordinates, so that the sum over the frequencies of one column is made once for every
row, not once for every place. With K frequencies along a column a value costs K products, where the features
themselves would cost K² and a cosine each.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from crowdfield.inference.fields.base import Array
from crowdfield.inference.fields.basis import Basis
from crowdfield.inference.fields.inducing import InducingBasis
from crowdfield.inference.fields.spectral import SpectralBasis

FULL_ENOUGH = 2.0  # rows times columns, for every place among them: a map with a mask has gaps


def evaluate(basis: Basis, X: Array, weights: Array) -> Array:
    """φ(x)·w for many w at once.   X [M, D], weights [m, n] -> [M, n]"""
    if isinstance(basis, SpectralBasis) and basis.dimension == X.shape[1] == 2 and len(X):
        columns, column = np.unique(X[:, 0], return_inverse=True)
        rows, row = np.unique(X[:, 1], return_inverse=True)
        if len(columns) * len(rows) <= FULL_ENOUGH * len(X):
            on_product = _spectral(basis, columns, rows, weights)
            return _decayed(basis, X, on_product[row.ravel(), column.ravel()], weights)
    if isinstance(basis, InducingBasis):
        return basis.evaluate_draws(X, weights)
    return basis.evaluate(basis.locate(X), np.ascontiguousarray(weights))


def _spectral(basis: SpectralBasis, columns: Array, rows: Array, weights: Array) -> Array:
    """φ(x)·w at every crossing of a row and a column, as if all places were inside the domain: [R, C, n]."""
    x, y = (_angles(basis, values, axis) for axis, values in enumerate((columns, rows)))
    k, n = basis.lattice, weights.shape[1]
    low = k.min(axis=0)
    wide, high = k.max(axis=0) - low + 1
    half = len(k)
    scaled = basis.amplitude[:, None] * weights
    coefficients = np.zeros((wide, high, n), dtype=np.complex128)
    # Re (a − ib) e^{iθ} = a cos θ + b sin θ; the constant has no sine.
    coefficients[k[:, 0] - low[0], k[:, 1] - low[1]] = scaled[:half]
    coefficients[k[1:, 0] - low[0], k[1:, 1] - low[1]] -= 1j * scaled[half:]
    along_rows = np.exp(1j * np.outer(y, np.arange(high) + low[1]))  # [R, K2]
    summed = np.matmul(along_rows[None], coefficients).transpose(1, 0, 2)  # [R, K1, n]
    along_columns = np.exp(1j * np.outer(x, np.arange(wide) + low[0]))  # [C, K1]
    left = np.hstack([along_columns.real, -along_columns.imag])  # [C, 2 K1]
    right = np.concatenate([summed.real, summed.imag], axis=1)  # [R, 2 K1, n]
    return np.asarray(np.matmul(left[None], right))


def _angles(basis: SpectralBasis, values: Array, axis: int) -> Array:
    """Coordinates along one axis as angles of the lattice, clipped to the domain."""
    inside = np.clip(values, basis.low[axis], basis.high[axis])
    return np.asarray((inside - basis.centre[axis]) * (2.0 * np.pi / basis.period[axis]))


def _decayed(basis: SpectralBasis, X: Array, values: Array, weights: Array) -> Array:
    """The values [M, n] with their decay outside the domain; the constant feature does not decay."""
    decay: Any = basis.locate(X).decay
    if decay is None:
        return values
    return np.asarray(values * decay[:, None] + basis.undecayed(decay)[:, None] * weights[0])
