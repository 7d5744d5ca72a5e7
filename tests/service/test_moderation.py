"""Reports that somebody should look at: doubtful, accepted, retracted. For those who may see reports as they are."""

import numpy as np
import pytest


@pytest.fixture
def doubted(workspace):
    """Four teams that agree about east and west, and one report that contradicts them all."""
    rng = np.random.default_rng(0)
    rows = [
        {
            "longitude": x,
            "latitude": y,
            "label": ("dry", "flooded")[int(x > -72.3)],
            "source": f"s{i % 4}",
            "id": f"r{i}",
        }
        for i, (x, y) in enumerate(rng.uniform([-72.5, 18.3], [-72.1, 18.7], (60, 2)).tolist())
    ]
    odd = {"longitude": -72.15, "latitude": 18.5, "label": "dry", "source": "s1", "id": "odd", "text": "all dry here"}
    assert workspace.client("reporter").post("/situations/flood/reports", json=[*rows, odd]).json()["stored"] == 61
    workspace.fit()
    return workspace


def test_a_report_that_contradicts_all_others_is_doubtful_until_it_is_accepted_or_retracted(doubted):
    client = doubted.client("trusted")
    found = client.get("/situations/flood/moderation").json()
    assert found["judged"] and found["doubtful"][0]["id"] == "odd" and found["doubtful"][0]["probability"] < 0.25
    assert len(found["doubtful"]) < 10 and found["accepted"] == found["retracted"] == []

    before = client.get("/point/-72.15,18.5").json()["probability"]
    assert client.put("/situations/flood/reports/odd/accepted").status_code == 202
    doubted.fit()
    found = client.get("/situations/flood/moderation").json()
    assert found["accepted"] == ["odd"] and "odd" not in {one["id"] for one in found["doubtful"]}
    # To accept is to look, not to believe more.
    assert client.get("/point/-72.15,18.5").json()["probability"] == pytest.approx(before, abs=0.01)

    assert client.delete("/situations/flood/reports/odd").status_code == 202
    doubted.fit()
    (gone,) = client.get("/situations/flood/moderation").json()["retracted"]
    assert gone["id"] == "odd" and gone["properties"]["text"] == "all dry here"
    assert client.put("/situations/flood/reports/odd/accepted").status_code == 404


def test_readers_and_reporters_are_not_told_which_reports_are_doubtful(doubted):
    for role in (None, "reader", "reporter"):
        client = doubted.client(role)
        assert client.get("/situations/flood/moderation").status_code in (401, 403)
        assert client.put("/situations/flood/reports/odd/accepted").status_code in (401, 403)


def test_reasons_are_summed_up_for_those_who_see_reports(doubted):
    why = doubted.client("trusted").get("/point/-72.15,18.5").json()["why"]
    said = why["summary"]
    assert said["for"]["reports"] >= 3 and 0.5 < said["for"]["accuracy"] <= 1 and said["for"]["nearest"] < 20_000
    assert said["against"]["nearest"] < 2_000
    assert "summary" not in (doubted.client("reader").get("/point/-72.15,18.5").json()["why"] or {})
