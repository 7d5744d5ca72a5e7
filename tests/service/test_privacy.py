"""What readers can find out by asking a real server: never more than a published cell, day and count.

Each line of the threat model in docs/security.md names its test here.
"""

import json
import threading
import time
from typing import Any

import numpy as np
import pytest
from tests.service.served import serving
from tests.service.workspace import REGION, fit_all, worker_here

from crowdfield import geography
from crowdfield.data import Grid
from crowdfield.service.publishing import Minimum, ReportArrays, Share, grouped_reasons, publish_cells
from crowdfield.service.scatter import scattered
from crowdfield.service.settings import Settings
from crowdfield.service.store import Store

DAY = 86400.0
NOON = 1_790_000_000.0 // DAY * DAY + DAY / 2
READERS = (None, "reader", "reporter")
ITEMS = "/ogc/collections/{}/items"
AREA = "/ogc/collections/{}/area"
# Everything that a reader may ask about where and when reports were made, except the map itself.
MAP = {"title": "Flood", "states": ["dry", "flooded"], "region": REGION, "columns": 32}


def crowd(situation, rng):
    """Reports of six people on a square, of one person alone elsewhere, and of one who joins the crowd once. Where
    within their cells and when within their days they were made, and how exact their places are to less than a cell, is
    chance: another `rng`, another truth."""
    grid = situation.grid
    side = max(grid.cell_width, grid.cell_height)
    square, alone = 16 * grid.columns + 16, 6 * grid.columns + 25

    def report(cell, name, day, label="flooded"):
        easting, northing = grid.centres()[cell] + rng.uniform(-0.45, 0.45, 2) * (grid.cell_width, grid.cell_height)
        longitude, latitude = geography.unproject([(easting, northing)], situation.crs)[0].tolist()
        moment = NOON + DAY * day + float(rng.uniform(-0.4, 0.4)) * DAY
        return {
            "longitude": longitude, "latitude": latitude, "label": label, "source": name, "time": moment,
            "id": f"{name}-{cell}-{day}-{label}",
            "accuracy": side * (2 * (day == 1) + float(rng.uniform(0, 0.45))),
        }  # fmt: skip

    rows = [report(square, f"person {i}", day) for i in range(6) for day in (0, 1)]
    rows += [report(square + 1, f"person {i}", 0, "dry") for i in range(4)]
    return [*rows, report(square, "Yan", 3, "dry"), report(alone, "Zoe", 2), report(alone, "Zoe", 4)]


class World:
    """A server with two situations that differ only in what readers must not learn."""

    def __init__(self, served):
        self.served = served
        self.settings = Settings(database=served.database, worker=False, coalesce_seconds=0)
        self.worker = worker_here(self.settings)
        self.store = Store(self.worker.engine)
        self.sent = {}
        with served.client("admin") as admin:
            for seed, name in enumerate(("one", "two")):
                admin.post("/situations", json=MAP | {"id": name}).raise_for_status()
                self.sent[name] = crowd(self.store.situation(name), np.random.default_rng(seed))
                assert admin.post(f"/situations/{name}/reports", json=self.sent[name]).json()["stored"] == 19
        self.fit()

    def fit(self):
        fit_all(self.worker)
        time.sleep(1.1)  # longer than the server remembers a situation

    def close(self):
        self.worker.close()


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    rates = {"CROWDFIELD_ANONYMOUS_PER_SECOND": "100000", "CROWDFIELD_READS_PER_SECOND": "100000"}
    with serving(tmp_path_factory.mktemp("privacy"), "--no-worker", environment=rates) as served:
        made = World(served)
        yield made
        made.close()


def answer(client, name, path, **query):
    """What a reader learns from an answer; the two situations may differ in their names only."""
    reply = client.get(path.format(name), params=query)
    assert reply.status_code in (200, 204, 400, 404), reply.text
    told = reply.text
    for written in (f"/{name}", f"'{name}'", f'"{name}"'):
        told = told.replace(written, "…")
    return reply.status_code, told


def boxes(rng, count):
    west, south, east, north = REGION
    corners = rng.uniform([west, south, west, south], [east, north, east, north], (count, 4))
    low, high = np.minimum(corners[:, :2], corners[:, 2:]), np.maximum(corners[:, :2], corners[:, 2:])
    return [",".join(f"{value:.9f}" for value in box) for box in np.hstack([low, high])]


