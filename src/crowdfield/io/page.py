"""A map in one HTML file that loads nothing else: it needs neither a server nor the internet."""

from __future__ import annotations

import base64
import gzip
import json
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crowdfield.data import Heatmap, Reports
from crowdfield.io.atomic import replacing
from crowdfield.io.layers import description, plain
from crowdfield.io.vector import to_lonlat

if TYPE_CHECKING:
    import pandas as pd

# One byte per value: steps of 1/254, finer than the eye tells colours apart. 255 is "outside the mask".
OUTSIDE = 255
# Longitude and latitude under the cursor are interpolated between this many points per side.
LATTICE = 33


def write_html(
    heatmap: Heatmap,
    path: str | Path,
    *,
    reports: Reports | None = None,
    table: pd.DataFrame | None = None,
    looks: ArrayLike | None = None,
    title: str | None = None,
) -> None:
    """The map with every state, its uncertainty, and, where given, report places, sources and where to look next."""
    text = page(heatmap, reports=reports, table=table, looks=looks, title=title)
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def framed(heatmap: Heatmap, height: int = 520) -> str:
    """The page inside another one, as a notebook shows it; it can do no more there than in a file of its own."""
    inside = escape(page(heatmap), quote=True)
    return (
        f'<iframe srcdoc="{inside}" sandbox="allow-scripts" width="100%" height="{height}" '
        f'style="border:1px solid #d8d8dc" title="{escape(repr(heatmap), quote=True)}"></iframe>'
    )


def page(
    heatmap: Heatmap,
    *,
    reports: Reports | None = None,
    table: pd.DataFrame | None = None,
    looks: ArrayLike | None = None,
    title: str | None = None,
) -> str:
    """The text of the page that `write_html` writes."""
    from crowdfield import plot

    order = heatmap.order  # the state in question first
    data = {
        "title": title or str(heatmap.metadata.get("title", "crowdfield map")),
        "about": description(heatmap),
        "states": [str(heatmap.states[j]) for j in order],
        "rows": heatmap.grid.rows,
        "columns": heatmap.grid.columns,
        "bounds": list(heatmap.grid.bounds),
        **_reference(heatmap),
        "probability": [_bytes(heatmap.probability[..., j]) for j in order],
        "sd": [_bytes(heatmap.sd[..., j] * 2) for j in order],  # a deviation is at most ½
        "known": _bytes(plot.knowledge(heatmap)),
        "reports": _packed(np.minimum(heatmap.reports, 65535).astype("<u2")),
        **_palette(heatmap),
        "points": _points(reports, heatmap),
        "sources": _sources(table),
        "looks": [] if looks is None else np.asarray(looks, dtype=np.float64)[:, :2].tolist(),
    }
    # "<" cannot occur inside the data, so no text in it can end the element it sits in.
    text = json.dumps(data, ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")
    return files("crowdfield.io").joinpath("page.html").read_text(encoding="utf-8").replace("__DATA__", text)


def _reference(heatmap: Heatmap) -> dict[str, Any]:
    if heatmap.grid.crs is None:
        return {"metres": None, "lattice": None}
    from pyproj import CRS, Geod

    west, south, east, north = heatmap.grid.bounds
    along = np.linspace(0, 1, LATTICE)
    e, n = np.meshgrid(west + along * (east - west), north - along * (north - south))
    lonlat = to_lonlat(np.column_stack([e.ravel(), n.ravel()]), heatmap.grid.crs)
    middle = len(lonlat) // 2
    # A real distance on the ground beats the projection's own units, which stretch far from its centre.
    (lon0, lat0), (lon1, lat1) = lonlat[middle], lonlat[middle + 1]
    _, _, step = Geod(ellps="WGS84").inv(lon0, lat0, lon1, lat1)
    if CRS.from_user_input(heatmap.grid.crs).is_geographic:
        stretch = float(np.cos(np.radians((south + north) / 2)))
    else:
        stretch = 1.0
    around = lonlat.copy()
    if np.ptp(around[:, 0]) > 180:
        around[:, 0] = np.where(around[:, 0] < 0, around[:, 0] + 360, around[:, 0])
    return {
        "metres": step * (LATTICE - 1),
        "stretch": stretch,
        "lattice": np.round(around, 6).tolist() if np.isfinite(around).all() else None,
    }


def _palette(heatmap: Heatmap) -> dict[str, Any]:
    from crowdfield import plot

    shown = [heatmap.states[j] for j in heatmap.order]
    return {
        "palette": {
            "probability": [_table(plot.scale_of(heatmap, state)) for state in shown],
            "uncertainty": _table(plot.UNCERTAINTY),
            "unknown": [round(part * 255) for part in plot.UNKNOWN],
            "unknownBelow": 1 - plot.UNKNOWN_SHARE,
            "plainAbove": plot.FULL_COLOUR,
        },
        "ignorance": [plot.ignorance(heatmap, state) for state in shown],
    }


def _table(shades: Any) -> str:
    """A scale as 256 colours of three bytes."""
    return base64.b64encode(np.round(shades(np.linspace(0, 1, 256))[:, :3] * 255).astype(np.uint8).tobytes()).decode()


def _points(reports: Reports | None, heatmap: Heatmap, most: int = 20_000) -> dict[str, Any] | None:
    if reports is None:
        return None
    step = max(-(-len(reports) // most), 1)
    places = reports.places[::step, :2]
    west, _, _, north = heatmap.grid.bounds
    cells = np.column_stack(
        [(places[:, 0] - west) / heatmap.grid.cell_width, (north - places[:, 1]) / heatmap.grid.cell_height]
    )
    from crowdfield.plot.panels import label_colours

    return {
        "colours": [[round(255 * part) for part in shade] for shade in label_colours(reports, heatmap).tolist()],
        "at": np.round(cells, 2).tolist(),
        "label": reports.label[::step].tolist(),
        "labels": [str(label) for label in reports.labels],
        "step": step,
        "count": len(reports),
    }


def _sources(table: pd.DataFrame | None) -> list[dict[str, Any]]:
    if table is None:
        return []
    rows = table if "source" in table.columns else table.reset_index()
    wanted = [
        name for name in ("source", "reports", "accuracy", "accuracy_low", "accuracy_high", "trusted") if name in rows
    ]
    return [plain(row) for row in rows[wanted].sort_values("accuracy", ascending=False).to_dict("records")]


def _bytes(values: NDArray[np.float64]) -> str:
    steps = np.where(np.isnan(values), OUTSIDE, np.round(np.clip(np.nan_to_num(values), 0, 1) * 254))
    return _packed(steps.astype(np.uint8))


def _packed(array: NDArray[Any]) -> str:
    # mtime=0: the same map gives the same bytes.
    return base64.b64encode(gzip.compress(np.ascontiguousarray(array).tobytes(), mtime=0)).decode()
