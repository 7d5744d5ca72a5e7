"""Reports filtered and listed for those who may see them, and when things happened, coarsely, for everybody else."""

import shutil

import pytest
from tests.service.test_pointtiles import decoded
from tests.service.workspace import FLOOD, REGION, Workspace

from crowdfield.service import eventtimes
from crowdfield.service.publishing import PublishedCells
from crowdfield.service.reporttable import ReportTable
from crowdfield.service.settings import Settings

DAY = 86400.0
FIRST = 1_263_254_400.0  # 12 January 2010, 00:00 UTC
CROWDED, LONELY = (-72.3, 18.5), (-72.5, 18.7)


@pytest.fixture(scope="module")
def dated(tmp_path_factory, empty_database):
    """On the first day four people in one place, on the third three there and one elsewhere; one tells no time."""
    rows = [
        {"longitude": CROWDED[0], "latitude": CROWDED[1], "label": "flooded", "source": f"s{i}", "id": f"first-{i}"}
        | {"time": FIRST + 3600.0 * (i + 1)}
        for i in range(4)
    ]
    rows += [row | {"id": f"third-{i}", "time": FIRST + 2.5 * DAY + i} for i, row in enumerate(rows[:3])]
    alone = {"longitude": LONELY[0], "latitude": LONELY[1], "label": "dry", "source": "s9", "id": "alone"}
    rows.append(alone | {"time": FIRST + 2.9 * DAY})
    rows.append(alone | {"id": "untimed", "trusted": True, "source": None, "text": "the road is open"})
    path = shutil.copy(empty_database, tmp_path_factory.mktemp("dated") / "workspace.db")
    space = Workspace(Settings(database=str(path), worker=False, coalesce_seconds=0))
    for name in ("flood", "judged"):
        space.client("admin").post("/situations", json=FLOOD | {"id": name}).raise_for_status()
        space.client("admin").post(f"/situations/{name}/reports", json=rows).raise_for_status()
    few = [{"longitude": -72.3, "latitude": 18.5, "label": "dry", "source": f"s{i}"} for i in range(6)]
    few[0]["time"] = FIRST
    pacific = [{"longitude": x, "latitude": 0.0, "label": "dry", "source": "s"} for x in (179.5, -179.5, -179.2)]
    for name, region, given in (("untimed", REGION, few), ("pacific", (179.0, -1.0, -179.0, 1.0), pacific)):
        space.client("admin").post("/situations", json=FLOOD | {"id": name, "region": region}).raise_for_status()
        space.client("admin").post(f"/situations/{name}/reports", json=given).raise_for_status()
    space.fit()
    yield space
    space.close()


def listed(client, name="flood", **wanted):
    found = client.get(f"/situations/{name}/reports", params=wanted)
    assert found.status_code == 200, found.text
    return [feature["id"] for feature in found.json()["features"]], found.json()


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({}, 9),
        ({"source": "s0"}, 2),
        ({"label": "dry"}, 2),
        ({"trust": "trusted"}, 1),
        ({"trust": "others"}, 8),
        ({"until": FIRST + DAY}, 4),
        ({"since": FIRST + DAY, "timed": True}, 4),
        ({"since": FIRST + DAY}, 5),
        ({"source": "nobody"}, 0),
        ({"bbox": "-72.51,18.69,-72.49,18.71"}, 2),
        ({"list": "new"}, 9),
        ({"list": "accepted"}, 0),
        ({"list": "retracted"}, 0),
    ],
)
def test_the_list_and_the_tiles_choose_the_same_reports(dated, wanted, expected):
    client = dated.client("trusted")
    names, found = listed(client, **wanted)
    assert len(names) == found["numberMatched"] == expected and found["total"] in (9, 0)
    if wanted.get("list", "all") in ("all", "new") and "bbox" not in wanted:
        tile = client.get("/situations/flood/points/0/0/0.mvt", params=wanted).content
        assert sum(about.get("points", 1) for *_, about in decoded(tile)) == expected if expected else tile == b""


def test_a_page_of_the_list_says_what_there_is_to_filter_by(dated):
    client = dated.client("trusted")
    names, found = listed(client, limit=2, offset=1)
    assert len(names) == 2 and found["numberMatched"] == 9
    assert dict(found["labels"]) == {"flooded": 7, "dry": 2} and dict(found["sources"])["s0"] == 2
    assert client.get("/situations/flood/reports", params={"list": "worst"}).status_code == 422
    assert client.get("/situations/flood/reports", params={"bbox": "1,2"}).status_code == 400


