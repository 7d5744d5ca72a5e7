"""Districts of a map: stored and uploaded polygons, figures that agree with the map, and what is refused."""

import asyncio
import io
import json

import numpy as np
import pytest
from openpyxl import load_workbook
from tests.service.workspace import FLOOD, REGION

from crowdfield.service.maps import unpack

WEST, SOUTH, EAST, NORTH = REGION
MIDDLE = (WEST + EAST) / 2


def box(west, south, east, north):
    return [[[west, south], [east, south], [east, north], [west, north], [west, south]]]


def polygons(**boxes):
    features = [
        {"type": "Feature", "properties": {"name": name}, "geometry": {"type": "Polygon", "coordinates": box(*edges)}}
        for name, edges in boxes.items()
    ]
    return json.dumps({"type": "FeatureCollection", "features": features}).encode()


HALVES = polygons(west=(WEST, SOUTH, MIDDLE, NORTH), east=(MIDDLE, SOUTH, EAST, NORTH), far=(0, 0, 1, 1))
AREA = f"POLYGON(({WEST} {SOUTH},{MIDDLE} {SOUTH},{MIDDLE} {NORTH},{WEST} {NORTH},{WEST} {SOUTH}))"


@pytest.fixture(scope="module")
def space(tmp_path_factory):
    from tests.service.workspace import Workspace

    from crowdfield.service.settings import Settings

    folder = tmp_path_factory.mktemp("districts")
    made = Workspace(Settings(database=str(folder / "w.db"), worker=False, coalesce_seconds=0))
    admin = made.client("admin")
    admin.post("/situations", json=FLOOD).raise_for_status()
    rng = np.random.default_rng(0)
    rows = [
        {"longitude": WEST + 0.6 * x, "latitude": SOUTH + 0.6 * y, "label": "flooded" if x < 0.5 else "dry",
         "source": f"s{i % 5}", "id": str(i)}
        for i, (x, y) in enumerate(rng.random((40, 2)).tolist())
    ]  # fmt: skip
    admin.post("/situations/flood/reports", json=rows).raise_for_status()
    made.fit()
    stored = admin.put("/situations/flood/districts/halves", files={"file": ("d.geojson", HALVES)})
    assert stored.status_code == 200 and stored.json()["names"] == ["west", "east", "far"], stored.text
    yield made
    made.close()


