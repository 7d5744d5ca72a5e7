"""Spot checks of a published map: places to check, and their results, computed as `crowdfield assess` does.

A plan depends only on the published probabilities and uncertainties, so it reveals no more than the map does.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from crowdfield.data import Heatmap
from crowdfield.errors import InputError
from crowdfield.io.land import on_land
from crowdfield.io.layers import plain
from crowdfield.pipeline import sampling_plan
from crowdfield.pipeline.assessing import assess
from crowdfield.pipeline.totals import square_kilometres
from crowdfield.service.maps import MapArrays


def checked_map(now: MapArrays) -> Heatmap:
    """The map that is checked; for a map of the land, only its cells on land. Only the outlines of countries decide, so
    that the plan does not reveal which cells at sea have reports."""
    heatmap = now.heatmap()
    land = on_land(now.grid) if now.info.info.get("land") else None
    if land is None or not land.any():
        return heatmap
    nowhere = ~land[..., None]
    return replace(
        heatmap,
        probability=np.where(nowhere, np.nan, heatmap.probability),
        sd=np.where(nowhere, np.nan, heatmap.sd),
    )


def draw_plan(now: MapArrays, *, size: int | None, margin: float, level: float, seed: int) -> sampling_plan.Plan:
    """A plan of places to check on a published map."""
    return sampling_plan.plan(checked_map(now), size=size, margin=margin, level=level, seed=seed)


def plan_as_json(found: sampling_plan.Plan, version: int) -> dict[str, Any]:
    """The summary of a plan, without its places."""
    strata = plain(found.strata.to_dict("records"))
    return {
        "version": version, "places": len(found.places), "seed": found.seed, "level": found.level,
        "margin": float(found.margin), "strata": strata,
    }  # fmt: skip


def write_plan(found: sampling_plan.Plan, path: Path) -> None:
    """Write a plan to a file."""
    sampling_plan.write_plan(found, path)


def result_as_json(now: MapArrays, columns: dict[str, list[Any]], level: float) -> dict[str, Any]:
    """The result of spot checks: the figures of `crowdfield assess result`, and the area of the checked map."""
    heatmap = checked_map(now)
    frame = pd.DataFrame(columns)
    given = [name for name in ("easting", "northing", "longitude", "latitude", "stratum_cells") if name in frame]
    if "state" in frame and frame.loc[frame["state"].notna(), given].isna().any(axis=None):
        raise InputError(f"a place with an answer has no {', '.join(given)}: keep the columns of the plan")
    found = assess(heatmap, frame, level)
    area = float(square_kilometres(now.grid)[heatmap.mask.ravel()].sum())
    return {"version": now.info.number, "square_kilometres": area, **found.plain()}
