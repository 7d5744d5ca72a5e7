"""Remarks on a file that was read: choices that were made for the user, and what looks wrong."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdfield import geography
from crowdfield.data.positive import named_states
from crowdfield.data.reports import Reports
from crowdfield.io import geofiles
from crowdfield.io.collect import ROUNDED
from crowdfield.io.column_names import canonical
from crowdfield.io.columns import is_missing, other_labels, some
from crowdfield.io.land import looks_swapped
from crowdfield.io.layouts import Options
from crowdfield.io.recognise import Found
from crowdfield.io.times import FIRST_YEAR, LAST_YEAR, Times


def remarks(
    reports: Reports,
    times: Times | None,
    events: NDArray[np.int64] | None,
    found: Found,
    options: Options,
    grades: Sequence[Any] | None,
) -> list[str]:
    """Remarks on the file, one sentence each."""
    said = []
    one = int(reports.label[0])
    if found.labels is None and (reports.label == one).all():
        said.append(f"all reports say '{reports.labels[one]}': they alone cannot show where it is not so")
    if times is not None and times.unread:
        many = "1 time" if times.unread == 1 else f"{times.unread} times"
        said.append(f"{many} in column '{times.column}' could not be read, so those reports have no time")
    if times is not None and times.other_years:
        said.append(
            f"{times.other_years} times in column '{times.column}' are before {FIRST_YEAR} or after {LAST_YEAR}, as in "
            "another calendar, so those reports have no time; write dates of the Gregorian calendar"
        )
    if times is not None and times.serial:
        said.append(f"numbers in column '{times.column}' are read as dates of a spreadsheet (days since 1900)")
    if times is not None and times.ambiguous:
        said.append(f"dates in column '{times.column}' are read as day/month/year; --dates mdy reads month/day/year")
    said += _without_a_place(reports)
    if found.states is None and (unsure := _unsure(reports)):
        verb = "is an answer, not a state" if len(unsure) == 1 else "are answers, not states"
        said.append(f"{some(unsure)} {verb}; --states names the states")
    if grades is not None:
        said.append(
            f"the labels look like grades: {' < '.join(map(str, grades))}; --grades names another order, or none"
        )
    if sure := _unused_confidence(found):
        said.append(
            f"how sure reports are ('{sure}') is not used; --score '{sure}' reads it as the probability of the label"
        )
    if rounded := _rounded_source(found):
        said.append(f"the source '{rounded}' is a number that a spreadsheet has rounded: several people may share it")
    if others := _other_labels(found, options):
        said.append(f"the label could also be {some(others)}; --label NAME chooses one")
    if events is not None and (events >= 0).any():
        copies = int((events >= 0).sum() - len(np.unique(events[events >= 0])))
        said.append(f"{copies} reports repeat another's words within minutes; --duplicates events counts them once")
    return said


def _without_a_place(reports: Reports) -> list[str]:
    """Remarks on places that stand for missing coordinates."""
    if not reports.crs:
        return []
    lon, lat = reports.places.T
    said = []
    for where, these in (("0° N 0° E", (lon == 0) & (lat == 0)), ("a pole", np.abs(lat) == 90)):
        if count := np.count_nonzero(these):
            lie = "1 report lies" if count == 1 else f"{count:,} reports lie"
            said.append(f"{lie} at {where}, where missing coordinates end up; leave them out with --region")
    return said


# Names of columns of how sure reports are, as `canonical` writes them.
_CONFIDENCE = (
    "confidence", "certainty", "conf", "confidence_score", "confidence_level", "certainty_score", "how_sure",
    "probability", "prob", "score", "certitude", "confiance", "confianza", "confianca", "sicherheit",
)  # fmt: skip


def _unused_confidence(found: Found) -> str | None:
    """A column of probabilities with the name of a confidence that is not used."""
    if isinstance(found.table, geofiles.GeoFile) or found.plan.scores or found.plan.column("label") is None:
        return None
    taken = set(found.plan.columns.values())
    for name in found.table.header:
        if name in taken or canonical(name) not in _CONFIDENCE:
            continue
        cells = [cell.strip() for cell in found.table.column(name) if not is_missing(cell)]
        if cells and all(re.fullmatch(r"0?[.,]\d+|[01]([.,]0+)?|\d{1,3}([.,]\d+)?\s*%", cell) for cell in cells):
            return name
    return None


def _rounded_source(found: Found) -> str | None:
    """A source in the first rows that is a number without its last digits, such as 5.0937E+10 of a telephone."""
    column = found.plan.columns.get("source")
    if column is None or isinstance(found.table, geofiles.GeoFile):
        return None
    return next((cell for cell in map(str.strip, found.table.column(column)) if re.fullmatch(ROUNDED, cell)), None)


def _other_labels(found: Found, options: Options) -> list[str]:
    """Other columns of a plain table that could be the label."""
    label = found.plan.column("label")
    given = options.given("label") is not None
    if label is None or given or found.layout != "plain" or isinstance(found.table, geofiles.GeoFile):
        return []
    taken = [name for role, name in found.plan.columns.items() if role != "label"]
    return other_labels(label, found.table.header, found.table.samples(), taken)


def swapped(reports: Reports, options: Options, found: Found) -> str:
    """Why latitude and longitude are probably exchanged; empty if not, or if the user named the columns."""
    if options.swap and reports.crs and options.region is None and looks_swapped(reports.places):
        return "with --swap nearly all places are at sea, and without it they would be on land: leave it out"
    said = (
        any(options.given(role) is not None for role in ("lat", "lon", "place"))
        or options.region is not None
        or options.swap
    )
    if reports.crs is None or said or not looks_swapped(reports.places):
        return ""
    lat, lon = (found.plan.column(role) for role in ("lat", "lon"))
    named = lat and lon and not lat.startswith("<")
    how = f"; --lat '{lon}' --lon '{lat}' reads them so" if named else "; --swap reads them so"
    return (
        "nearly all places are at sea, and would be on land with latitude and longitude exchanged: they are probably "
        f"swapped{how}"
    )


def far_off(reports: Reports, options: Options, region: geography.Region) -> list[str]:
    """Remarks on places far from most others, and on a region that is too wide for a map."""
    if reports.crs is None or options.region is not None:
        return []
    said = []
    if region != geography.bounds(reports.places):
        far = ~geography.held(region, reports.places)
        first = reports.places[int(np.argmax(far))]
        turned = reports.places[far][:, ::-1]
        among = int(np.count_nonzero(geography.within(region, turned[:, 0], turned[:, 1])))
        swapped = f"; {among} of them would lie among the others with latitude and longitude exchanged" if among else ""
        place = f"latitude {first[1]:.5g}, longitude {first[0]:.5g}"
        which = (
            f"lies far from all others (at {place}) and is"
            if far.sum() == 1
            else (f"lie far from all others (the first at {place}) and are")
        )
        said.append(
            f"{int(far.sum()):,} of {len(far):,} reports {which} left out of a map; --region W,S,E,N chooses the "
            f"region{swapped}"
        )
    if (wide := geography.span(region)) > geography.WIDEST:
        said.append(
            f"the reports reach over {wide:.0f}° of longitude, too much for one map; --region W,S,E,N chooses a part"
        )
    return said


def _unsure(reports: Reports) -> list[str]:
    """The labels that name no state, such as "unclear"."""
    states = named_states(reports.labels)
    return [str(label) for label in reports.labels if label not in states]
