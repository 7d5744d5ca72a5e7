"""What the map says when asked: of a place, of sources, of where to look next, of the reports behind it.

Here privacy is decided: names and exact places are for the role trusted and above; everybody else gets keyed hashes,
and cells that hold at least a minimum of reports.
"""

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np

from crowdfield.service import places, tiles
from crowdfield.service.auth import Principal, Role
from crowdfield.service.intake import TRUSTED
from crowdfield.service.maps import MapArrays
from crowdfield.service.problems import Problem
from crowdfield.service.store import Situation

if TYPE_CHECKING:
    from crowdfield.service.app import Service

POINTS_SHOWN = 20_000


def tilejson(base: str, now: MapArrays, layer: str, state: int) -> dict[str, Any]:
    situation = now.situation
    west, south, east, north = situation.region
    address = f"{base}situations/{situation.id}/tiles/{layer}/{{z}}/{{x}}/{{y}}.png"
    return {
        "tilejson": "3.0.0",
        "name": f"{situation.title}: {layer} of {situation.states[state]}",
        "version": f"{now.info.number}.0.0",
        "tiles": [f"{address}?state={quote(situation.states[state])}&version={now.info.number}"],
        "bounds": [west, south, east, north],
        "minzoom": 0,
        "maxzoom": 22,
    }


def point(
    service: "Service",
    situation: Situation,
    principal: Principal,
    longitude: float,
    latitude: float,
    state: int,
    version: int | None,
) -> dict[str, Any]:
    now = service.maps.load(situation, version)
    metres = places.to_metres(situation.crs, [(longitude, latitude)])
    cell = int(now.grid.index(metres)[0]) if np.isfinite(metres).all() else -1
    if cell < 0 or not places.inside(situation.region, longitude, latitude):
        raise Problem(404, "this place is outside the map")
    row, column = divmod(cell, now.grid.columns)
    p, sd = now.probability[row, column], now.sd[row, column]
    prior = tiles.prior_sd(now, state)
    known = float(np.clip(1.0 - sd[state] / prior, 0.0, 1.0))
    count = int(now.reports[row, column])
    answer: dict[str, Any] = {
        "longitude": longitude,
        "latitude": latitude,
        "version": now.info.number,
        "state": situation.states[state],
        "probability": {s: float(v) for s, v in zip(situation.states, p, strict=True)},
        "sd": {s: float(v) for s, v in zip(situation.states, sd, strict=True)},
        "known": known,
        "unknown": known < tiles.UNKNOWN_BELOW,
        "reports_in_cell": count if principal.role >= Role.trusted or count >= service.settings.minimum_count else None,
        "why": None,
    }
    stored = service.store.model(situation.id)
    if stored is not None and stored[0] == now.info.number and stored[2]:
        key = (situation.id, situation.created, stored[0])
        from crowdfield.service import fit  # the models take a moment to load; most servers never need them

        model = service.models.get(key, lambda: fit.load_model(stored[2]))
        why = fit.explain(model, situation, now.grid.centres()[cell], state)
        if why is not None:
            answer["why"] = _shown_reasons(service, situation, principal, why)
    return answer


def _shown_reasons(
    service: "Service", situation: Situation, principal: Principal, why: dict[str, Any]
) -> dict[str, Any]:
    """The reasons with names and single reports only for those who may see them."""
    for source in why["sources"]:
        source["source"] = service.names.shown(source["source"], principal)
    if principal.role < Role.trusted:
        why.pop("reports", None)  # each of them says where somebody was
    return why


def sources(service: "Service", situation: Situation, principal: Principal, version: int | None) -> dict[str, Any]:
    info = service.store.version(situation.id, version)
    if info is None:
        if version is not None:
            raise Problem(404, f"there is no version {version} of this map")
        return {"version": None, "states": situation.states, "labels": situation.labels, "sources": []}
    table = service.store.blob(situation.id, info.number, "sources")
    trust = service.store.trust(situation.id)
    for row in table:
        name = row["source"]
        row["trust"] = trust.get(name, "certain" if name.startswith(TRUSTED) else None)
        row["source"] = service.names.shown(name, principal)
    return {"version": info.number, "states": situation.states, "labels": situation.labels, "sources": table}


