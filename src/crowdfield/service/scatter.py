"""Where in their cells reports are moved before a map is fitted, so that no map reveals the exact place of a report.

A report changes the map most at its own place, so the exact numbers of two versions would reveal that place within
metres. Therefore a fit uses only the cell of each report. Within a cell, the first reported place becomes the first
point of a fixed sequence, the second place the second point, and so on: reports of one place stay together, those of
different places stay apart, and the map depends on cells only. Accuracies are rounded to whole cells.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crowdfield.data import Grid

# The R2 sequence of Roberts: multiples of the inverse plastic number and of its square fill a square evenly.
STEP = np.array([0.7548776662466927, 0.5698402909980532])
# The share of a cell that is left free on each side, so that rounding never moves a report into the next cell.
EDGE = 0.05


def scattered(grid: Grid, metres: ArrayLike) -> NDArray[np.float64]:
    """Each place replaced by a point of its cell; places outside the grid are unchanged.   [R, 2] -> [R, 2]"""
    given = np.asarray(metres, dtype=np.float64).reshape(-1, 2)
    if not len(given):
        return given
    places, first, which = np.unique(given, axis=0, return_index=True, return_inverse=True)
    cell = grid.index(places)
    # Number the places of each cell in the order in which they were first reported from.
    order = np.lexsort((first, cell))
    starts = np.flatnonzero(np.r_[True, np.diff(cell[order]) != 0])
    number = np.empty(len(places), dtype=np.int64)
    number[order] = np.arange(len(places)) - np.repeat(starts, np.diff(np.r_[starts, len(places)]))
    # From 1: number 0 is the centre, where the map is evaluated; a report there would determine its cell alone.
    share = (0.5 + (number[:, None] + 1) * STEP) % 1.0
    offset = (EDGE + (1 - 2 * EDGE) * share - 0.5) * (grid.cell_width, grid.cell_height)
    on = cell >= 0
    places[on] = grid.centres()[cell[on]] + offset[on]
    return places[which.ravel()]


def in_whole_cells(grid: Grid, accuracy: NDArray[np.float64]) -> NDArray[np.float64]:
    """Accuracies in metres, rounded to multiples of a cell's longer side; NaN where they are not known.   [R] -> [R]"""
    side = max(grid.cell_width, grid.cell_height)
    return np.asarray(side * np.round(accuracy / side))
