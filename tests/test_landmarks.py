"""Rivers, lakes and places: what is stored comes back, cut to a box."""

import numpy as np
import pytest
import shapely

from crowdfield import landmarks
from crowdfield.data import Region
from crowdfield.landmarks import Place, places_within, waters_within

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
    caches = (landmarks._waters, landmarks._places)
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
