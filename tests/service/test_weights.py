"""Weights of a map: figures, files, area queries and alerts count people where a raster says how many there are."""

import io
import json
import shutil

import numpy as np
import pytest
from openpyxl import load_workbook
from tests.service.test_districts import AREA, HALVES
from tests.service.workspace import FLOOD, REGION, Workspace

from crowdfield.io.amounts import read_amounts
from crowdfield.service.alerts import Alerts
from crowdfield.service.courier import Courier
from crowdfield.service.mail import lines
from crowdfield.service.settings import Settings

rasterio = pytest.importorskip("rasterio")
WEST, SOUTH, EAST, NORTH = REGION
WEIGHTS, TOTALS = "/situations/flood/weights", "/situations/flood/totals"
HOOK = "https://hooks.example"


def raster(values, *, crs="EPSG:4326", edges=REGION):
    """A GeoTIFF of these bands over a box of degrees."""
    values = np.atleast_3d(np.asarray(values, dtype=np.float32).T).T  # [bands, rows, columns]
    west, south, east, north = edges
    bands, rows, columns = values.shape
    corner = rasterio.Affine((east - west) / columns, 0.0, west, 0.0, (south - north) / rows, north)
    shape = {"width": columns, "height": rows, "count": bands, "dtype": "float32"}
    with rasterio.MemoryFile() as memory:
        with memory.open(driver="GTiff", crs=crs, transform=corner, **shape) as file:
            file.write(values)
        return bytes(memory.getbuffer())


def people(west, east):
    """So many people per pixel in the western half of the map, and so many in the eastern."""
    return raster(np.where(np.arange(60) < 30, west, east) * np.ones((60, 1)))


@pytest.fixture(scope="module")
def space(tmp_path_factory, empty_database):
    """A map that is flooded in the west, its halves as districts, and an alert about them."""
    path = shutil.copy(empty_database, tmp_path_factory.mktemp("weights") / "w.db")
    made = Workspace(Settings(database=str(path), worker=False, coalesce_seconds=0, alert_hosts=[HOOK]))
    admin = made.client("admin")
    admin.post("/situations", json=FLOOD).raise_for_status()
    places = np.random.default_rng(0).uniform([WEST, SOUTH], [EAST, NORTH], (60, 2)).tolist()
    rows = [
        {"longitude": x, "latitude": y, "label": ("dry", "flooded")[x < -72.3], "trusted": True, "id": str(i)}
        for i, (x, y) in enumerate(places)
    ]
    admin.post("/situations/flood/reports", json=rows).raise_for_status()
    admin.put("/situations/flood/districts/halves", files={"file": ("d", HALVES)}).raise_for_status()
    made.fit()
    yield made
    made.close()


def put(client, content, **fields):
    return client.put(WEIGHTS, files={"file": ("people.tif", content)}, data=fields)


@pytest.fixture
def weighted(space):
    """The same with 2 people per pixel in the west and 6 in the east."""
    assert put(space.client("admin"), people(2, 6), name="people").status_code == 200
    yield space
    space.client("admin").delete(WEIGHTS)


def test_figures_count_people_as_the_command_line_does(weighted, tmp_path):
    told = weighted.client().get(TOTALS, params={"districts": "halves"}).json()
    assert told["unit"] == told["weights"] == "people"
    west, east = ({row["area"]: row for row in told["areas"]}[name] for name in ("west", "east"))
    # What the reader of `crowdfield totals --weights` finds in the same file, in the cells of the two halves.
    path = tmp_path / "people.tif"
    path.write_bytes(people(2, 6))
    service = weighted.service
    now = service.maps.load(service.store.situation("flood"), 1)
    amounts = read_amounts(path, now.grid).reshape(now.grid.shape)
    half = now.grid.columns // 2
    assert west["weight"] == pytest.approx(amounts[:, :half].sum(), rel=0.03)
    assert east["weight"] == pytest.approx(3 * west["weight"], rel=0.05)
    flooded = west["states"]["flooded"]
    expected = (amounts * now.probability[..., 1])[:, :half].sum()
    assert flooded["amount"] == pytest.approx(expected, rel=0.03)
    assert flooded["amount_low"] < flooded["amount"] < flooded["amount_high"] <= west["weight"]
    assert flooded["share"] == pytest.approx(flooded["amount"] / west["weight"])


