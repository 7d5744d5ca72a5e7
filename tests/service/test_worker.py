"""The worker: numbered versions, one fit for a burst, one fitter at a time, and a map that survives failure."""

import copy
import os
import signal
import subprocess
import sys
import time
import types
from dataclasses import replace
from unittest.mock import Mock

import numpy as np
import pytest
from tests.service.workspace import FLOOD, HERE, fit_all, worker_here

import crowdfield as cf
from crowdfield import pipeline
from crowdfield.errors import NumericalError
from crowdfield.models import comparison
from crowdfield.service import effort, fit, fitter, lease, pulse
from crowdfield.service.database import open_database, writing
from crowdfield.service.effort import Effort
from crowdfield.service.fit import map_of_log
from crowdfield.service.fitter import Job, Outcome
from crowdfield.service.journal import Entry, Ledger
from crowdfield.service.layouts import build
from crowdfield.service.lease import Leases
from crowdfield.service.maps import unpack
from crowdfield.service.schemas import NewSituation
from crowdfield.service.store import Store
from crowdfield.service.worker import Worker


def send(workspace, n, label="flooded", role="reporter", **more):
    rng = np.random.default_rng(n)
    rows = [
        {"longitude": float(x), "latitude": float(y), "label": label, "source": f"s{i % 3}"} | more
        for i, (x, y) in enumerate(rng.normal([-72.3, 18.5], 0.03, (n, 2)))
    ]
    assert workspace.client(role).post("/situations/flood/reports", json=rows).json()["stored"] == n


def arrays(workspace, number):
    return unpack(workspace.service.store.blob("flood", number, "arrays"))


def test_a_burst_becomes_one_version(workspace):
    for n in (3, 4, 5):
        send(workspace, n)
    workspace.fit()
    (only,) = workspace.service.store.versions("flood")
    assert (only.number, only.reports) == (1, 12)
    assert not workspace.worker.poll()  # nothing new, nothing fitted


def test_a_map_fitted_step_by_step_is_the_map_fitted_at_once(workspace, make_workspace):
    other = make_workspace()
    other.client("admin").post("/situations", json=FLOOD)
    for n in (6, 7, 8):
        send(workspace, n)
        send(other, n)
        workspace.fit()
    other.fit()
    assert len(workspace.service.store.versions("flood")) == 3
    steps, once = arrays(workspace, 3), arrays(other, 1)
    assert np.abs(steps["probability"] - once["probability"]).max() < 0.01
    assert (steps["reports"] == once["reports"]).all()


def contradict(workspace, n, seed):
    """Labels at random: many maps fit such reports about as well as each other."""
    rng = np.random.default_rng(seed)
    rows = [
        {"longitude": -72.4 + 0.2 * x, "latitude": 18.4 + 0.2 * y, "label": FLOOD["states"][int(rng.integers(2))],
         "source": f"s{rng.integers(5)}"}
        for x, y in rng.random((n, 2))
    ]  # fmt: skip
    assert workspace.client("reporter").post("/situations/flood/reports", json=rows).json()["stored"] == n


def test_a_map_that_rests_depends_on_the_log_alone(make_workspace):
    space = make_workspace(rest_seconds=3600)
    space.client("admin").post("/situations", json=FLOOD)
    store = space.service.store
    for step, n in enumerate((100, 20, 20)):
        contradict(space, n, step)
        space.fit()
    moving = store.version("flood")
    assert not moving.info["rested"]
    space.settings.rest_seconds = 0
    # Another worker may find it so: this one may have died meanwhile.
    space.worker.leases.release("flood")
    other = worker_here(space.settings)
    fit_all(other)
    other.close()
    newest = store.version("flood")
    assert newest.info["rested"] and newest.head == moving.head
    ledger = Ledger("flood")
    ledger.follow(space.service.engine)
    made = map_of_log(store.situation("flood"), ledger)
    assert made is not None
    again = made[0]
    difference = np.abs(unpack(again.arrays)["probability"] - arrays(space, newest.number)["probability"]).max()
    # A version of its own where that shows; else it is noted at the one that is there.
    assert difference == 0 if newest.number > moving.number else difference <= fitter.VISIBLE_CHANGE


