"""The objective of the joint method, from q and the sums of a pass over the sites."""

from __future__ import annotations

import numpy as np

from crowdfield.inference import communities as communities_
from crowdfield.inference.bound import Bound
from crowdfield.inference.fields.base import Array
from crowdfield.inference.joint import rows
from crowdfield.inference.joint.state import Posterior, State
from crowdfield.inference.joint.sums import Sums


def objective(state: State, q: Posterior, sums: Sums, base: Array | None) -> Bound:
    """A lower bound of the evidence, up to two approximations: x, and f averaged over ς, are taken as Gaussian.

    base: the prior that communities start from.
    """
    S, F, d = q.left.shape[:3]
    entropy = 0.5 * float(np.linalg.slogdet(q.left)[1].sum() + S * F * d * (1.0 + np.log(2.0 * np.pi)))
    prior = (q.alpha0 * q.moments.log_pi).sum((1, 2)) + rows.log_normaliser(q.alpha0).sum(1)
    if state.communities is None:
        total = float(prior.sum())
    else:
        total = float(prior[~state.communities.free].sum())
        total += communities_.log_prior(state.communities, q.moments.log_pi)
        total += communities_.log_hyperprior(state.communities, base) if base is not None else 0.0
    return Bound(sums.targets, -sum(f.kl for f in q.fields), -q.fields[0].scale.kl, total + entropy)