def moments(rng, count):
    ends = np.sort(rng.uniform(NOON - DAY, NOON + 5 * DAY, (count, 2)), axis=1)
    return [f"{_iso(a)}/{_iso(b)}" for a, b in ends]


def _iso(seconds):
    return str(np.datetime64(int(seconds * 1e6), "us")) + "Z"


def square_around(longitude, latitude, side):
    west, south, east, north = longitude - side, latitude - side, longitude + side, latitude + side
    return [[[west, south], [east, south], [east, north], [west, north], [west, south]]]


def test_figures_of_districts_and_vector_tiles_tell_apart_no_crowds_that_differ_below_cells(world):
    """However small a polygon is drawn, its figures are of published cells."""
    crowded, alone = ((row["longitude"], row["latitude"]) for row in (world.sent["one"][0], world.sent["one"][-1]))
    shapes = [square_around(*crowded, 1e-4), square_around(*alone, 0.06)]
    features = [
        {"type": "Feature", "properties": {}, "geometry": {"type": "Polygon", "coordinates": rings}} for rings in shapes
    ]
    file = json.dumps({"type": "FeatureCollection", "features": features}).encode()
    corners = ",".join(f"{x} {y}" for x, y in shapes[0][0])
    with world.served.client("admin") as admin:
        for name in ("one", "two"):
            path = f"/situations/{name}/districts/small"
            admin.put(path, files={"file": ("d.geojson", file)}).raise_for_status()
    for role in READERS:
        with world.served.client(role) as client:
            first, second = (answer(client, n, "/situations/{}/totals", districts="small") for n in ("one", "two"))
            assert first == second and json.loads(first[1])["areas"][1]["reports"] is None  # of one person alone
            tiles = [client.get(f"/situations/{n}/points/9/153/229.mvt").content for n in ("one", "two")]
            assert tiles[0] == tiles[1] != b""
            assert answer(client, "one", "/situations/{}/times") == answer(client, "two", "/situations/{}/times")
            for since in NOON + DAY * np.linspace(-1, 5, 7):
                asked = {"since": since, "until": since + DAY / 3}
                path = "/situations/{}/points/9/153/229.mvt"
                assert answer(client, "one", path, **asked) == answer(client, "two", path, **asked), asked
            # The time of the version is that of each map.
            first, second = (answer(client, n, AREA, coords=f"POLYGON(({corners}))") for n in ("one", "two"))
            assert json.loads(first[1])["ranges"] == json.loads(second[1])["ranges"]
    with world.served.client("trusted") as client:
        told = client.get("/situations/one/totals", params={"districts": "small"}).json()
        assert told["areas"][1]["reports"] == 2


@pytest.mark.parametrize("role", READERS)
def test_no_question_tells_apart_two_crowds_that_differ_below_cells_and_days(world, role):
    """Bisection, overlapping boxes, paging, single items: whatever is asked, both crowds give the same answer."""
    rng = np.random.default_rng(7)
    asked: list[dict[str, Any]] = [
        {},
        {"limit": 1},
        {"limit": 1, "offset": 1},
        {"bbox": "nonsense"},
        {"datetime": ".."},
    ]
    asked += [{"bbox": box} for box in boxes(rng, 25)] + [{"datetime": moment} for moment in moments(rng, 25)]
    pairs = zip(boxes(rng, 10), moments(rng, 10), strict=True)
    asked += [{"bbox": box, "datetime": moment} for box, moment in pairs]
    with world.served.client(role) as client:
        for query in asked:
            assert answer(client, "one", ITEMS, **query) == answer(client, "two", ITEMS, **query), query
        for path in (
            "/situations/{}/points", "/situations/{}/points?version=1", "/ogc/collections/{}",
            ITEMS + "/cell-528", ITEMS + "/cell-217", ITEMS + "/person 0-528-0-flooded", ITEMS + "/none",
        ):  # fmt: skip
            assert answer(client, "one", path) == answer(client, "two", path), path


