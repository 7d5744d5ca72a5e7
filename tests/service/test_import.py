"""A file is looked at before it is taken: what was found, what would be made of it, and changing that."""

import io
import json
import zipfile

import numpy as np
import pytest
from tests.service.workspace import FLOOD

from crowdfield import geography
from crowdfield.io.land import on_land
from crowdfield.outlines import OUTLINES
from crowdfield.service.fit import settings_of
from crowdfield.service.journal import Ledger
from crowdfield.service.maps import unpack

ROWS = [
    *(f"team{i % 3},{18.45 + 0.005 * i},{-72.4 + 0.004 * i},{('dry', 'flooded', 'unclear')[i % 3]},2024-05-0{1 + i % 5}"
      for i in range(60)),
    "team1,48.85,2.35,dry,2024-05-01",
    "team1,north,2.35,dry,2024-05-01",
]  # fmt: skip
TABLE = "\n".join(["who,latitude,longitude,label,when", *ROWS])
ONE_SIDED = "\n".join(["source,lat,lon,label", *(f"s{i % 4},{18.5 + 0.003 * (i % 9)},{-72.3 + 0.01 * (i // 9)},trapped"
                                                for i in range(36))])  # fmt: skip


def send(client, address, content, plan=None):
    data = {} if plan is None else {"plan": plan if isinstance(plan, str) else json.dumps(plan)}
    return client.post(address, files={"file": ("Flood reports.csv", content.encode())}, data=data)


def previewed(client, content, plan=None, address="/import/preview"):
    answer = send(client, address, content, plan)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_preview_tells_what_was_found_and_stores_nothing(make_workspace):
    space = make_workspace()
    client = space.client("admin")
    found = previewed(client, TABLE)
    assert found["title"] == "Flood reports" and found["layout"] == "plain"
    assert (found["columns"]["lat"], found["columns"]["label"], found["columns"]["source"]) == (
        "latitude",
        "label",
        "who",
    )
    assert found["header"] == ["who", "latitude", "longitude", "label", "when"]
    assert (found["read"], found["usable"], found["rejected"], found["outside"]) == (62, 60, 2, 1)
    assert [(reject["row"], reject["reason"].split(":")[0]) for reject in found["rejects"]] == [
        (62, "the place is outside the region"),
        (63, "latitude"),
    ]
    assert found["reasons"] == [
        {"reason": "latitude: latitude … is not a number", "rows": 1},
        {"reason": "the place is outside the region", "rows": 1},
    ]
    assert found["people"] == 60  # each report is one person's
    assert {label["label"]: label["reports"] for label in found["labels"]} == {"dry": 21, "flooded": 20, "unclear": 20}
    assert found["time"][0].startswith("2024-05-01") and found["sources"] == 3 and found["silence"] is None
    west, south, east, north = found["region"]
    assert -73 < west < -72.4 < -72.164 < east < -72 and 18 < south < 18.45 < 18.745 < north < 19
    assert len(found["points"]) == 61 and sum(not inside for *_, inside in found["points"]) == 1
    assert client.get("/situations").json() == []


def test_everything_that_a_preview_says_can_be_changed_before_the_map_starts(make_workspace):
    space = make_workspace()
    client = space.client("admin")
    plan = {
        "title": "Water", "labels": {"unclear": None, "dry": "no water", "flooded": "water"},
        "states": ["no water", "water"], "region": [-72.5, 18.4, -72.3, 18.6], "cells": 40,
        "columns": {"source": "when"},
    }  # fmt: skip
    found = previewed(client, TABLE, plan)
    assert found["states"] == ["no water", "water"] and found["title"] == "Water"
    assert [(one["label"], one["state"]) for one in found["labels"]] == [
        ("dry", "no water"), ("flooded", "water"), ("unclear", None)
    ]  # fmt: skip
    assert any("'unclear' are left out" in reject["reason"] for reject in found["rejects"])
    made = send(client, "/import", TABLE, plan)
    assert made.status_code == 201, made.text
    made = made.json()
    assert (made["title"], made["states"], made["region"]) == (
        "Water",
        ["no water", "water"],
        [-72.5, 18.4, -72.3, 18.6],
    )
    assert made["receipt"]["stored"] == found["usable"] and made["receipt"]["outside"] == found["outside"]
    sources = {row.source for row in space.service.store.active_reports(made["id"])}
    assert sources <= {f"2024-05-0{day}" for day in range(1, 6)}


