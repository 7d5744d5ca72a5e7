"""Figures of districts on a published map, which tell no more than the map itself.

A figure depends on the published map and its model only. Unless the map is private, both depend on the cells of reports
only (see `scatter`), and no figure uses what was reported about a single place, however small the polygon. Counts of
reports are sums of the published counts of cells.
"""

import re
from collections.abc import Hashable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import shapely
from numpy.typing import NDArray

from crowdfield.data import Grid
from crowdfield.errors import InputError
from crowdfield.io.areas import NamedAreas
from crowdfield.models.totals import AT_LEAST
from crowdfield.pipeline import totals as job
from crowdfield.pipeline.districts import Located, locate
from crowdfield.service.maps import MapArrays
from crowdfield.service.records import SHOWS_REPORTS
from crowdfield.service.schemas import finite
from crowdfield.service.weights import CellWeights

# The most corners of a polygon in a URL.
MOST_ASKED_CORNERS = 1000
# The share of a cell that must lie in a district for the reports of the cell to count there.
HALF = 0.5
COVERAGE_JSON = "application/vnd.cov+json"
CRS84 = "http://www.opengis.net/def/crs/OGC/1.3/CRS84"
# The numbers given for each state of an area, by the ending of their name.
PARTS = {
    "": "expected share of {whole} that is {state}",
    "low": "lower end of its {level} % interval",
    "high": "upper end of its {level} % interval",
    "amount": "expected amount that is {state}",
    "amount_low": "lower end of its {level} % interval",
    "amount_high": "upper end of its {level} % interval",
}
NUMBERS = r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?"
PLACE = re.compile(rf"\s*({NUMBERS})\s+({NUMBERS})\s*")


def polygon_of(text: str) -> NamedAreas:
    """One area from well-known text: POLYGON((longitude latitude, …))."""
    found = re.fullmatch(r"\s*POLYGON\s*(\(.*\))\s*", text, re.IGNORECASE | re.DOTALL)
    if found is None:
        raise InputError("coords must be a POLYGON((longitude latitude, …)) in well-known text")
    shape = _polygon(found[1].strip())
    if shapely.get_num_coordinates(shape) > MOST_ASKED_CORNERS:
        raise InputError(f"a polygon in a URL may have at most {MOST_ASKED_CORNERS:,} corners")
    if not shape.is_valid or shape.area == 0.0:
        raise InputError("this polygon crosses itself, or has no area")
    return NamedAreas(("area",), np.array([shape], dtype=object))


def _polygon(text: str) -> shapely.Polygon:
    if not (text.startswith("(") and text.endswith(")")):
        raise InputError("a bracket of the polygon is missing")
    rings = [_ring(part) for part in re.split(r"(?<=\))\s*,\s*(?=\()", text[1:-1].strip())]
    return shapely.Polygon(rings[0], rings[1:])


def _ring(text: str) -> list[tuple[float, float]]:
    text = text.strip()
    if not (text.startswith("(") and text.endswith(")")):
        raise InputError("a bracket of the polygon is missing")
    corners = []
    for part in text[1:-1].split(","):
        found = PLACE.fullmatch(part)
        if found is None:
            raise InputError("every corner of a polygon must be a longitude and a latitude separated by a space")
        corners.append((float(found[1]), float(found[2])))
    if len(corners) < 4 or corners[0] != corners[-1]:
        raise InputError("a ring of a polygon must have at least four corners, the last equal to the first")
    if not all(-180 <= longitude <= 180 and -90 <= latitude <= 90 for longitude, latitude in corners):
        raise InputError("corners must have longitudes in [-180, 180] and latitudes in [-90, 90]")
    return corners


def figures(
    model: Any,
    now: MapArrays,
    areas: NamedAreas,
    counts: NDArray[np.int32],
    options: job.TotalsOptions,
    weights: CellWeights | None = None,
    *,
    exact: bool,
) -> job.DistrictTotals:
    """Figures of districts on a published map, computed as `crowdfield totals` does.

    counts: the number of reports in each cell that the caller may see [rows, columns]. exact: whether these are all
    reports; if not, the count of a district without published reports is unknown rather than 0. weights: what each cell
    counts for; its area by default.
    """
    heatmap = now.heatmap()
    located = locate(areas, now.grid, heatmap.mask)
    reports = _reports(located, counts)
    shown_reports = reports if exact else np.where(reports > 0, reports, np.nan)
    each = job.square_kilometres(now.grid) if weights is None else weights.amounts
    name = None if weights is None else weights.name
    shows_reports = now.info.info.get(SHOWS_REPORTS, False)
    shown = job.shown_places(model, heatmap) if shows_reports else job.shown_field(heatmap)
    return job.of_map(model, heatmap, areas, located, shown, each, shown_reports, options, name)


