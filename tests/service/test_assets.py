"""The page's files, the ground under the map and the API's description: compressed, tagged, kept, never made twice."""

import gzip
import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import numpy as np
import pytest
import shapely
from starlette.datastructures import Headers
from tests.service.served import serving
from tests.service.street_tiles import streets, write_pmtiles
from tests.service.workspace import FLOOD

from crowdfield.data import Region
from crowdfield.landmarks import PLACES, WATERS
from crowdfield.outlines import OUTLINES
from crowdfield.service import basemap
from crowdfield.service.packing import BEST, pack, pack_json, takes_gzip


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("assets"), "--no-worker") as served:
        with served.client("admin") as admin:
            admin.post("/situations", json=FLOOD).raise_for_status()
        yield served


@pytest.fixture
def client(server):
    with server.client() as client:
        yield client


def plain(client, path):
    """As a client that takes no compression gets it."""
    return client.get(path, headers={"Accept-Encoding": "identity"})


FILES = [
    "/",
    "/static/app.js",
    "/static/style.css",
    "/vendor/maplibre-gl.js",
    "/openapi.json",
    "/docs",
    "/basemap.json",
]


@pytest.mark.parametrize("path", FILES)
def test_files_are_compressed_and_have_strong_tags(client, path):
    packed, whole = client.get(path), plain(client, path)
    assert packed.headers["content-encoding"] == "gzip" and "content-encoding" not in whole.headers
    assert packed.content == whole.content and "Accept-Encoding" in packed.headers["vary"]
    assert int(packed.headers["content-length"]) < 0.6 * int(whole.headers["content-length"])
    for reply in (packed, whole):
        tag = reply.headers["etag"]
        assert tag.startswith('"')
        ask = {"If-None-Match": tag, "Accept-Encoding": reply.request.headers["accept-encoding"]}
        again = client.get(path, headers=ask)
        assert again.status_code == 304 and not again.content and again.headers["etag"] == tag


def test_the_page_asks_for_files_that_never_change_under_their_address(client):
    text = client.get("/").text
    digest = text.split('name="crowdfield-assets" content="')[1].split('"')[0]
    assert '"/static/' in text and text.count(f'"/static/{digest}/') == text.count('"/static/')
    for path in (f"/static/{digest}/app.js", f"/static/{digest}/api.js", f"/vendor/{digest}/maplibre-gl.js"):
        reply = client.get(path)
        assert reply.status_code == 200 and "immutable" in reply.headers["cache-control"]
    for path in ("/", "/static/app.js", "/static/0123456789abcdef/app.js"):
        assert client.get(path).headers["cache-control"] == "no-cache"
    layout = client.get("/situations/flood").json()["layout_tag"]
    ground = client.get("/basemap.json", params={"situation": "flood", "at": f"{digest}-{layout}"})
    assert "immutable" in ground.headers["cache-control"]


def test_the_ground_is_small_and_made_once_however_many_ask(server, client):
    def ask(_):
        with httpx.Client(base_url=server.url, timeout=60) as other:
            return other.get("/basemap.json", params={"situation": "flood"})

    with ThreadPoolExecutor(12) as crowd:
        replies = list(crowd.map(ask, range(12)))
    assert {reply.status_code for reply in replies} == {200} and len({reply.headers["etag"] for reply in replies}) == 1
    assert int(replies[0].headers["content-length"]) < 100_000
    ground = replies[0].json()
    land = [f for f in ground["features"] if "kind" not in f["properties"]]
    assert land and {f["geometry"]["type"] for f in land} <= {"Polygon", "MultiPolygon"}
    # The world was made at set-up, and is asked for with any box: nothing is computed.
    world = client.get("/basemap.json", params={"west": -180, "east": 180, "south": -90, "north": 90})
    assert int(world.headers["content-length"]) < 250_000 and len(world.json()["features"]) > 200
    began = time.perf_counter()
    for _ in range(20):
        client.get("/basemap.json")
    assert time.perf_counter() - began < 10


def test_the_ground_of_a_map_that_is_to_be_started_is_finer_than_the_world_and_for_admins_alone(make_workspace):
    space, asked = make_workspace(), {"around": "-72.6,18.2,-72.0,18.8"}
    for role, status in ((None, 401), ("trusted", 403)):
        assert space.client(role).get("/basemap.json", params=asked).status_code == status
    admin = space.client("admin")
    for wrong in ("1,2,3", "a,b,c,d", "0,50,10,40", "nan,0,1,1"):
        assert admin.get("/basemap.json", params={"around": wrong}).status_code == 422
    if not OUTLINES.is_file():
        pytest.skip("the outlines were not fetched; make setup does it")
    box = basemap.ground_box(Region(-72.6, 18.2, -72.0, 18.8))
    coarse = json.dumps(basemap.around(box, basemap.LEVELS[-1]))
    assert len(admin.get("/basemap.json", params=asked).text) > 4 * len(coarse)


def test_the_api_is_described_for_people_without_anything_from_elsewhere(client):
    page = client.get("/docs")
    assert page.status_code == 200 and page.headers["content-type"].startswith("text/html")
    assert "/situations/{situation}/reports" in page.text and "<script" not in page.text
    assert "http://" not in page.text and "https://" not in page.text
    for path, operations in client.get("/openapi.json").json()["paths"].items():
        for method in operations:
            assert f"<b>{method.upper()}</b> <code>{path}</code>" in page.text
    for kind in ("stylesheet", "icon"):
        address = page.text.split(f'rel="{kind}" href="')[1].split('"')[0]
        assert client.get(address).status_code == 200


