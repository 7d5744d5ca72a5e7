"""Maps whose state changes over time: moments of a version, and what is asked about one of them."""

import io
import json
from datetime import UTC, datetime

import numpy as np
import pytest
from PIL import Image
from tests.service.test_districts import HALVES
from tests.service.workspace import FLOOD, REGION, Workspace

from crowdfield import geography, pipeline
from crowdfield.data import Reports
from crowdfield.service import fit, moments, operations, tiles
from crowdfield.service.maps import MapArrays
from crowdfield.service.schemas import GRADES_WITHOUT_ORDER
from crowdfield.service.settings import Settings

WEST, SOUTH, EAST, NORTH = REGION
START = datetime(2023, 3, 1, tzinfo=UTC).timestamp()
HOUR, DAY = 3600.0, 86_400.0
# A place in the west, which the flood reaches first, and one in the east, which it reaches last.
FIRST, LAST = "-72.52,18.5", "-72.12,18.5"
REACH = 20_000.0
MOVING = FLOOD | {"access": "trusted", "model": {"lengthscale": REACH, "moving": True}}


def iso(seconds):
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


def front(n, rng, length=HOUR):
    """Reports about a flood that crosses the map from west to east in ten steps of this length."""
    at, place = np.sort(rng.uniform(0, 10, n)), rng.random((n, 2))
    wet = 10 * place[:, 0] < at
    said = np.where(rng.random(n) < 0.9, wet, ~wet)
    return [
        {"longitude": WEST + 0.6 * x, "latitude": SOUTH + 0.6 * y, "label": FLOOD["states"][int(label)],
         "source": f"s{i % 5}", "id": f"{length:g}-{n}-{i}", "time": START + round(length * step)}
        for i, (step, (x, y), label) in enumerate(zip(at.tolist(), place.tolist(), said.tolist(), strict=True))
    ]  # fmt: skip


@pytest.fixture(scope="module")
def space(tmp_path_factory):
    made = Workspace(
        Settings(database=str(tmp_path_factory.mktemp("moments") / "w.db"), worker=False, coalesce_seconds=0)
    )
    admin = made.client("admin")
    assert admin.post("/situations", json=MOVING).json()["moving"]
    admin.post("/situations/flood/reports", json=front(160, np.random.default_rng(0))).raise_for_status()
    made.fit()
    admin.put("/situations/flood/districts/halves", files={"file": ("d.geojson", HALVES)}).raise_for_status()
    yield made
    made.close()


@pytest.fixture(scope="module")
def shown(space):
    """The moments of the newest version."""
    return space.service.store.version("flood").info["moments"]


@pytest.fixture(scope="module")
def library(space):
    """The model that the pipeline fits to the same reports."""
    situation, rows = space.service.store.situation("flood"), front(160, np.random.default_rng(0))
    places = geography.transform_visible(
        [(r["longitude"], r["latitude"]) for r in rows], geography.WGS84, situation.crs
    )
    hours = np.array([r["time"] for r in rows]) / HOUR
    reports = Reports.from_arrays(
        np.column_stack([places, hours]), [r["label"] for r in rows], [r["source"] for r in rows],
        labels=list(situation.labels), crs=situation.crs,
    )  # fmt: skip
    settings = pipeline.Settings(states=situation.states, labels=situation.labels, lengthscale=REACH, seed=0)
    return pipeline.hold(pipeline.learn(settings, reports, situation.grid, reports_model="one_state"))


