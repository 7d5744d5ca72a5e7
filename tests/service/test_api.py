"""What the API promises: reports in, maps out, and who sees what."""

import io
import json
import shutil
import time
import zipfile
from contextlib import closing

import numpy as np
import pytest
from PIL import Image
from tests.service.workspace import FLOOD, Workspace

from crowdfield.service.settings import Settings


def near(i, **more):
    """A report a little away from the others, inside the region."""
    return {"longitude": -72.3 + 0.001 * i, "latitude": 18.5, "label": "flooded", "source": f"s{i % 4}"} | more


def with_reports(workspace):
    """Twelve reports of a flood, twelve of dry ground east of it, and their map."""
    rows = [near(i) for i in range(12)] + [near(40 + i, label="dry") for i in range(12)]
    assert workspace.client("reporter").post("/situations/flood/reports", json=rows).json()["stored"] == 24
    workspace.fit()
    return workspace


@pytest.fixture
def mapped(workspace):
    return with_reports(workspace)


@pytest.fixture(scope="module")
def published(tmp_path_factory, empty_database):
    """The same for tests that only look: they share it, and the processes that it starts."""
    path = shutil.copy(empty_database, tmp_path_factory.mktemp("published") / "workspace.db")
    with closing(Workspace(Settings(database=str(path), worker=False, coalesce_seconds=0))) as workspace:
        assert workspace.client("admin").post("/situations", json=FLOOD).status_code == 201
        yield with_reports(workspace)


def colour(png, at=None):
    image = np.asarray(Image.open(io.BytesIO(png)).convert("RGBA"))
    return image if at is None else image[at]


def tile_of(longitude, latitude, z):
    """Tile x, y and the pixel of a place."""
    x = (longitude + 180) / 360 * 2**z
    y = (1 - np.arcsinh(np.tan(np.radians(latitude))) / np.pi) / 2 * 2**z
    return int(x), int(y), (int((y % 1) * 256), int((x % 1) * 256))


# Reports in


@pytest.mark.parametrize(
    ("media", "body"),
    [
        ("application/json", json.dumps(near(0, accuracy=40))),
        ("application/json", json.dumps([near(0, accuracy=40)])),
        (
            "application/json",
            json.dumps({"lon": -72.3, "lat": 18.5, "label": "flooded", "source": "s0", "accuracy": 40}),
        ),
        (
            "application/geo+json",
            json.dumps(
                {
                    "type": "FeatureCollection",
                    "features": [
                        {
                            "type": "Feature",
                            "geometry": {"type": "Point", "coordinates": [-72.3, 18.5]},
                            "properties": {"label": "flooded", "source": "s0", "accuracy": 40},
                        }
                    ],
                }
            ),
        ),
        ("text/csv", "source,lat,lon,label,gps_accuracy\ns0,18.5,-72.3,flooded,40\n"),
    ],
)
def test_the_same_report_in_every_form(workspace, media, body):
    client = workspace.client("reporter")
    reply = client.post("/situations/flood/reports", content=body, headers={"Content-Type": media})
    assert reply.status_code == 201, reply.text
    (row,) = workspace.service.store.active_reports("flood")
    assert (row.longitude, row.latitude, row.label, row.source, row.accuracy) == (-72.3, 18.5, "flooded", "s0", 40)


@pytest.mark.parametrize("how", ["id", "key", "content", "file"])
def test_the_same_report_twice_is_stored_once(workspace, how):
    client = workspace.client("reporter")
    send = {
        "id": lambda: client.post("/situations/flood/reports", json=near(0, id="mine")),
        "key": lambda: client.post("/situations/flood/reports", json=near(0), headers={"Idempotency-Key": "k1"}),
        "content": lambda: client.post("/situations/flood/reports", json=near(0, time="2026-11-15T21:00:00Z")),
        "file": lambda: client.post(
            "/situations/flood/import", files={"file": ("x.csv", "source,lat,lon,label\ns0,18.5,-72.3,flooded\n")}
        ),
    }[how]
    assert send().json()["stored"] == 1
    again = send()
    assert again.is_success and (again.json()["stored"], again.json()["duplicate"]) == (0, 1)
    assert len(workspace.service.store.active_reports("flood")) == 1


