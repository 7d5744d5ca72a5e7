"""The procedure: the same subsets for all methods, and a run that may be stopped anywhere."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from crowdfield.errors import InputError
from crowdfield.experiments import reproduce
from crowdfield.experiments.protocol import Cell, Plan, Problem, Store, differences, pooled_reliability, run, summary
from crowdfield.models.baselines import MajorityVote, NearestNeighbours
from crowdfield.models.ibcc import IBCC
from crowdfield.simulate import simulate

TIMED = ["seconds"]


def toy_problem(setting, rng):
    world = simulate(60, rng=rng, places=(6, 6), reliable=3, noisy=2, lengthscale=3.0)
    return Problem(world.reports, world.truth.places, world.truth.t.astype(float), world.truth.rho[:, 1])


class Slow(MajorityVote):
    """Long enough to be killed in the middle of a run."""

    def fit(self, X, y, sources=None):
        time.sleep(0.02)
        return super().fit(X, y, sources)


class Refusing(MajorityVote):
    def fit(self, X, y, sources=None):
        raise InputError("this method refuses everything, for a test")


def toy_methods(setting):
    return {"MV": lambda: Slow(states=(0, 1)), "IBCC": lambda: IBCC(states=(0, 1)), "NN": NearestNeighbours}


def refusing_methods(setting):
    return {"MV": lambda: MajorityVote(states=(0, 1)), "refusing": Refusing}


def toy_plan(methods=toy_methods):
    return Plan("toy", ("easy", "hard"), 3, (20, 60), toy_problem, methods, {"NN": (60,)})


def untimed(table: pd.DataFrame) -> pd.DataFrame:
    return table.drop(columns=TIMED)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return run([toy_plan()], Store(tmp_path_factory.mktemp("whole") / "results.jsonl"), seed=1)


def test_every_cell_once_with_all_its_figures(whole):
    assert len(whole) == 2 * 3 * (2 + 2 + 1)
    assert not whole.duplicated(["setting", "repeat", "n", "method"]).any()
    assert whole[["auc", "cross_entropy", "calibration_error"]].notna().all().all()
    assert "nlpd" not in whole  # none of these methods has a posterior of ρ


def test_methods_see_the_same_reports_and_sizes_grow_by_adding(whole):
    a, b = (toy_problem("easy", np.random.default_rng([1, 0, 5])) for _ in range(2))
    np.testing.assert_array_equal(a.reports.places, b.reports.places)
    # A vote over 36 cells by 60 reports: more reports, better figures, in the median.
    medians = summary(whole)
    ibcc = medians[(medians.method == "IBCC") & (medians.metric == "cross_entropy")].groupby("n")["median"].mean()
    assert ibcc[60] < ibcc[20]


def test_a_second_run_does_nothing_and_says_the_same(tmp_path, whole):
    path = tmp_path / "results.jsonl"
    first = run([toy_plan()], Store(path), seed=1)
    before = path.read_bytes()
    told = []
    again = run([toy_plan()], Store(path), seed=1, progress=lambda *step: told.append(step))
    assert path.read_bytes() == before and told == [(30, 30, "resuming")]
    pd.testing.assert_frame_equal(again, first)
    pd.testing.assert_frame_equal(untimed(first), untimed(whole))


def test_another_seed_is_another_run(tmp_path, whole):
    path = tmp_path / "results.jsonl"
    other = run([toy_plan()], Store(path), seed=2)
    assert not np.allclose(other.cross_entropy, whole.cross_entropy)
    run([toy_plan()], Store(path), seed=1)
    assert len(Store(path).rows) == 60


def test_a_torn_last_line_is_dropped_and_its_cell_runs_again(tmp_path, whole):
    path = tmp_path / "results.jsonl"
    run([toy_plan()], Store(path), seed=1)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:11]) + lines[11][: len(lines[11]) // 2])
    store = Store(path)
    assert len(store.done()) == 11
    pd.testing.assert_frame_equal(untimed(run([toy_plan()], store, seed=1)), untimed(whole))
    assert all(json.loads(line) for line in path.read_bytes().splitlines())


SCRIPT = """
from pathlib import Path
from test_protocol import toy_plan
from crowdfield.experiments.protocol import Store, run
if __name__ == "__main__":
    run([toy_plan()], Store(Path({path!r})), seed=1, jobs={jobs})
