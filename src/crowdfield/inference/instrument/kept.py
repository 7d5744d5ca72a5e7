"""What a fit of many reports keeps, so that a few more cost little (`updating`)."""

from __future__ import annotations

from typing import NamedTuple

from crowdfield.inference.instrument.coupled import Blocks
from crowdfield.inference.instrument.fitting import State
from crowdfield.inference.instrument.grid import Array
from crowdfield.inference.instrument.unsure_variances import Unsure


class Linearised(NamedTuple):
    """Where the information of the reports was computed."""

    state: State  # its sources and link
    appearances: Array  # [N] E[g] of every place
    nugget: Array  # [N]


class Moments(NamedTuple):
    """Mean and variance of f at every place."""

    mean: Array  # [N]
    variance: Array  # [N]


class Kept(NamedTuple):
    """What a fit found, and where it was computed."""

    blocks: Blocks  # the joint precision, without the uncertainty of the variances
    linearised: Linearised
    unsure: Unsure | None
    seen: Moments  # for which the newest sites were computed
    shown: Moments  # for which the states of everything reported on were computed
    added: int  # reports that came since all of them were passed over
