"""Maps have a life: who may see them, their colours, states and trust can be changed; what cannot be meant cannot."""

import asyncio
from typing import Any

import pytest
from tests.service.workspace import FLOOD, HERE, Workspace

from crowdfield.service import app, fit
from crowdfield.service.journal import Ledger
from crowdfield.service.lease import Leases
from crowdfield.service.maps import unpack
from crowdfield.service.settings import Settings

ROLES = ("reader", "reporter", "trusted", "admin")


def reports(*labels, start=0):
    return [HERE | {"label": label, "source": f"s{i}", "id": f"{start + i}"} for i, label in enumerate(labels)]


@pytest.fixture(scope="module")
def space(tmp_path_factory):
    folder = tmp_path_factory.mktemp("life")
    made = Workspace(Settings(database=str(folder / "w.db"), worker=False, coalesce_seconds=0))
    yield made
    made.close()


@pytest.fixture
def start(space):
    """Starts a map with three reports; it is removed after the test."""
    started = []

    def make(name="flood", **more):
        admin = space.client("admin")
        admin.post("/situations", json=FLOOD | {"id": name} | more).raise_for_status()
        started.append(name)
        sent = reports("dry", "flooded", "flooded")
        admin.post(f"/situations/{name}/reports", json=sent).raise_for_status()
        space.fit()
        return admin

    yield make
    for name in started:
        space.client("admin").delete(f"/situations/{name}")


def change(space, name="flood", **fields):
    return space.client("admin").patch(f"/situations/{name}", json=fields)


@pytest.mark.parametrize("access", ["keys", "trusted"])
def test_a_map_is_not_there_for_those_who_may_not_see_it(space, start, access):
    start()
    admin = space.client("admin")
    admin.post("/situations", json=FLOOD | {"id": "open"}).raise_for_status()
    other = admin.post("/keys", json={"name": "o", "role": "trusted", "maps": ["open"]}).json()["key"]
    assert change(space, access=access).json()["access"] == access
    space.fit()
    paths = [
        "/situations/{}", "/situations/{}/tiles/probability/9/153/229.png", "/situations/{}/point/-72.3,18.5",
        "/situations/{}/points", "/situations/{}/next", "/situations/{}/sources", "/situations/{}/versions",
        "/situations/{}/export/csv", "/situations/{}/tilejson", "/situations/{}/events", "/situations/{}/districts",
        "/situations/{}/weights",
        "/ogc/collections/{}", "/ogc/collections/{}/items", "/points?situation={}", "/basemap.json?situation={}",
    ]  # fmt: skip
    below = () if access == "keys" else ("reader", "reporter")
    for key in (None, other, *(space.keys[role] for role in below)):
        stranger = space.client()
        stranger.headers.update({"Authorization": f"Bearer {key}"} if key else {})
        for path in paths:
            hidden, missing = stranger.get(path.format("flood")), stranger.get(path.format("none"))
            assert hidden.status_code == missing.status_code == 404, path
            assert hidden.text.replace("flood", "none") == missing.text
        assert [one["id"] for one in stranger.get("/situations").json()] == ["open"]
        assert [one["id"] for one in stranger.get("/ogc/collections").json()["collections"]] == ["open"]
        assert stranger.get("/tilejson").status_code == 404  # the newest that one may see has no map yet
        assert 'situation="flood"' not in stranger.get("/metrics").text
    newest = admin.get("/situations/flood").json()["version"]
    for role in (role for role in ROLES if role not in below):
        client = space.client(role)
        assert client.get("/situations/flood").status_code == 200
        tile = client.get(f"/situations/flood/tiles/probability/9/153/229.png?version={newest}&state=dry&scale=plain")
        assert tile.headers["cache-control"] == "private"
    assert 'situation="flood"' in admin.get("/metrics").text
    admin.delete("/situations/open")


TILE = "/situations/flood/tiles/probability/9/153/229.png?version=2&state=flooded"