def test_rest_gives_way_to_what_is_new(workspace, monkeypatch):
    monkeypatch.setattr(fit, "LARGE", 10)
    monkeypatch.setattr(fit, "COLD", 1)
    short = effort.Effort(searched=10)  # more reports than these are fitted in rounds, which can be left off
    contradict(workspace, 30, 0)
    ledger = Ledger("flood")
    ledger.follow(workspace.service.engine)
    situation = workspace.service.store.situation("flood")
    assert map_of_log(situation, ledger, lambda: True, short) is None
    rested = map_of_log(situation, ledger, effort=short)
    assert rested is not None
    made, model = rested
    assert model.converged_ and made.info["rested"]


def test_settling_gives_way_to_what_is_new_and_keeps_what_it_has_done(workspace, monkeypatch):
    monkeypatch.setattr(fit, "LARGE", 10)
    monkeypatch.setattr(fit, "COLD", 1)
    monkeypatch.setattr(effort, "LIVE_SEARCHED", 10)
    contradict(workspace, 30, 0)
    at_work = workspace.worker.pool.fitter
    news = fitter.Job("flood", workspace.worker.holder, "news")
    assert workspace.worker.leases.acquire("flood")
    first = at_work.run(news)
    assert (first.result, first.settled) == ("published", False)
    before = at_work._kept["flood"].previous.model.bound_
    # Somebody reports while the map settles.
    monkeypatch.setattr(at_work, "_overtaken", lambda ledger: True)
    assert at_work.run(fitter.Job("flood", workspace.worker.holder, "settle")).result == "overtaken"
    assert workspace.service.store.version("flood").number == first.version
    # A few sweeps were done, and the objective has risen by them.
    assert at_work._kept["flood"].previous.model.bound_ > before
    contradict(workspace, 1, 1)
    after = at_work.run(news)
    assert after.result == "published" and workspace.service.store.version("flood").reports == 31


def test_news_is_fitted_at_once_where_the_map_is_in_memory_whatever_can_wait(make_workspace):
    """A large map takes seconds to read, so what can wait runs in another process, and is stopped for news."""
    space = make_workspace(rest_seconds=0.0, fit_processes=2)
    space.client("admin").post("/situations", json=FLOOD)
    worker = Worker(space.settings)
    pool = worker.pool

    def work(true):
        end = time.monotonic() + 120.0
        while not true():
            assert time.monotonic() < end
            worker.poll()
            worker.conclude(0.01)

    def warm():
        return [process for process in pool.processes if "flood" in process.warm]

    def resting():
        return [process for process in pool.busy() if process.job is not None and process.job.task == "rest"]

    try:
        pool.fill()
        work(lambda: len(pool.idle()) == 2)
        contradict(space, 30, 0)
        work(lambda: len(warm()) == 1 and not pool.busy())
        first = warm()[0]
        send(space, 3)
        work(resting)
        second = resting()[0]
        assert second is not first and warm() == [first]  # it has published nothing yet
        os.kill(second.process.pid, signal.SIGSTOP)  # as if it took long
        send(space, 1)
        work(lambda: space.service.store.version("flood").reports == 34)
        assert second not in pool.processes and warm() == [first]
        work(lambda: space.service.store.version("flood").info["rested"] and not pool.busy())
        # The process that fitted the map of the log has the newest model: news goes there.
        assert len(warm()) == 1 and warm()[0] is not first
    finally:
        worker.close()


def test_a_new_worker_continues_where_the_old_one_ended(workspace):
    send(workspace, 8)
    workspace.fit()
    send(workspace, 5, label="dry")
    other = worker_here(workspace.settings)
    workspace.worker.leases.release("flood")
    assert fit_all(other)
    other.close()
    assert [v.reports for v in workspace.service.store.versions("flood")] == [13, 8]


