"""Where an iteration starts from a q of another engine: one of fewer reports, or of another length-scale."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdfield.inference.bound import Bound
from crowdfield.inference.joint import rows
from crowdfield.inference.joint.state import Evaluated, Posterior, State, table_elsewhere

if TYPE_CHECKING:
    from crowdfield.inference.joint.method import Method

KNOWN = 0.5  # of its prior variance, at the most, that a source has of whom something is known
MOSTLY = 0.5  # of the reports, from sources of whom nothing was known: sources and field are still to find each other


def elsewhere(method: Method, q: Posterior) -> tuple[State, bool]:
    """The state after one step, and whether most reports are of sources that q knows nothing about.

    What q says at the places makes the sites of this engine. Sources of whom something is known take a Newton step from
    there; of the others the expected counts say more than a step from their prior would.
    """
    prior, sums = method.prior()._replace(precision=q.scale.mean), method.sweep(table_elsewhere(q))
    nobody = np.zeros((0, *prior.rows.projected.shape[1:]))
    alone = q._replace(slope=nobody, shared=nobody, linear=prior.centre)
    step = method.step(Evaluated(prior, alone, sums, Bound(0.0, 0.0, 0.0, 0.0)), 1.0)
    before = method.layout.block(rows.of_dirichlet(step.alpha0)[1])
    new = np.einsum("sfdd->s", q.left) > KNOWN * np.einsum("sfdd->s", before)
    counted, by_row = method.dirichlet_rows(step.alpha0 + sums.counts, step.alpha0), new[:, None, None]
    started = step.rows._replace(
        logits=np.where(by_row, counted.logits, step.rows.logits),
        prior=np.where(by_row[..., None], counted.prior, step.rows.prior),
        reports=np.where(by_row[..., None], counted.reports, step.rows.reports),
        gradient=np.where(by_row, counted.gradient, step.rows.gradient),
    )
    reports = sums.counts.sum((1, 2))
    return step._replace(rows=started, centre=prior.centre), bool(reports[new].sum() > MOSTLY * reports.sum())
