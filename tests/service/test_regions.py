"""Regions of maps on a real server: one order for all that goes in and out; boxes that cannot be meant are refused; a
file makes a map of where its reports are; a region can be changed."""

import os
import subprocess
import time

import numpy as np
import pytest
from tests.service.served import COMMAND, SOURCE, serving
from tests.service.workspace import FLOOD, HERE

from crowdfield.service.database import connect
from crowdfield.service.maps import unpack
from crowdfield.service.store import Store

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


def test_an_inference_that_no_live_map_can_use_is_refused_with_the_reason(served):
    with served.client("admin") as client:
        new = MAP | {"id": "gibbs", "region": [0, 0, 1, 1], "model": {"inference": "gibbs"}}
        answer = client.post("/situations", json=new)
        assert answer.status_code == 422
        (fault,) = answer.json()["faults"]
        assert fault["where"] == "body.model.inference" and "too slow" in fault["what"]
        assert client.get("/situations/gibbs").status_code == 404


# A file that starts a map


def country(rng, size):
    """Places as an export of a country has them: most of them in its capital, some in towns all over it."""
    capital = rng.normal([-72.34, 18.54], 0.05, (int(0.7 * size), 2))
    towns = rng.uniform([-74.4, 18.05], [-71.7, 19.95], (size - len(capital), 2))
    return np.concatenate([capital, towns])


def table(places, first=0):
    rows = [f"r{n},{lat:.6f},{lon:.6f},{('dry', 'wet')[n % 2]}" for n, (lon, lat) in enumerate(places.tolist(), first)]
    return "\n".join(["id,lat,lon,label", *rows]).encode()


ELSEWHERE = [(0.0, 0.0), (114.17, -18.77), (2.35, 48.85), (-0.1, 51.5), (129.0, 37.0), (-89.0, 30.0)]


def test_a_file_of_which_almost_all_is_in_one_country_becomes_a_map_of_that_country(served):
    """Six of 1,500 rows lie on other continents: 99.6 % are in Haiti."""
    places = np.concatenate([country(np.random.default_rng(0), 1494), ELSEWHERE])
    with served.client("admin") as client:
        unusable = table(places) + b"\nbad,north,west,dry"
        made = client.post("/import", files={"file": ("haiti.csv", unusable)}).json()
        west, south, east, north = made["region"]
        assert -75.5 < west < -74.3 and 17.5 < south < 18.1 and -71.8 < east < -71.0 and 19.9 < north < 20.5
        # Nothing vanishes: what was not taken is counted, told, and can be had with another region.
        receipt = made["receipt"]
        assert receipt["stored"] == made["reports"] == 1494
        assert receipt["rejected"] == 7 and receipt["outside"] == 6 and len(receipt["rejects"]) == 7
        assert "outside the region" in receipt["rejects"][0]["reason"]
        changed = client.patch(f"/situations/{made['id']}", json={"region": [-90, -20, 130, 52]})
        assert changed.status_code == 200 and changed.json()["outside"] == 0
        again = client.post(f"/situations/{made['id']}/import", files={"file": ("haiti.csv", unusable)}).json()
        assert again["stored"] == 6 and again["duplicate"] == 1494 and again["rejected"] == 1 and again["outside"] == 0


def test_where_many_reports_lie_far_apart_all_of_them_count(served):
    rng = np.random.default_rng(1)
    places = np.concatenate([rng.normal([-72.3, 18.5], 0.1, (180, 2)), rng.normal([120.9, 14.6], 0.1, (20, 2))])
    with served.client("admin") as client:
        made = client.post("/import", files={"file": ("two.csv", table(places))}).json()
        assert made["receipt"]["stored"] == 200 and made["receipt"]["outside"] == 0


# Another region for a map that has one


@pytest.fixture(scope="module")
def working(tmp_path_factory):
    """A server whose worker makes maps."""
    environment = {"CROWDFIELD_WORKER": "true", "CROWDFIELD_REST_SECONDS": "0.5"}
    with serving(tmp_path_factory.mktemp("working"), environment=environment) as running:
        yield running


def fitted(client, name, reports):
    """The newest version, once it has seen so many reports."""
    end = time.monotonic() + 120
    while time.monotonic() < end:
        found = client.get(f"/situations/{name}").json()
        if found["version"] and found["reports"] == reports and not found["waiting"]:
            return found
        time.sleep(0.1)
    raise AssertionError(f"no map of {reports} reports: {found}")