def told_by_map(client, name, version=1):
    """Probabilities to all their digits, uncertainty, suggestions, reasons, exports of a version."""
    spots = [(-72.3, 18.5), (-72.29, 18.49), (-72.12, 18.68), (-72.5, 18.3)]
    answers = [client.get(f"/situations/{name}/point/{x},{y}?version={version}").json() for x, y in spots]
    features = client.get(f"/situations/{name}/export/geojson?version={version}").json()["features"]
    looks = client.get(f"/situations/{name}/next?version={version}").json()["features"]
    tile = client.get(f"/situations/{name}/tiles/probability/11/612/917.png?version={version}").content
    return answers, [f["properties"] for f in features], looks, tile


@pytest.mark.parametrize("role", READERS)
def test_the_map_itself_tells_apart_no_places_within_a_cell(world, role):
    """All that a version says is a function of cells alone."""
    with world.served.client(role) as client:
        assert told_by_map(client, "one") == told_by_map(client, "two")
    # The exact places do differ, and those who may see them do.
    with world.served.client("trusted") as client:
        one, two = (client.get(f"/situations/{name}/points?version=1").json()["features"] for name in ("one", "two"))
        assert [f["geometry"] for f in one] != [f["geometry"] for f in two]


def test_a_map_that_was_private_tells_apart_no_places_within_a_cell_once_others_may_see_it(world):
    """For those who may see the reports, maps are of exact places; as soon as others may see them, of cells."""
    names = ("one-private", "two-private")
    with world.served.client("admin") as admin, world.served.client() as stranger:
        for name, rows in zip(names, (world.sent["one"], world.sent["two"]), strict=True):
            admin.post("/situations", json=MAP | {"id": name, "access": "trusted"}).raise_for_status()
            assert admin.post(f"/situations/{name}/reports", json=rows).json()["stored"] == 19
        world.fit()
        features = [told_by_map(admin, name)[1] for name in names]
        assert features[0] != features[1]
        for name in names:
            assert stranger.get(f"/situations/{name}/export/geojson").status_code == 404
            assert admin.patch(f"/situations/{name}", json={"access": "public"}).json()["version"] is None
        world.fit()
        (newest,) = {stranger.get(f"/situations/{name}").json()["version"] for name in names}
        one, two = (told_by_map(stranger, name, newest) for name in names)
        assert one == two and one[1] == told_by_map(stranger, "one")[1]
        for name in names:
            assert [v["number"] for v in stranger.get(f"/situations/{name}/versions").json()] == [newest]
            admin.delete(f"/situations/{name}").raise_for_status()


def bisect(found, low, high, steps=40):
    """The smallest interval in which `found(low, high)` still holds, as forty questions find it; None for nothing."""
    if not found(low, high):
        return None
    for _ in range(steps):
        middle = (low + high) / 2
        low, high = (low, middle) if found(low, middle) else (middle, high)
    return low, high


@pytest.mark.parametrize("role", READERS)
def test_bisection_finds_the_centre_of_a_published_cell_and_nothing_of_a_lone_report(world, role):
    situation = world.store.situation("one")
    yan, zoe = world.sent["one"][-3], world.sent["one"][-1]
    centre = geography.unproject([situation.grid.centres()[16 * 32 + 16]], situation.crs)[0]
    width = REGION[2] - REGION[0]
    with world.served.client(role) as client:

        def count(west, east, **query):
            reply = client.get(
                ITEMS.format("one"), params={"bbox": f"{west:.12f},{REGION[1]},{east:.12f},{REGION[3]}"} | query
            )
            return sum(f["properties"]["count"] for f in reply.json()["features"])

        # Where reports are: the attack ends at a centre, whichever report is in the cell.
        full = count(REGION[0], REGION[2])
        low, high = bisect(lambda a, b: count(a, b) >= 12, REGION[0], REGION[2])
        assert full == 15 and high - low < 1e-9 * width
        assert abs((low + high) / 2 - centre[0]) < 1e-6 * width
        assert abs((low + high) / 2 - yan["longitude"]) > 1e-3 * width / 32
        # A lone report: no box around it, however small or large beside the others, tells that it is there.
        for reach in (0.3, 0.1, 0.01, 1e-4, 1e-7):
            around = [
                zoe["longitude"] - reach,
                zoe["latitude"] - reach,
                zoe["longitude"] + reach,
                zoe["latitude"] + reach,
            ]
            box = ",".join(f"{v:.9f}" for v in np.clip(around, REGION[:2] * 2, REGION[2:] * 2))
            features = client.get(ITEMS.format("one"), params={"bbox": box}).json()["features"]
            assert all(f["properties"]["count"] in (3, 12) for f in features)
            assert not any(f["id"] == f"cell-{6 * 32 + 25}" for f in features)