def test_the_state_to_map_is_the_one_that_was_chosen_whatever_the_words_say(make_workspace):
    client = make_workspace().client("admin")
    rows = [f"{18.5 + i / 100},-72.3,{label}" for i, label in enumerate(("damaged", "destroyed", "intact") * 3)]
    table = "\n".join(["lat,lon,label", *rows]).encode()

    def ask(path, **plan):
        return client.post(path, files={"file": ("d.csv", table)}, data={"plan": json.dumps(plan)}).json()

    found = ask("/import/preview")
    assert found["states"] == ["intact", "damaged", "destroyed"] and found["positive"] == "destroyed"
    assert ask("/import/preview", positive="damaged")["positive"] == "damaged"
    assert ask("/import", positive="damaged")["positive"] == "damaged"
    assert "positive must be one of the states" in ask("/import/preview", positive="wet")["detail"]


def test_a_preview_for_a_map_that_is_there_tells_what_it_cannot_take(workspace):
    reporter = workspace.client("reporter")
    address = "/situations/flood/import/preview"
    found = previewed(reporter, TABLE, address=address)
    assert found["region"] == list(FLOOD["region"]) and found["silence"] is None
    assert {one["label"]: one["state"] for one in found["labels"]} == {
        "dry": "dry",
        "flooded": "flooded",
        "unclear": None,
    }
    assert (found["usable"], found["outside"]) == (40, 1)
    plan = {"labels": {"unclear": "flooded"}}
    assert previewed(reporter, TABLE, plan, address)["usable"] == 60
    assert send(reporter, "/situations/flood/import", TABLE, plan).json()["stored"] == 60


def situation_cell(situation, report):
    place = geography.transform([(report["longitude"], report["latitude"])], "EPSG:4326", situation.grid.crs)
    return int(situation.grid.index(place)[0])


def test_reports_that_all_say_the_same_are_offered_silence(make_workspace):
    space = make_workspace()
    client = space.client("admin")
    offer = previewed(client, ONE_SIDED)["silence"]
    assert offer == {"label": "trapped", "opposite": "no trapped", "suggested": 1.0}
    made = send(
        client,
        "/import",
        ONE_SIDED,
        {"silence": offer["suggested"], "cells": 20, "region": [-72.5, 18.35, -72.0, 18.85]},
    ).json()
    assert made["states"] == ["no trapped", "trapped"]
    space.fit()
    store = space.service.store
    version = store.version(made["id"])
    arrays = unpack(store.blob(made["id"], version.number, "arrays"))
    reported = arrays["reports"] > 0
    assert arrays["probability"][reported, 1].mean() > arrays["probability"][~reported, 1].mean() + 0.1
    assert version.reports == 36
    # Silence is nobody's word: it is no source, and no reason by itself.
    table = client.get("/sources").json()["sources"]
    assert {row["source"] for row in table} == {"s0", "s1", "s2", "s3"}
    why = client.get("/point/-72.28,18.51").json()["why"]
    assert {row["source"] for row in why["sources"]} <= {"s0", "s1", "s2", "s3"}
    assert why["prior"] + why["uncertainty"] + sum(s["log_odds"] for s in why["sources"]) == pytest.approx(why["total"])
    # A place that somebody has checked and found otherwise does not end what silence tells of the rest of the map.
    more = {"longitude": -72.28, "latitude": 18.51, "label": "no trapped", "source": "s9", "trusted": True}
    assert client.post(f"/situations/{made['id']}/reports", json=more).status_code == 201
    space.fit()
    version = store.version(made["id"])
    assert version.reports == 37 and version.info["remarks"] == []
    changed = unpack(store.blob(made["id"], version.number, "arrays"))
    assert changed["probability"][reported, 1].mean() > changed["probability"][~reported, 1].mean() + 0.1
    here = situation_cell(store.situation(made["id"]), more)
    assert changed["probability"].reshape(-1, 2)[here, 1] < arrays["probability"].reshape(-1, 2)[here, 1] - 0.05
    # Many people who say the opposite tell by themselves where it holds.
    others = [more | {"trusted": False, "latitude": 18.4 + 0.02 * i, "source": f"s{i}"} for i in range(15)]
    assert client.post(f"/situations/{made['id']}/reports", json=others).json()["stored"] == 15
    space.fit()
    assert any("silence no longer counts" in said for said in store.version(made["id"]).info["remarks"])


