"""Degrees and metres: places survive the way there and back, anywhere on Earth."""

import json
import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from crowdfield import geography, io
from crowdfield.data import Grid, Region, Reports
from crowdfield.errors import InputError


@pytest.mark.parametrize(
    ("text", "metres"),
    [("250m", 250), ("2km", 2000), (" 2 km ", 2000), ("0.5mi", 804.672), ("1e3 m", 1000), ("250", 250), (250, 250)],
)
def test_lengths_are_in_metres(text, metres):
    assert geography.parse_length(text) == metres


@pytest.mark.parametrize("text", ["", "m", "2 miles", "-5m", "0", 0, math.nan, "1,5km", None, True])
def test_text_that_is_not_a_length_is_refused(text):
    with pytest.raises(InputError, match="length"):
        geography.parse_length(text)


@pytest.mark.parametrize(
    ("text", "region"),
    [
        ("-72.6,18.2,-72.0,18.8", (-72.6, 18.2, -72.0, 18.8)),
        ("170 -20 -170 -10", (170, -20, -170, -10)),
        ("170,-20,190,-10", (170, -20, -170, -10)),
        ("-180,-90,180,90", (-180, -90, 180, 90)),
        ((170, 0, 180, 1), (170, 0, 180, 1)),
        ((-74, -34, -34, 5), (-74, -34, -34, 5)),  # Brazil, which makes a box in either order
        ("west=2,south=3,east=48,north=49", (2, 3, 48, 49)),
        ({"north": 18.8, "west": -72.6, "east": -72, "south": 18.2}, (-72.6, 18.2, -72.0, 18.8)),
    ],
)
def test_regions_are_west_south_east_north(text, region):
    found = geography.parse_region(text)
    assert found == pytest.approx(region) and found.north == region[3]
    # What was read once is not doubted again.
    assert geography.parse_region(found) == found


@pytest.mark.parametrize(
    "text",
    [
        "", "1,2,3", "a,b,c,d", "0,2,1,1", "0,-91,1,0", "0,0,0,1", "0,0,400,1", "nan,0,1,1", "-200,0,0,1",
        "west=1,south=2,east=3", "west=1,south=2,east=3,top=4", {"west": 0}, None, 5, "0,0,1,91",
    ],
)  # fmt: skip
def test_text_that_is_not_a_region_is_refused(text):
    with pytest.raises(InputError, match="region"):
        geography.parse_region(text)


@pytest.mark.parametrize(
    "box",
    [
        (-72.6, -72.0, 18.2, 18.8),  # Port-au-Prince: valid as west,south,east,north, but a quarter of the Earth
        (2.2, 2.5, 48.7, 49.0),  # Paris
        (-5, 10, 42, 51),  # France
        (34.72, 34.95, -19.92, -19.74),  # Beira: south of the south
        (113, 154, -44, -10),  # Australia: no such latitude
        (177, -178, -20, -15),  # Fiji, across the antimeridian
    ],
)
def test_a_box_in_the_order_west_east_south_north_is_refused_and_the_right_order_told(box):
    with pytest.raises(InputError, match="west,south,east,north"):
        geography.parse_region(box)
    west, east, south, north = box
    assert geography.parse_region((west, south, east, north)).east == east


def test_a_region_is_half_open_so_that_neighbours_share_nothing():
    left, right = geography.parse_region("0,0,10,10"), geography.parse_region("10,0,20,10")
    for lon in (0.0, 5.0, 10.0, 15.0):
        assert geography.within(left, [lon], [0.0])[0] != geography.within(right, [lon], [0.0])[0]


def test_a_region_may_cross_the_antimeridian():
    fiji = geography.parse_region("177,-20,-178,-15")
    assert geography.within(fiji, [179, -179, 180, -180, 0, 176, -177], [-18] * 7).tolist() == [True] * 4 + [False] * 3


@given(st.lists(st.tuples(st.floats(-180, 180), st.floats(-90, 90)), min_size=1, max_size=20))
def test_bounds_hold_all_places_and_are_the_narrowest(places):
    west, south, east, north = geography.bounds(places)
    for lon, lat in places:
        assert (lon - west + 1e-9) % 360 <= (east - west) % 360 + 2e-9 and south <= lat <= north
    assert (east - west) % 360 <= 360 - 360 / (len(places) + 1)