def _reports(located: Located, counts: NDArray[np.int32]) -> NDArray[np.float64]:
    inside = located.share.copy()
    inside.data = (inside.data >= HALF).astype(np.float64)
    return np.asarray(inside @ counts.ravel().astype(np.float64))


def as_json(found: job.DistrictTotals, now: MapArrays) -> dict[str, Any]:
    """Figures on a published map as a JSON document."""
    (threshold,) = found.thresholds
    fixed = ("area", "cells", "reports", "weight", "unknown_share", "outside_share", "note")
    parts = {"share": "share", "low": "share_low", "high": "share_high"}
    parts |= {"amount": "amount", "amount_low": "amount_low", "amount_high": "amount_high"}
    parts |= {"probability_above": f"probability_above_{threshold:g}"}
    # Of grades also "at least" each of them, where that differs from the figures of single states.
    grades = [s for s in found.states if f"share_{AT_LEAST}{s}" in found.table]

    def of(row: Mapping[Hashable, Any], name: str) -> dict[str, Any]:
        return {part: row[f"{column}_{name}"] for part, column in parts.items()}

    rows = [
        {name: row[name] for name in fixed}
        | {"states": {s: of(row, s) for s in found.states}, "at_least": {s: of(row, f"{AT_LEAST}{s}") for s in grades}}
        for row in found.table.to_dict("records")
    ]
    body: dict[str, Any] = {"version": now.info.number, "moment": now.moment, "level": found.level}
    body |= {"threshold": threshold, "states": found.states}
    body |= {"unit": found.unit, "weights": found.weights}
    return finite(body | {"areas": rows, "notes": found.notes})  # type: ignore[no-any-return]


def covered(
    located: Located, above: NDArray[np.bool_], weights: CellWeights | None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The share of each district where a condition holds (`above`), and the amount: [A], [A]. Without weights every
    cell counts once. The share is NaN for a district outside the map, or with a total weight of zero."""
    each = np.ones(above.size) if weights is None else np.nan_to_num(weights.amounts)
    whole = np.asarray(located.share @ each).ravel()
    part = np.asarray(located.share @ (above.ravel() * each)).ravel()
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(whole > 0, part / whole, np.nan)), part


def on_grid(areas: NamedAreas, grid: Grid) -> Located:
    """Which cells of a map each district consists of; no cell is masked."""
    return locate(areas, grid, np.ones(grid.shape, dtype=bool))


def write(found: job.DistrictTotals, path: Path, state: str) -> None:
    """Write figures to a file in the format of its ending."""
    job.write_totals(found, path, state=state)


def coverage(found: job.DistrictTotals, created: float, states: Sequence[str]) -> dict[str, Any]:
    """The figures of one area as CoverageJSON, for OGC API EDR: a polygon, and one number per parameter."""
    (row,) = found.table.to_dict("records")
    (polygon,) = found.areas.shapes
    corners = [[shapely.get_coordinates(ring).tolist() for ring in (polygon.exterior, *polygon.interiors)]]
    parameters, ranges = {}, {}
    whole = f"{found.weights} in the area" if found.weights else "the area"
    for state in states:
        for part, words in PARTS.items():
            name, of_share = f"{state}{part and '_' + part}", not part.startswith("amount")
            parameters[name] = {
                "type": "Parameter",
                "description": {"en": words.format(state=state, whole=whole, level=f"{100 * found.level:g}")},
                "unit": {"symbol": "1"} if of_share else {"label": {"en": found.unit}},
                "observedProperty": {
                    "label": {"en": f"{'share' if of_share else 'amount'} of {whole} that is {state}"}
                },
            }
            column = f"share{part and '_' + part}" if of_share else part
            ranges[name] = {"type": "NdArray", "dataType": "float", "values": [finite(row[f"{column}_{state}"])]}
    moment = datetime.fromtimestamp(created, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    domain = {
        "type": "Domain",
        "domainType": "Polygon",
        "axes": {
            "composite": {"dataType": "polygon", "coordinates": ["x", "y"], "values": corners},
            "t": {"values": [moment]},
        },
        "referencing": [
            {"coordinates": ["x", "y"], "system": {"type": "GeographicCRS", "id": CRS84}},
            {"coordinates": ["t"], "system": {"type": "TemporalRS", "calendar": "Gregorian"}},
        ],
    }
    return {"type": "Coverage", "domain": domain, "parameters": parameters, "ranges": ranges}