def test_a_map_of_the_same_name_has_nothing_of_the_one_that_was_removed(workspace):
    send(workspace, 6)
    workspace.fit()
    admin = workspace.client("admin")
    assert admin.delete("/situations/flood").status_code == 204
    assert admin.post("/situations", json=FLOOD).status_code == 201
    send(workspace, 2, label="dry")
    workspace.fit()
    newest = workspace.service.store.version("flood")
    assert (newest.number, newest.reports) == (1, 2)
    assert arrays(workspace, 1)["reports"].sum() == 2


def test_a_model_of_some_of_the_reports_is_not_gone_on_from(workspace, monkeypatch):
    monkeypatch.setattr(effort, "FEWEST_REPORTS", 10)
    send(workspace, 40)
    state = workspace.worker.schedule
    state.update(workspace.service.store)
    state._maps["flood"].level = 1
    workspace.fit()
    told = workspace.service.store.version("flood").info
    assert told["coarser"]["reports"] == 10 and "10 of its 40 reports" in told["remarks"][0]
    assert arrays(workspace, 1)["reports"].sum() == 40  # counts are of all
    # Another worker, with a longer deadline: it tries all of them, from nothing.
    workspace.worker.leases.release("flood")
    workspace.settings.fit_seconds = 10 * workspace.settings.fit_seconds
    send(workspace, 1, label="dry")
    other = worker_here(workspace.settings)
    fit_all(other)
    other.close()
    newest = workspace.service.store.version("flood")
    assert newest.reports == 41 and "coarser" not in newest.info
    assert sum(row["reports"] for row in workspace.service.store.blob("flood", newest.number, "sources")) == 41


def test_trusted_reports_move_the_map(workspace):
    send(workspace, 6, label="dry")
    workspace.fit()
    admin = workspace.client("admin")
    point = "/point/-72.3,18.5"
    before = admin.get(point).json()["probability"]["flooded"]
    row = HERE | {"label": "flooded", "trusted": True}
    admin.post("/situations/flood/reports", json=[row | {"id": str(i)} for i in range(4)])
    workspace.fit()
    after = admin.get(point).json()["probability"]["flooded"]
    assert after > before + 0.1


def test_a_situation_without_reports_has_no_map_and_one_whose_reports_are_gone_knows_nothing(workspace):
    assert not workspace.worker.poll()
    client = workspace.client("trusted")
    client.post("/situations/flood/reports", json=HERE | {"label": "dry", "id": "only"})
    workspace.fit()
    client.delete("/situations/flood/reports/only")
    workspace.fit()
    answer = client.get("/point/-72.3,18.5").json()
    assert answer["unknown"] and answer["probability"] == {"dry": 0.5, "flooded": 0.5}


def test_a_failed_fit_keeps_the_last_good_map_and_is_seen(workspace, monkeypatch):
    send(workspace, 5)
    workspace.fit()
    client = workspace.client()
    tile = client.get("/tiles/probability/9/153/229.png").content
    send(workspace, 4)
    real = fit.fit_map

    def broken(*_, **__):
        raise NumericalError("the sum of everything was lost")

    monkeypatch.setattr(fit, "fit_map", broken)
    workspace.fit()
    told = workspace.client("admin").get("/situations/flood").json()
    assert told["version"] == 1 and "was lost" in told["failure"] and told["waiting"] and told["failures"] == 1
    assert "was lost" not in client.get("/situations/flood").json()["failure"]  # it may quote reports
    assert client.get("/tiles/probability/9/153/229.png").content == tile
    assert client.get("/health").json()["status"] == "degraded"
    assert "crowdfield_map_fit_failed" in client.get("/metrics").text
    assert workspace.service.store.events(0)[-1].kind == "failure"
    assert not workspace.worker.poll()  # it does not try the same again and again
    monkeypatch.setattr(fit, "fit_map", real)
    send(workspace, 2)
    workspace.fit()
    told = client.get("/situations/flood").json()
    assert told["version"] == 2 and told["failure"] is None and told["reports"] == 11