def test_a_raster_that_covers_part_of_the_map_is_noted_and_counts_that_part(space):
    """It reaches the western half alone: nothing is known of people in the east, which is not the same as nobody."""
    admin = space.client("admin")
    half = raster(2.0 * np.ones((60, 30)), edges=(WEST - 0.05, SOUTH - 0.05, (WEST + EAST) / 2, NORTH + 0.05))
    stored = put(admin, half, name="people").json()
    told = admin.get(TOTALS, params={"districts": "halves"}).json()
    west, east = ({row["area"]: row for row in told["areas"]}[name] for name in ("west", "east"))
    assert west["weight"] == pytest.approx(stored["total"], rel=0.05) and east["weight"] == pytest.approx(0, abs=50)
    (note,) = [note for note in told["notes"] if "raster" in note]
    assert "raster of people does not reach all of" in note and "east (" in note and "west (" not in note
    admin.delete(WEIGHTS)


def test_weights_are_named_replaced_and_removed(space):
    admin, reader = space.client("admin"), space.client()

    def unit():
        return reader.get(TOTALS, params={"districts": "halves"}).json()["unit"]

    assert reader.get(WEIGHTS).json() is None and unit() == "km²"
    first = put(admin, people(2, 6)).json()
    assert first["name"] == "people" and first["current"] and first["total"] == pytest.approx(4 * 3600, rel=1e-3)
    assert unit() == "people"
    assert put(admin, people(1, 1), name="foyers (ménages)").status_code == 200
    shown = reader.get(WEIGHTS).json()
    assert shown["name"] == unit() == "foyers (ménages)" and shown["total"] == pytest.approx(3600, rel=1e-3)
    assert admin.delete(WEIGHTS).status_code == 204 and admin.delete(WEIGHTS).status_code == 404
    assert reader.get(WEIGHTS).json() is None and unit() == "km²"


def test_files_and_area_queries_count_people_too(weighted):
    client = weighted.client()

    def made(form):
        return client.get(TOTALS, params={"districts": "halves", "form": form})

    told = made("json").json()["areas"][0]
    header, tags, west = (line.split(",") for line in made("csv").text.splitlines()[:3])
    assert tags[header.index("weight")] == "#population+num"
    assert float(west[header.index("amount_flooded")]) == pytest.approx(told["states"]["flooded"]["amount"], rel=1e-4)
    book = load_workbook(io.BytesIO(made("xlsx").content))
    about = dict(book["about"].iter_rows(max_col=2, values_only=True))
    assert json.loads(about["totals"])["unit"] == "people"
    features = made("geojson").json()
    assert features["metadata"]["totals"]["unit"] == "people"
    assert features["features"][0]["properties"]["weight"] == pytest.approx(told["weight"], rel=1e-4)
    assert made("png").content.startswith(b"\x89PNG")
    found = client.get("/ogc/collections/flood/area", params={"coords": AREA, "parameter-name": "flooded"}).json()
    amount = found["parameters"]["flooded_amount"]
    assert amount["unit"] == {"label": {"en": "people"}} and "people" in amount["observedProperty"]["label"]["en"]
    values = [found["ranges"][f"flooded_amount{end}"]["values"][0] for end in ("_low", "", "_high")]
    assert values == sorted(values) and values[1] == pytest.approx(told["states"]["flooded"]["amount"])
    sent = weighted.client("reporter").post(TOTALS, files={"file": ("x", HALVES)}).json()
    assert sent["areas"][0] == told


def test_alerts_count_people_where_there_are_weights(space):
    """Where nobody lives, water alerts nobody."""
    admin, store = space.client("admin"), space.service.store
    rule = {"districts": "halves", "area": "west", "state": "flooded", "probability": 0.5, "share": 0.3}
    made = admin.post("/situations/flood/alerts", json=rule | {"webhook": f"{HOOK}/x"}).json()
    courier = Courier(space.settings)
    alerts = Alerts(space.service.engine)
    try:
        one = alerts.find("flood", made["id"])
        cells = courier._covered(one, 1)
        assert cells.unit is None and cells.shares["west"] > 0.3
        now = store.situation("flood")
        flooded = space.service.maps.load(now, 1).probability[..., 1] > 0.5
        space.service.weights.store(now, "people", np.where(flooded, 0.0, 7.0).ravel())
        dry = courier._covered(one, 1)
        assert dry.shares["west"] == 0.0 == dry.amounts["west"] and np.isnan(dry.shares["far"])
        assert courier.compare() == 0  # nobody lives where it is flooded
        space.service.weights.store(now, "people", np.full(now.grid.size, 2.5))
        even = courier._covered(one, 1)
        assert even.shares["west"] == pytest.approx(cells.shares["west"])
        assert alerts.compare(one, now, 2, even.limited_to("west"))
        body = alerts.messages(one.id, 1)[0]["body"]
        (told,) = body["raised"]
        assert body["unit"] == "people" and told["amount"] == pytest.approx(even.amounts["west"], abs=0.1)
        assert any(f"west: {100 * told['share']:.1f} % ({told['amount']:,.0f} people)" in line for line in lines(body))
        assert any("more than 30 % (counted in people) of:" in line for line in lines(body))
    finally:
        courier.close()
        admin.delete(f"/situations/flood/alerts/{made['id']}")
        admin.delete(WEIGHTS)


