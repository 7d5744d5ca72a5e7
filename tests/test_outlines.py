"""The outlines of countries, and what they say about places near the antimeridian and the poles."""

import numpy as np
import pytest
import shapely

from crowdfield import outlines
from crowdfield.io import land

SCALE, SHIFT = [1.0, 1.0], [0.0, 0.0]


def decoded(*ring):
    """One polygon, from a TopoJSON file whose arc is given as places."""
    steps = np.diff(np.array(ring), axis=0, prepend=0).tolist()
    geometry = {"type": "Polygon", "arcs": [[0]]}
    return outlines.decode(
        {
            "transform": {"scale": SCALE, "translate": SHIFT},
            "arcs": [steps],
            "objects": {"countries": {"geometries": [geometry]}},
        },
        "countries",
    )


def test_an_island_across_the_antimeridian_becomes_one_piece_on_each_side():
    found = decoded((170, 0), (-170, 0), (-170, 10), (170, 10), (170, 0))
    assert sorted(shape.bounds for shape in found) == [(-180.0, 0.0, -170.0, 10.0), (170.0, 0.0, 180.0, 10.0)]


def test_a_ring_around_the_earth_holds_its_pole():
    (found,) = decoded((-180, -60), (-90, -70), (0, -65), (90, -70), (180, -60), (-180, -60))
    assert found.is_valid and found.bounds == (-180.0, -90.0, 180.0, -60.0)
    assert shapely.contains_xy(found, 10.0, -89.0)


def test_a_country_on_one_side_is_left_as_it_is():
    (found,) = decoded((10, 0), (20, 0), (20, 10), (10, 0))
    assert found.equals(shapely.Polygon([(10, 0), (20, 0), (20, 10)]))


@pytest.mark.parametrize(
    ("longitude", "latitude", "sea"),
    [
        (175.0, 68.0, False),  # Chukotka, west of the antimeridian
        (-175.0, 66.5, False),  # and east of it
        (178.0, -17.8, False),  # Viti Levu
        (0.0, -16.52, True),  # the Atlantic, at the latitude of Fiji's islands on the antimeridian
        (0.0, -89.0, False),  # Antarctica
    ],
)
def test_places_far_from_the_antimeridian_do_not_belong_to_countries_on_it(longitude, latitude, sea):
    if not outlines.OUTLINES.is_file():
        pytest.skip("the outlines were not fetched; make setup does it")
    assert land.at_sea(longitude, latitude) is sea
