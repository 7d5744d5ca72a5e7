"""Regions of maps on a real server: one order for all that goes in and out; boxes that cannot be meant are refused."""

import pytest
from tests.service.served import serving

MAP = {"title": "A map", "states": ["dry", "flooded"], "columns": 8}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("regions")) as running:
        yield running


@pytest.mark.parametrize(
    ("region", "says"),
    [
        ([-72.6, -72.0, 18.2, 18.8], "looks like west,east,south,north"),
        ([2.2, 2.5, 48.7, 49.0], "looks like west,east,south,north"),
        ([177, -178, -20, -15], "The order is west,south,east,north"),
        ([34.72, 34.95, -19.92, -19.74], "The order is west,south,east,north"),
        ([0, 50, 1, 50], "south < north"),
        ([0, 51, 1, 50], "south < north"),
        ([0, 50, 0, 51], "longitudes"),
        ([-181, 50, 0, 51], "longitudes"),
        ([190, 50, 200, 51], "longitudes"),
        ([0, 50, 1, 91], "south < north"),
        ([0, 50, 1], "west,south,east,north"),
        ("0,50,1,51", "west,south,east,north"),
        ([0, 50, 1, None], "west,south,east,north"),
        ([0, 50, 1e-7, 51], "too small"),
        ({"west": 0, "south": 1, "east": 2}, "west,south,east,north"),
    ],
)
def test_a_box_that_cannot_be_meant_is_refused_and_the_order_told(served, region, says):
    with served.client("admin") as client:
        answer = client.post("/situations", json=MAP | {"id": "box", "region": region})
    assert answer.status_code == 422 and says in answer.text


@pytest.mark.parametrize(
    ("region", "kept"),
    [
        ([-72.6, 18.2, -72.0, 18.8], [-72.6, 18.2, -72.0, 18.8]),
        ({"north": 18.8, "south": 18.2, "east": -72.0, "west": -72.6}, [-72.6, 18.2, -72.0, 18.8]),
        ([177, -20, -178, -15], [177, -20, -178, -15]),
        # A quarter of the Earth, if somebody says so by name.
        ({"west": -60, "south": -55, "east": 20, "north": 25}, [-60, -55, 20, 25]),
    ],
)
def test_a_region_goes_in_and_comes_out_as_west_south_east_north(served, region, kept):
    with served.client("admin") as client:
        made = client.post("/situations", json=MAP | {"id": "kept", "region": region})
        assert made.status_code == 201 and made.json()["region"] == kept
        assert client.get("/situations/kept").json()["region"] == kept
        assert client.get("/ogc/collections/kept").json()["extent"]["spatial"]["bbox"] == [kept]
        west, south, _, north = kept
        inside = {"longitude": (west + 1e-3), "latitude": (south + north) / 2, "label": "dry"}
        assert client.post("/situations/kept/reports", json=inside).status_code == 201
        assert client.post("/situations/kept/reports", json=inside | {"latitude": north + 1}).status_code == 422
        client.delete("/situations/kept").raise_for_status()


@pytest.mark.parametrize("box", ["0,1,2", "-72.6,18.8,-72.0,18.2", "0,-95,1,0", "177,-178,-20,-15", "nan,0,1,1"])
def test_a_bbox_that_cannot_be_meant_is_refused(served, box):
    with served.client("admin") as client:
        client.post("/situations", json=MAP | {"id": "asked", "region": [0, 0, 1, 1]})
        answer = client.get("/ogc/collections/asked/items", params={"bbox": box})
    assert answer.status_code == 400 and "west,south,east,north" in answer.json()["detail"]
