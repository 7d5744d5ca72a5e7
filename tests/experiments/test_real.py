"""Real crowds: the protocol on tiny sets of the same layout."""

import json

import numpy as np
import pandas as pd
import pytest

from crowdfield.cli import main
from crowdfield.errors import DataUnavailableError, InputError
from crowdfield.experiments import crowds, real, reproduce
from crowdfield.experiments.protocol import Cell


def expit(x):
    return 1.0 / (1.0 + np.exp(-x))


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Les Cayes and one reef, small, in a folder that CROWDFIELD_DATA names."""
    folder, rng = tmp_path / "data" / "real", np.random.default_rng(0)
    folder.mkdir(parents=True)
    tasks, votes = 120, 3
    truth = rng.random(tasks) < 0.3
    lon, lat = -73.75 + rng.uniform(0, 0.01, tasks), 18.2 + rng.uniform(0, 0.01, tasks)
    at = np.repeat(np.arange(tasks), votes)
    yes = rng.random(len(at)) < np.where(truth[at], 0.8, 0.25)
    label = np.where(rng.random(len(at)) < 0.1, "maybe", np.where(yes, "yes", "no"))
    label = label.astype(object)
    label[:2] = "bad imagery"
    who = [f"u{i}" for i in rng.integers(0, 9, len(at))]
    _write(folder, "les_cayes", {"task": at, "source": who, "label": label},
           {"task": np.arange(tasks), "lon": lon, "lat": lat, "truth": np.where(truth, "yes", "no")})  # fmt: skip
    words = np.where(yes, "hard", "algae")
    _write(folder, "reef_mturk",
           {"task": at, "source": who, "label": words, "photo": at // 10, "x": at % 10 * 30.0, "y": at * 1.0},
           {"task": np.arange(tasks), "truth": np.where(truth, "hard", "sand")})  # fmt: skip
    monkeypatch.setenv("CROWDFIELD_DATA", str(folder.parent))
    crowds.crowd.cache_clear()
    real._without_gold.cache_clear()
    yield folder.parent
    crowds.crowd.cache_clear()
    real._without_gold.cache_clear()


def _write(folder, stem, reports, truth):
    pd.DataFrame(reports).to_csv(folder / f"{stem}_reports.csv.gz", index=False)
    pd.DataFrame(truth).to_csv(folder / f"{stem}_truth.csv.gz", index=False)


def test_sets_are_read_as_they_are_judged(data):
    assert crowds.at_hand() == ("cayes", "mturk")
    crowd = crowds.crowd("cayes", None)
    assert len(crowd.label) == 358 and set(crowd.label) == {"no", "yes", "maybe"} and len(crowd.places) == 120
    assert len(crowds.crowd("cayes", 1).label) == 120  # a task whose one vote was bad imagery has others
    reef = crowds.crowd("mturk", 2)
    assert len(reef.label) == 240 and set(reef.label) == {"hard coral", "other"} and reef.truth.sum() > 10
    with pytest.raises(DataUnavailableError, match="reef_heron"):
        crowds.crowd("heron", None)


def test_checked_places_are_not_judged_and_are_the_same_for_all_methods(data):
    rows = {
        method: real.evaluate(Cell("real", "cayes, all votes", 1, 60, method, 0))
        for method in (real.BASE, real.SHARE, "IBCC", real.INSTRUMENT)
    }
    assert {sum(row["reliability"][2]) for row in rows.values()} == {60}
    assert len({row["reliability"][1][0] + sum(row["reliability"][1][1:]) for row in rows.values()}) == 1
    assert all(np.isfinite(row["cross_entropy"]) and 0 <= row["sure"] <= 1 for row in rows.values())
    assert rows[real.INSTRUMENT]["took"] == "instrument"


def test_figures_are_those_of_their_definition():
    P, hit = np.array([0.99, 0.97, 0.5, 0.02]), np.array([True, False, True, False])
    told = real.judge(P, hit)
    assert told["cross_entropy"] == pytest.approx(-np.mean(np.log2([0.99, 0.03, 0.5, 0.98])))
    assert told["sure"] == 0.75 and told["sure_and_wrong"] == pytest.approx(1 / 3)


def test_rescaling_finds_slope_and_shift():
    rng = np.random.default_rng(0)
    z = rng.normal(0.0, 3.0, 20_000)
    truth = rng.random(20_000) < expit(0.5 * z - 1.0)
    told = np.arange(20_000) < 19_000
    np.testing.assert_allclose(real.rescaled(expit(z), truth, told), expit(0.5 * z - 1.0), atol=0.03)
    one = real.rescaled(expit(z), np.ones(20_000, dtype=bool), np.arange(20_000) < 20)  # places of one state alone
    assert np.isfinite(one).all() and one.max() < 1.0


def test_a_quick_run_makes_its_page_and_resumes(data, tmp_path, capsys):
    told = []
    page = reproduce(["real"], tmp_path / "out", quick=True, progress=lambda *what: told.append(what))
    text = page.read_text()
    assert "What this does not cover" in text and "wrong together" in text and "| HeatmapBCC (instrument) |" in text
    assert all(
        (tmp_path / "out" / "figures" / f"{name}.png").is_file() for name in ("real-cross-entropy", "real-calibration")
    )
    results = json.loads((tmp_path / "out" / "real.json").read_text())["results"]
    assert {row["n"] for row in results} == {0, 60} and {row["setting"] for row in results} == {
        "cayes, 1 vote",
        "mturk, 1 vote",
    }
    done = (tmp_path / "out" / "real.jsonl").read_text()
    assert told[-1][0] == told[-1][1]
    with pytest.raises(SystemExit) as stop:
        main(["reproduce", "real", "--quick", "--data", str(data), "--output", str(tmp_path / "out"), "--quiet"])
    assert stop.value.code == 0
    assert (tmp_path / "out" / "real.jsonl").read_text() == done  # nothing is run twice


def test_without_data_it_says_where_to_put_them(tmp_path, monkeypatch):
    monkeypatch.setenv("CROWDFIELD_DATA", str(tmp_path))
    with pytest.raises(DataUnavailableError, match="none of the real crowds is there"):
        reproduce(["real"], tmp_path / "out")
    with pytest.raises(InputError, match="by itself"):
        reproduce(["real", "haiti"], tmp_path / "out")
