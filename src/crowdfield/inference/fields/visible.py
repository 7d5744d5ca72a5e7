"""The weights of Fourier features that sites see.

The waves repeat themselves in a period that is longer than the box around the sites, so that some sums of them are
nearly zero all over it: sites say nothing about those, and they keep their prior.
"""

from __future__ import annotations

from functools import reduce

import numpy as np
import scipy.linalg as sla

from crowdfield.arrays import Array

INVISIBLE = 1e-9  # share of the prior variance, on average over the box, that is too little to be learned
# Share of the weights that sites may see for leaving out the others to be faster: products with U cost, too.
WORTH_LEAVING_OUT = 0.65


def full_box(modes: tuple[int, ...], share: Array) -> Array:
    """Σ λ e^{2πi (h∘q)·x} over a box full of sites, of total weight 1, that is a share of the period: [frequencies].

    modes: the number of frequencies along every axis, as many below zero as above it.
    """
    axes = [np.sinc(np.arange(-(n // 2), n // 2 + 1) * s) for n, s in zip(modes, share, strict=True)]
    return np.asarray(reduce(np.multiply.outer, axes)).ravel()


def visible_weights(gram: Array, prior_variance: float) -> Array | None:
    """Orthonormal columns U [m, r] such that sites only see Uᵀw; None if r is nearly m.

    gram: Σ φφᵀ over a box full of sites, of total weight 1, with the constant as the first feature.
    """
    gram = gram.copy()
    gram[0, 0] += prior_variance  # sites outside the box see the constant without the waves
    d, U = sla.eigh(gram, driver="evd", overwrite_a=True, check_finite=False)
    seen = np.count_nonzero(d > INVISIBLE * prior_variance)
    return np.ascontiguousarray(U[:, -seen:]) if seen < WORTH_LEAVING_OUT * len(gram) else None