@pytest.mark.parametrize("role", READERS)
def test_bisection_finds_whole_days_only(world, role):
    with world.served.client(role) as client:

        def count(since, until):
            reply = client.get(ITEMS.format("one"), params={"datetime": f"{_iso(since)}/{_iso(until)}"})
            return sum(f["properties"]["count"] for f in reply.json()["features"])

        # The first instant at which something is found is the start of the day, whenever in it the report was made.
        edge = bisect_edge(lambda t: count(NOON - 2 * DAY, t) > 0, NOON - 2 * DAY, NOON + 6 * DAY)
        assert abs(edge / DAY - round(edge / DAY)) < 1e-6
        # On the days of Yan and Zoe nobody else reported: nothing is told of them.
        assert all(count(NOON + DAY * (d - 0.5), NOON + DAY * (d + 0.49)) == 0 for d in (2, 3, 4))


def bisect_edge(true, low, high, steps=50):
    for _ in range(steps):
        middle = (low + high) / 2
        low, high = (low, middle) if true(middle) else (middle, high)
    return high


@pytest.mark.parametrize("role", READERS)
def test_reasons_tell_of_no_single_source(world, role):
    zoe, person = world.sent["one"][-1], world.sent["one"][0]
    with world.served.client(role) as client:
        lone = client.get(f"/situations/one/point/{zoe['longitude']},{zoe['latitude']}").json()
        crowded = client.get(f"/situations/one/point/{person['longitude']},{person['latitude']}").json()
        for told in (lone, crowded):
            assert set(told["why"]) == {"total", "prior", "uncertainty", "groups"} and "source-" not in json.dumps(told)
        assert lone["reports_in_cell"] is None
        assert crowded["reports_in_cell"] == 12 and crowded["why"]["groups"]
        # Reports far away tell of the map's level everywhere, so that a lone place has groups too, of many.
        for group in lone["why"]["groups"] + crowded["why"]["groups"]:
            assert group["reports"] >= 3 and group["sources"] >= 3 and group["sources"] % 3 == 0
    with world.served.client("trusted") as client:
        whole = client.get(f"/situations/one/point/{zoe['longitude']},{zoe['latitude']}").json()
        assert {s["source"] for s in whole["why"]["sources"]} >= {"Zoe", "Yan"} and whole["reports_in_cell"] == 2


@pytest.mark.parametrize("role", READERS)
def test_the_table_of_sources_leaves_out_those_with_few_reports(world, role):
    with world.served.client(role) as client:
        told = client.get("/situations/one/sources").json()
    assert {s["reports"] for s in told["sources"]} == {3} and len(told["sources"]) == 4  # the others made one or two
    assert all(s["source"].startswith("source-") and "trust" not in s for s in told["sources"])
    assert told["left_out"] == 3  # of four: rounded down


@pytest.mark.parametrize("role", READERS)
def test_exports_hold_published_counts_only(world, role):
    with world.served.client(role) as client:
        features = client.get("/situations/one/export/geojson").json()["features"]
    assert sorted(f["properties"]["reports"] for f in features if f["properties"]["reports"]) == [3, 12]


def test_one_report_more_changes_no_published_count(world):
    """Differencing: what readers see before and after a report that leaves no count at another multiple of three."""
    with world.served.client() as reader, world.served.client("reporter") as reporter:
        before = reader.get("/situations/two/points").json()["features"]
        one_more = world.sent["two"][0] | {"id": "again", "source": "Xaver"}
        assert reporter.post("/situations/two/reports", json=one_more).status_code == 201
        # Not even before the next version: readers are answered from versions, never from the log.
        assert reader.get("/situations/two/points").json()["features"] == before
        world.fit()
        after = reader.get("/situations/two/points").json()
        assert after["features"] == before and after["total"] == 20


def test_versions_events_and_lists_of_maps_name_no_source(world):
    with world.served.client() as reader:
        for version in reader.get("/situations/one/versions").json():
            assert set(version) == {"number", "reports", "created", "seconds", "info"}
            assert "Zoe" not in json.dumps(version)
        for path in (
            "/situations",
            "/situations/one",
            "/situations/one/next",
            "/metrics",
            "/health",
            "/ogc/collections",
        ):
            said = reader.get(path).text
            assert "Zoe" not in said and "person 0" not in said


