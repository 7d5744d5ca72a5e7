"""Reports on a live map may say how probable every state is, in files and in messages."""

import json

import numpy as np
import pytest
from tests.service.test_one_pipeline import by_import
from tests.service.workspace import FLOOD, HERE

from crowdfield import io, pipeline
from crowdfield.service.fit import load_model
from crowdfield.service.journal import scores_in
from crowdfield.service.maps import unpack

STATES = ["dry", "flooded"]
DEEP = ["deep", "dry", "wet"]


def machine(path, states, n=60, sure=3.0):
    """A file of what a classifier says: columns p_STATE. The first state is in the west."""
    rng = np.random.default_rng(n)
    places = np.column_stack([rng.uniform(-72.6, -72.2, n), rng.uniform(18.3, 18.6, n)])
    west = (places[:, :1] + 72.4) * -5 * np.linspace(1, -1, len(states))
    odds = np.exp(sure * west + rng.standard_normal((n, len(states))))
    p = np.round(odds / odds.sum(1, keepdims=True), 4)
    p[:, -1] = 1 - p[:, :-1].sum(1)
    header = ["source,lat,lon", *(f"p_{state}" for state in states)]
    rows = [f"net{i % 2},{y:.5f},{x:.5f}," + ",".join(f"{v:.4f}" for v in row) for i, ((x, y), row) in enumerate(
        zip(places.tolist(), p.tolist(), strict=True))]  # fmt: skip
    path.write_text("\n".join([",".join(header), *rows]))
    return path


@pytest.mark.parametrize("states", [STATES, DEEP])
def test_probabilities_in_a_file_give_the_same_map_through_fuse_and_through_the_page(make_workspace, tmp_path, states):
    path = machine(tmp_path / "net.csv", states)
    space = make_workspace()
    made = by_import(space, path)
    space.fit()
    store = space.service.store
    version = store.version(made["id"])
    assert version.info["reports_model"] == "instrument" and version.info["rested"]
    arrays = unpack(store.blob(made["id"], version.number, "arrays"))
    fused = pipeline.fuse(io.read(path).reports)
    assert made["states"] == list(fused.heatmap.states)
    assert np.abs(arrays["probability"] - fused.heatmap.probability).max() < 0.01


def test_probabilities_in_messages_are_stored_shown_and_update_a_map_of_labels(make_workspace):
    space = make_workspace()
    client = space.client("admin")
    client.post("/situations", json=FLOOD)
    rows = [{"longitude": -72.5 + 0.04 * i, "latitude": 18.5, "label": STATES[i > 5], "source": "a"} for i in range(10)]
    client.post("/situations/flood/reports", json=rows)
    space.fit()
    score = {"dry": 0.2, "flooded": 0.8}
    sent = HERE | {"label": "flooded", "source": "net", "id": "1", "scores": score}
    receipt = client.post("/situations/flood/reports", json=sent)
    assert receipt.status_code == 201, receipt.text
    assert client.post("/situations/flood/reports", json=sent).json()["duplicate"] == 1
    other = sent | {"scores": {"dry": 0.1, "flooded": 0.9}}
    assert client.post("/situations/flood/reports", json=other).status_code == 409
    space.fit()
    model = load_model(space.service.store.model("flood")[2])
    assert model.reports_model_ == "instrument" and model.reports_.is_score.sum() == 1
    name = receipt.json()["ids"][0]
    assert client.get(f"/situations/flood/reports/{name}").json()["properties"]["scores"] == score
    # One more plain report continues that map, and its reasons can be told.
    client.post("/situations/flood/reports", json=HERE | {"label": "dry", "source": "a", "id": "2"})
    space.fit()
    assert space.service.store.version("flood").reports == 12
    place = f"{HERE['longitude']},{HERE['latitude']}"
    why = client.get(f"/situations/flood/point/{place}").json()["why"]
    assert {row["source"] for row in why["sources"]} >= {"a", "net"}


@pytest.mark.parametrize(
    ("scores", "told"),
    [
        ({"dry": 0.5, "flooded": 0.7}, "must be 1, not 1.2"),
        ({"dry": 1.0}, "for each state"),
        ({"dry": 0.2, "flooded": 0.3, "lava": 0.5}, "for each state"),
        ({"dry": -0.1, "flooded": 1.1}, "greater than or equal to 0"),
    ],
)
def test_probabilities_that_are_none_of_the_states_are_refused(workspace, scores, told):
    answer = workspace.client("admin").post(
        "/situations/flood/reports", json=HERE | {"label": "dry", "source": "net", "scores": scores}
    )
    assert answer.status_code == 422 and told in answer.text


def test_a_file_with_probabilities_of_other_states_is_read_by_its_labels_and_says_so(workspace, tmp_path):
    path = machine(tmp_path / "net.csv", [*STATES, "unsure"])
    plan = {"labels": {"unsure": "dry"}}
    client = workspace.client("admin")
    with path.open("rb") as file:
        joined = client.post("/situations/flood/import", files={"file": file}, data={"plan": json.dumps(plan)}).json()
    # Two labels that mean the same are one state, whose probability is their sum.
    assert joined["stored"] > 0 and "only their labels" not in joined["note"]
    stored = [scores_in(row.value) for row in workspace.service.store.active_reports("flood")]
    assert all(scores and set(scores) == set(STATES) and sum(scores.values()) == pytest.approx(1) for scores in stored)
    client.post("/situations", json=FLOOD | {"id": "three", "states": [*STATES, "unsure", "lava"]})
    with path.open("rb") as file:
        added = client.post("/situations/three/import", files={"file": file}).json()
    assert added["stored"] > 0 and "only their labels" in added["note"]


def test_a_map_that_is_fitted_as_in_the_paper_uses_the_labels_and_says_so(make_workspace):
    space = make_workspace()
    client = space.client("admin")
    client.post("/situations", json=FLOOD | {"model": {"inference": "vb"}})
    rows = [
        HERE | {"label": STATES[i % 2], "source": "net", "id": f"{i}", "scores": {"dry": 1 - i % 2, "flooded": i % 2}}
        for i in range(4)
    ]
    client.post("/situations/flood/reports", json=rows)
    space.fit()
    info = space.service.store.version("flood").info
    assert info["reports_model"] == "one_state" and any("not scores" in remark for remark in info["remarks"])