def test_two_reports_without_id_and_time_are_two(workspace):
    for _ in range(2):
        assert workspace.client("reporter").post("/situations/flood/reports", json=near(0)).status_code == 201
    assert len(workspace.service.store.active_reports("flood")) == 2


def test_another_report_under_the_same_id_is_a_conflict(workspace):
    client = workspace.client("reporter")
    client.post("/situations/flood/reports", json=near(0, id="x"))
    # How exactly its place is known does not make it another report.
    assert client.post("/situations/flood/reports", json=near(0, id="x", accuracy=40)).json()["duplicate"] == 1
    assert client.post("/situations/flood/reports", json=near(0, id="x", count=1)).json()["duplicate"] == 1
    assert client.post("/situations/flood/reports", json=near(0, id="x", count=2)).status_code == 409
    assert client.post("/situations/flood/reports", json=near(1, id="x")).status_code == 409


def test_bad_rows_among_many_are_set_aside_with_their_reason(workspace):
    rows = [
        near(0),
        near(1, label="lava"),
        near(2, latitude=91),
        {"label": "dry"},
        near(3, longitude=18.5, latitude=-72.3),
        7,
        near(4, accuracy=-1),
        near(5, accuracy="far"),
        near(6, count=0),
    ]
    receipt = workspace.client("reporter").post("/situations/flood/reports", json=rows).json()
    assert (receipt["stored"], receipt["rejected"]) == (1, 8)
    reasons = {r["row"]: r["reason"] for r in receipt["rejects"]}
    assert reasons[7].startswith("accuracy") and reasons[8].startswith("accuracy")
    assert reasons[9].startswith("count")
    assert "dry, flooded" in reasons[2] and "latitude" in reasons[3] and "swapped" in reasons[5]


def test_an_ushahidi_post_is_taken_without_its_contact(workspace):
    post = {
        "id": 77,
        "title": "Water",
        "content": "knee high",
        "contact": {"contact": "+50936123456", "type": "phone"},
        "author_email": "somebody@example.org",
        "source": "sms",
        "post_date": "2026-11-15 21:00:00+00:00",
        "values": {"where": [{"value": {"lat": 18.5, "lon": -72.3}}]},
    }
    client = workspace.client("reporter")
    assert client.post("/situations/flood/webhook/ushahidi", json=post).status_code == 201
    assert client.post("/situations/flood/webhook/ushahidi", json=post).json()["duplicate"] == 1
    (row,) = workspace.service.store.active_reports("flood")
    assert (row.label, row.source, row.text) == ("flooded", "ushahidi sms", "Water: knee high")
    assert "36123456" not in repr(row) and "somebody@" not in repr(row)


def test_a_webhook_may_give_its_key_as_a_password(workspace):
    client = workspace.client()
    url = "/situations/flood/webhook/ushahidi"
    post = {"values": {"p": {"lat": 18.5, "lon": -72.3}}}
    assert client.post(url, json=post).status_code == 401
    assert client.post(url, json=post, auth=("hook", workspace.keys["reporter"])).status_code == 201


def test_contacts_in_a_file_stay_out(workspace):
    table = "source,lat,lon,label,phone,email\nanna,18.5,-72.3,dry,+50912345678,anna@example.org\n"
    reply = workspace.client("reporter").post("/situations/flood/import", files={"file": ("r.csv", table)})
    assert reply.status_code == 201
    (row,) = workspace.service.store.active_reports("flood")
    assert "12345678" not in repr(row) and "example.org" not in repr(row)


