"""Warm starts from a q of another engine: one of fewer reports, or of another length-scale."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from crowdfield.inference.bound import Bound
from crowdfield.inference.fields.base import Array
from crowdfield.inference.joint import rows
from crowdfield.inference.joint.rows import Layout
from crowdfield.inference.joint.state import Evaluated, Posterior, State, table_elsewhere

if TYPE_CHECKING:
    from crowdfield.inference.joint.method import Method

KNOWN = 0.5  # a source is known if its variance is at most this share of its prior variance
MUCH_LESS_KNOWN = 2.0  # q has seen too few reports of a source whose variance is this many times the one given all
NEAR = 0.5  # largest change of a source's logits in a Newton step, which overshoots from far away
MANY_NEW = 0.1  # share of the reports from unknown sources above which all sources are learned again


def unknown(q: Posterior) -> NDArray[np.bool_]:
    """The sources whose posterior is hardly narrower than their prior: [S]."""
    before = Layout.of(*q.alpha0.shape[1:]).block(rows.of_dirichlet(q.alpha0)[1])
    return np.asarray(np.einsum("sfdd->s", q.left) > KNOWN * np.einsum("sfdd->s", before))


def many_new(reports: Array, new: NDArray[np.bool_]) -> bool:
    """Whether many reports come from new sources. reports [S]: number of reports of every source."""
    return bool(reports[new].sum() > MANY_NEW * reports.sum())


def elsewhere(method: Method, q: Posterior) -> tuple[State, bool]:
    """The state after one step from q, and whether sources are to be learned again.

    The moments of q at the places give the sites of this engine. Sources take a Newton step from there, unless q has
    seen too few of their reports or they would move far: these start from their expected counts. So do all sources if
    many reports come from such ones.
    """
    prior, sums = method.prior()._replace(precision=q.scale.mean), method.sweep(table_elsewhere(q))
    nobody = np.zeros((0, *prior.rows.projected.shape[1:]))
    alone = q._replace(slope=nobody, shared=nobody, linear=prior.centre)
    step = method.step(Evaluated(prior, alone, sums, Bound(0.0, 0.0, 0.0, 0.0)), 1.0)
    variance = rows.covariance_of(step.rows.prior, step.rows.reports)
    move = np.einsum("sfde,sfe->sfd", variance, step.rows.gradient)
    less_known = np.einsum("sfdd->s", q.left) > MUCH_LESS_KNOWN * np.einsum("sfdd->s", variance)
    new = less_known | (np.abs(move).max((1, 2), initial=0.0) > NEAR)
    anew = many_new(sums.counts.sum((1, 2)), new)
    counted, by_row = method.dirichlet_rows(step.alpha0 + sums.counts, step.alpha0), (new | anew)[:, None, None]
    started = step.rows._replace(
        logits=np.where(by_row, counted.logits, step.rows.logits),
        prior=np.where(by_row[..., None], counted.prior, step.rows.prior),
        reports=np.where(by_row[..., None], counted.reports, step.rows.reports),
        gradient=np.where(by_row, counted.gradient, step.rows.gradient),
    )
    return step._replace(rows=started, centre=prior.centre), anew
