"""Which basis represents the smooth part: the exact one for few places, Fourier features, or inducing points."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from crowdfield.errors import InputError
from crowdfield.inference.blur import coordinates
from crowdfield.inference.fields.base import Array
from crowdfield.inference.fields.basis import Basis
from crowdfield.inference.fields.choose import default_tolerance, spectral_basis
from crowdfield.inference.fields.exact import ExactBasis
from crowdfield.inference.fields.inducing import InducingBasis
from crowdfield.inference.kernels import Kernel


class Size(NamedTuple):
    """Limits on the number of features, by kind of basis."""

    exact: int = 400  # places: as many features as places
    cheap: int = 500  # features that are cheap: the finest tolerance that they can meet is used
    spectral: int = 1_200  # features of the spectral basis at most; with more, inducing points are cheaper
    inducing: int = 500

    def shared_by(self, functions: int) -> Size:
        """The size for several functions whose weights share one covariance matrix: all functions together have twice
        the features of one, so that a step takes only a few times as long.
        """
        return self if functions == 1 else Size(*(max(2 * most // functions, FEWEST) for most in self))


FEWEST = 60  # features of each of several functions
FINAL = Size()
SEARCH = Size(exact=300, cheap=300, spectral=700, inducing=300)  # while length-scales or models are compared


def choose(name: str, kernel: Kernel, X: Array, rng: np.random.Generator | None = None, size: Size = FINAL) -> Basis:
    """The basis for places X [N, D]: the one named, or for "auto" the one that suits them."""
    n, dimension = coordinates(kernel, X).shape
    if name == "exact" or (name == "auto" and n <= size.exact):
        return ExactBasis(kernel, X)
    if name == "spectral" and dimension > 3:
        raise InputError(
            f"the spectral engine takes one to three input columns, not {dimension}. Use engine='inducing'."
        )
    if name != "inducing" and dimension <= 3:
        tolerance, needed = default_tolerance(kernel, X, size.cheap)
        if name == "spectral" or needed <= size.spectral:
            return spectral_basis(kernel, X, tolerance)
    return InducingBasis(kernel, X, size.inducing, rng=rng)