@pytest.mark.skipif(not OUTLINES.is_file(), reason="outlines of countries are not installed; `make setup` fetches them")
def test_no_suggestion_lies_in_the_sea_and_a_place_there_is_said_to_be_at_sea(make_workspace):
    space = make_workspace()
    # Along the north coast of Haiti's southern peninsula.
    rows = [f"s{i % 4},{18.42 + 0.004 * (i % 5)},{-73.2 + 0.02 * i},{('ok', 'bad')[i % 2]}" for i in range(40)]
    made = send(space.client("admin"), "/import", "\n".join(["source,lat,lon,label", *rows])).json()
    space.fit()
    situation = space.service.store.situation(made["id"])
    land, grid = on_land(situation.grid), situation.grid
    assert 0.1 < land.mean() < 0.9
    found = space.service.store.blob(made["id"], 1, "suggestions")
    cells = grid.index(np.array([(look["easting"], look["northing"]) for look in found]))
    reported = unpack(space.service.store.blob(made["id"], 1, "arrays"))["reports"].ravel() > 0
    assert len(found) == 8 and (land.ravel() | reported)[cells].all()
    # Whoever asks about a place at sea is told so.
    for ashore in (True, False):
        places = geography.unproject(grid.centres()[land.ravel() == ashore], situation.crs).tolist()
        longitude, latitude = next(place for place in places if situation.region.holds(*place))
        assert space.client("admin").get(f"/point/{longitude},{latitude}").json()["sea"] is not ashore


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        ("{", "plan of the import"),
        ({"states": ["one"]}, "plan of the import"),
        ({"region": [1, 2, 3]}, "plan of the import"),
        ({"colour": "red"}, "plan of the import"),
        ({"silence": 0}, "plan of the import"),
    ],
)
def test_a_plan_that_cannot_be_followed_is_refused_in_words(make_workspace, plan, said):
    answer = send(make_workspace().client("admin"), "/import/preview", TABLE, plan)
    assert answer.status_code == 422 and said in answer.text


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        ({"columns": {"lat": "nowhere"}}, "nowhere"),
        ({"labels": {"dry": None, "flooded": None, "unclear": None}}, "no report is left"),
    ],
)
def test_a_file_that_the_plan_leaves_unreadable_is_explained(make_workspace, plan, said):
    assert said in previewed(make_workspace().client("admin"), TABLE, plan)["problem"]


def zipped(**files):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in files.items():
            archive.writestr(f"{name}.csv", content)
    return packed.getvalue()


SQUARE = {
    "type": "Polygon",
    "coordinates": [[[-72.4, 18.4], [-72.3, 18.4], [-72.3, 18.5], [-72.4, 18.5], [-72.4, 18.4]]],
}
SQUARES = [{"type": "Feature", "properties": {"label": label}, "geometry": SQUARE} for label in ("dry", "flooded")]


@pytest.mark.parametrize(
    ("content", "option", "choices", "answer"),
    [
        (zipped(first=TABLE, second=ONE_SIDED), "layer", ["first.csv", "second.csv"], {"layer": "first.csv"}),
        (
            json.dumps({"type": "FeatureCollection", "features": SQUARES}).encode(),
            "polygons",
            ["area", "inner-point"],
            {"polygons": "area"},
        ),
        (
            b"lat,lon,seen,sure\n18.5,-72.3,dry,yes\n18.6,-72.3,flooded,no\n18.5,-72.4,dry,yes\n18.6,-72.4,dry,no\n",
            "label",
            ["seen", "sure"],
            {"columns": {"label": "seen"}},
        ),
    ],
    ids=["several layers", "polygons", "no column called label"],
)
def test_a_file_that_leaves_a_choice_is_read_once_it_is_made(make_workspace, content, option, choices, answer):
    client = make_workspace().client("admin")
    asked = client.post("/import/preview", files={"file": ("my file", content)})
    assert asked.status_code == 200, asked.text
    asked = asked.json()
    assert asked["choices"][option] == choices and asked["problem"].startswith("my file")
    assert "--" not in asked["problem"]  # options of the command line are no help on a page
    # An import that would have to guess is refused, with the same choices.
    refused = client.post("/import", files={"file": ("my file", content)})
    assert refused.status_code == 422 and refused.json()["choices"] == asked["choices"]
    sent = {"plan": json.dumps(answer)}
    found = client.post("/import/preview", files={"file": ("my file", content)}, data=sent).json()
    assert found["usable"] > 1 and {"dry", "flooded"} <= {one["label"] for one in found["labels"]}
    assert client.post("/import", files={"file": ("my file", content)}, data=sent).status_code == 201


def test_of_reports_all_over_the_world_the_region_has_to_be_chosen(make_workspace):
    client = make_workspace().client("admin")
    rows = [
        f"{x},{y},{('dry', 'flooded')[i % 2]}" for i, (y, x) in enumerate([(110, -7), (-105, 40), (9, 45), (110, -8)])
    ]
    table = "\n".join(["lat,lon,label", *rows])
    found = previewed(client, table)
    assert found["undecided"] == ["region"] and found["outside"] == 0 and len(found["points"]) == 4
    refused = send(client, "/import", table)
    assert refused.status_code == 422 and "region" in refused.json()["detail"] and "--" not in refused.json()["detail"]
    plan = {"region": [105, -11, 115, -3]}
    chosen = previewed(client, table, plan)
    assert (chosen["undecided"], chosen["usable"], chosen["outside"]) == ([], 2, 2)
    assert send(client, "/import", table, plan).json()["receipt"]["stored"] == 2