def test_bounds_cross_the_antimeridian_where_that_is_shorter():
    assert geography.bounds([[179, 0], [-179, 1], [178, 2]]) == (178, 0, -179, 2)


@pytest.mark.parametrize(
    ("region", "crs"),
    [
        ((-72.6, 18.2, -72.0, 18.8), "EPSG:32618"),
        ((140, -38, 141, -37), "EPSG:32754"),
        ((179, -19, -179, -17), "EPSG:32701"),
        ((36, -1, 36, -1), "EPSG:32737"),
    ],
)
def test_a_small_region_gets_its_utm_zone(region, crs):
    assert geography.choose_crs(region) == crs


@pytest.mark.parametrize("region", [(-20, -35, 40, 37), (0, 85, 1, 89), (-180, -90, 180, -60), (100, -89, 100.1, -88)])
def test_large_and_polar_regions_get_an_equal_area_projection(region):
    crs = geography.choose_crs(region)
    assert crs.startswith("+proj=laea")
    lon, lat = (region[0] + region[2]) / 2, (region[1] + region[3]) / 2
    back = geography.unproject(geography.transform([[lon, lat]], "EPSG:4326", crs), crs)[0]
    assert back == pytest.approx([lon, lat], abs=1e-6)


@st.composite
def neighbourhoods(draw):
    """Some places within a few kilometres to a few hundred of each other, anywhere, poles and antimeridian included."""
    lon, lat = draw(st.floats(-180, 180)), draw(st.floats(-89, 89))
    spread = draw(st.sampled_from([0.01, 0.3, 3.0]))
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    places = rng.uniform(-spread, spread, (draw(st.integers(1, 15)), 2)) + np.array([lon, lat])
    places[:, 1] = np.clip(places[:, 1], -89.9, 89.9)
    places[:, 0] = geography.wrap(places[:, 0])
    return places


@pytest.mark.parametrize(("others", "left_out"), [(2, False), (10, True)])
def test_exchanged_coordinates_are_recognised_only_among_enough_other_places(others, left_out):
    """Near 37° N 37° E, where every place lies among the others with latitude and longitude exchanged, or nearly."""
    places = [[37.5 + i / 1000, 36.5] for i in range(others)]
    assert (geography.main_bounds([*places, [36.5, 37.5]]).west > 37.0) is left_out


@settings(max_examples=60, deadline=None)
@given(neighbourhoods())
def test_places_survive_projection_grid_and_back_within_half_a_cell(places):
    reports = Reports.from_arrays(places, np.zeros(len(places), int), crs="EPSG:4326")
    grid = geography.make_grid(reports)
    projected = geography.project(reports, grid.crs)
    snapped = projected.snap(grid)
    away = np.abs(snapped.places - projected.places)
    assert (away <= np.array([grid.cell_width, grid.cell_height]) / 2 * (1 + 1e-6)).all()
    lon, lat = geography.unproject(projected.places, str(grid.crs)).T
    assert np.abs((lon - places[:, 0] + 180) % 360 - 180).max() <= 1e-6 / math.cos(math.radians(np.abs(lat).max()))
    assert lat == pytest.approx(places[:, 1], abs=1e-6)


@settings(max_examples=25, deadline=None)
@given(neighbourhoods(), st.sampled_from([",", ";"]))
def test_a_file_of_places_survives_reading_projection_and_grid(tmp_path_factory, places, delimiter):
    path = tmp_path_factory.mktemp("places") / "places.csv"
    lines = [f"{lat!r}{delimiter}{lon!r}{delimiter}{i % 2}" for i, (lon, lat) in enumerate(places.tolist())]
    path.write_text("\n".join([delimiter.join(("lat", "lon", "label")), *lines]) + "\n")
    reports = io.read(path).reports
    assert np.array_equal(reports.places, places)
    grid = geography.make_grid(reports, cell="500m" if np.ptp(places[:, 1]) < 0.1 else "20km")
    there = geography.project(reports, grid.crs)
    back = geography.unproject(there.snap(grid).places, str(grid.crs))
    # Half a cell in each direction, measured on the ground.
    again = geography.transform(back, "EPSG:4326", str(grid.crs))
    assert np.abs(again - there.places).max() <= grid.cell_width / 2 * (1 + 1e-6)


