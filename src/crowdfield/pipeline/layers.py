"""Covariates of a run: its rasters, their learned weights, and how they are stored in its file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from crowdfield.data import Grid, Heatmap
from crowdfield.errors import InputError
from crowdfield.pipeline.settings import Settings


def covariates_of(files: Sequence[str], grid: Grid) -> Any:
    """The rasters that the settings name, as a function of the map's places; None where there are none."""
    if not files:
        return None
    if grid.crs is None:
        raise InputError("covariates from rasters need a map with a reference system.")
    from crowdfield.io import read_covariates

    return read_covariates(files, grid.crs, grid)


def of_settings(settings: Settings, grid: Grid) -> Any:
    """The covariates that the settings name, under the map."""
    return covariates_of(settings.covariates, grid)


def weights(model: Any, grid: Grid) -> list[dict[str, Any]]:
    """The weight of every covariate with a 95 % interval, and how many of its values are missing, as plain values."""
    if getattr(model, "covariates", None) is None:
        return []
    from crowdfield.models.covariates import raw_values

    gaps = (~np.isfinite(raw_values(model.covariates, grid.centres()))).sum(axis=0)
    rows = model.covariate_table().to_dict("records")
    return [{**row, "missing_cells": int(count)} for row, count in zip(rows, gaps, strict=True)]


def sentences(found: Sequence[dict[str, Any]], heatmap: Heatmap) -> list[str]:
    """The weight of each covariate in words, for the state in question; those of the model are for the last state."""
    lines = []
    state = heatmap.positive
    sign = 1 if state == heatmap.states[-1] else -1
    for row in found:
        weight = sign * row["weight"]
        low, high = sorted((sign * row["weight_low"], sign * row["weight_high"]))
        sure = low > 0 or high < 0
        way = ("more" if weight > 0 else "less") + f" {state}" if sure else f"no clear change of {state}"
        line = (
            f"{row['covariate']}: {row['sd']:,.3g} more (one standard deviation) means {way}: "
            f"log odds {weight:+.2f} (95 %: {low:+.2f} to {high:+.2f})"
        )
        if row["missing"] or row["missing_cells"]:
            line += (
                f"; no value at {int(row['missing']):,} places with reports and {row['missing_cells']:,} cells, "
                "where its average stands in"
            )
        lines.append(line)
    return lines