"""


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
def test_killed_anywhere_and_run_again_gives_the_same_table(tmp_path, whole, end):
    path, script = tmp_path / "results.jsonl", tmp_path / "job.py"
    script.write_text(SCRIPT.format(path=str(path), jobs=1))
    paths = [str(Path(__file__).parent), *sys.path]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in paths if p)}
    process = subprocess.Popen(
        [sys.executable, str(script)],
        env=environment,
        stderr=subprocess.DEVNULL,
        # Whoever started the tests in the background made them deaf to Ctrl-C, and their children with them.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    while process.poll() is None and not (path.exists() and path.read_bytes().count(b"\n") >= 4):
        time.sleep(0.01)
    process.send_signal(end)
    assert process.wait() != 0, "the run ended before it could be killed"
    done = len(Store(path).done())
    assert 4 <= done < 30
    pd.testing.assert_frame_equal(untimed(run([toy_plan()], Store(path), seed=1)), untimed(whole))


def test_processes_give_the_same_table(tmp_path, whole):
    table = run([toy_plan()], Store(tmp_path / "results.jsonl"), seed=1, jobs=2)
    pd.testing.assert_frame_equal(untimed(table), untimed(whole))


def test_a_method_that_fails_is_named_and_tried_again(tmp_path):
    path = tmp_path / "results.jsonl"
    table = run([toy_plan(refusing_methods)], Store(path))
    refused = table[table.method == "refusing"]
    assert refused["error"].str.contains("refuses everything").all() and len(refused) == 12
    assert table[table.method == "MV"]["auc"].notna().all()
    run([toy_plan(refusing_methods)], Store(path))
    assert len(Store(path).rows) == 24 + 12


def test_differences_are_paired_and_positive_is_better():
    rows = []
    for repeat, shift in enumerate((0.1, 0.2, 0.3)):
        base = dict(experiment="e", setting="s", repeat=repeat, n=10)
        rows += [
            base | {"method": "ours", "auc": 0.5 + shift, "cross_entropy": 1.0 - shift},
            base | {"method": "rival", "auc": 0.5, "cross_entropy": 1.0},
        ]
    gaps = differences(pd.DataFrame(rows), "ours").set_index("metric")
    assert gaps["median"].to_dict() == pytest.approx({"auc": 0.2, "cross_entropy": 0.2})
    assert gaps.loc["auc", "lower"] == pytest.approx(0.15)


def test_reliability_is_pooled_over_repeats():
    cell = {"experiment": "e", "setting": "s", "n": 1, "method": "m"}
    rows = [
        cell | {"reliability": [[1.0, 0.0], [0.0, 0.0], [10, 0]]},
        cell | {"reliability": [[2.0, 9.0], [3.0, 8.0], [20, 10]]},
    ]
    pooled = pooled_reliability(pd.DataFrame(rows)).set_index("bin")
    assert pooled.loc[0, ["predicted", "observed", "count"]].tolist() == pytest.approx([0.1, 0.1, 30])
    assert pooled.loc[1, "observed"] == pytest.approx(0.8)


def test_cells_differ_by_every_part_of_their_key():
    cell = Cell("e", "s", 0, 10, "m", 0)
    assert len({cell, *(Cell(*other) for other in (("e", "s", 0, 10, "m", 1), ("e", "s", 1, 10, "m", 0)))}) == 3


def test_unknown_experiments_are_named(tmp_path):
    with pytest.raises(InputError, match="unknown experiment"):
        reproduce(["atlantis"], tmp_path)