def suggestions(service: "Service", situation: Situation, version: int | None) -> dict[str, Any]:
    """GeoJSON squares of one cell each, best first."""
    info = service.store.version(situation.id, version)
    if info is None and version is not None:
        raise Problem(404, f"there is no version {version} of this map")
    found = service.store.blob(situation.id, info.number, "suggestions") if info is not None else []
    grid = situation.grid
    half_width, half_height = grid.cell_width / 2, grid.cell_height / 2
    features = []
    for rank, look in enumerate(found, start=1):
        easting, northing = look["easting"], look["northing"]
        ring = [
            (easting + sx * half_width, northing + sy * half_height)
            for sx, sy in ((-1, -1), (1, -1), (1, 1), (-1, 1), (-1, -1))
        ]
        middle = places.to_degrees(situation.crs, [(easting, northing)])[0]
        features.append(
            {
                "type": "Feature",
                "id": rank,
                "geometry": {"type": "Polygon", "coordinates": [places.to_degrees(situation.crs, ring).tolist()]},
                "properties": {
                    "rank": rank,
                    "score": look["score"],
                    "longitude": float(middle[0]),
                    "latitude": float(middle[1]),
                },
            }
        )
    return {"type": "FeatureCollection", "version": info.number if info else None, "features": features}


def points(service: "Service", situation: Situation, principal: Principal, version: int | None) -> dict[str, Any]:
    """The reports behind a version (the newest log by default), as this caller may see them."""
    upto = None
    if version is not None:
        info = service.store.version(situation.id, version)
        if info is None:
            raise Problem(404, f"there is no version {version} of this map")
        upto = info.head
    rows = service.store.standing(situation.id, upto=upto)
    exact = principal.role >= Role.trusted
    features = exact_features(rows[-POINTS_SHOWN:]) if exact else cell_features(service, situation, rows)
    return {"type": "FeatureCollection", "exact": exact, "total": len(rows), "features": features}


def exact_features(rows: list[Any]) -> list[dict[str, Any]]:
    return [
        {
            "type": "Feature",
            "id": row.id,
            "geometry": {"type": "Point", "coordinates": [row.longitude, row.latitude]},
            "properties": {
                "label": row.label, "source": row.source, "time": row.time, "text": row.text, "received": row.received
            },
        }
        for row in rows
    ]  # fmt: skip


def cell_features(service: "Service", situation: Situation, rows: list[Any]) -> list[dict[str, Any]]:
    """Reports by cell, without names, words and times; cells with too few of them are left out."""
    if not rows:
        return []
    grid = situation.grid
    cell = grid.index(places.to_metres(situation.crs, [(row.longitude, row.latitude) for row in rows]))
    label = np.array([situation.labels.index(row.label) for row in rows])
    counts = np.zeros((len(np.unique(cell)), len(situation.labels)), dtype=int)
    cells, which = np.unique(cell, return_inverse=True)
    np.add.at(counts, (which, label), 1)
    enough = (counts.sum(axis=1) >= service.settings.minimum_count) & (cells >= 0)
    cells, counts = cells[enough], counts[enough]
    centres = places.to_degrees(situation.crs, grid.centres()[cells]) if len(cells) else np.empty((0, 2))
    return [
        {
            "type": "Feature",
            "id": f"cell-{number}",
            "geometry": {"type": "Point", "coordinates": centre.tolist()},
            "properties": {
                "count": int(of.sum()),
                "label": situation.labels[int(of.argmax())],
                "labels": {name: int(n) for name, n in zip(situation.labels, of, strict=True) if n},
            },
        }
        for number, centre, of in zip(cells.tolist(), centres, counts, strict=True)
    ]
