"""From a fitted model to the arrays of a map version, in as many cells as the effort allows."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdfield import pipeline
from crowdfield.data import Grid, Heatmap
from crowdfield.service import moments
from crowdfield.service.effort import PROBE, Effort, coarser
from crowdfield.service.maps import pack
from crowdfield.service.records import Situation
from crowdfield.service.tiles import NO_IDEA


def draw(model: Any, situation: Situation, effort: Effort) -> Heatmap:
    """The map in its own cells, or in larger ones if the effort requires that; without counts of reports."""
    if model is not None:
        grid = effort.grid_to_draw(situation.grid, len(situation.states), lambda: _seconds_per_cell(model, situation))
        counts = np.zeros(grid.shape, dtype=np.int64)
        made = pipeline.make_map(model, grid, counts, field_only=not shows_reports(situation, grid))
        return in_order(made, situation.states)
    # No reports: every state is as probable as the others, and nothing is known.
    grid = effort.grid_to_draw(situation.grid, len(situation.states), lambda: 0.0)
    shape = (*grid.shape, len(situation.states))
    unknown = np.full(shape, 1 / shape[-1]), np.full(shape, NO_IDEA)
    return Heatmap(grid, situation.states, *unknown, np.zeros(grid.shape, dtype=np.int64))


def draw_moment(
    model: Any, situation: Situation, info: Mapping[str, Any], moment: float, cells: NDArray[np.int32]
) -> bytes:
    """The arrays of a version with this info at a moment, in the cells that the version was drawn in. `cells`: its
    counts of reports."""
    drawn = info.get("coarser", {"rows": situation.rows, "columns": situation.columns})
    grid = coarser(situation.grid, drawn["rows"], drawn["columns"])
    shown = moments.at_moment(model, info, moment)
    heatmap = pipeline.make_map(shown, grid, np.zeros(grid.shape, dtype=np.int64), field_only=True)
    return packed_map(in_order(heatmap, situation.states), cells)


def in_order(heatmap: Heatmap, states: Sequence[str]) -> Heatmap:
    """A map with its states in this order. A model may have another one: of two states it takes the one in question to
    be the second."""
    columns = [heatmap.states.index(state) for state in states]
    prior_sd = [heatmap.metadata["prior_sd"][j] for j in columns]
    return replace(
        heatmap,
        states=tuple(states),
        probability=heatmap.probability[..., columns],
        sd=heatmap.sd[..., columns],
        metadata={**heatmap.metadata, "prior_sd": prior_sd},
    )


def packed_map(heatmap: Heatmap, cells: NDArray[np.int32]) -> bytes:
    """A map as the arrays of a version, with the counts of reports in its own cells."""
    return pack(probability=heatmap.probability.astype(np.float32), sd=heatmap.sd.astype(np.float32), reports=cells)


def shows_reports(situation: Situation, grid: Grid) -> bool:
    """Whether cells with reports show the state of the things reported in them, as in `fuse`, and not the field. Unless
    the map is private, no cell may reveal what its only report said. In larger cells than those of the map, a report
    would be shown where it was not made; on a map that moves, when it was not made."""
    return situation.private and not situation.moving and grid == situation.grid


def _seconds_per_cell(model: Any, situation: Situation) -> float:
    centres = situation.grid.centres()
    places = centres[:: max(1, len(centres) // PROBE)]
    began = time.perf_counter()
    model.predict_rate(places)
    return (time.perf_counter() - began) / len(places)