# The rules themselves


def told(*rows):
    """Rows of (cell, label, source, day)."""
    table = np.array(rows)
    return ReportArrays(table[:, 0], table[:, 1], table[:, 2], table[:, 3] * DAY + 1, np.ones(len(table), dtype=bool))


def test_cells_need_reports_and_sources_and_so_do_labels_and_days():
    rows = [(1, 0, s, 0) for s in range(3)]  # three sources
    rows += [(2, 0, 9, d) for d in range(8)]  # one source, eight times
    rows += [(3, s % 2, s, s) for s in range(5)]  # five sources, on five days, of two minds
    rows += [(-1, 0, s, 0) for s in range(9)]  # off the map
    found = publish_cells(told(*rows), ["dry", "wet"], Minimum(3, 3), 24)
    assert [(row.cell, row.count, row.labels) for row in found.whole] == [(1, 3, {"dry": 3}), (3, 3, {"dry": 3})]
    assert [(day, [row.cell for row in rows]) for day, rows in found.periods.items()] == [(0, [1])]
    assert found.count(2) is None and found.select(0.0, 0.0) == list(found.periods[0])
    assert found.select(5 * DAY, None) == []


def test_reasons_need_several_sources_none_of_which_decides():
    few = [Share("a", 1.0), Share("b", 0.9)]
    crowd = [Share(name, 0.5) for name in "abcdef"]
    assert grouped_reasons(few, Minimum(3, 3)) == []
    assert [g["group"] for g in grouped_reasons(crowd, Minimum(3, 3))] == ["for"]
    # One loud voice among faint ones is that voice alone.
    assert grouped_reasons([Share("loud", 5.0), *[Share(name, 0.6) for name in "abcd"]], Minimum(3, 3)) == []
    # Far away everybody counts a little; that makes no crowd.
    assert grouped_reasons([Share("near", 1.0), *[Share(f"far {i}", 1e-4) for i in range(50)]], Minimum(3, 3)) == []
    # A single dissenter is not set apart.
    (all_together,) = grouped_reasons([*crowd, Share("g", -0.5)], Minimum(3, 3))
    assert all_together["group"] == "all" and all_together["log_odds"] == 2.5


def test_scattered_places_stay_in_their_cells_together_or_apart():
    grid = Grid(west=0.0, east=100.0, south=0.0, north=50.0, columns=10, rows=5)
    rng = np.random.default_rng(0)
    exact = rng.uniform(0, (100.0, 50.0), (500, 2))
    exact[100:150] = exact[:50]  # reported again from the same places
    put = scattered(grid, exact)
    assert (grid.index(put) == grid.index(exact)).all()
    assert (put[100:150] == put[:50]).all() and len(np.unique(put, axis=0)) == 450
    centres = grid.centres()[grid.index(put)]
    assert (np.abs(put - centres) > 0).any(axis=1).all()  # never at a centre
    # Another truth within the same cells, another day, gives the same places; and later reports move none of them.
    moved = centres + rng.uniform(-4.9, 4.9, (500, 2))
    moved[100:150] = moved[:50]
    assert (scattered(grid, moved) == put).all() and (scattered(grid, exact[:300]) == put[:300]).all()
    assert scattered(grid, np.empty((0, 2))).shape == (0, 2)


@pytest.mark.parametrize(("role", "access"), [(None, "keys"), (None, "trusted"), ("reader", "trusted")])
def test_a_stream_ends_when_its_reader_may_no_longer_see_the_map(world, role, access):
    opened, ended = threading.Event(), threading.Event()
    path = "/situations/watched"
    with world.served.client("admin") as admin, world.served.client(role) as stranger:
        admin.post("/situations", json=MAP | {"id": "watched"}).raise_for_status()

        def listen():
            with stranger.stream("GET", f"{path}/events") as stream:
                for _ in stream.iter_lines():
                    opened.set()
            ended.set()

        threading.Thread(target=listen, daemon=True).start()
        assert opened.wait(30)
        admin.patch(path, json={"access": access}).raise_for_status()
        assert ended.wait(30) and stranger.get(path).status_code == 404
        assert admin.patch(path, json={"access": "public"}).status_code == 200
        assert stranger.get(path).status_code == 200
        admin.delete(path).raise_for_status()
