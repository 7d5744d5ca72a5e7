"""The weights of Fourier features that sites see.

The waves repeat themselves in a period that is longer than the box around the sites, so that some sums of them are
nearly zero all over it: sites say nothing about those, and they keep their prior.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np
import scipy.linalg as sla

from crowdfield.arrays import Array

INVISIBLE = 1e-9  # share of the prior variance, on average over the box, that is too little to be learned
# Share of the period that the box may take for fewer weights to be worth it. Beyond, sites see most of the weights, and
# products with U cost what smaller matrices save.
LARGEST_SHARE = 0.4


def visible_weights(
    gram: Callable[[Array], Array], modes: tuple[int, ...], share: Array, prior_variance: float
) -> Array | None:
    """Orthonormal columns U [m, r] such that sites only see Uᵀw; None if they may see most of the weights.

    gram: of the basis; modes: the number of its waves along every axis, as many of negative frequency as of positive;
    share: of the period that the box takes along every axis.
    """
    if share.prod() > LARGEST_SHARE:
        return None
    # Σ λ e^{2πi (h∘q)·x} over a box full of sites, of total weight 1.
    axes = [np.sinc(np.arange(-(n // 2), n // 2 + 1) * s) for n, s in zip(modes, share, strict=True)]
    waves = np.asarray(reduce(np.multiply.outer, axes)).ravel()
    ahead = waves[len(waves) // 2 :]
    seen = gram(np.concatenate([ahead, np.zeros_like(ahead)]))
    seen[0, 0] += prior_variance  # sites outside the box see the constant without the waves
    d, U = sla.eigh(seen, driver="evd", overwrite_a=True, check_finite=False)
    return np.ascontiguousarray(U[:, d > INVISIBLE * prior_variance])