def test_distances_near_a_report_are_true_to_a_thousandth():
    for lon, lat in [(0, 0), (-72.3, 18.5), (179.9, -18), (25, 70)]:
        east = geography.project(Reports.from_arrays([[lon, lat], [lon, lat + 0.01]], [0, 0], crs="EPSG:4326"))
        metres = np.linalg.norm(np.diff(east.places, axis=0))
        # A degree of latitude is 110.57 km at the equator and 111.69 km at the poles.
        degree = 111_132.95 - 559.85 * math.cos(2 * math.radians(lat + 0.005)) + 1.175 * math.cos(4 * math.radians(lat))
        assert metres == pytest.approx(0.01 * degree, rel=1e-3)


def test_a_grid_over_a_region_covers_all_of_it():
    grid = geography.make_grid(region="-72.6,18.2,-72.0,18.8", cell="250m")
    assert (grid.cell_width, grid.cell_height, grid.crs) == (250, 250, "EPSG:32618")
    edge = np.array([[lon, lat] for lon in np.linspace(-72.6, -72.0, 50) for lat in np.linspace(18.2, 18.8, 50)])
    assert (grid.index(geography.transform(edge, "EPSG:4326", str(grid.crs))) >= 0).all()


def test_a_grid_across_the_antimeridian_is_one_piece():
    grid = geography.make_grid(region="177,-20,-178,-15", cell="10km")
    assert grid.east - grid.west < 600_000
    lon, _ = geography.unproject(grid.centres(), str(grid.crs)).T
    assert (lon > 0).any() and (lon < 0).any()


def test_a_few_places_far_away_do_not_stretch_the_map():
    rng = np.random.default_rng(0)
    town = rng.normal([179.95, -18.0], 0.05, (500, 2))
    town[:, 0] = geography.wrap(town[:, 0])
    places = np.concatenate([town, [[0.0, 0.0], [-72.3, 18.5], [46.9, -18.8]]])
    reports = Reports.from_arrays(places, np.zeros(len(places), int), crs="EPSG:4326")
    grid = geography.make_grid(reports)
    assert grid.crs == "EPSG:32760" and grid.east - grid.west < 60_000
    inside = grid.index(geography.transform(town, "EPSG:4326", str(grid.crs))) >= 0
    assert inside.mean() > 0.98
    # Where nothing stands out, nothing is left out.
    alone = Reports.from_arrays(town, np.zeros(len(town), int), crs="EPSG:4326")
    whole = geography.make_grid(alone)
    assert (whole.index(geography.project(alone, whole.crs).places) >= 0).all()


@pytest.mark.parametrize(("far", "left_out"), [(2, True), (4, True), (5, False)])
def test_at_most_one_place_in_fifty_is_taken_for_a_mistake(far, left_out):
    town = np.random.default_rng(0).normal([-72.3, 18.5], 0.05, (200 - far, 2))
    places = np.concatenate([town, np.tile([[30.0, 40.0]], (far, 1))])
    assert geography.main_bounds(places) == geography.bounds(town if left_out else places)


@pytest.mark.parametrize(("at", "left_out"), [((-72.3, 18.5), True), ((6.6, 0.3), True), ((1.0, 1.0), False)])
def test_places_at_zero_are_left_out_unless_others_are_in_the_sea_around_them(at, left_out):
    town = np.random.default_rng(0).normal(at, 0.05, (20, 2))
    places = np.concatenate([town, np.zeros((9, 2))])
    assert geography.main_bounds(places) == geography.bounds(town if left_out else places)
    assert geography.main_bounds(np.zeros((3, 2))) == geography.bounds(np.zeros((3, 2)))


def test_places_that_lie_farther_and_farther_out_are_all_kept():
    out = 0.05 * 1.8 ** np.arange(8)
    places = np.concatenate([np.random.default_rng(0).normal(0, 0.02, (500, 2)), np.column_stack([out, out])])
    assert geography.main_bounds(places) == geography.bounds(places)


@pytest.mark.parametrize("region", [Region(-10, -5, 20, 5), Region(170, -5, -170, 5)])
def test_a_region_holds_each_of_many_places_as_it_holds_one(region):
    edges = [(x, y) for x in (-180, -170, -10, 0, 20, 170, 180) for y in (-5.01, -5, 0, 5, 5.01)]
    assert region.holds_each(np.array(edges, dtype=float)).tolist() == [region.holds(*place) for place in edges]


