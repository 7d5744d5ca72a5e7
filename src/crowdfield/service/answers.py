"""Answers about a map: about a place, the sources, where to look next, and the reports.

Privacy is enforced here: only the role trusted and above sees names and exact places. All other callers get answers
from the tables that `publishing.py` makes, never from the reports themselves.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np

from crowdfield import geography
from crowdfield.service import tiles
from crowdfield.service.auth import TRUSTED, Principal, Role
from crowdfield.service.journal import scores_in
from crowdfield.service.maps import Frame, check_layout
from crowdfield.service.moments import as_text
from crowdfield.service.problems import Problem
from crowdfield.service.publishing import published_sources
from crowdfield.service.records import Situation

if TYPE_CHECKING:
    from crowdfield.service.app import Service

POINTS_SHOWN = 20_000
NO_SUCH_REPORT = "there is no such report, it was retracted, or you may not see it"


def tilejson(
    base: str, situation: Situation, version: int, layer: str, state: int, moment: float | None = None
) -> dict[str, Any]:
    """The TileJSON of a layer, at one of its moments if the map moves."""
    west, south, east, north = situation.region
    scale = situation.scales[state]
    address = f"{base}situations/{situation.id}/tiles/{layer}/{{z}}/{{x}}/{{y}}.png"
    query = f"state={quote(situation.states[state])}&version={version}&scale={scale}"
    query += "" if moment is None else f"&moment={as_text(moment)}"
    return {
        "tilejson": "3.0.0",
        "name": f"{situation.title}: {layer} of {situation.states[state]}",
        "version": f"{version}.0.0",
        "tiles": [f"{address}?{query}"],
        "bounds": [west, south, east, north],
        "minzoom": 0,
        "maxzoom": 22,
    }


@dataclass(frozen=True)
class Place:
    """What a map version says about a place, the cell that the place is in, and the moment if the map moves."""

    version: int
    cell: int
    moment: float | None
    reports: int
    answer: dict[str, Any]


def place(
    service: "Service",
    situation: Situation,
    longitude: float,
    latitude: float,
    state: int,
    version: int | None,
    frame: Frame | None,
) -> Place:
    """What a map version says about a place."""
    now = service.maps.load(situation, version, frame)
    metres = geography.transform_visible([(longitude, latitude)], geography.WGS84, situation.crs)
    cell = int(now.grid.index(metres)[0]) if np.isfinite(metres).all() else -1
    if cell < 0 or not situation.region.holds(longitude, latitude):
        raise Problem(404, "this place is outside the map")
    row, column = divmod(cell, now.grid.columns)
    p, sd = now.probability[row, column], now.sd[row, column]
    prior = tiles.prior_sd(now, state)
    known = float(np.clip(1.0 - sd[state] / prior, 0.0, 1.0))
    answer = {
        "longitude": longitude,
        "latitude": latitude,
        "version": now.info.number,
        "moment": now.moment,
        "state": situation.states[state],
        "probability": {s: float(v) for s, v in zip(situation.states, p, strict=True)},
        "sd": {s: float(v) for s, v in zip(situation.states, sd, strict=True)},
        "known": known,
        "unknown": known < tiles.UNKNOWN_BELOW,
    }
    return Place(now.info.number, cell, now.moment, int(now.reports[row, column]), answer)


async def point(
    service: "Service", situation: Situation, principal: Principal, at: Place, state: int
) -> dict[str, Any]:
    """The answer about a place, with the reasons that a helper process finds; without reasons while too many wait."""
    exact = principal.role >= Role.trusted
    question = {
        "task": "reasons", "situation": situation.id, "version": at.version, "cell": at.cell, "state": state,
        "moment": at.moment, "exact": exact,
    }  # fmt: skip
    try:
        found = await service.cached_answer(service.pools.answers, question, situation)
    except Problem as problem:
        if problem.status_code not in (429, 503, 504):
            raise
        found = {"why": None, "count": None, "sea": None, "busy": True}
    return at.answer | {
        "reports_in_cell": at.reports if exact else found["count"],
        "why": found["why"],
        "sea": found["sea"],
        "busy": found.get("busy", False),
    }


def sources(service: "Service", situation: Situation, principal: Principal, version: int | None) -> dict[str, Any]:
    """How reliable each source is. Readers get only sources with enough reports, under pseudonyms."""
    answer: dict[str, Any] = {"version": None, "states": situation.states, "labels": situation.labels, "sources": []}
    info = service.store.version(situation.id, version)
    if info is None:
        if version is not None:
            raise Problem(404, f"there is no version {version} of this map")
        return answer
    check_layout(situation, info)
    table = service.store.blob(situation.id, info.number, "sources")
    if principal.role >= Role.trusted:
        trust = service.store.trust(situation.id)
        for row in table:
            row["trust"] = trust.get(row["source"], "certain" if row["source"].startswith(TRUSTED) else None)
        return answer | {"version": info.number, "sources": table}
    shown, left_out = published_sources(table, service.settings.minimum)
    for row in shown:
        row["source"] = service.names.pseudonym(row["source"])
    return answer | {"version": info.number, "sources": shown, "left_out": left_out}


def suggestions(service: "Service", situation: Situation, version: int | None) -> dict[str, Any]:
    """Where to look next: cells as GeoJSON polygons, the best first."""
    info = service.store.version(situation.id, version)
    if info is None and version is not None:
        raise Problem(404, f"there is no version {version} of this map")
    if info is not None:
        check_layout(situation, info)
    found = service.store.blob(situation.id, info.number, "suggestions") if info is not None else []
    grid = situation.grid
    half_width, half_height = grid.cell_width / 2, grid.cell_height / 2
    features = []
    for rank, suggestion in enumerate(found, start=1):
        easting, northing = suggestion["easting"], suggestion["northing"]
        ring = [
            (easting + sx * half_width, northing + sy * half_height)
            for sx, sy in ((-1, -1), (1, -1), (1, 1), (-1, 1), (-1, -1))
        ]
        middle = geography.unproject([(easting, northing)], situation.crs)[0]
        features.append(
            {
                "type": "Feature",
                "id": rank,
                "geometry": {"type": "Polygon", "coordinates": [geography.unproject(ring, situation.crs).tolist()]},
                "properties": {
                    "rank": rank,
                    "score": suggestion["score"],
                    "longitude": float(middle[0]),
                    "latitude": float(middle[1]),
                },
            }
        )
    return {"type": "FeatureCollection", "version": info.number if info else None, "features": features}


def exact_features(rows: list[Any]) -> list[dict[str, Any]]:
    """Reports as GeoJSON features, for trusted keys."""
    return [
        {
            "type": "Feature",
            "id": row.id,
            "geometry": {"type": "Point", "coordinates": [row.longitude, row.latitude]},
            "properties": {
                "label": row.label, "source": row.source, "time": row.time, "text": row.text,
                "received": row.received, "accuracy": row.accuracy, "count": row.observations or 1,
            } | ({} if (scores := scores_in(row.value)) is None else {"scores": scores}),
        }
        for row in rows
    ]  # fmt: skip
