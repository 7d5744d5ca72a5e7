"""Whether the memory and time of this machine are enough for a map, checked before the fit."""

from __future__ import annotations

import math
import os

from crowdfield.data import Grid
from crowdfield.errors import InputError

# Bytes per cell while a map is made and written, and further bytes per cell and state.
BYTES_PER_CELL, BYTES_PER_STATE = 120, 64
# Cells drawn per second, a low estimate; it depends on the engine.
CELLS_PER_SECOND = 20_000
MOST_SECONDS = 3600.0
MEMORY_SHARE = 0.5  # share of the machine's memory; the fit, the system and others need the rest


def check_size(grid: Grid, states: int) -> None:
    """Raise an error that names a possible cell size if a map does not fit into memory or takes hours."""
    memory, most = grid.size * (BYTES_PER_CELL + BYTES_PER_STATE * states), MEMORY_SHARE * machine_memory()
    seconds = grid.size / CELLS_PER_SECOND
    if memory <= most and seconds <= MOST_SECONDS:
        return
    fits = min(grid.size * most / memory, MOST_SECONDS * CELLS_PER_SECOND)
    raise InputError(
        f"{grid.columns:,} × {grid.rows:,} cells of {grid.cell_width:g} m would take about {_size(memory)} of memory "
        f"and {_duration(seconds)} to draw. Use --cell {_rounded_up(grid.cell_width * math.sqrt(grid.size / fits))} or "
        "larger, or a smaller --region W,S,E,N."
    )


def machine_memory() -> float:
    """Bytes; where a system does not tell, what a small machine has."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return 8.0 * 2**30


def _size(count: float) -> str:
    return f"{count / 2**30:,.0f} GiB" if count >= 2**30 else f"{count / 2**20:,.0f} MiB"


def _duration(seconds: float) -> str:
    return f"{seconds / 3600:,.0f} hours" if seconds >= 7200 else f"{seconds / 60:,.0f} minutes"


def _rounded_up(metres: float) -> str:
    """A round length that is not shorter: 1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(metres))
    whole = next(step * power for step in (1.0, 2.0, 5.0, 10.0) if step * power >= metres)
    return f"{whole / 1000:g}km" if whole >= 1000 else f"{whole:g}m"