def test_a_file_starts_a_map_of_its_own(workspace):
    rng = np.random.default_rng(0)
    places = rng.normal([-72.3, 18.5], 0.02, (60, 2))
    rows = "\n".join(f"s{i % 3},{lat},{lon},{'wet' if lon > -72.3 else 'dry'}" for i, (lon, lat) in enumerate(places))
    table = f"source,lat,lon,label\n{rows}\ns1,0,0,dry\n"  # the last one is far away
    admin = workspace.client("admin")
    reply = admin.post("/import", files={"file": ("../../etc/My Flood (1).csv", table)})
    assert reply.status_code == 201, reply.text
    made = reply.json()
    assert made["title"] == "My Flood  1" and made["id"] == "my-flood-1" and set(made["states"]) == {"dry", "wet"}
    west, south, east, north = made["region"]
    assert -72.5 < west < -72.3 < east < -72.1 and 18.3 < south < 18.5 < north < 18.7
    assert made["reports"] == 60
    assert admin.post("/import", files={"file": ("My Flood (1).csv", table)}).json()["id"] == "my-flood-1-2"


# Maps out


def test_the_map_changes_where_the_reports_are(published):
    client = published.client()
    wet, dry, far = (
        client.get(f"/situations/flood/point/{lon},{lat}").json()
        for lon, lat in [(-72.295, 18.5), (-72.255, 18.5), (-72.02, 18.22)]
    )
    assert wet["probability"]["flooded"] > 0.6 > 0.4 > dry["probability"]["flooded"]
    assert far["unknown"] and not wet["unknown"]
    assert abs(sum(wet["probability"].values()) - 1) < 1e-5


def test_short_addresses_mean_the_newest_or_the_named_situation(mapped):
    client = mapped.client("admin")
    whole = client.get("/situations/flood/point/-72.3,18.5").json()
    assert client.get("/point/-72.3,18.5").json() == whole
    client.post("/situations", json=FLOOD | {"id": "other"})
    mapped.service.forget()
    assert client.get("/point/-72.3,18.5").status_code == 404
    assert client.get("/point/-72.3,18.5?situation=flood").json() == whole


def test_tiles_show_the_place_and_nothing_outside(published):
    client = published.client()
    z = 11
    for lon, lat, want in ((-72.295, 18.5, "blue"), (-72.255, 18.5, "green"), (-72.02, 18.22, "grey")):
        x, y, pixel = tile_of(lon, lat, z)
        r, g, b, a = map(int, colour(client.get(f"/tiles/probability/{z}/{x}/{y}.png").content, pixel))
        assert a > 0
        got = "grey" if max(r, g, b) - min(r, g, b) < 12 else "blue" if b > g else "green"
        assert got == want, (lon, (r, g, b))
    x, y, _ = tile_of(-71.0, 18.5, z)
    assert colour(client.get(f"/tiles/probability/{z}/{x}/{y}.png").content)[..., 3].max() == 0


def test_the_difference_of_a_version_to_itself_is_nothing_and_to_another_something(mapped):
    client = mapped.client("trusted")
    client.post("/situations/flood/reports", json=[near(i, label="dry", trusted=True, id=f"t{i}") for i in range(12)])
    mapped.fit()
    x, y, pixel = tile_of(-72.295, 18.5, 11)
    url = f"/situations/flood/tiles/difference/11/{x}/{y}.png"
    same = colour(client.get(url, params={"version": 2, "base": 2}).content)
    moved = colour(client.get(url, params={"version": 2, "base": 1}).content)
    assert same[..., 3].max() == 0
    assert moved[pixel][3] > 100 and int(moved[pixel][2]) > int(moved[pixel][0])  # fell: the purple end
    assert client.get(url, params={"version": 2, "base": 9}).status_code == 404