def test_an_admin_changes_the_region_of_a_map(working):
    with working.client("admin") as client, working.client() as reader:
        client.post("/situations", json=MAP | {"id": "moving", "region": [-73, 18, -72, 19]}).raise_for_status()
        west, east = [{"longitude": lon, "latitude": 18.5, "label": "flooded"} for lon in (-72.8, -72.2)]
        client.post("/situations/moving/reports", json=[west] * 3 + [east] * 4).raise_for_status()
        before = fitted(client, "moving", 7)
        old = client.get("/situations/moving/tilejson").json()

        # Only the eastern half: the reports of the western stay in the log and off the map.
        half = {"region": {"west": -72.5, "south": 18, "east": -72, "north": 19}, "columns": 12}
        changed = client.patch("/situations/moving", json=half).json()
        assert changed["outside"] == 3 and changed["region"] == [-72.5, 18, -72, 19] and changed["columns"] == 12
        assert changed["layout_tag"] != before["layout_tag"]
        after = fitted(client, "moving", 4)
        assert after["version"] > before["version"]
        assert reader.get(f"/situations/moving/tilejson?version={before['version']}").status_code == 404
        assert client.get("/situations/moving/tilejson").json()["bounds"] == [-72.5, 18, -72, 19] != old["bounds"]
        assert reader.get("/situations/moving/point/-72.2,18.5").json()["probability"]["flooded"] > 0.5
        assert reader.get("/situations/moving/point/-72.8,18.5").status_code == 404
        assert reader.get("/situations/moving/export/geojson").status_code == 200
        shown = reader.get("/situations/moving/points").json()
        assert shown["total"] == 4
        assert client.post("/situations/moving/reports", json=west).status_code == 422

        # Larger than ever, in another zone: the others are back.
        client.patch("/situations/moving", json={"region": [-75, 17, -70, 20]}).raise_for_status()
        assert fitted(client, "moving", 7)["version"] > after["version"]
        assert reader.get("/situations/moving/point/-72.8,18.5").json()["probability"]["flooded"] > 0.5


def test_a_workspace_whose_region_was_changed_is_whole(working):
    with working.client("admin") as client:
        client.post("/situations", json=MAP | {"id": "whole", "region": [-73, 18, -72, 19]}).raise_for_status()
        reports = [{"longitude": -72.2 - 0.2 * n, "latitude": 18.5, "label": "dry"} for n in range(4)]
        client.post("/situations/whole/reports", json=reports).raise_for_status()
        client.patch("/situations/whole", json={"region": [-72.5, 18, -72, 19]}).raise_for_status()
        fitted(client, "whole", 2)
    environment = os.environ | {"PYTHONPATH": SOURCE, "CROWDFIELD_DATABASE": working.database}
    done = subprocess.run([*COMMAND, "check"], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


WORLDS = {
    "world": (-180, -90, 180, 90),
    "lands": (-180, -60, 180, 75),
    "east": (0, -90, 180, 90),
    "arctic": (-180, 55, 180, 90),
}


def test_the_whole_world_is_a_region(working):
    with working.client("admin") as client:
        for name, region in WORLDS.items():
            new = MAP | {"id": name, "region": region, "columns": 32}
            assert client.post("/situations", json=new).status_code == 201
            west, south, east, north = region
            corners = [(x, y) for x in (west, (west + east) / 2, east) for y in (south, (south + north) / 2, north)]
            rows = [{"longitude": x, "latitude": y, "label": "dry"} for x, y in corners]
            assert client.post(f"/situations/{name}/reports", json=rows).json()["stored"] == 9
        engine = connect(working.database)
        for name in WORLDS:
            number = fitted(client, name, 9)["version"]
            arrays = unpack(Store(engine).blob(name, number, "arrays"))
            assert arrays["reports"].sum() == 9  # every place that is accepted lies in a cell
        engine.dispose()


def test_who_may_not_change_a_region_and_to_what(working):
    with working.client("admin") as client:
        client.post("/situations", json=MAP | {"id": "fixed", "region": [-73, 18, -72, 19]}).raise_for_status()
        for region in ([-73, -72, 18, 19], [0, 1, 0, 1], [0, 0, 1], None):
            assert client.patch("/situations/fixed", json={"region": region}).status_code == 422
        assert client.patch("/situations/fixed", json={"region": [0, 0, 1, 1], "colour": "x"}).status_code == 422
    for role in (None, "reader", "reporter", "trusted"):
        with working.client(role) as client:
            answer = client.patch("/situations/fixed", json={"region": [0, 0, 1, 1]})
            assert answer.status_code == (403 if role else 401)


def test_a_map_is_renamed_archived_and_shows_another_state_first(workspace):
    client = workspace.client("admin")
    assert client.get("/situations/flood").json()["positive"] == "flooded"
    changed = client.patch("/situations/flood", json={"title": "Water", "positive": "dry", "archived": True}).json()
    assert (changed["title"], changed["positive"], changed["archived"]) == ("Water", "dry", True)
    assert client.post("/situations/flood/reports", json=HERE | {"label": "dry"}).status_code == 201
    workspace.fit()
    assert client.get("/point/-72.3,18.5").json()["state"] == "dry"
    tile = client.get("/situations/flood/tiles/probability/9/153/229.png?version=1")
    assert tile.headers["cache-control"] == "no-cache"  # which state it shows may change
    assert client.patch("/situations/flood", json={"positive": "lost"}).status_code == 422
    # Another map is offered first as soon as there is one, however old.
    older = FLOOD | {"id": "older"}
    assert client.post("/situations", json=older).status_code == 201
    assert workspace.service.store.latest().id == "older"
    for role in (None, "reader", "reporter", "trusted"):
        assert workspace.client(role).patch("/situations/flood", json={"title": "x"}).status_code in (401, 403)