def test_previews_ask_for_the_rights_that_the_import_asks_for(workspace):
    assert send(workspace.client(), "/import/preview", TABLE).status_code == 401
    assert send(workspace.client("reporter"), "/import/preview", TABLE).status_code == 403
    assert send(workspace.client("reader"), "/situations/flood/import/preview", TABLE).status_code == 403


def test_a_live_map_uses_the_settings_of_the_pipeline_with_the_defaults_of_fuse(workspace):
    situation = workspace.service.store.situation("flood")
    ledger = Ledger("flood")
    ledger.trust["fire brigade"] = "high"
    settings = settings_of(situation, ledger, ["trusted: a key", "somebody"])
    assert settings.changed().keys() <= {"states", "labels", "positive", "sources", "seed", "lengthscale", "grades"}
    assert settings.positive == situation.question
    assert settings.sources["fire brigade"] == "high"


def test_a_column_of_counts_is_asked_about_and_counted_once_it_is_chosen(workspace):
    client = workspace.client("admin")
    table = "lat,lon,label,seen_by\n18.5,-72.3,flooded,12\n18.6,-72.3,dry,1\n"
    address = "/situations/flood/import/preview"
    found = previewed(client, table, address=address)
    assert "'seen_by' may be the number of people" in found["notes"][0] and "count" not in found["columns"]
    chosen = {"columns": {"count": "seen_by"}}
    assert send(client, "/situations/flood/import", table, chosen).json()["stored"] == 2
    assert [row.observations for row in workspace.service.store.active_reports("flood")] == [12, None]


@pytest.mark.parametrize(
    ("content", "layout"),
    [
        (
            '<gpx><wpt lat="18.5" lon="-72.3"><type>flooded</type></wpt>'
            '<wpt lat="18.6" lon="-72.3"><type>dry</type></wpt></gpx>',
            "gpx",
        ),
        (
            "<html><table><tr><th>lat<th>lon<th>label<tr><td>18.5<td>-72.3<td>flooded<tr><td>18.6<td>-72.3<td>dry"
            "</table></html>",
            "plain",
        ),
        ("plus_code,label\n77C9GP22+22,flooded\n77C9JP22+22,dry\n", "plain"),
        ("lat,lon,p_flooded,p_dry\n18.5,-72.3,0.9,0.1\n18.6,-72.3,0.2,0.8\n", "plain"),
    ],
    ids=["waypoints", "a web page", "plus codes", "probabilities"],
)
def test_every_kind_of_file_is_read_as_by_the_command_line(workspace, content, layout):
    found = previewed(workspace.client("admin"), content, address="/situations/flood/import/preview")
    assert (found["read"], found["rejected"], found["layout"]) == (2, 0, layout)
    assert {label["label"] for label in found["labels"]} == {"flooded", "dry"}
    assert not any("is not used" in note for note in found["notes"])


def test_answers_that_mean_cannot_tell_are_no_states_of_a_new_map(workspace):
    """As `fuse` has it: "maybe" says something about its source, and nothing that a place could be."""
    client = workspace.client("admin")
    content = "lat,lon,label,source\n18.5,-72.3,yes,a\n18.51,-72.3,no,a\n18.52,-72.3,maybe,a\n18.53,-72.31,maybe,b\n"
    found = previewed(client, content, address="/import/preview")
    assert found["states"] == ["no", "yes"] and found["usable"] == 4
    assert {row["label"]: row["state"] for row in found["labels"]} == {"no": "no", "yes": "yes", "maybe": "maybe"}
    made = client.post("/import", files={"file": ("answers.csv", content)}).json()
    assert made["states"] == ["no", "yes"] and made["labels"] == ["no", "yes", "maybe"]
    assert made["receipt"]["stored"] == 4


def test_equal_rows_of_a_file_are_different_reports_as_in_fuse(make_workspace):
    """Without a time or an id nothing says that they are the same; the file imported again adds nothing."""
    table = "lat,lon,label\n" + 3 * "18.5,-72.3,dry\n" + 2 * "18.51,-72.31,flooded\n"
    client = make_workspace().client("admin")
    made = send(client, "/import", table).json()
    assert made["receipt"]["stored"] == 5 and made["receipt"]["duplicate"] == 0
    again = send(client, f"/situations/{made['id']}/import", table).json()
    assert (again["stored"], again["duplicate"]) == (0, 5)
    longer = send(client, f"/situations/{made['id']}/import", table + "18.5,-72.3,dry\n").json()
    assert (longer["stored"], longer["duplicate"]) == (1, 5)