def test_figures_of_stored_districts_agree_with_the_published_map(space):
    told = space.client().get("/situations/flood/totals", params={"districts": "halves", "threshold": 0.3}).json()
    by_name = {row["area"]: row for row in told["areas"]}
    probability = unpack(space.service.store.blob("flood", 1, "arrays"))["probability"][..., 1]
    columns = probability.shape[1]
    west = by_name["west"]["states"]["flooded"]
    # The region is a little wider than the halves of its columns: hence the tolerance.
    assert west["share"] == pytest.approx(float(probability[:, : columns // 2].mean()), abs=0.02)
    east = by_name["east"]["states"]["flooded"]
    assert west["low"] < west["share"] < west["high"] and west["share"] > east["share"]
    assert west["probability_above"] > east["probability_above"] > 0
    assert west["amount"] == pytest.approx(west["share"] * by_name["west"]["weight"])
    assert by_name["far"]["cells"] == 0 and by_name["far"]["note"] == "the map does not reach it"
    assert told["version"] == 1 and told["unit"] == "km²" and any("does not reach 1 of 3" in n for n in told["notes"])


def test_figures_of_grades_say_how_much_is_at_least_each_grade(make_workspace):
    made = make_workspace()
    admin = made.client("admin")
    graded = FLOOD | {"id": "damage", "states": ["destroyed", "no damage", "minor damage", "major damage"]}
    states = admin.post("/situations", json=graded).json()["states"]
    assert states == ["no damage", "minor damage", "major damage", "destroyed"]  # whatever order they came in
    rng = np.random.default_rng(1)
    rows = [
        {"longitude": WEST + 0.6 * x, "latitude": SOUTH + 0.6 * y, "label": states[int(4 * x)], "source": f"s{i % 5}"}
        for i, (x, y) in enumerate(rng.random((60, 2)).tolist())
    ]
    admin.post("/situations/damage/reports", json=rows).raise_for_status()
    admin.put("/situations/damage/districts/halves", files={"file": ("d.geojson", HALVES)}).raise_for_status()
    made.fit()
    told = made.client().get("/situations/damage/totals", params={"districts": "halves"}).json()
    by_name = {row["area"]: row for row in told["areas"]}
    for name in ("west", "east"):
        share = {state: figures["share"] for state, figures in by_name[name]["states"].items()}
        worse = by_name[name]["at_least"]
        assert list(worse) == ["minor damage", "major damage"]
        assert worse["major damage"]["share"] == pytest.approx(share["major damage"] + share["destroyed"], abs=1e-6)
        assert worse["major damage"]["low"] <= worse["major damage"]["share"] <= worse["major damage"]["high"]
    assert by_name["east"]["at_least"]["major damage"]["share"] > 0.7
    assert by_name["west"]["at_least"]["major damage"]["share"] < 0.3


def test_an_uploaded_file_gives_the_same_figures_and_is_not_kept(space):
    stored = space.client("reporter").get("/situations/flood/totals", params={"districts": "halves"}).json()
    sent = space.client("reporter").post("/situations/flood/totals", files={"file": ("x.bin", HALVES)})
    assert sent.status_code == 200 and sent.json() == stored
    assert [one["name"] for one in space.client().get("/situations/flood/districts").json()] == ["halves"]


def test_figures_asked_for_just_before_a_new_version_are_those_of_the_new_one(workspace, monkeypatch):
    """The version that the question names is replaced, with its model, before the figures are made of it."""
    service, admin = workspace.service, workspace.client("admin")
    admin.put("/situations/flood/districts/halves", files={"file": ("d.geojson", HALVES)}).raise_for_status()
    real, asked = service.cached_file, []

    def publish():
        for x, label in ((WEST + 0.1, "dry"), (EAST - 0.1, "flooded")):
            row = {"longitude": x, "latitude": SOUTH + 0.1, "label": label, "source": "s"}
            assert admin.post("/situations/flood/reports", json=row).status_code == 201
        workspace.fit()

    async def overtaken(pool, question, *rest, **more):
        asked.append(question["version"])
        if len(asked) == 1:
            await asyncio.to_thread(publish)
        return await real(pool, question, *rest, **more)

    monkeypatch.setattr(service, "cached_file", overtaken)
    kinds = {
        "stored": lambda: admin.get("/situations/flood/totals?districts=halves"),
        "uploaded": lambda: admin.post("/situations/flood/totals", files={"file": ("x.bin", HALVES)}),
        "an area": lambda: admin.get("/ogc/collections/flood/area", params={"coords": AREA}),
    }
    for kind, ask in kinds.items():
        publish()  # a version whose model nobody has asked for
        asked.clear()
        answer = ask()
        assert answer.status_code == 200, (kind, answer.text)
        assert asked == [asked[0], asked[0] + 1], kind
        assert answer.json().get("version", asked[1]) == asked[1]


def test_figures_come_as_files_that_others_read(space):
    def made(form):
        return space.client().get("/situations/flood/totals", params={"districts": "halves", "form": form})

    table = made("csv")
    assert table.text.startswith("area,cells,") and table.text.splitlines()[1].startswith("#adm+name")
    assert table.headers["content-disposition"] == 'attachment; filename="flood-halves-v1.csv"'
    assert load_workbook(io.BytesIO(made("xlsx").content))["totals"]["A3"].value == "west"
    assert [f["properties"]["area"] for f in made("geojson").json()["features"]] == ["west", "east", "far"]
    assert made("png").content.startswith(b"\x89PNG")


LINE = json.dumps({"type": "LineString", "coordinates": [[0, 0], [1, 1]]}).encode()
MANY = polygons(**{f"d{i}": (WEST, SOUTH, MIDDLE, NORTH) for i in range(1001)})
CORNERS = json.dumps(
    {"type": "Polygon", "coordinates": [[[x, 0.0] for x in np.linspace(0, 1, 200_001).tolist()] + [[0, 1], [0, 0]]]}
).encode()


@pytest.mark.parametrize(
    "content, by, status, words",
    [
        (b"", None, 422, "not GeoJSON"),
        (b"{", None, 422, ""),
        (LINE, None, 422, "contains no polygons"),
        (HALVES, "province", 422, "no property 'province'"),
        (b"<OGRVRTDataSource/>", None, 422, ""),
        (b"a,b\n1,2\n", None, 422, "not GeoJSON"),
        (MANY, None, 413, "1,001 areas"),
        (CORNERS, None, 413, "vertices"),
    ],
    ids=["empty", "cut off", "lines", "no such property", "another kind", "a table", "many", "corners"],
)  # fmt: skip
def test_a_file_without_usable_districts_is_refused_in_our_words(space, content, by, status, words):
    fields = {"by": by} if by else {}
    sent = space.client("admin").put("/situations/flood/districts/x", files={"file": ("a", content)}, data=fields)
    assert sent.status_code == status, sent.text
    told = sent.json()["detail"]
    assert words in told and "/tmp" not in told and "upload" not in told and "--" not in told


def test_who_may_do_what_with_districts(space):
    sent = {"files": {"file": ("d.geojson", HALVES)}}
    assert space.client().post("/situations/flood/totals", **sent).status_code == 401
    for role in (None, "reader", "reporter", "trusted"):
        assert space.client(role).put("/situations/flood/districts/mine", **sent).status_code in (401, 403)
        assert space.client(role).delete("/situations/flood/districts/halves").status_code in (401, 403)
    admin = space.client("admin")
    assert admin.put("/situations/flood/districts/mine", **sent).status_code == 200
    assert admin.delete("/situations/flood/districts/mine").status_code == 204
    assert admin.delete("/situations/flood/districts/mine").status_code == 404
    assert space.client().get("/situations/flood/totals", params={"districts": "mine"}).status_code == 404


def test_an_area_query_of_ogc_edr_gives_the_figures_of_a_polygon(space):
    client = space.client()
    query = {"coords": AREA, "parameter-name": "flooded"}
    told = client.get("/ogc/collections/flood/area", params=query)
    assert told.headers["content-type"] == "application/vnd.cov+json"
    found = told.json()
    assert found["domain"]["domainType"] == "Polygon" and set(found["ranges"]) == set(found["parameters"])
    assert next(iter(found["parameters"])) == "flooded"  # the state in question comes first
    stored = client.get("/situations/flood/totals", params={"districts": "halves"}).json()["areas"][0]
    low, share, high = (found["ranges"][name]["values"][0] for name in ("flooded_low", "flooded", "flooded_high"))
    assert share == pytest.approx(stored["states"]["flooded"]["share"]) and low < share < high
    described = client.get("/ogc/collections/flood").json()
    assert list(described["parameter_names"]) == ["flooded", "dry"]
    assert described["data_queries"]["area"]["link"]["href"].endswith("/ogc/collections/flood/area")


@pytest.mark.parametrize(
    "coords, status",
    [
        ("POINT(1 2)", 422),
        ("POLYGON", 422),
        ("POLYGON(())", 422),
        ("POLYGON((1 2,3 4,1 2))", 422),
        ("POLYGON((0 0,1 0,1 1,0 1))", 422),  # not closed
        ("POLYGON((0 0,1 1,1 0,0 1,0 0))", 422),  # crosses itself
        ("POLYGON((0 0,400 0,400 1,0 0))", 422),
        ("POLYGON((0 0,nan 0,1 1,0 0))", 422),
        ("POLYGON((" + "0 0," * 2000 + "0 0))", 422),
        ("POLYGON((0 0,1 0,1 1,0 0)", 422),
        ("x" * 20_001, 422),
    ],
)
def test_a_polygon_that_cannot_be_meant_is_refused(space, coords, status):
    told = space.client().get("/ogc/collections/flood/area", params={"coords": coords})
    assert told.status_code == status and told.json()["detail"]
