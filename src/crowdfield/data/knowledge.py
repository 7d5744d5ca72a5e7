"""How much of the prior uncertainty of a place is left: "unknown" for pictures, totals and spot checks."""

from __future__ import annotations

import numpy as np

from crowdfield.arrays import Array


def doubt(sd: Array, prior_sd: Array, *, ordered: bool) -> Array:
    """The remaining share of the prior uncertainty: 0 is certain, 1 as if nobody had reported.

    All states are taken together: sd [.., J], prior_sd [J] -> [..].
    For ordered states, the uncertainty of every "at least this grade" is added up, so that doubt between two
    neighbouring grades counts less than doubt between distant ones. For other states, variances are added up.
    """
    if ordered and sd.shape[-1] > 2:
        steps = range(1, sd.shape[-1])
        return np.asarray(sum(joint_sd(sd, k) for k in steps) / sum(joint_sd(prior_sd, k) for k in steps))
    return np.asarray(np.sqrt((sd**2).sum(axis=-1) / (prior_sd**2).sum()))


def joint_sd(sd: Array, k: int) -> Array:
    """The standard deviation of the states from k on together, from that of each.   [.., J] -> [..]

    Probabilities add up to 1, so the states below k have the same standard deviation together. It is exact where one
    side is a single state; otherwise variances are added up as if independent, and the smaller side is used.
    """
    for side in (sd[..., :k], sd[..., k:]):
        if side.shape[-1] == 1:
            return np.asarray(side[..., 0])
    return np.asarray(np.sqrt(np.minimum((sd[..., k:] ** 2).sum(axis=-1), (sd[..., :k] ** 2).sum(axis=-1))))
