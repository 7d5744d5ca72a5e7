"""Rivers, lakes and places: what is stored comes back, cut to a box."""

import numpy as np
import pytest
import shapely

from crowdfield import landmarks
from crowdfield.data import Grid, Region
from crowdfield.io import land
from crowdfield.landmarks import Place, largest_waters, places_within, waters_within
from crowdfield.plot import coast
from crowdfield.plot.sheet_layout import credit_line

RIVER = shapely.LineString([(-72.5, 18.0), (-72.4, 18.00001), (-72.3, 18.0), (-70.0, 18.5)])
BROOK = shapely.LineString([(-72.5, 18.2), (-72.49, 18.2)])
LAKE = shapely.Polygon([(-72, 18), (-71, 18), (-71, 19), (-72, 19)], [[(-71.6, 18.4), (-71.4, 18.4), (-71.4, 18.6)]])
TOWNS = [
    Place("Léogâne", -72.634, 18.511, 134190, ["Leyogàn"]),
    Place("Port-au-Prince", -72.3388, 18.5435, 1234742, ["太子港", "بورت أو برانس"]),
    Place("Taveuni", 179.99, -16.9, 9000, []),
    Place("Rabi", -179.98, -16.5, 5000, []),
]


@pytest.fixture
def stored(tmp_path, monkeypatch):
    """The files that `make setup` would have made."""
    monkeypatch.setattr(landmarks, "WATERS", tmp_path / "waters.npz")
    monkeypatch.setattr(landmarks, "PLACES", tmp_path / "places.npz")
    caches = (landmarks._waters, landmarks._places, coast.water_lines)
    for cache in caches:
        cache.cache_clear()
    yield
    for cache in caches:
        cache.cache_clear()


@pytest.fixture
def written(stored):
    landmarks.write_waters(landmarks.WATERS, np.array([RIVER, BROOK]), np.array([LAKE]))
    landmarks.write_places(landmarks.PLACES, TOWNS)


def test_rivers_and_lakes_are_cut_to_a_box(written):
    found = waters_within(Region(-72.45, 17.0, -71.5, 20.0), 0.0, 0.0)
    (river,), (lake,) = found["river"], found["lake"]
    assert river.bounds[0] == -72.45 and river.bounds[2] == -71.5
    assert lake.bounds == pytest.approx((-72.0, 18.0, -71.5, 19.0))
    assert not lake.contains(shapely.Point(-71.55, 18.42))  # an island
    assert all(len(shapes) == 0 for shapes in waters_within(Region(0.0, 0.0, 1.0, 1.0), 0.0, 0.0).values())


def test_what_would_not_show_is_left_out(written):
    box = Region(-73.0, 17.0, -69.0, 20.0)
    every, large = waters_within(box, 0.0, 0.0)["river"], waters_within(box, 0.01, 0.05)["river"]
    assert len(every) == 2 and len(large) == 1
    # Stored to 0.0001°; without the bend of a metre there are three points.
    assert shapely.get_num_points(large).tolist() == [3]
    assert shapely.hausdorff_distance(large[0], RIVER) < 0.01


def test_the_largest_places_of_a_box_come_first_with_all_their_names(written):
    haiti = Region(-74.0, 18.0, -72.0, 20.0)
    capital, town = places_within(haiti, 9)
    assert (capital.longitude, capital.latitude) == pytest.approx((-72.3388, 18.5435))
    assert (capital.name, capital.population, capital.others) == (TOWNS[1].name, 1234742, TOWNS[1].others)
    assert (town.name, town.others) == ("Léogâne", ["Leyogàn"])
    assert [place.name for place in places_within(haiti, 1)] == ["Port-au-Prince"]
    east = Region(-72.5, 18.0, -72.0, 20.0)
    assert [place.name for place in places_within(haiti, 9, outside=east)] == ["Léogâne"]


def test_a_box_across_the_antimeridian_has_places_on_both_sides(written):
    assert [place.name for place in places_within(Region(179.0, -18.0, -179.0, -16.0), 9)] == ["Taveuni", "Rabi"]


def test_without_the_files_there_is_nothing(stored):
    world = Region(-180.0, -90.0, 180.0, 90.0)
    assert places_within(world, 9) == []
    assert all(len(shapes) == 0 for shapes in waters_within(world, 0.0, 0.0).values())


def test_of_very_many_waters_the_largest_are_left(written):
    box = Region(-73.0, 17.0, -69.0, 20.0)
    assert [kind for kind, _ in largest_waters([box], 1e-3, 5.0, 100)] == ["river", "river", "lake"]
    fewer = largest_waters([box], 1e-3, 5.0, 12)  # the river has 3 points, the lake with its island 9
    assert [kind for kind, _ in fewer] == ["river", "lake"]
    assert sum(shapely.get_num_coordinates(shape) for _, shape in fewer) <= 12


HAITI = Grid(-73.0, -70.0, 17.5, 19.5, 59, 37, "EPSG:4326")


def test_pictures_have_rivers_and_the_shores_of_lakes(written):
    lines = coast.water_lines(HAITI)
    drawn = shapely.MultiLineString(lines)
    assert len(lines) == 3 and drawn.bounds == pytest.approx((-72.5, 18.0, -70.0, 19.0), abs=1e-3)
    assert drawn.distance(shapely.Point(-71.5, 18.4)) < 1e-3  # the shore of the island in the lake
    assert "GSHHG" in credit_line(HAITI)
    # Across the antimeridian, and where details would be too coarse.
    assert coast.water_lines(Grid(179.0, 181.0, -19.0, -16.0, 20, 30, "EPSG:4326")) == []
    assert coast.water_lines(Grid(-72.1, -72.0, 18.0, 18.1, 20, 20, "EPSG:4326")) == []
    assert coast.water_lines(Grid(0.0, 1.0, 0.0, 1.0, 2, 2, None)) == []


def test_without_the_files_pictures_have_no_waters_and_do_not_credit_them(stored):
    assert coast.water_lines(HAITI) == []
    assert "GSHHG" not in credit_line(HAITI)


def test_nobody_is_sent_to_look_at_a_lake(written, monkeypatch):
    hispaniola = -75.0, 17.0, -69.0, 20.0
    countries = np.array([shapely.box(*hispaniola)]), np.array(hispaniola)[:, None]
    monkeypatch.setattr(land, "countries", lambda: countries)
    monkeypatch.setattr(land, "OUTLINES", landmarks.WATERS)  # as if the outlines were installed
    dry = land.on_land(HAITI)
    in_lake = shapely.contains_xy(LAKE, *HAITI.centres().T).reshape(HAITI.shape)
    assert in_lake.any() and (dry == ~in_lake).all()
    assert land.on_land(Grid(-71.51, -71.49, 18.9, 18.92, 1, 1, "EPSG:4326")).tolist() == [[False]]
    assert land.at_sea(-71.5, 18.9) is False  # a lake is no sea