def test_tiles_of_numbered_versions_may_be_kept_and_others_not(published):
    client = published.client()
    x, y, _ = tile_of(-72.3, 18.5, 9)
    url = f"/situations/flood/tiles/probability/9/{x}/{y}.png"
    named = {"version": 1, "state": "flooded"}
    assert "immutable" in client.get(url, params=named | {"scale": "water"}).headers["cache-control"]
    # The colours of a map can be changed.
    assert client.get(url, params=named).headers["cache-control"] == "public, max-age=300"
    # Which state a map shows first can be changed, and the newest version changes with the next report.
    assert client.get(url, params={"version": 1}).headers["cache-control"] == "no-cache"
    assert client.get(url).headers["cache-control"] == "no-cache"


def test_tilejson_leads_to_tiles(published):
    client = published.client()
    described = client.get("/tilejson").json()
    x, y, _ = tile_of(-72.3, 18.5, 9)
    url = described["tiles"][0].format(z=9, x=x, y=y)
    assert client.get(url).headers["content-type"] == "image/png"
    assert tuple(described["bounds"]) == FLOOD["region"]


@pytest.mark.parametrize("form", ["tif", "geojson", "gpkg", "parquet", "kml", "kmz", "csv", "nc", "png", "html"])
def test_every_writer_exports(published, form):
    reply = published.client().get(f"/situations/flood/export/{form}")
    assert reply.status_code == 200, reply.text
    assert f"flood-v1.{'zip' if form == 'png' else form}" in reply.headers["content-disposition"]
    start = {"tif": b"II", "gpkg": b"SQLite", "parquet": b"PAR1", "kmz": b"PK", "png": b"PK", "nc": b"\x89HDF"}.get(
        form
    )
    assert start is None or reply.content.startswith(start)
    if form == "png":
        names = zipfile.ZipFile(io.BytesIO(reply.content)).namelist()
        assert any(n.endswith(".png") for n in names) and any(n.endswith(("w", "prj", "xml", "pgw")) for n in names)


def test_an_export_for_readers_does_not_tell_where_single_reports_are(workspace):
    workspace.client("reporter").post("/situations/flood/reports", json=near(0))
    workspace.fit()

    def counts(role):
        features = workspace.client(role).get("/situations/flood/export/geojson").json()["features"]
        return sum(f["properties"]["reports"] for f in features)

    assert counts(None) == 0 and counts("trusted") == 1


def test_sources_come_with_intervals_and_matrices(published):
    table = published.client("trusted").get("/sources").json()
    assert [s["source"] for s in table["sources"]] == ["s0", "s1", "s2", "s3"]
    for s in table["sources"]:
        assert s["accuracy_low"] < s["accuracy"] < s["accuracy_high"] and s["reports"] == 6
        matrix, low, high = (np.array(s[name]) for name in ("confusion", "confusion_low", "confusion_high"))
        assert np.allclose(matrix.sum(axis=1), 1, atol=1e-3) and (low <= matrix).all() and (matrix <= high).all()


def test_versions_count_up_and_stay_readable(mapped):
    client = mapped.client("reporter")
    client.post("/situations/flood/reports", json=near(1, label="dry"))
    mapped.fit()
    assert [v["number"] for v in client.get("/versions").json()] == [2, 1]
    points = [client.get("/point/-72.29,18.5", params={"version": n}).json() for n in (1, 2)]
    assert points[0]["probability"]["flooded"] > points[1]["probability"]["flooded"]
    assert client.get("/point/-72.29,18.5", params={"version": 9}).status_code == 404


def test_a_retracted_report_leaves_the_map_as_if_it_had_never_been(mapped):
    client = mapped.client("trusted")
    before = client.get("/point/-72.3,18.5").json()["probability"]
    extra = near(0, label="dry", id="wrong", trusted=True)
    client.post("/situations/flood/reports", json=extra)
    mapped.fit()
    assert abs(client.get("/point/-72.3,18.5").json()["probability"]["flooded"] - before["flooded"]) > 0.02
    assert client.delete("/situations/flood/reports/wrong").status_code == 202
    mapped.fit()
    assert client.get("/point/-72.3,18.5").json()["probability"]["flooded"] == pytest.approx(
        before["flooded"], abs=0.01
    )
    assert client.delete("/situations/flood/reports/wrong").status_code == 404
    assert mapped.service.store.counts("flood") == {"report": 25, "retract": 1}  # the log forgets nothing