def test_ogc_claims_only_what_is_served(client):
    described = client.get("/openapi.json").json()["openapi"]
    claims = client.get("/ogc/conformance").json()["conformsTo"]
    assert described.startswith("3.1") and not any("oas30" in claim for claim in claims)
    links = {link["rel"]: link["href"] for link in client.get("/ogc/").json()["links"]}
    assert client.get(links["service-doc"]).status_code == 200 and client.get(links["service-desc"]).status_code == 200


def test_short_and_packed_answers_are_left_as_they_are():
    assert pack(b"x" * 100, "text/plain").packed is None and pack(b"x" * 5000, "image/png").packed is None
    packed = pack(b"x" * 5000, "text/plain").packed
    assert isinstance(packed, bytes) and gzip.decompress(packed) == b"x" * 5000


@pytest.mark.parametrize(
    ("accepts", "gzipped"),
    [("gzip, br", True), ("br;q=1, gzip;q=0", False), ("", False), ("*", True), ("deflate", False)],
)
def test_encodings_are_negotiated(accepts, gzipped):
    assert takes_gzip(Headers({"accept-encoding": accepts})) is gzipped


def test_outlines_are_clipped_and_coarser_for_larger_regions():
    if not OUTLINES.is_file():
        pytest.skip("the outlines were not fetched; make setup does it")
    haiti = basemap.ground_box(Region(-72.6, 18.2, -72.0, 18.8))
    assert haiti == (-75.6, 15.2, -69.0, 21.8)
    fine, coarse = (len(json.dumps(basemap.around(haiti, detail))) for detail in (0.0, 0.1))
    assert coarse < fine / 4
    assert basemap.ground_box(Region(170.0, -20.0, -170.0, -10.0)).west == 150.0
    assert basemap.ground_box(Region(-150.0, 0.0, 0.0, 10.0)) == (-180.0, -90.0, 180.0, 90.0)
    # The box ends at the antimeridian.
    assert basemap.around(basemap.ground_box(Region(129.0, 31.0, 146.0, 46.0)._replace(east=163.0)), 0.1)["features"]


KINDS = {"river": {"LineString", "MultiLineString"}, "lake": {"Polygon", "MultiPolygon"}, "place": {"Point"}}


@pytest.mark.skipif(not (WATERS.is_file() and PLACES.is_file()), reason="not fetched; `make setup` does it")
def test_the_ground_has_rivers_lakes_and_places_with_their_names():
    ground = basemap.ground(Region(-74.5, 18.0, -71.6, 20.1))
    found: dict[str | None, list[dict[str, Any]]] = {}
    for feature in ground["features"]:
        found.setdefault(feature["properties"].get("kind"), []).append(feature)
    for kind, types in KINDS.items():
        assert {feature["geometry"]["type"] for feature in found[kind]} <= types
    assert ground["attribution"] == "Natural Earth · GSHHG · GeoNames (CC BY 4.0)"
    places = [feature["properties"] for feature in found["place"]]
    assert places[0]["name"] == "Port-au-Prince" and "太子港" in places[0]["names"]
    assert places[0]["population"] > 500_000 and "Kingston" in [place["name"] for place in places]
    azuei = shapely.box(-72.05, 18.5, -71.95, 18.62)  # around the largest lake of Haiti
    assert any(shapely.geometry.shape(lake["geometry"]).intersects(azuei) for lake in found["lake"])


@pytest.mark.skipif(not (WATERS.is_file() and PLACES.is_file()), reason="not fetched; `make setup` does it")
@pytest.mark.parametrize(
    "region",
    [
        (4.5, 57.9, 31.2, 71.2),  # the coast of Norway
        (20, 60, 32, 70),  # the lakes of Finland
        (-12, 35, 40, 71),
        (-170, 7, -50, 84),
        (27, 41, -169, 82),  # over the antimeridian
        (-180, -90, 180, 90),
    ],
)
def test_the_ground_of_any_region_leaves_room_for_the_page(region):
    """All that is loaded first may have 700 kB, and 400 of it are the page, and up to 130 tiles."""
    packed = pack_json(basemap.ground(Region(*map(float, region))), level=BEST).packed
    assert isinstance(packed, bytes) and len(packed) < 200_000


def test_islands_that_no_page_could_show_are_left_out():
    detail = 0.1
    shapes = [
        shapely.geometry.shape(one["geometry"])
        for one in basemap.around(Region(-180, -85, 180, 85), detail)["features"]
    ]
    west, south, east, north = shapely.bounds(shapes).T
    assert (np.maximum(east - west, north - south) >= detail - 0.01).all()


def test_operators_who_bring_their_own_tiles_have_rivers_and_names_there(make_workspace, tmp_path):
    path = write_pmtiles(tmp_path / "haiti.pmtiles", {(0, 0, 0): streets()})
    admin = make_workspace(basemap=path).client("admin")
    ground = admin.get("/basemap.json", params={"around": "-72.6,18.2,-72.0,18.8"}).json()
    assert "attribution" not in ground and not any("kind" in one["properties"] for one in ground["features"])