def probability(space, place, **query):
    answer = space.client("admin").get(f"/situations/flood/point/{place}", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()["probability"]["flooded"]


def test_a_version_has_moments_in_equal_steps_up_to_the_newest_report(space, shown):
    times = [row["time"] for row in front(160, np.random.default_rng(0))]
    assert shown[-1] == max(times) and min(times) <= shown[0] <= min(times) + 2 * HOUR
    assert set(np.diff(shown)) == {HOUR} and len(shown) <= moments.MOST_MOMENTS
    assert space.client("admin").get("/situations/flood/versions").json()[0]["info"]["moments"] == shown


def test_many_years_have_few_moments_and_one_wrong_date_does_not_stretch_them(space):
    situation = space.service.store.situation("flood")
    years = moments.moments_to_show(situation, START + DAY * np.arange(100 * 365.0))
    assert 2 < len(years) <= moments.MOST_MOMENTS
    hours = START + HOUR * np.arange(10.0).repeat(10)
    assert moments.moments_to_show(situation, np.append(hours, 0.0)) == moments.moments_to_show(situation, hours)
    assert moments.moments_to_show(situation, np.array([START])) == [START]


def test_early_and_late_moments_differ_where_the_front_has_come_between_them(space, shown):
    early, late = iso(shown[1]), iso(shown[-1])
    assert probability(space, LAST, moment=early) < 0.4 < 0.6 < probability(space, LAST, moment=late)
    assert probability(space, FIRST, moment=late) > 0.6
    assert probability(space, LAST) == probability(space, LAST, moment=late)  # the newest is the default


@pytest.mark.parametrize("which", [0, 4, -1])
def test_every_moment_agrees_with_the_model_of_the_library(space, shown, library, which):
    situation = space.service.store.situation("flood")
    cell = situation.grid.index(geography.transform_visible([(-72.3, 18.5)], geography.WGS84, situation.crs))
    at = pipeline.AtTime(library, shown[which] / HOUR)
    expected = at.predict_rate(situation.grid.centres()[cell])[0][0, 1]
    assert probability(space, "-72.3,18.5", moment=iso(shown[which])) == pytest.approx(expected, abs=1e-6)


def test_tiles_show_the_moment_in_the_colours_of_the_library_model(space, shown, library):
    situation, info = space.service.store.situation("flood"), space.service.store.version("flood")
    z, x, y = 9, int((-72.3 + 180) / 360 * 2**9), 229
    address, reader = f"/situations/flood/tiles/probability/{z}/{x}/{y}.png", space.client("trusted")
    tile = {which: reader.get(address, params={"moment": iso(shown[which]), "version": 1}) for which in (2, -1)}
    early, late = (np.asarray(Image.open(io.BytesIO(answer.content)).convert("RGB")) for answer in tile.values())
    assert np.abs(early.astype(int) - late).max() > 100
    made = pipeline.make_map(
        pipeline.AtTime(library, shown[2] / HOUR),
        situation.grid, np.zeros(situation.grid.shape, dtype=np.int64), field_only=True,
    )  # fmt: skip
    p, sd = made.probability.astype(np.float32), made.sd.astype(np.float32)
    arrays = MapArrays(situation, info, p, sd, made.reports.astype(np.int32), shown[2])
    drawn = tiles.render("probability", z, x, y, arrays, 1)
    expected = np.asarray(Image.open(io.BytesIO(drawn)).convert("RGB")).astype(int)
    assert np.abs(early - expected).max() <= 1  # a level of colour, where rounding differs
    named = reader.get("/situations/flood/tilejson", params={"moment": iso(shown[2] + 60)}).json()["tiles"][0]
    assert named.endswith(f"&moment={iso(shown[2])}")


def test_the_nearest_moment_answers_and_says_which_it_is(space, shown):
    for asked, nearest in ((0.0, shown[0]), (shown[3] + 0.4 * HOUR, shown[3]), (4e9, shown[-1])):
        answer = space.client("admin").get(f"/situations/flood/point/{LAST}", params={"moment": iso(asked)}).json()
        assert answer["moment"] == nearest


def test_reasons_are_those_of_the_moment(space, shown):
    def why(moment):
        return space.client("admin").get(f"/situations/flood/point/{LAST}", params={"moment": moment}).json()["why"]

    early, late = why(iso(shown[1])), why(iso(shown[-1]))
    assert early["total"] < 0 < late["total"] and early["reports"] != late["reports"]


def test_figures_of_districts_follow_the_moment(space, shown):
    def east(moment):
        query = {"districts": "halves"} | ({} if moment is None else {"moment": iso(moment)})
        told = space.client("admin").get("/situations/flood/totals", params=query).json()
        return told["moment"], next(row for row in told["areas"] if row["area"] == "east")["states"]["flooded"]["share"]

    assert east(None) == east(shown[-1])
    (first, dry), (last, wet) = east(shown[1]), east(None)
    assert (first, last) == (shown[1], shown[-1]) and wet > dry + 0.3


def test_files_hold_the_moment_and_are_named_by_it(space, shown):
    answer = space.client("admin").get("/situations/flood/export/geojson", params={"moment": iso(shown[1])})
    assert f"flood-v1-{iso(shown[1]).replace(':', '')}.geojson" in answer.headers["Content-Disposition"]
    features = json.loads(answer.content)["features"]
    place = min(features, key=lambda f: np.abs(np.mean(f["geometry"]["coordinates"][0], 0) - [-72.12, 18.5]).sum())
    said = place["properties"]["probability_flooded"]
    assert said == pytest.approx(probability(space, LAST, moment=iso(shown[1])), abs=1e-3)
    newest = space.client("admin").get("/situations/flood/export/geojson")
    assert iso(shown[-1]).replace(":", "") in newest.headers["Content-Disposition"]


def test_places_to_look_at_are_those_of_the_newest_moment(space, shown, library):
    situation = space.service.store.situation("flood")
    newest = pipeline.AtTime(library, shown[-1] / HOUR)
    heatmap = pipeline.make_map(newest, situation.grid, np.zeros(situation.grid.shape, dtype=np.int64))
    expected = [(look.easting, look.northing) for look in pipeline.looks_of(newest, heatmap, 3)]
    stored = space.service.store.blob("flood", 1, "suggestions")[:3]
    assert [(one["easting"], one["northing"]) for one in stored] == expected


def test_a_moment_that_cannot_be_answered_is_refused(space, shown):
    admin = space.client("admin")
    admin.post("/situations", json=FLOOD | {"id": "still"}).raise_for_status()
    admin.post("/situations/still/reports", json={"longitude": -72.3, "latitude": 18.5, "label": "dry"})
    space.fit()
    now = {"moment": iso(shown[0])}
    still = admin.get("/situations/still/tiles/probability/8/76/114.png", params=now)
    assert still.status_code == 422 and "does not change over time" in still.json()["detail"]
    assert admin.get(f"/situations/still/point/{LAST}").json()["moment"] is None
    changes = admin.get("/situations/flood/tiles/difference/8/76/114.png", params=now)
    assert changes.status_code == 422 and "compares versions" in changes.json()["detail"]
    for wrong in ("yesterday", "2023-13-01", "99999-01-01T00:00:00Z"):
        assert admin.get(f"/situations/flood/point/{LAST}", params={"moment": wrong}).status_code == 422
    assert space.client().get(f"/situations/flood/point/{LAST}", params=now).status_code in (401, 404)
    model = MOVING["model"] | {"silence": 1.0}
    refused = admin.post("/situations", json=MOVING | {"id": "quiet", "model": model})
    assert refused.status_code == 422 and "silence" in refused.text


class TestMapsThatChange:
    """Each with a workspace of its own."""

    def test_an_earlier_version_is_shown_at_its_newest_moment_only(self, make_workspace):
        space = make_workspace()
        admin = space.client("admin")
        admin.post("/situations", json=MOVING).raise_for_status()
        rows = front(60, np.random.default_rng(1))
        for part in (rows[:50], rows[50:]):
            admin.post("/situations/flood/reports", json=part).raise_for_status()
            space.fit()
        first, last = (space.service.store.version("flood", n).info for n in (1, 2))
        assert first["moments"][-1] < last["moments"][-1] and last["searched"] == first["searched"]
        assert probability(space, FIRST, version=1) > 0.5
        old = admin.get(f"/situations/flood/point/{FIRST}", params={"version": 1, "moment": iso(START)})
        assert old.status_code == 404 and "newest version only" in old.json()["detail"]

    def test_an_admin_lets_a_map_move_and_stand_still_again(self, make_workspace):
        space = make_workspace()
        admin = space.client("admin")
        admin.post("/situations", json=FLOOD | {"access": "trusted"}).raise_for_status()
        admin.post("/situations/flood/reports", json=front(60, np.random.default_rng(1))).raise_for_status()
        space.fit()
        assert "moments" not in space.service.store.version("flood").info
        assert space.client("trusted").patch("/situations/flood", json={"moving": True}).status_code == 403
        assert admin.patch("/situations/flood", json={"moving": True}).json()["moving"]
        space.fit()
        assert len(space.service.store.version("flood").info["moments"]) > 5
        assert operations.check(space.settings.database).problems == []
        admin.patch("/situations/flood", json={"title": "Still moving"}).raise_for_status()
        space.fit()
        assert space.service.store.version("flood").number == 2  # nothing else begins a new fit
        assert not admin.patch("/situations/flood", json={"moving": False}).json()["moving"]
        space.fit()
        assert "moments" not in space.service.store.version("flood").info

    def test_a_report_without_a_time_or_from_the_future_counts_when_it_was_received(self, make_workspace):
        space = make_workspace()
        admin = space.client("admin")
        admin.post("/situations", json=MOVING).raise_for_status()
        rows = front(30, np.random.default_rng(1))
        rows += [{"longitude": -72.3, "latitude": 18.5, "label": "dry"} | more for more in ({}, {"time": 4e9})]
        admin.post("/situations/flood/reports", json=rows).raise_for_status()
        space.fit()
        received = [row.received for row in space.service.store.active_reports("flood")][-2:]
        assert space.service.store.version("flood").info["moments"][-1] == max(received)

    def test_other_parts_of_a_report_do_not_stop_a_map_that_moves(self, make_workspace):
        space = make_workspace()
        admin = space.client("admin")
        graded = MOVING | {"states": ["no damage", "minor damage", "destroyed"]}
        admin.post("/situations", json=graded).raise_for_status()
        rng, states = np.random.default_rng(2), graded["states"]
        rows = [
            row | {"label": states[i % 3], "accuracy": 500, "count": 1 + i % 2} | (
                {"scores": dict(zip(states, rng.dirichlet([1, 1, 1]).round(3).tolist(), strict=True))} if i < 3 else {}
            )
            for i, row in enumerate(front(30, rng))
        ]  # fmt: skip
        admin.post("/situations/flood/reports", json=rows).raise_for_status()
        space.fit()
        version = space.service.store.version("flood")
        assert len(version.info["moments"]) > 5 and fit.SCORES_NOT_READ in version.info["remarks"]

    def test_a_file_becomes_a_map_that_moves(self, make_workspace):
        space = make_workspace()
        lines = [
            f"{r['longitude']},{r['latitude']},{r['label']},{r['source']},{iso(r['time'])}"
            for r in front(40, np.random.default_rng(3))
        ]
        table = "\n".join(["longitude,latitude,label,source,time", *lines]).encode()
        given = {"files": {"file": ("flood.csv", table)}, "data": {"plan": json.dumps({"moving": True})}}
        seen = space.client("admin").post("/import/preview", **given).json()
        assert seen["moving"] and seen["silence"] is None
        made = space.client("admin").post("/import", **given).json()
        assert made["moving"] and made["access"] == "trusted"
        space.fit()
        assert len(space.service.store.version(made["id"]).info["moments"]) > 5

    def test_the_preview_says_what_a_map_that_moves_does_not_use(self, make_workspace):
        admin = make_workspace().client("admin")
        rows = front(12, np.random.default_rng(3))
        said = ("minor", "moderate", "major")
        lines = [
            f"{r['longitude']},{r['latitude']},{said[i % 3]},0.2,0.3,0.5,{iso(r['time']) if i > 3 else ''}"
            for i, r in enumerate(rows)
        ]
        table = "\n".join(["longitude,latitude,label,p_minor,p_moderate,p_major,time", *lines]).encode()
        for moving in (True, False):
            given = {"files": {"file": ("d.csv", table)}, "data": {"plan": json.dumps({"moving": moving})}}
            notes = " ".join(admin.post("/import/preview", **given).json()["notes"])
            assert ("4 of 12 reports have no time" in notes) == moving
            assert ("12 reports have probabilities" in notes) == moving
            assert (GRADES_WITHOUT_ORDER in notes) == moving
        refused = {"files": {"file": ("d.csv", table)}, "data": {"plan": json.dumps({"moving": True, "silence": 1.0})}}
        assert admin.post("/import", **refused).status_code == 422


def test_grades_on_a_map_that_moves_are_said_to_have_no_order(make_workspace):
    space = make_workspace()
    admin = space.client("admin")
    admin.post("/situations", json=MOVING | {"states": ["minor", "moderate", "major"]}).raise_for_status()
    rows = [
        row | {"label": ("minor", "moderate", "major")[i % 3]}
        for i, row in enumerate(front(20, np.random.default_rng(2)))
    ]
    admin.post("/situations/flood/reports", json=rows).raise_for_status()
    space.fit()
    assert GRADES_WITHOUT_ORDER in space.service.store.version("flood").info["remarks"]


def test_the_map_of_readers_depends_on_days_only(make_workspace):
    """Two logs whose reports differ in the time of day: everything that readers can ask has the same answer."""
    rng = np.random.default_rng(4)
    rows = front(60, rng, DAY)
    told = []
    for shift in (0.0, 1.0):
        space = make_workspace()
        space.client("admin").post("/situations", json=MOVING | {"access": "public"}).raise_for_status()
        moved = [row | {"time": row["time"] // DAY * DAY + (row["time"] % DAY + shift * 37_000) % DAY} for row in rows]
        space.client("admin").post("/situations/flood/reports", json=moved).raise_for_status()
        space.fit()
        reader, version = space.client(), space.service.store.version("flood")
        shown = version.info["moments"]
        assert all(moment % DAY == DAY / 2 for moment in shown) and set(np.diff(shown)) == {DAY}
        addresses = ["tiles/probability/8/76/114.png", f"point/{LAST}", "export/csv"]
        answers = [
            reader.get(f"/situations/flood/{address}", params={"moment": iso(m)})
            for address in addresses
            for m in shown
        ]
        assert {answer.status_code for answer in answers} == {200}
        told.append((shown, [answer.content for answer in answers]))
    assert told[0] == told[1]