# Events


def test_events_announce_versions_and_resume_after_the_last_one_received(mapped):
    store = mapped.service.store
    first = store.events(0, name="flood")
    assert [e.kind for e in first] == ["version"] and first[0].data["version"] == 1
    mapped.client("reporter").post("/situations/flood/reports", json=near(1))
    mapped.fit()

    async def listen(last):
        service = mapped.service
        await service.broadcast.start()
        frames = []
        async for frame in service.broadcast.stream("flood", last):
            frames.append(frame)
            if len(frames) == 2:
                break
        await service.broadcast.stop()
        return frames

    import asyncio

    hello, told = asyncio.run(asyncio.wait_for(listen(first[0].id), 10))
    assert "retry:" in hello
    assert f"id: {first[0].id + 1}\n" in told and "event: version" in told and '"version": 2' in told


# OGC API Features


def test_ogc_features_page_through_all_reports(published):
    client = published.client("trusted")
    assert client.get("/ogc/conformance").json()["conformsTo"][0].endswith("/core")
    assert client.get("/ogc/collections").json()["collections"][0]["id"] == "flood"
    url: str | None = "/ogc/collections/flood/items?limit=10"
    seen: list[str] = []
    while url:
        page = client.get(url)
        assert page.headers["content-type"] == "application/geo+json"
        seen += [f["id"] for f in page.json()["features"]]
        url = next((link["href"] for link in page.json()["links"] if link["rel"] == "next"), None)
    assert len(seen) == len(set(seen)) == 24
    one = client.get(f"/ogc/collections/flood/items/{seen[3]}").json()
    assert one["geometry"]["type"] == "Point" and one["id"] == seen[3]


def test_ogc_filters_by_box_and_time(workspace):
    client = workspace.client("trusted")
    rows = [
        near(0, id="a", time="2026-01-01"),
        near(100, id="b", time="2026-06-01"),
        near(200, id="c", time="2026-12-01"),
    ]
    client.post("/situations/flood/reports", json=rows)

    def ids(**query):
        return [f["id"] for f in client.get("/ogc/collections/flood/items", params=query).json()["features"]]

    assert ids(bbox="-72.25,18,-72.15,19") == ["b"]
    assert ids(datetime="2026-03-01/..") == ["b", "c"] and ids(datetime="../2026-03-01") == ["a"]
    assert ids(datetime="2026-06-01T00:00:00Z") == ["b"]
    assert client.get("/ogc/collections/flood/items", params={"bbox": "1,2,3"}).status_code == 400
    assert client.get("/ogc/collections/flood/items", params={"datetime": "soon"}).status_code == 400


# Who sees what


def test_readers_see_neither_names_nor_words_nor_single_places(workspace):
    people = ["Anna Known", "Berta", "Carla", "Dora"]
    rows = [near(0, source=name, text="at my house", id=f"a{i}") for i, name in enumerate(people)]
    rows.append(near(100, source="Lonely", id="b"))
    workspace.client("reporter").post("/situations/flood/reports", json=rows)
    workspace.fit()
    for role in (None, "reader", "reporter"):
        client = workspace.client(role)
        for url in ("/points", "/ogc/collections/flood/items", "/sources", "/point/-72.3,18.5", "/next", "/situations"):
            said = client.get(url).text
            assert "Anna" not in said and "Lonely" not in said and "my house" not in said, (role, url)
        (cell,) = client.get("/points").json()["features"]
        assert cell["properties"]["count"] == 3  # rounded down
        assert cell["geometry"]["coordinates"] != [-72.3, 18.5]
        assert client.get("/ogc/collections/flood/items/b").status_code == 404
    seen = workspace.client("trusted").get("/points").json()
    assert seen["exact"] and len(seen["features"]) == 5 and "Anna Known" in json.dumps(seen)