def test_a_grid_at_the_pole_holds_the_pole():
    grid = geography.make_grid(region="-180,80,180,90", cell="50km")
    assert grid.index(geography.transform([[0, 90]], "EPSG:4326", str(grid.crs)))[0] >= 0


def test_one_place_still_gets_a_map_and_its_cells_do_not_move():
    one = Reports.from_arrays([[-72.3, 18.5]], [1], crs="EPSG:4326")
    grid = geography.make_grid(one)
    assert grid.size >= 100 and grid.cell_width in {10.0, 20.0}
    assert grid.west % grid.cell_width == 0 and grid.south % grid.cell_width == 0
    with pytest.raises(InputError, match="region or some reports"):
        geography.make_grid(Reports.from_arrays(np.empty((0, 2)), []))


SQUARE = {"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [1, 1], [0, 1], [0, 0]]]}


@pytest.mark.parametrize(
    "area",
    [
        SQUARE,
        {"type": "Feature", "properties": {}, "geometry": SQUARE},
        {"type": "FeatureCollection", "features": [{"type": "Feature", "properties": {}, "geometry": SQUARE}]},
    ],
)
def test_a_mask_keeps_the_cells_whose_centres_lie_inside(tmp_path, area):
    grid = Grid(-1, 2, -1, 2, columns=6, rows=6, crs="EPSG:4326")
    path = tmp_path / "land.geojson"
    path.write_text(json.dumps(area))
    for given_as in (area, path, str(path)):
        inside = geography.mask(grid, given_as)
        assert inside.sum() == 4 and inside[2:4, 2:4].all()


def test_a_mask_may_be_any_vector_file_in_any_system(tmp_path):
    geopandas = pytest.importorskip("geopandas")
    import shapely

    frame = geopandas.GeoDataFrame(geometry=[shapely.box(0, 0, 1, 1)], crs="EPSG:4326").to_crs("EPSG:3857")
    frame.to_file(tmp_path / "land.gpkg")
    assert geography.mask(Grid(-1, 2, -1, 2, 6, 6, crs="EPSG:4326"), tmp_path / "land.gpkg").sum() == 4


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{}", "not a GeoJSON"),
        ("not json", "not GeoJSON"),
        ('{"type": "Point", "coordinates": [0, 0]}', "no area"),
        ('{"type": "FeatureCollection", "features": []}', "contains no features"),
    ],
)
def test_a_mask_without_polygons_is_refused(tmp_path, content, says):
    path = tmp_path / "land.geojson"
    path.write_text(content)
    with pytest.raises(InputError, match=says):
        geography.mask(Grid(0, 1, 0, 1, 2, 2), path)
    with pytest.raises(InputError, match="cannot be read"):
        geography.mask(Grid(0, 1, 0, 1, 2, 2), tmp_path / "gone.geojson")


@pytest.mark.parametrize("crs", ["EPSG:0", "nowhere", ""])
def test_text_that_is_not_a_reference_system_is_refused(crs):
    with pytest.raises(InputError, match="EPSG:4326"):
        geography.check_crs(crs)
    with pytest.raises(InputError, match="EPSG:4326"):
        geography.transform([[0, 0]], crs, "EPSG:32618")


def test_a_place_that_a_projection_cannot_show_is_an_error():
    with pytest.raises(InputError, match="cannot be shown"):
        geography.transform([[np.inf, 0.0]], "EPSG:4326", "EPSG:32618")


def test_reports_on_the_far_side_of_the_earth_can_be_dropped():
    reports = Reports.from_arrays([[-87.0, 14.0], [3.0, 0.0]], ["a", "b"], crs="EPSG:4326")
    with pytest.raises(InputError, match="cannot be shown"):
        geography.project(reports, "EPSG:32616")
    seen = geography.project(reports, "EPSG:32616", unseen="drop")
    assert len(seen) == 1 and seen.labels == ("a", "b")


@given(st.floats(-1e4, 1e4))
def test_wrapping_a_longitude_changes_only_whole_turns(lon):
    wrapped = geography.wrap(lon)
    assume(abs(wrapped) < 180 - 1e-6)
    assert -180 <= wrapped < 180 and round((wrapped - lon) / 360) * 360 == pytest.approx(wrapped - lon, abs=1e-6)