def test_colours_are_chosen_and_taken_back(space, start):
    start()
    # Where nobody knows, every scale is grey.
    known = [HERE | {"longitude": -72.55 + 0.05 * i, "label": "flooded", "trusted": True} for i in range(10)]
    space.client("admin").post("/situations/flood/reports", json=known).raise_for_status()
    space.fit()
    plain = space.client().get(TILE)
    assert plain.headers["cache-control"] == "public, max-age=300"
    told = change(space, colours={"flooded": "harm", "dry": "plain"}).json()
    assert told["scales"] == ["plain", "harm"]
    after, named = space.client().get(TILE), space.client().get(f"{TILE}&scale=harm")
    assert plain.content != after.content == named.content and "immutable" in named.headers["cache-control"]
    assert change(space, colours={"flooded": None, "dry": None}).json()["scales"] == ["water-reversed", "water"]


def test_new_states_make_a_new_map_of_the_same_reports(space, start):
    start()
    told = change(space, states=["dry", "flooded", "cut off"], positive="cut off").json()
    assert told["labels"] == ["dry", "flooded", "cut off"] and told["positive"] == "cut off"
    assert told["version"] is None and told["waiting"]
    admin = space.client("admin")
    admin.post("/situations/flood/reports", json=reports("cut off", start=10)).raise_for_status()
    space.fit()
    about = admin.get("/situations/flood").json()
    assert about["version"] == 2 and about["reports"] == 4 and about["failure"] is None
    assert set(admin.get("/situations/flood/point/-72.3,18.5").json()["probability"]) == {"dry", "flooded", "cut off"}


def test_trust_is_set_with_the_map_and_is_an_entry_of_the_log(space, start):
    start()
    assert change(space, trust={"s0": "certain", "s1": "low"}).status_code == 200
    space.fit()
    rows = {row["source"]: row["trust"] for row in space.client("trusted").get("/sources").json()["sources"]}
    assert rows["s0"] == "certain" and rows["s1"] == "low" and rows["s2"] is None


REFUSED: list[tuple[dict[str, Any], int, str]] = [
    ({}, 422, ""),
    ({"access": "friends"}, 422, ""),
    ({"colours": {"lava": "harm"}}, 422, "no such state"),
    ({"colours": {"dry": "pink"}}, 422, ""),
    ({"positive": "lava"}, 422, "no such state"),
    ({"states": ["dry"]}, 422, ""),
    ({"states": ["dry", "dry"]}, 422, "differ"),
    ({"states": ["dry", "wet"]}, 409, "use the labels flooded"),
    ({"states": ["dry", "flooded", "x"], "labels": ["dry", "flooded"]}, 422, "fewer labels"),
    ({"labels": ["dry", "wet"]}, 409, "use the labels flooded"),
    ({"trust": {}}, 422, ""),
    ({"trust": {"s0": "blind"}}, 422, ""),
    ({"trust": {"s\n": "low"}}, 422, ""),
    ({"colour": "red"}, 422, ""),
]


def test_a_change_that_cannot_be_meant_is_refused_and_changes_nothing(space, start):
    admin = start()
    before = admin.get("/situations/flood").json()
    for fields, status, words in REFUSED:
        told = change(space, title="Another", **fields) if fields else change(space)
        assert told.status_code == status and words in told.json()["detail"], (fields, told.text)
        assert admin.get("/situations/flood").json() == before


def test_states_that_something_depends_on_stay(space, start):
    admin = start()
    matrix = {"matrix": [[9, 1], [1, 9]]}
    admin.put("/situations/flood/sources/s0/trust", json=matrix).raise_for_status()
    assert change(space, states=["dry", "flooded", "x"]).status_code == 422
    own = FLOOD | {"id": "own", "model": {"confusion_prior": [[2, 1], [1, 2]]}}
    admin.post("/situations", json=own).raise_for_status()
    assert "confusion_prior" in change(space, "own", states=["a", "b"]).json()["detail"]
    admin.delete("/situations/own")


