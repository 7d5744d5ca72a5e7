"""q(ς): a gamma distribution for the inverse scale, which all latent functions share."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import digamma, gammaln


class Gamma(NamedTuple):
    """A gamma distribution by shape and rate."""

    shape: float
    rate: float

    @property
    def mean(self) -> float:
        """E[ς]."""
        return self.shape / self.rate

    @property
    def mean_log(self) -> float:
        """E[log ς]."""
        return float(digamma(self.shape) - np.log(self.rate))


def update(prior: Gamma, size: int, energy: float) -> Gamma:
    """a = a0 + m/2, b = b0 + ½ E[(f − μ)ᵀ K⁻¹ (f − μ)], with m and the energy summed over the functions.

    The sign of μμᵀ is corrected, and ς shared (docs/errata.md).
    """
    return Gamma(prior.shape + 0.5 * size, prior.rate + 0.5 * energy)


def next_mean(prior: Gamma, size: int, informed: float, energy: float, precision: float) -> float:
    """E[ς] for the next field, in MacKay's form: the same fixed points as `update`, reached in far fewer steps.

    q(f) at E[ς] = s has E[gᵀK⁻¹g] = gᵀK⁻¹g + (m − γ)/s, with γ of its m directions settled by the sites. Solving
    s = a/b for the s on both sides leaves (a0 + γ/2) / (b0 + gᵀK⁻¹g/2): directions that no report informs, most of
    them where features are many, no longer tie s to its last value.
    """
    settled = energy - (size - informed) / precision
    return (prior.shape + 0.5 * informed) / (prior.rate + 0.5 * settled)


def kl(q: Gamma, p: Gamma) -> float:
    """KL(q ‖ p) of two gamma distributions."""
    return float(
        (q.shape - p.shape) * digamma(q.shape)
        - gammaln(q.shape)
        + gammaln(p.shape)
        + p.shape * (np.log(q.rate) - np.log(p.rate))
        + q.shape * (p.rate - q.rate) / q.rate
    )
