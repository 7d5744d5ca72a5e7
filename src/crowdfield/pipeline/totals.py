"""Totals of districts: how much of each is in which state, with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import shapely

from crowdfield import geography
from crowdfield.counting import counted
from crowdfield.data import Grid, Heatmap
from crowdfield.data.grade_order import AT_LEAST_WORDS
from crowdfield.data.positive import scale_name
from crowdfield.errors import InputError
from crowdfield.io.areas import NamedAreas, read_areas
from crowdfield.io.layers import description
from crowdfield.io.picture import PICTURES, write_figure
from crowdfield.models import totals as totals_
from crowdfield.models.heatmap_bcc import HeatmapBCC
from crowdfield.models.totals import AT_LEAST
from crowdfield.pipeline.districts import Located, locate
from crowdfield.pipeline.fusing import Fused
from crowdfield.pipeline.mapping import AtTime

FORMATS = (".csv", ".xlsx", ".geojson", ".gpkg", *PICTURES)
# A note names districts with at least this share outside the raster of weights, and at most this many of them.
NOTEWORTHY_SHARE, MOST_NAMED = 0.01, 5
SQUARE_KILOMETRES = "km²"  # the unit of amounts without a raster of weights


@dataclass(frozen=True, eq=False)
class DistrictTotals:
    """One row per district, their polygons, and notes about them."""

    table: pd.DataFrame
    areas: NamedAreas
    states: tuple[Any, ...]
    positive: Any  # the state in question, shown where only one is
    level: float
    thresholds: tuple[float, ...]
    weights: str | None  # what the amounts measure, if a raster of weights is given
    notes: tuple[str, ...]
    about: dict[str, Any]
    grid: Grid  # of the map that was added up

    def __repr__(self) -> str:
        of = f"'{self.positive}' in {counted(len(self.table), 'district')}, in {self.unit}"
        return f"<DistrictTotals of {of}, with {100 * self.level:g} % intervals>"

    def column(self, show: Any = None) -> str:
        """What is shown where only one thing is, as columns are named. show: a state, or "at least" one of the grades;
        by default the state in question."""
        wanted = str(self.positive if show is None else show)
        at_least = wanted.replace(AT_LEAST_WORDS, AT_LEAST, 1)
        found = next((name for name in (wanted, at_least) if f"share_{name}" in self.table), None)
        if found is None:
            grades = [in_words(n[len("share_") :]) for n in map(str, self.table) if n.startswith(f"share_{AT_LEAST}")]
            known = ", ".join(f"'{name}'" for name in (*self.states, *grades))
            raise InputError(f"there is no state '{wanted}' to show; the figures are of {known}.")
        return found

    @property
    def unit(self) -> str:
        """What amounts are counted in."""
        return self.weights or SQUARE_KILOMETRES


def totals(
    fused: Fused,
    districts: str | Path | NamedAreas,
    *,
    by: str | None = None,
    weights: str | Path | None = None,
    level: float = 0.9,
    thresholds: Sequence[float] = totals_.THRESHOLDS,
    draws: int = totals_.DRAWS,
    seed: int = 0,
) -> DistrictTotals:
    """Figures of districts that agree with the run's map.

    districts: a file of polygons, or areas that were read; by: the property that names them (equal names are one
    district); weights: a GeoTIFF of what each pixel holds (people, households). Without it every cell counts its area
    in square kilometres.
    """
    areas = districts if isinstance(districts, NamedAreas) else read_areas(districts, by)
    located = locate(areas, fused.heatmap.grid, fused.heatmap.mask)
    each = _weights(fused, weights)
    name = None if weights is None else Path(weights).stem
    options = TotalsOptions(level, tuple(thresholds), draws, seed)
    shown = shown_places(fused.model, fused.heatmap)
    return of_map(fused.model, fused.heatmap, areas, located, shown, each, _reports(fused, areas), options, name)


@dataclass(frozen=True)
class TotalsOptions:
    """The options of totals: thresholds, level of the intervals, number of draws."""

    level: float = 0.9
    thresholds: tuple[float, ...] = totals_.THRESHOLDS
    draws: int = totals_.DRAWS
    seed: int = 0


def of_map(
    model: HeatmapBCC | AtTime,
    heatmap: Heatmap,
    areas: NamedAreas,
    located: Located,
    shown: totals_.Shown,
    weights: np.ndarray,
    reports: np.ndarray,
    options: TotalsOptions,
    weights_name: str | None = None,
) -> DistrictTotals:
    """Figures of districts that agree with a map.

    shown: the map's probabilities in the cells that it covers; weights: the weight of each cell of the grid, NaN where
    it is unknown (such cells count for nothing, and a note says so); reports: the number of reports of each district,
    NaN where it must not be published.
    """
    cells = np.flatnonzero(heatmap.mask.ravel())
    centres = heatmap.grid.centres()[cells]
    if isinstance(model, AtTime):
        model, centres = model.model, model.in_time(centres)
    elif model.places_.shape[1] != 2:
        raise InputError("totals of districts of a map in time need a moment: AtTime(model, hour).")
    table = totals_.of_shown(
        model,
        centres,
        shown,
        totals_.Areas(list(areas.names), located.share[:, cells].tocsr()),
        np.nan_to_num(weights[cells]),
        options.level,
        options.thresholds,
        np.random.default_rng(options.seed),
        options.draws,
    )
    table = table.rename(columns={"places": "cells"})
    table.insert(3, "reports", reports)
    table.insert(5, "outside_share", located.outside)
    table = _in_order(table, [heatmap.states[j] for j in heatmap.order])
    table["note"] = _notes(table, located, areas)
    how = {
        "level": options.level,
        "draws": options.draws,
        "seed": options.seed,
        "unit": weights_name or SQUARE_KILOMETRES,
    }
    return DistrictTotals(
        table,
        areas,
        heatmap.states,
        heatmap.positive,
        options.level,
        tuple(table.attrs["thresholds"]),
        weights_name,
        (*areas.notes, *_overall(table, located), *_missing_weights_note(areas, located, weights, weights_name)),
        {**description(heatmap), "totals": how},
        heatmap.grid,
    )


def _missing_weights_note(areas: NamedAreas, located: Located, weights: np.ndarray, name: str | None) -> list[str]:
    """A note where the raster of weights ends within districts."""
    unknown = np.asarray(located.share @ np.isnan(weights).astype(np.float64)).ravel()
    cells = np.asarray(located.share.sum(axis=1)).ravel()
    with np.errstate(invalid="ignore"):
        share = np.where(cells > 0, unknown / cells, 0.0)
    named = [
        f"{area} ({100 * part:.0f} %)"
        for area, part in zip(areas.names, share.tolist(), strict=True)
        if part >= NOTEWORTHY_SHARE
    ]
    if not named:
        return []
    more = f" and {len(named) - MOST_NAMED} more" if len(named) > MOST_NAMED else ""
    return [
        f"the raster of {name or 'weights'} does not reach all of {', '.join(named[:MOST_NAMED])}{more}: "
        "what lies beyond it counts for nothing, so amounts there are too low"
    ]


def shown_field(heatmap: Heatmap) -> totals_.Shown:
    """The probabilities of a map that shows the field alone, without what was reported about single places."""
    cells, states = np.flatnonzero(heatmap.mask.ravel()), len(heatmap.states)
    probability, sd = (a.reshape(-1, states)[cells] for a in (heatmap.probability, heatmap.sd))
    nothing = np.empty(0, dtype=np.int64)
    return totals_.Shown(probability, sd, nothing, nothing)


def shown_places(model: HeatmapBCC, heatmap: Heatmap) -> totals_.Shown:
    """The probabilities of a map that shows what was reported, and which of its cells contain reported places."""
    grid, field = heatmap.grid, shown_field(heatmap)
    known = model.at_reported_places()
    if known is None:
        return field
    cells = np.flatnonzero(heatmap.mask.ravel())
    row = np.full(grid.size + 1, -1)
    row[cells] = np.arange(len(cells))
    at = row[grid.index(known.places)]  # places outside the grid are cell −1, the last entry, which no map shows
    site = np.flatnonzero(at >= 0)
    return totals_.Shown(field.probability, field.sd, at[site], site)


def square_kilometres(grid: Grid) -> np.ndarray:
    """The default weight of each cell: its area."""
    return np.full(grid.size, grid.cell_width * grid.cell_height / 1e6)


def _weights(fused: Fused, weights: str | Path | None) -> np.ndarray:
    """The weight of every cell: amounts from a raster, or its area in km²."""
    grid = fused.heatmap.grid
    if weights is None:
        return square_kilometres(grid)
    from crowdfield.io.amounts import read_amounts

    return read_amounts(weights, grid)


def _reports(fused: Fused, areas: NamedAreas) -> np.ndarray:
    """How many reports lie in each district."""
    lonlat = geography.unproject(fused.reports.places[:, :2], str(fused.heatmap.grid.crs))
    tree = shapely.STRtree(shapely.points(lonlat))
    code, _ = tree.query(areas.shapes, predicate="intersects")
    return np.bincount(code, minlength=len(areas)).astype(np.int64)


def _notes(table: pd.DataFrame, located: Located, areas: NamedAreas) -> list[str]:
    """What is special about each district, as a remark; empty for most."""
    out = []
    columns = located.outside, located.in_parts, shapely.is_empty(areas.shapes)
    for row, outside, in_parts, empty in zip(table.to_dict("records"), *columns, strict=True):
        said = []
        if empty:
            said.append("it has no outline in the file")
        elif row["cells"] == 0:
            said.append("the map does not reach it")
        elif outside > 0:
            said.append(f"{100 * outside:.0f} % of it lies outside the map and is not counted")
        if row["cells"] and row["weight"] <= 0:
            said.append("nothing to count in it")
        if in_parts and row["cells"]:
            said.append("small compared with the cells: they count by their covered share")
        if row["cells"] and not row["reports"]:
            said.append("no reports in it")
        out.append("; ".join(said))
    return out


def _overall(table: pd.DataFrame, located: Located) -> list[str]:
    """Remarks about all districts together."""
    notes = []
    if missing := int((table["cells"] == 0).sum()):
        notes.append(f"the map does not reach {missing:,} of {len(table):,} districts; they have no figures")
    if partly := int(((located.outside > 0) & (table["cells"] > 0)).sum()):
        who = "1 district reaches" if partly == 1 else f"{partly:,} districts reach"
        notes.append(f"{who} beyond the map; only what lies on it is counted")
    if twice := located.overlapping:
        notes.append(f"districts overlap: {twice:,} cells count in more than one, so that districts do not add up")
    return notes


def _in_order(table: pd.DataFrame, states: Sequence[Any]) -> pd.DataFrame:
    """The table with the columns of the state in question first, as in all outputs."""

    def place(name: str) -> int:
        # "share_not_wet" ends like the state "wet" too: the longest state that fits is meant.
        fits = [(len(str(state)), at) for at, state in enumerate(states) if name.endswith(f"_{state}")]
        is_of_state = name.startswith(("share_", "amount_", "probability_above_"))
        return max(fits)[1] if fits and is_of_state else -1

    # A stable sort keeps the columns that belong to no state in front.
    names: list[str] = sorted([str(name) for name in table.columns], key=place)
    ordered = table[names]
    ordered.attrs = dict(table.attrs)
    return ordered.copy()


def write_totals(found: DistrictTotals, path: str | Path, *, state: Any = None, title: str | None = None) -> Path:
    """Write the figures in the format that the suffix names: .csv (with an HXL row), .xlsx, .geojson, .gpkg, or a
    coloured map (.png, .svg, .pdf) of one state, or of "at least" one of the grades; title: above that map."""
    path = Path(path)
    suffix = path.suffix.lower()
    check_format(path)
    if suffix in PICTURES:
        from crowdfield.pipeline.totals_picture import choropleth

        write_figure(choropleth(found, state, title=title), path)
        return path
    from crowdfield.io import figures

    columns = tuple((name, hxl(name, found), found.table[name].tolist()) for name in found.table.columns)
    getattr(figures, f"write_{suffix[1:]}")(columns, found.areas.shapes, found.about, path)
    return path


def write_totals_style(found: DistrictTotals, path: str | Path, *, state: Any = None) -> Path | None:
    """Write a style for QGIS beside figures that were written, in the colours of the printed map; None for formats
    that QGIS does not style."""
    from crowdfield.io.qgis_style import write_share_style
    from crowdfield.plot import scale

    column = found.column(state)
    shown = next((s for s in found.states if str(s) == column), found.positive)
    return write_share_style(path, column, scale(scale_name(found.states, found.positive, shown)))


def in_words(name: str) -> str:
    """What a total is of, from the name in its columns."""
    return name.replace(AT_LEAST, AT_LEAST_WORDS, 1) if name.startswith(AT_LEAST) else name


def check_format(path: str | Path) -> None:
    """Raise an error for a suffix that figures are not written as."""
    if Path(path).suffix.lower() not in FORMATS:
        raise InputError(f"{Path(path).name}: figures of districts are written as {', '.join(FORMATS)}.")


def hxl(name: str, found: DistrictTotals) -> str:
    """The HXL tag of a column."""
    from crowdfield.io.layers import slug

    fixed = {
        "area": "#adm+name",
        "cells": "#meta+cells+count+num",
        "weight": "#population+num" if found.weights else "#geo+area+km2+num",
        "reports": "#meta+reports+count+num",
        "unknown_share": "#indicator+unknown+share+num",
        "outside_share": "#indicator+outside+share+num",
        "note": "#description+note",
    }
    if name in fixed:
        return fixed[name]
    for start, tag in (
        ("share_low_", "#indicator+share+min"),
        ("share_high_", "#indicator+share+max"),
        ("share_", "#indicator+share"),
        ("amount_low_", "#affected+min"),
        ("amount_high_", "#affected+max"),
        ("amount_", "#affected"),
    ):
        if name.startswith(start):
            return f"{tag}+{slug(name.removeprefix(start))}+num"
    return f"#indicator+{slug(name)}+num"
