"""How much is known of a place: the yardstick of "nobody knows", the same in pictures, totals and spot checks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def doubt(sd: Array, prior_sd: Array, *, ordered: bool) -> Array:
    """How much uncertainty is left of that before any report: 0 certain, 1 as if nobody had reported.

    All states are taken together: sd [.., J], prior_sd [J] -> [..].
    Of grades, that of every "at least" is added up: where two neighbouring grades are possible and no others,
    somebody does know. Of other states, variances are.
    """
    if ordered and sd.shape[-1] > 2:
        steps = range(1, sd.shape[-1])
        return np.asarray(sum(joint_sd(sd, k) for k in steps) / sum(joint_sd(prior_sd, k) for k in steps))
    return np.asarray(np.sqrt((sd**2).sum(axis=-1) / (prior_sd**2).sum()))


def joint_sd(sd: Array, k: int) -> Array:
    """The standard deviation of the states from k on together, from that of each.   [.., J] -> [..]

    The sum of the others has the same one, so that of a side of one state is exact. Else both sides are added up as if
    each state varied by itself, and the smaller sum counts.
    """
    for side in (sd[..., :k], sd[..., k:]):
        if side.shape[-1] == 1:
            return np.asarray(side[..., 0])
    return np.asarray(np.sqrt(np.minimum((sd[..., k:] ** 2).sum(axis=-1), (sd[..., :k] ** 2).sum(axis=-1))))
