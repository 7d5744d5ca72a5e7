"""From a request to a new map: its states, its region, its cells."""

import time

from crowdfield import geography
from crowdfield.data import Grid, Region
from crowdfield.data.grade_order import order_of
from crowdfield.data.positive import decide
from crowdfield.errors import InputError
from crowdfield.service.records import Situation
from crowdfield.service.schemas import NewSituation

MOST_CELLS = 1_048_576


def plan(region: Region, columns: int, rows: int | None = None) -> Grid:
    """The cells of a map of this region."""
    return checked(geography.cover(region, columns, rows))


def checked(grid: Grid) -> Grid:
    """The grid, or an error if it has too many cells."""
    if grid.size > MOST_CELLS:
        raise InputError(f"{grid.columns} × {grid.rows} cells are more than {MOST_CELLS:,}; choose fewer columns")
    return grid


def build(new: NewSituation, grid: Grid | None = None) -> Situation:
    """A new map, with the cells of `grid` if one is given."""
    grid = grid or plan(new.region, new.columns, new.rows)
    # Grades stand in their order, so that models and maps count states alike. A prior names its states in their own.
    order = None if new.model.confusion_prior is not None else new.model.grades or order_of(new.states)
    states = tuple(order or new.states)
    question = str(new.positive or decide(states).state)
    return Situation(
        id=new.id,
        title=new.title,
        states=states,
        labels=tuple(new.labels or new.states),
        region=new.region,
        crs=str(grid.crs),
        extent=grid.extent,
        columns=grid.columns,
        rows=grid.rows,
        model=new.model.model_dump() | {"question": question} | new.options,
        created=time.time(),
    )