def test_a_finer_map_that_takes_too_long_is_counted_and_leaves_the_coarser_one_in_good_health(workspace):
    send(workspace, 5)
    workspace.fit()
    finer = Job("flood", workspace.worker.holder, "finer", level=1)
    late = Outcome("failed", cause="time", message="The fit did not finish within 60 s.")
    workspace.worker._conclude(finer, late)
    told = workspace.client("admin").get("/situations/flood").json()
    assert told["failure"] is None and told["failures"] == 1
    workspace.worker._conclude(replace(finer, task="news"), late)
    assert "did not finish" in workspace.client("admin").get("/situations/flood").json()["failure"]
    # The next fit that succeeds cures it, though it finds nothing to publish.
    assert workspace.worker.pool.fitter.run(replace(finer, task="news", level=0)).result == "unchanged"
    told = workspace.client("admin").get("/situations/flood").json()
    assert told["failure"] is None and told["version"] == 1


def test_old_versions_are_deleted(make_workspace):
    space = make_workspace(keep_versions=2)
    space.client("admin").post("/situations", json=FLOOD)
    for n in (1, 2, 3):
        send(space, n)
        space.fit()
    assert [v.number for v in space.service.store.versions("flood")] == [3, 2]


def test_warnings_of_the_model_are_shown_with_the_map(workspace):
    send(workspace, 5)
    workspace.fit()
    (remark,) = workspace.service.store.version("flood").info["remarks"]
    assert "All reports say 'flooded'" in remark


def test_past_a_size_limit_the_fit_goes_to_dask(make_workspace, monkeypatch):
    space = make_workspace(distribute_above=5, dask_scheduler="tcp://127.0.0.1:8786")
    space.client("admin").post("/situations", json=FLOOD)
    asked = []

    def fit_model(model, reports, client):
        asked.append((len(reports), client))
        return model.fit(reports.places, np.array(reports.labels, dtype=object)[reports.label])

    elsewhere = types.ModuleType("crowdfield.distributed")
    vars(elsewhere)["fit_model"] = fit_model
    monkeypatch.setitem(sys.modules, "crowdfield.distributed", elsewhere)
    monkeypatch.setattr("crowdfield.distributed", elsewhere, raising=False)
    send(space, 4)
    space.fit()
    assert asked == []
    send(space, 3)
    space.fit()
    assert asked == [(7, "tcp://127.0.0.1:8786")]
    assert space.service.store.version("flood").reports == 7


def test_a_cluster_makes_the_map_that_one_process_makes(make_workspace, monkeypatch):
    # Over a cluster reports are read by confusion matrices.
    monkeypatch.setattr(comparison.Comparison, "better", "one_state")
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, protocol="tcp", dashboard_address=":0", silence_logs=50
    ) as cluster:
        spaces = [make_workspace(), make_workspace(distribute_above=300, dask_scheduler=cluster.scheduler_address)]
        for space in spaces:
            space.client("admin").post("/situations", json=FLOOD)
            send(space, 300)
            send(space, 301, label="dry", source="contrary")
            space.fit()
    here, there = (space.service.store.version("flood") for space in spaces)
    assert here.reports == there.reports == 601 and there.info["rested"]
    assert there.info["engine"] == "spectral"  # the exact engine would not have left this process
    difference = arrays(spaces[0], here.number)["probability"] - arrays(spaces[1], there.number)["probability"]
    assert np.abs(difference).max() < 0.01


# Leases


@pytest.fixture
def shared(database, make_workspace):
    space = make_workspace(database)
    space.client("admin").post("/situations", json=FLOOD)
    return space


def test_a_lease_is_held_by_one_for_as_long_as_its_heart_beats(shared):
    engine = shared.service.engine
    a, b = Leases(engine, "a", 0.3), Leases(engine, "b", 0.3)
    assert a.acquire("flood") and a.acquire("flood")
    end = time.monotonic() + 0.6
    while (now := time.monotonic()) < end:
        last = now
        with writing(engine) as connection:
            pulse.beat(connection, "a", "worker", {})
        assert not b.acquire("flood")
        time.sleep(0.05)
    while not b.acquire("flood"):  # a's heart has stopped
        assert time.monotonic() < end + 30
        time.sleep(0.05)
    assert time.monotonic() > last + 0.3
    with engine.connect() as connection:
        assert lease.holds(connection, "flood", "b") and not lease.holds(connection, "flood", "a")
    a.release("flood")  # not its own: nothing happens
    assert not a.acquire("flood")
    b.release_all()
    assert a.acquire("flood")


