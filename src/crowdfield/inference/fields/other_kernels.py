"""The evidence of the sites of a fit under other kernels, without fitting each.

A fit leaves a Gaussian likelihood of its weights, exp(bᵀw − ½ wᵀAw). Another kernel changes the prior of the weights,
N(0, RRᵀ/ς) in place of N(0, I/ς), and nothing else, so that its evidence is that of Rᵀ A R and Rᵀ b. The sites
approximate the likelihood only around the q at which they were computed. But q maximises the objective, where only the
prior depends on the kernel: at the fit's own kernel this evidence and the objective have the same derivative, except
for sites whose precision would be negative and is raised to zero. So alternating fits and evidences finds the
length-scale that maximises the objective.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy.linalg as sla

from crowdfield.inference.fields.base import Array, integrate_scale
from crowdfield.inference.fields.basis import Basis
from crowdfield.inference.fields.features import Diagonal
from crowdfield.inference.kernels import Kernel
from crowdfield.inference.scale import Gamma


class WeightsLikelihood(NamedTuple):
    """exp(bᵀw − ½ wᵀAw) for the weights of every function, and the prior of their inverse scale ς."""

    basis: Basis
    parts: Sequence[Diagonal]  # F
    scale_prior: Gamma
    near: float  # ς of the fit

    def log_evidence(self, kernel: Kernel) -> float:
        """log p(sites) under a kernel, with ς integrated; up to a constant that no kernel changes."""
        root = self.basis.prior_root(kernel)
        d, p = zip(*(_eigen(part, root) for part in self.parts), strict=True)
        return integrate_scale(np.concatenate(d), np.concatenate(p), *self.scale_prior, near=self.near).log_evidence


def _eigen(part: Diagonal, root: Array) -> tuple[Array, Array]:
    """Eigenvalues of Rᵀ A R, and Rᵀ b in the basis of its eigenvectors; those in the span of Rᵀ V."""
    turned = root[:, None] * part.V if root.ndim == 1 else root.T @ part.V
    if part.V.shape[0] > part.V.shape[1]:
        turned = np.asarray(np.linalg.qr(turned, mode="r"))
    d, V = sla.eigh((turned * part.d) @ turned.T, driver="evd", overwrite_a=True, check_finite=False)
    return np.maximum(d, 0.0), V.T @ (turned @ part.p)  # rounding of zero eigenvalues