NOT_A_RASTER = json.dumps({"type": "FeatureCollection", "features": []}).encode()
CUT_OFF = people(1, 1)[:2000]


@pytest.mark.parametrize(
    "content, words",
    [
        (b"", "not a GeoTIFF"),
        (NOT_A_RASTER, "not a GeoTIFF"),
        (b"\x89PNG\r\n\x1a\nxxxxxxxxxxxxxxxxxxxx", "not a GeoTIFF"),
        (CUT_OFF, "cannot be read as a raster"),
        (raster(np.ones((4, 4)), crs=None), "does not say its reference system"),
        (raster(np.ones((4, 4)), edges=(10, 10, 11, 11)), "this raster does not overlap the map"),
        (raster(-np.ones((4, 4))), "negative pixels"),
        (raster(np.zeros((4, 4))), "has no values inside the map"),
        (raster(np.full((4, 4), np.nan)), "has no values inside the map"),
        (raster(np.ones((2, 4, 4))), "2 bands"),
    ],
    ids=["empty", "GeoJSON", "PNG", "cut off", "no system", "elsewhere", "negative", "zeros", "no values", "bands"],
)
def test_a_file_that_is_not_a_raster_of_amounts_is_refused_with_a_clear_message(space, content, words):
    sent = put(space.client("admin"), content)
    assert sent.status_code == 422, sent.text
    told = sent.json()["detail"]
    assert words in told and told.startswith("the file") and "/tmp" not in told and "upload" not in told
    assert space.client().get(WEIGHTS).json() is None


@pytest.mark.parametrize("name", [" ", "\t", "a\nb", "x" * 61])
def test_a_name_that_cannot_be_shown_is_refused(space, name):
    assert put(space.client("admin"), people(1, 1), name=name).status_code == 422


def test_who_may_do_what_with_weights(space):
    for role in (None, "reader", "reporter", "trusted"):
        client = space.client(role)
        assert put(client, people(1, 1)).status_code in (401, 403) and client.delete(WEIGHTS).status_code in (401, 403)
        assert client.get(WEIGHTS).status_code == 200


def test_weights_tell_readers_nothing_of_reports_that_the_map_does_not(weighted):
    """With any weights, readers get the figures of trusted keys, but for counts of reports."""
    answers = [
        weighted.client(role).get(TOTALS, params={"districts": "halves"}).json()["areas"] for role in (None, "admin")
    ]
    for row in (row for rows in answers for row in rows):
        del row["reports"], row["note"]
    assert answers[0] == answers[1]


def test_weights_of_another_region_are_not_used_and_a_note_says_so(space):
    admin = space.client("admin")
    admin.post("/situations", json=FLOOD | {"id": "moved"}).raise_for_status()
    rows = [{"longitude": WEST + 0.05 * i, "latitude": 18.5, "label": "dry", "source": "s"} for i in range(1, 8)]
    admin.post("/situations/moved/reports", json=rows).raise_for_status()
    admin.put("/situations/moved/districts/halves", files={"file": ("d", HALVES)}).raise_for_status()

    def upload():
        file = {"file": ("people.tif", people(2, 6))}
        return admin.put("/situations/moved/weights", files=file, data={"name": "people"}).json()

    def totals():
        return admin.get("/situations/moved/totals", params={"districts": "halves"}).json()

    assert upload()["current"]
    # Weights belong to cells, whoever may see the map.
    for access in ("trusted", "public"):
        admin.patch("/situations/moved", json={"access": access}).raise_for_status()
        space.fit()
        assert admin.get("/situations/moved/weights").json()["current"] and totals()["unit"] == "people"
    smaller = {"west": WEST, "south": SOUTH, "east": EAST - 0.1, "north": NORTH}
    admin.patch("/situations/moved", json={"region": smaller}).raise_for_status()
    space.fit()
    assert admin.get("/situations/moved/weights").json()["current"] is False
    assert totals()["unit"] == "km²" and any("'people' were uploaded" in note for note in totals()["notes"])
    assert upload()["current"] and totals()["unit"] == "people"
    admin.delete("/situations/moved").raise_for_status()
    assert space.service.weights.find("moved") is None  # they go with their map