@pytest.mark.parametrize("hours", [-24, 24])
def test_a_clock_that_is_set_freezes_no_map_and_breaks_no_lease(shared, monkeypatch, hours):
    """The clock on the wall decides nothing: neither how long a lease holds nor whether a map is fitted."""
    send(shared, 3)
    shared.fit()
    other = Leases(shared.service.engine, "other", 30)
    assert not other.acquire("flood")
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + 3600 * hours)
    send(shared, 4)
    shared.fit()
    assert shared.service.store.version("flood").reports == 7
    assert not other.acquire("flood")


def test_who_lost_the_lease_does_not_publish(shared, monkeypatch):
    send(shared, 3)
    real = fit.fit_map

    def slow(*arguments, **options):
        made = real(*arguments, **options)
        with writing(shared.service.engine) as connection:
            connection.exec_driver_sql("UPDATE lease SET holder = 'another'")
        return made

    monkeypatch.setattr(fit, "fit_map", slow)
    assert shared.worker.poll()
    assert [outcome.result for _, outcome in shared.worker.pool.finished(0)] == ["lost"]
    assert shared.service.store.versions("flood") == []


def test_two_workers_on_one_database_fit_each_state_of_the_log_once(shared):
    """Two real worker processes; one is killed, the other goes on."""
    environment = os.environ | {
        "CROWDFIELD_DATABASE": shared.settings.database,
        "CROWDFIELD_LEASE_SECONDS": "1",
        "CROWDFIELD_COALESCE_SECONDS": "0.05",
    }
    command = [sys.executable, "-m", "crowdfield.service.worker"]
    pair = [subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) for _ in range(2)]
    store = shared.service.store

    def wait(reports):
        end = time.monotonic() + 120
        while time.monotonic() < end:
            newest = store.version("flood")
            if newest and newest.reports == reports:
                return
            time.sleep(0.05)
        pytest.fail(f"no version with {reports} reports: {store.versions('flood')}, {store.situation('flood').failure}")

    try:
        send(shared, 4)
        wait(4)
        send(shared, 5)
        wait(9)
        heads = [v.head for v in store.versions("flood")]
        assert len(heads) == len(set(heads))  # no state of the log was fitted twice
        with shared.service.engine.connect() as connection:
            holder = connection.exec_driver_sql("SELECT holder FROM lease").scalar()
        first = next(p for p in pair if f"-{p.pid}-" in holder)
        first.send_signal(signal.SIGKILL)
        send(shared, 6)
        wait(15)
        heads = [v.head for v in store.versions("flood")]
        assert len(heads) == len(set(heads))
    finally:
        for process in pair:
            process.kill()
            process.wait()