def test_hidden_names_are_stable_here_and_different_elsewhere(make_workspace):
    one, two = make_workspace(), make_workspace()
    assert (
        one.service.names.pseudonym("Anna")
        == one.service.names.pseudonym("Anna")
        != one.service.names.pseudonym("Berta")
    )
    assert one.service.names.pseudonym("Anna") != two.service.names.pseudonym("Anna")


def test_reading_can_be_closed(make_workspace):
    space = make_workspace(anonymous_reading=False)
    space.client("admin").post("/situations", json=FLOOD)
    for url in ("/situations", "/points", "/metrics", "/ogc/collections", "/tilejson"):
        assert space.client().get(url).status_code == 401
        assert space.client("reader").get(url).status_code in (200, 404)
    assert space.client().get("/health").status_code == 200
    assert space.client().get("/").status_code == 200  # the page itself asks for a key


def test_a_revoked_key_is_refused(workspace):
    admin = workspace.client("admin")
    made = admin.post("/keys", json={"name": "Bob", "role": "reporter"}).json()["key"]
    bob = {"Authorization": f"Bearer {made}"}
    client = workspace.client()
    assert client.get("/me", headers=bob).json()["role"] == "reporter"
    assert admin.delete(f"/keys/{made.split('_')[1]}").status_code == 204
    assert client.get("/me", headers=bob).status_code == 401
    assert made.split("_", 2)[2] not in admin.get("/keys").text


def test_the_first_key_is_made_once(make_workspace):
    space = make_workspace()
    assert space.service.keys.create_first() is None  # this workspace has keys already


# Operations


def test_health_and_metrics_describe_a_working_service(mapped):
    client = mapped.client()
    assert client.get("/health").json() == {"status": "ok"}
    told = mapped.client("reader").get("/health").json()
    well = dict.fromkeys(("database", "journal", "disk", "maps", "fits", "alerts"), "ok")
    assert told["checks"] == well | {"worker": "none"}
    assert client.get("/ready").json() == {"ready": True}
    text = client.get("/metrics").text
    assert 'crowdfield_map_version{situation="flood"} 1.0' in text
    assert 'crowdfield_reports_total{outcome="stored"} 24.0' in text


def test_time_without_zone_is_utc(workspace):
    workspace.client("reporter").post("/situations/flood/reports", json=near(0, time="2026-01-01T00:00:00"))
    (row,) = workspace.service.store.active_reports("flood")
    assert row.time == 1767225600.0 and abs(row.received - time.time()) < 60


def test_the_reasons_add_up_and_name_names_only_to_those_trusted(published):
    told = published.client("trusted").get("/point/-72.295,18.5").json()
    why, p = told["why"], told["probability"]["flooded"]
    parts = why["prior"] + why["uncertainty"] + sum(s["log_odds"] for s in why["sources"])
    assert parts == pytest.approx(why["total"], abs=1e-6) and why["total"] == pytest.approx(
        np.log(p / (1 - p)), abs=1e-4
    )
    assert {s["source"] for s in why["sources"]} == {"s0", "s1", "s2", "s3"} and why["reports"][0]["log_odds"] != 0
    public = published.client().get("/point/-72.295,18.5").json()["why"]
    assert set(public) == {"total", "prior", "uncertainty", "groups"}
    assert {group["group"] for group in public["groups"]} <= {"for", "against", "all"} and public["groups"]
    parts = public["prior"] + public["uncertainty"] + sum(group["log_odds"] for group in public["groups"])
    assert parts == pytest.approx(public["total"], abs=1e-6) and public["total"] == pytest.approx(why["total"], abs=0.3)
    opposite = published.client("trusted").get("/point/-72.295,18.5", params={"state": "dry"}).json()["why"]
    assert opposite["total"] == pytest.approx(-why["total"], abs=1e-6)
