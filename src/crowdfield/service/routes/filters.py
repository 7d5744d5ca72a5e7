"""Query parameters that filter reports, the same for lists and for points."""

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal

from fastapi import Depends, Query

from crowdfield.data import Region
from crowdfield.service.problems import Problem
from crowdfield.service.records import Situation
from crowdfield.service.reporttable import Filter, ListName, Trust

if TYPE_CHECKING:
    from crowdfield.service.app import Service

Source = Annotated[str | None, Query(max_length=200, description="only reports of this source")]
Label = Annotated[str | None, Query(max_length=200, description="only reports with this label")]
TrustQuery = Annotated[Trust | None, Query(description="only reports that count as certain, or only the others")]
# Bounds in seconds since 1970, beyond all times that reports can have.
EARLIEST, LATEST = -1e11, 1e11
Since = Annotated[
    float | None,
    Query(
        ge=EARLIEST,
        le=LATEST,
        description="only events at this time (seconds since 1970) or later; a report without such a time counts "
        "when it was received",
    ),
]
Until = Annotated[
    float | None,
    Query(ge=EARLIEST, le=LATEST, description="only events before this time (seconds since 1970)"),
]
Timed = Annotated[bool, Query(description="only reports that say when their event happened")]


def _chosen(
    source: Source = None,
    label: Label = None,
    trust: TrustQuery = None,
    since: Since = None,
    until: Until = None,
    timed: Timed = False,
) -> Filter:
    return Filter(source, label, trust, since, until, timed)


Chosen = Annotated[Filter, Depends(_chosen)]


def points_wanted(
    chosen: Chosen,
    list: Annotated[Literal["all", "new"], Query(description="all, or those of the last day")] = "all",
) -> Filter:
    """The filter of a tile of points."""
    return replace(chosen, list=list)


def reports_wanted(
    chosen: Chosen,
    list: Annotated[
        ListName,
        Query(
            description="all; new: those of the last day; doubtful: improbable given all other reports, and not "
            "accepted; accepted; retracted"
        ),
    ] = "all",
    bbox: Annotated[str | None, Query(max_length=200, description="west,south,east,north in degrees")] = None,
) -> Filter:
    """The filter of a list of reports."""
    return replace(chosen, list=list, bbox=parse_box(bbox))


PointsWanted = Annotated[Filter, Depends(points_wanted)]
ReportsWanted = Annotated[Filter, Depends(reports_wanted)]


async def head_of(service: "Service", situation: Situation) -> int:
    """The current end of the log, part of cache keys, so that retractions and purges take effect at once."""
    return (await service.pools.reading.run(service.store.situation, situation.id)).head


def parse_box(text: str | None) -> Region | None:
    """A box of OGC API Features: west,south,east,north, or with two heights, west,south,low,east,north,high."""
    if text is None:
        return None
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        values = []
    if len(values) == 6:
        del values[5], values[2]  # heights
    if len(values) != 4 or not all(map(math.isfinite, values)):
        raise Problem(400, "bbox must be four numbers: west,south,east,north in degrees")
    box = Region(*values)
    if not (-180 <= box.west <= 180 and -180 <= box.east <= 180 and -90 <= box.south <= box.north <= 90):
        raise Problem(
            400,
            "bbox must be west,south,east,north in degrees: longitudes in [-180, 180], -90 <= south <= north <= 90",
        )
    return box
