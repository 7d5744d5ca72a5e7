"""The time of events on maps whose state changes over time: what a fit uses of it, and the moments that can be shown.

A report tells of the time when its event happened; if it does not, or gives a later time than that, of the time when it
was received. Unless the map is private, a fit uses only the period (of whole days, by default) of that time: otherwise
the times of single reports could be computed from the map, as exact places could (see `scatter`).
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdfield.service.eventtimes import STEPS, step_for
from crowdfield.service.journal import Entry
from crowdfield.service.problems import Problem
from crowdfield.service.publishing import HOUR
from crowdfield.service.records import Situation

# The most moments that a version can show: positions of the slider, and maps that are drawn when somebody asks.
MOST_MOMENTS = 24
# The share of the earliest reports that do not count for the span of the moments: a few wrong dates would stretch it.
EARLY_MISTAKES = 0.02
# The default length of a period in hours, as in the settings of the service.
DAY = 24
# The keys in the info of a version for its moments, and for the length of the periods of its times.
MOMENTS, PERIOD = "moments", "period_hours"
STANDS_STILL = "this version has no moments, because the state of this map does not change over time"
ONLY_NEWEST = "earlier moments can be shown of the newest version only; leave out `moment` or `version`"


def event_times(situation: Situation, reports: Sequence[Entry], period_hours: int = DAY) -> NDArray[np.float64]:
    """When the event of each report happened, in seconds since 1970, as a fit uses it.   [R]"""
    received = np.array([r.received for r in reports], dtype=np.float64)
    said = np.array([np.nan if r.time is None else r.time for r in reports], dtype=np.float64)
    happened = np.fmin(said, received)
    if situation.private:
        return happened
    period = period_hours * HOUR
    return np.asarray((np.floor(happened / period) + 0.5) * period)


def described(situation: Situation, times: NDArray[np.float64], period_hours: int) -> dict[str, Any]:
    """What the info of a version of a map that moves says about time."""
    return {MOMENTS: moments_to_show(situation, times, period_hours), PERIOD: period_hours}


def moments_to_show(situation: Situation, times: NDArray[np.float64], period_hours: int = DAY) -> list[float]:
    """The moments of a version in equal steps, in seconds since 1970; the last is that of the newest report."""
    newest, oldest = float(times.max()), float(np.quantile(times, EARLY_MISTAKES))
    steps = STEPS if situation.private else tuple(period_hours * HOUR * days for days in (1, 7, 30, 365))
    step = step_for(newest - oldest, steps, MOST_MOMENTS)
    count = int((newest - oldest) // step) + 1
    return [newest - step * k for k in reversed(range(count))]


def at_moment(model: Any, info: Mapping[str, Any], moment: float | None = None) -> Any:
    """The model of a version with this info at a moment, the newest by default; the model itself if the map does not
    move."""
    if MOMENTS not in info:
        return model
    from crowdfield.pipeline import AtTime  # imported here: the server itself needs no models

    return AtTime(model, (info[MOMENTS][-1] if moment is None else moment) / HOUR)


def newest(info: Mapping[str, Any]) -> float | None:
    """The moment that a version with this info shows by default; None if the map does not move."""
    return float(info[MOMENTS][-1]) if MOMENTS in info else None


def as_text(moment: float) -> str:
    """A moment as ISO 8601."""
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def nearest(info: Mapping[str, Any], moment: float) -> float:
    """The moment of a version with this info that is nearest to a given one."""
    if MOMENTS not in info:
        raise Problem(422, STANDS_STILL)
    return float(min(info[MOMENTS], key=lambda one: abs(one - moment)))