def test_a_worker_stops_with_its_server(tmp_path):
    database = str(tmp_path / "w.db")
    open_database(database).dispose()
    process = subprocess.Popen(
        [sys.executable, "-m", "crowdfield.service.worker", "--with-parent"],
        env=os.environ | {"CROWDFIELD_DATABASE": database},
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert b"worker started" in process.stderr.readline()
    process.stdin.close()  # as when the server is killed
    assert process.wait(20) == 0
    assert b"Fatal" not in process.stderr.read()
    process.stderr.close()
    engine = open_database(database)
    assert Store(engine).situations() == []
    engine.dispose()


@pytest.mark.parametrize("astray", [np.linalg.LinAlgError("Matrix is not positive definite"), -1e9])
def test_a_fit_that_gets_worse_while_it_settles_begins_again(monkeypatch, astray):
    """Seen with 12,342 answers of one source, whose objective fell from -9,271 to -3 million in one unjudged step."""
    situation = build(NewSituation(**FLOOD | {"columns": 8}))
    rng = np.random.default_rng(0)
    ledger = Ledger("flood")
    for i, (x, y) in enumerate(rng.random((120, 2)).tolist()):
        label = ("dry", "flooded")[int((x > 0.5) != (rng.random() < 0.2))]
        ledger.apply(i + 1, Entry("report", str(i), -72.6 + 0.6 * x, 18.2 + 0.6 * y, label, f"s{i % 4}"))
    monkeypatch.setattr(fit, "LARGE", 40)
    monkeypatch.setattr(fit, "COLD", 1)
    hasty = Effort(learning=1e-9, searched=40)
    _, model = fit.fit_map(situation, ledger, None, effort=hasty)
    assert not model.converged_
    best = pipeline.settle(copy.deepcopy(model), 500).bound_

    def settle(model, sweeps, progress=None):
        if isinstance(astray, Exception):
            raise astray
        model.bound_ = astray
        return model

    monkeypatch.setattr(pipeline, "settle", settle)
    published, again = fit.fit_map(situation, ledger, fit.Previous(ledger.head, model, 120), effort=hasty)
    assert published is not None and again.converged_ and again.bound_ > best - 1
    # At rest, too, but once: from nothing it would end at the same place again and again.
    monkeypatch.setattr(fit, "MOST_SWEEPS", 1)
    learn = Mock(side_effect=pipeline.learn)
    monkeypatch.setattr(pipeline, "learn", learn)
    rested = fit.map_of_log(situation, ledger, effort=Effort(searched=40))
    assert rested is not None and learn.call_count == 2 and rested[0].info["rested"]


def test_sweeps_that_only_let_a_map_settle_are_given_up_for_a_report():
    """By the instrument model, where the rest of them may take seconds."""
    X, y, sources = cf.testing.example_crowd()
    model = cf.HeatmapBCC(reports_model="instrument", lengthscale=4.0, max_iter=3)
    with pytest.warns(cf.errors.ConvergenceWarning):
        model.fit(X, y, sources)
    before = model.posterior_.copy()
    asked = []

    def interrupted():
        asked.append(True)
        return len(asked) > 2

    kept = fit.Previous(5, model, 100)
    found = fit._settled(kept, interrupted)
    assert found.cut_short and len(asked) == 3 and (found.model.posterior_ == before).all()
    assert fit._settled(kept, fit.never).model.n_iter_ > 3


@pytest.mark.parametrize(("searched", "largest", "most"), [(10, 2_000, 12), (10, 11, 11), (40, 2_000, 40)])
def test_the_kind_of_model_of_a_large_map_is_found_on_a_part_that_grows_with_it(monkeypatch, searched, largest, most):
    """250 of 100,000 reports by 200 sources chose it by chance, and the map then followed new reports slowly."""
    situation, ledger = build(NewSituation(**FLOOD | {"columns": 8, "model": {}})), Ledger("flood")
    for i, (x, y) in enumerate(np.random.default_rng(0).random((120, 2)).tolist()):
        ledger.apply(i + 1, Entry("report", str(i), -72.6 + 0.6 * x, 18.2 + 0.6 * y, ("dry", "flooded")[i % 2], "s"))
    monkeypatch.setattr(fit, "MOST_OF_PART", largest)
    learn = Mock(side_effect=pipeline.learn)
    monkeypatch.setattr(pipeline, "learn", learn)
    fit.fit_map(situation, ledger, None, effort=Effort(searched=searched))
    assert learn.call_args.kwargs["most"] == most


def test_a_map_of_one_source_says_so_until_somebody_knows_how_reliable_it_is(make_workspace):
    space = make_workspace()
    client = space.client("admin")
    client.post("/situations", json=FLOOD).raise_for_status()
    report = {"longitude": -72.3, "latitude": 18.5, "source": "survey"}

    def newest():
        space.fit()
        return client.get("/situations/flood/versions").json()[0]["info"]

    rows = [report | {"label": label, "count": 2} for label in FLOOD["states"]]
    client.post("/situations/flood/reports", json=rows).raise_for_status()
    assert newest()["unknown_source"] is True and newest()["people"] == 4
    client.put("/situations/flood/sources/survey/trust", json={"level": "high"}).raise_for_status()
    assert newest()["unknown_source"] is False