def test_a_report_can_be_read_accepted_and_taken_back_at_once(dated):
    client = dated.client("trusted")
    one = client.get("/situations/judged/reports/untimed").json()
    assert one["properties"]["text"] == "the road is open" and one["properties"]["accepted"] is False
    client.put("/situations/judged/reports/untimed/accepted").raise_for_status()
    assert listed(client, "judged", list="accepted")[0] == ["untimed"]
    client.delete("/situations/judged/reports/untimed").raise_for_status()
    # The version is that of before, but what was taken back is neither listed nor drawn any more.
    assert "untimed" not in listed(client, "judged")[0] and listed(client, "judged", list="retracted")[0] == ["untimed"]
    tile = client.get("/situations/judged/points/0/0/0.mvt", params={"label": "dry"}).content
    assert [about["id"] for *_, about in decoded(tile)] == ["alone"]
    assert client.get("/situations/judged/reports/untimed").json()["properties"]["retracted"] is True
    assert client.get("/situations/judged/reports/nothing").status_code == 404


def test_lists_of_reports_are_for_trusted_keys(dated):
    for role in (None, "reader", "reporter"):
        for path in ("reports", "reports/alone"):
            assert dated.client(role).get(f"/situations/flood/{path}").status_code in (401, 403)


def test_readers_choose_whole_days_and_see_published_cells_of_them(dated):
    exact = dated.client("trusted").get("/situations/flood/times").json()
    assert exact["exact"] and exact["step"] == 3 * 3600 and sum(exact["counts"]) == 8
    reader = dated.client()
    told = reader.get("/situations/flood/times").json()
    # Of four and three people three each, rounded down; nothing of the day that one person tells of.
    assert told == {"exact": False, "start": FIRST, "step": DAY, "counts": [3, 0, 3]}
    path = "/situations/flood/points/0/0/0.mvt"
    ((_, _, about),) = decoded(reader.get(path, params={"since": FIRST, "until": FIRST + DAY}).content)
    assert about["count"] == 3 and set(about) == {"count", "label", "cell"}
    assert reader.get(path, params={"since": FIRST + DAY, "until": FIRST + 2 * DAY}).status_code == 204
    # Moments within a day find the whole day: how often one asks, and how finely, tells nothing more.
    for hour in (0.0, 1.5, 12.0, 23.9):
        fine = {"since": FIRST + 3600 * hour, "until": FIRST + 3600 * hour + 60}
        ((_, _, again),) = decoded(reader.get(path, params=fine).content)
        assert again == about


def test_readers_are_offered_no_times_where_most_reports_tell_none(dated):
    assert dated.client().get("/situations/untimed/times").json()["counts"] == []
    assert dated.client("trusted").get("/situations/untimed/times").json()["counts"] == [1]


@pytest.mark.parametrize(("days", "step"), [(0.1, 3600.0), (2.0, 3600.0), (20.0, 12 * 3600.0), (300.0, 7 * DAY)])
def test_there_are_never_more_steps_than_a_slider_has_positions(days, step):
    rows = [Timed(i, FIRST + days * DAY * i / 99) for i in range(100)]
    found = eventtimes.of_reports(ReportTable.of(rows))
    assert found["step"] == step and len(found["counts"]) <= eventtimes.MOST_STEPS and sum(found["counts"]) == 100


def test_centuries_of_events_fit_on_the_slider_too():
    found = eventtimes.of_reports(ReportTable.of([Timed(0, -4e9), Timed(1, FIRST)]))
    assert len(found["counts"]) <= eventtimes.MOST_STEPS and sum(found["counts"]) == 2
    assert eventtimes.of_cells(PublishedCells((), {}, 24, timed=True))["counts"] == []


class Timed:
    """A row of the log with a time."""

    def __init__(self, i, time):
        self.id, self.seq, self.time, self.received = str(i), i, time, time
        self.longitude, self.latitude, self.label, self.source, self.observations = -72.3, 18.5, "dry", "s", None


def test_the_box_of_a_list_may_cross_the_antimeridian(dated):
    assert listed(dated.client("trusted"), "pacific", bbox="179.4,-1,-179.4,1")[1]["numberMatched"] == 2
