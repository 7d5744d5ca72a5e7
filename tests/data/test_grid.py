"""A grid: where its cells are, and which cell a place lies in."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crowdfield.data import Grid
from crowdfield.errors import InputError


@st.composite
def grids(draw):
    west, south = draw(st.floats(-1e6, 1e6)), draw(st.floats(-1e6, 1e6))
    width, height = draw(st.floats(1.0, 1e5)), draw(st.floats(1.0, 1e5))
    return Grid(west, west + width, south, south + height, draw(st.integers(1, 40)), draw(st.integers(1, 40)))


@given(grids())
def test_every_centre_lies_in_its_own_cell(grid):
    assert np.array_equal(grid.index(grid.centres()), np.arange(grid.size))


@given(grids(), st.floats(0, 1), st.floats(0, 1))
def test_a_place_is_at_most_half_a_cell_from_its_centre(grid, u, v):
    place = np.array(
        [[grid.west + u * (grid.east - grid.west), grid.south + v * (grid.north - grid.south)]], dtype=float
    )
    place = np.clip(place, [grid.west, grid.south], [grid.east, grid.north])
    away = np.abs(grid.centres()[grid.index(place)] - place)[0]
    assert away[0] <= grid.cell_width / 2 * (1 + 1e-6)
    assert away[1] <= grid.cell_height / 2 * (1 + 1e-6)


def test_row_0_is_the_northernmost_and_edges_are_inside():
    grid = Grid(0, 4, 10, 12, columns=4, rows=2)
    assert grid.centres()[0].tolist() == [0.5, 11.5]
    assert grid.centres()[-1].tolist() == [3.5, 10.5]
    assert grid.index([[0, 12], [4, 12], [0, 10], [4, 10], [2, 11]]).tolist() == [0, 3, 4, 7, 6]
    assert grid.index([[-0.01, 11], [4.01, 11], [1, 9.99], [1, 12.01], [math.nan, 11]]).tolist() == [-1] * 5


def test_the_transform_takes_pixels_to_places():
    grid = Grid(100, 300, 50, 150, columns=4, rows=5)
    a, b, c, d, e, f = grid.transform
    column, row = 3, 4
    assert (a * (column + 0.5) + b * (row + 0.5) + c, d * (column + 0.5) + e * (row + 0.5) + f) == tuple(
        grid.centres()[row * 4 + column]
    )


def test_from_cell_keeps_the_cell_and_the_north_west_corner():
    grid = Grid.from_cell((0, 0, 1050, 990), 100)
    assert grid.shape == (10, 11)
    assert (grid.cell_width, grid.cell_height) == (100, 100)
    assert (grid.west, grid.north) == (0, 990)
    assert grid.east >= 1050 and grid.south <= 0


def test_from_cell_is_not_fooled_by_rounding():
    assert Grid.from_cell((-72.6, 18.2, -72.0, 18.8), 0.006).shape == (100, 100)


def test_counts_count_only_what_is_inside():
    grid = Grid(0, 2, 0, 2, columns=2, rows=2)
    assert grid.counts([[0.5, 1.5], [0.6, 1.6], [1.5, 0.5], [9.0, 9.0]]).tolist() == [[2, 0], [0, 1]]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((1, 0, 0, 1, 2, 2), "west < east"),
        ((0, 1, 1, 0, 2, 2), "south < north"),
        ((0, 1, 0, math.inf, 2, 2), "north must be finite"),
        ((0, "far", 0, 1, 2, 2), "east must be a number"),
        ((0, 1, 0, 1, 0, 2), "columns must be a whole number"),
        ((0, 1, 0, 1, 2, 2.5), "rows must be a whole number"),
        ((0, 1, 0, 1, True, 2), "columns must be a whole number"),
        ((0, 1, 0, 1, 10**6, 10**6), "larger cells"),
        ((1e16, 1e16 + 4, 0, 1, 1000, 1), "too small"),
    ],
)
def test_a_wrong_grid_says_what_is_wrong(arguments, says):
    with pytest.raises(InputError, match=says):
        Grid(*arguments)


@pytest.mark.parametrize(
    ("bounds", "cell", "says"),
    [
        ((0, 1, 0), 1, "got 3 numbers"),
        ((0, 0, 1, 1), 0, "side above 0"),
        ((0, 0, 1, 1), math.nan, "cell must be finite"),
        ((1, 0, 0, 1), 1, "west < east"),
        ((0, 0, 1e9, 1), 1e-9, "larger cells"),
    ],
)
def test_wrong_bounds_or_a_wrong_cell_say_what_is_wrong(bounds, cell, says):
    with pytest.raises(InputError, match=says):
        Grid.from_cell(bounds, cell)


def test_bounds_are_in_the_order_of_geojson_and_extent_in_that_of_matplotlib():
    grid = Grid(west=1, east=2, south=30, north=40, columns=1, rows=1)
    assert grid.bounds == (1, 30, 2, 40) and grid.extent == (1, 2, 30, 40)


def test_places_on_a_grid_have_two_coordinates():
    with pytest.raises(InputError, match=r"\[R, 2\]"):
        Grid(0, 1, 0, 1, 1, 1).index([[0.0, 0.0, 0.0]])
