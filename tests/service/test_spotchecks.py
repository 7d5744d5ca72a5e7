"""Spot checks of a live map: the same plan and the same figures as `crowdfield assess`, in the right hands."""

import io
import json
import shutil

import numpy as np
import pandas as pd
import pytest
from tests.service.workspace import FLOOD, Workspace

from crowdfield.io.checks import read_checked
from crowdfield.io.land import at_sea
from crowdfield.pipeline.assessing import assess
from crowdfield.pipeline.sampling_plan import plan
from crowdfield.service import spotchecks
from crowdfield.service.settings import Settings

PLAN, RESULT = "/situations/flood/checks/plan", "/situations/flood/checks/result"


@pytest.fixture(scope="module")
def mapped(tmp_path_factory, empty_database):
    """A map of two halves, in two versions."""
    path = shutil.copy(empty_database, tmp_path_factory.mktemp("checks") / "workspace.db")
    space = Workspace(Settings(database=str(path), worker=False, coalesce_seconds=0))
    admin = space.client("admin")
    admin.post("/situations", json=FLOOD).raise_for_status()
    places = np.random.default_rng(0).uniform([-72.55, 18.25], [-72.05, 18.75], (80, 2)).tolist()
    rows = [
        {"longitude": x, "latitude": y, "label": ("dry", "flooded")[x > -72.3], "source": f"s{i % 4}"}
        for i, (x, y) in enumerate(places)
    ]
    for part in (rows[:70], rows[70:]):
        admin.post("/situations/flood/reports", json=part).raise_for_status()
        space.fit()
    yield space
    space.close()


def filled(table, answer=lambda row: ("dry", "flooded")[row["longitude"] > -72.3]):
    return table.assign(state=[answer(row) for row in table.to_dict("records")])


def hand_in(client, content, **query):
    return client.post(RESULT, files={"file": ("answers.csv", content)}, params=query)


def test_a_plan_is_that_of_the_command_and_can_be_had_in_every_form(mapped):
    reader = mapped.client()
    told = reader.get(PLAN, params={"size": 60, "seed": 3}).json()
    now = mapped.service.maps.load(mapped.service.store.situation("flood"), 2)
    expected = plan(spotchecks.checked_map(now), size=60, seed=3)
    assert (told["places"], told["seed"], told["version"]) == (len(expected.places), 3, 2)
    assert told["margin"] == pytest.approx(expected.margin)
    answer = reader.get(PLAN, params={"size": 60, "seed": 3, "form": "csv"})
    assert 'filename="flood-checks-v2-seed3.csv"' in answer.headers["content-disposition"]
    table = pd.read_csv(io.BytesIO(answer.content))
    assert table["longitude"].tolist() == expected.places["longitude"].tolist()
    starts = {"geojson": b"{", "kml": b"<?xml", "xlsx": b"PK"}
    for form, start in starts.items():
        assert reader.get(PLAN, params={"size": 60, "form": form}).content.startswith(start)
    # The map is of the land, and nobody is sent into the sea.
    assert now.info.info["land"] and len(table) == 60
    assert not any(at_sea(*place) for place in table[["longitude", "latitude"]].to_numpy().tolist())


def test_answers_give_the_figures_of_the_command(mapped, tmp_path):
    reporter = mapped.client("reporter")
    table = filled(
        pd.read_csv(io.BytesIO(reporter.get(PLAN, params={"size": 80, "form": "csv", "version": 1}).content))
    )
    path = tmp_path / "answers.csv"
    table.to_csv(path, index=False)
    told = hand_in(reporter, path.read_bytes(), version=1)
    assert told.status_code == 200, told.text
    now = mapped.service.maps.load(mapped.service.store.situation("flood"), 1)
    expected = assess(spotchecks.checked_map(now), read_checked(path)).plain()
    found = told.json()
    assert found["accuracy"] == pytest.approx(expected["accuracy"]) and found["checks"] == 80
    assert [row["area"] for row in found["states"]] == pytest.approx([row["area"] for row in expected["states"]])
    assert sum(row["area"] for row in found["states"]) == pytest.approx(1.0)
    assert 0 < found["square_kilometres"] < 4500
    # GeoJSON with the same answers gives the same.
    features = reporter.get(PLAN, params={"size": 80, "form": "geojson", "version": 1}).json()
    for feature in features["features"]:
        feature["properties"]["state"] = ("dry", "flooded")[feature["properties"]["longitude"] > -72.3]
    again = hand_in(reporter, json.dumps(features).encode(), version=1).json()
    assert again["accuracy"] == pytest.approx(found["accuracy"])


def test_what_cannot_be_used_is_said(mapped):
    reporter = mapped.client("reporter")
    plan_of = pd.read_csv(io.BytesIO(reporter.get(PLAN, params={"size": 40, "form": "csv", "version": 1}).content))
    table = filled(plan_of)
    cases = [
        (table.assign(state="lava"), 1, "the map's states are"),
        (table.assign(longitude="west", easting="west"), 1, "which is not a number"),
        (table.drop(columns="state"), 1, "no column 'state'"),
        (table.assign(state=""), 1, "fewer than two places"),
        (table.assign(easting=np.where(np.arange(len(table)) == 3, np.nan, table["easting"])), 1, "keep the columns"),
        (table.assign(stratum_cells=table["stratum_cells"] + 9999), 1, "drawn from another map"),
    ]
    for given, version, said in cases:
        refused = hand_in(reporter, given.to_csv(index=False).encode(), version=version)
        assert refused.status_code == 422 and said in refused.json()["detail"], refused.text
    assert hand_in(reporter, b"\x89PNG\r\n\x1a\nxxxx").status_code == 422
    assert hand_in(reporter, b"", version=1).status_code == 422
    assert hand_in(reporter, b"state\n", version=99).status_code == 404
    for query in ({"size": 1}, {"size": 10**6}, {"seed": -1}, {"margin": 0.9}, {"form": "exe"}, {"level": 2}):
        assert reporter.get(PLAN, params=query).status_code == 422
    assert reporter.get(PLAN, params={"size": 2}).status_code == 422  # fewer than the map has strata


def test_readers_may_plan_and_reporters_may_hand_in(mapped):
    for role in (None, "reader"):
        assert mapped.client(role).get(PLAN).status_code == 200
        assert hand_in(mapped.client(role), b"state\n").status_code in (401, 403)


def test_a_plan_is_a_function_of_the_published_map_alone(mapped):
    """Every role gets the same places: nothing in a plan depends on what only some may see."""
    answers = {
        role: mapped.client(role).get(PLAN, params={"size": 50, "form": "csv"}).content for role in (None, "admin")
    }
    assert answers[None] == answers["admin"]