def test_reporters_may_send_to_a_map_that_they_may_not_see(space, start):
    start(access="trusted")
    row = reports("dry", start=10)
    path = "/situations/flood/reports"
    assert space.client("reporter").post(path, json=row).json()["stored"] == 1
    admin = space.client("admin")
    admin.post("/situations", json=FLOOD | {"id": "open"}).raise_for_status()
    other = admin.post("/keys", json={"name": "o", "role": "reporter", "maps": ["open"]}).json()["key"]
    for key in (None, other, space.keys["reader"]):  # others get the same answer as for a map that does not exist
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        asked = (path, "/situations/none/reports")
        hidden, missing = (space.client().post(address, json=row, headers=headers) for address in asked)
        assert hidden.status_code == missing.status_code in (401, 403), key
    admin.delete("/situations/open")


def probability(space, version):
    return unpack(space.service.store.blob("flood", version, "arrays"))["probability"]


def test_a_map_of_exact_places_begins_anew_when_others_may_see_it(space, start):
    """Exact places could be computed from its versions: none of them is left, in the store or in a cache."""
    admin = start(access="trusted")
    tile = "/situations/flood/tiles/probability/9/153/229.png?version={}&state=dry&scale=plain"
    made = admin.get("/situations/flood").json()
    assert made["exact_places"] and made["version"] == 1
    assert admin.get(tile.format(1)).status_code == 200
    seen, stranger = probability(space, 1), space.client()
    for access, exact in (("public", False), ("trusted", True), ("keys", False)):
        changed = change(space, access=access, title=access).json()
        assert (changed["exact_places"], changed["version"], changed["title"]) == (exact, None, access)
        for client in (stranger, admin):
            assert client.get(tile.format(made["version"])).status_code == 404
        space.fit()
        made, earlier = admin.get("/situations/flood").json(), made
        assert made["version"] > earlier["version"]  # numbers are not used again
        assert admin.get(tile.format(made["version"])).status_code == 200
        assert (probability(space, made["version"]) == seen).all() == exact
    # Between values of `access` for which fits use the same, versions stay.
    assert change(space, access="public").json()["version"] == made["version"]


def test_a_fit_that_began_before_others_could_see_the_map_is_not_published(space, start):
    start(access="trusted")
    store = space.service.store
    before = store.situation("flood")
    ledger = Ledger("flood")
    ledger.follow(store.engine)
    made, _ = fit.fit_map(before, ledger, None)
    assert Leases(store.engine, "me", 0.0).acquire("flood")
    change(space, access="public").raise_for_status()
    assert store.publish("flood", made, holder="me", keep=9) is None
    change(space, access="trusted").raise_for_status()
    assert store.publish("flood", made, holder="me", keep=9) is not None


def test_a_map_can_be_for_keys_only_from_its_start(space):
    admin = space.client("admin")
    hidden = FLOOD | {"id": "hidden", "access": "keys", "colours": {"dry": "harm"}}
    assert admin.post("/situations", json=hidden).json()["scales"] == ["harm", "harm-reversed"]
    assert space.client().get("/situations/hidden").status_code == 404
    admin.delete("/situations/hidden")
    assert admin.post("/situations", json=FLOOD | {"id": "bad", "colours": {"x": "harm"}}).status_code == 422


def test_while_somebody_looks_at_a_map_its_model_is_read_ahead(space, start, monkeypatch):
    start()
    monkeypatch.setattr(app, "WARM_SECONDS", 0.01)
    service, asked = space.service, []
    ask = service.pools.answers.ask

    def noted(question, charge):
        asked.append(question)
        return ask(question, charge)

    monkeypatch.setattr(service.pools.answers, "ask", noted)

    async def look():
        for name in ("flood", "flood", "none"):  # twice at once is once more when the first has ended
            service.warm(name)
        await asyncio.gather(*service._tasks)

    asyncio.run(look())
    names = [question["situation"] for question in asked]
    assert sorted(names) == ["flood", "flood", "none"] and {question["task"] for question in asked} == {"warm"}
    assert service._warming == {}
    assert space.client().get("/situations/flood/point/-72.3,18.5").json()["busy"] is False
