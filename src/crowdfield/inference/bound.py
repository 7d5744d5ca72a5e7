"""L(q), the evidence lower bound (ELBO), as named terms.

Mean-field VB with Pólya-Gamma sites raises it at every step; other methods use the same terms as an approximation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from crowdfield.arrays import Array
from crowdfield.inference import confusion, scale
from crowdfield.inference.fields.base import Field
from crowdfield.inference.scale import Gamma


class Bound(NamedTuple):
    """The terms of the evidence lower bound, each in nats."""

    targets: float  # E[log p(c | t, π)] + E[log p(t | ρ)] − E[log q(t)]
    field: float  # E[log p(f | μ, K/ς)] − E[log q(f)]
    scale: float  # E[log p(ς)] − E[log q(ς)]
    confusion: float  # E[log p(π)] − E[log q(π)]

    @property
    def total(self) -> float:
        """The bound itself: the sum of its terms."""
        return float(sum(self))


def field_term(field: Field, size: int, q: Gamma) -> float:
    """½ (m E[log ς] − E[ς] E[gᵀK⁻¹g] + log |ΣK⁻¹| + m)"""
    return 0.5 * (size * q.mean_log - q.mean * field.energy + field.log_det + size)


def mean_field(
    targets: float,
    fields: Sequence[Field],
    size: int,
    q_scale: Gamma,
    p_scale: Gamma,
    alpha: Array,
    alpha0: Array,
) -> Bound:
    """The evidence lower bound of mean-field VB.

    targets: the expected log likelihood of the reports, with the entropy of q(t); fields: q(f), one per function, of
    `size` Gaussian variables each; q_scale, p_scale: q(ς) and its prior; alpha, alpha0 [S, J, L]: the pseudo-counts of
    q(π) and of its prior.
    """
    return Bound(
        targets=targets,
        field=sum(field_term(f, size, q_scale) for f in fields),
        scale=-scale.kl(q_scale, p_scale),
        confusion=-confusion.kl(alpha, alpha0),
    )
