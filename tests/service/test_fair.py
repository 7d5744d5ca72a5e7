"""Fits are fair, on a real server: no map delays another, whatever it does, and failures are shown."""

import os
import signal
import sqlite3
import time
from pathlib import Path

import numpy as np
import pytest
from tests.service.served import SOURCE, serving
from tests.service.workspace import FLOOD

from crowdfield.service import fit
from crowdfield.service.effort import FEWEST_REPORTS, Effort
from crowdfield.service.journal import Entry, Ledger
from crowdfield.service.layouts import build
from crowdfield.service.schemas import NewSituation

# A fit of the huge map must not fit into its deadline, one of a small map easily, even on a busy machine.
FIT_SECONDS = 15
MEMORY = 700 * 2**20
# A report on a small map shows within this, whatever the others do: far more than it takes, far less than a deadline.
SOON = 30.0
HUGE = FLOOD | {"id": "huge", "states": [f"s{j}" for j in range(12)], "columns": 1024, "rows": 1024}


def until(true, seconds=180.0, what="it"):
    end = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < end, f"waited {seconds:g} s in vain for {what}"
        time.sleep(0.03)
    return found


class Maps:
    """A server with its worker, and what the tests do with its maps."""

    def __init__(self, live, clock):
        self.live, self.clock = live, clock
        self.client = live.client("admin")
        self._sent = {}

    def start(self, name, **more):
        self.client.post("/situations", json=FLOOD | {"id": name} | more).raise_for_status()
        self._sent[name] = 0

    def send(self, name, n=1, **more):
        states = self.about(name)["states"]
        rng = np.random.default_rng(self._sent[name])
        rows = [
            {"longitude": -72.6 + 0.6 * x, "latitude": 18.2 + 0.6 * y, "source": f"s{i % 5}",
             "label": states[int(len(states) * x)], "id": f"{self._sent[name] + i}"} | more
            for i, (x, y) in enumerate(rng.random((n, 2)).tolist())
        ]  # fmt: skip
        assert self.client.post(f"/situations/{name}/reports", json=rows).json()["stored"] == n
        self._sent[name] += n

    def about(self, name):
        return self.client.get(f"/situations/{name}").json()

    def shown(self, name):
        return self.about(name)["reports"] == self._sent[name]

    def wait(self, name, seconds=180.0):
        until(lambda: self.shown(name), seconds, f"a map of {name}: {self.about(name)}")

    def newest(self, name):
        return self.client.get(f"/situations/{name}/versions").json()[0]

    def soon(self, name):
        """One more report, and how long it takes to show."""
        began = time.monotonic()
        self.send(name)
        self.wait(name, SOON)
        return time.monotonic() - began

    def fitting(self):
        """The processes that fits run in: the youngest generation below the server."""
        found = [self.live.process.pid]
        for _ in range(3):  # worker, fork server, fits
            found = [child for parent in found for child in children(parent)]
        return found


def children(process):
    try:
        return [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    except OSError:
        return []


@pytest.fixture(scope="module")
def maps(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fair")
    # The clock of the server and all its processes, as a file that a test may write: the machine's own stays.
    clock = folder / "clock"
    clock.write_text("0")
    (folder / "sitecustomize.py").write_text(
        "import os, time\nreal, path = time.time, os.environ['TEST_CLOCK']\n"
        "time.time = lambda: real() + float(open(path).read() or 0)\n"
    )
    environment = {
        "CROWDFIELD_WORKER": "true", "CROWDFIELD_FIT_SECONDS": str(FIT_SECONDS), "CROWDFIELD_FIT_MEMORY": str(MEMORY),
        "CROWDFIELD_LEASE_SECONDS": "2", "CROWDFIELD_HEALTH_SECONDS": "0.5", "CROWDFIELD_REST_SECONDS": "3600",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1", "TEST_CLOCK": str(clock),
    }  # fmt: skip
    with serving(folder, environment=environment | {"PYTHONPATH": f"{folder}{os.pathsep}{SOURCE}"}) as live:
        maps = Maps(live, clock)
        maps.start("small")
        maps.send("small", 5)
        maps.wait("small")
        yield maps
        maps.client.close()


def test_a_map_too_large_for_its_deadline_is_coarser_says_so_and_delays_nobody(maps):
    maps.start("huge", **{name: HUGE[name] for name in ("states", "columns", "rows")})
    maps.send("huge", 25)
    for _ in range(3):
        maps.soon("small")
    maps.wait("huge", 180)
    info = maps.newest("huge")["info"]
    assert info["coarser"]["columns"] < 1024
    assert any("coarser than it should be" in remark and "1,024 × 1,024" in remark for remark in info["remarks"])
    assert maps.client.get("/situations/huge/point/-72.3,18.5").status_code == 200
    assert maps.client.get("/situations/huge/tiles/probability/9/153/229.png").status_code == 200


def test_a_fit_that_needs_too_much_memory_is_reported_and_delays_no_other_map(maps):
    # Twelve states with thousands of separate places and a short length-scale: gigabytes.
    maps.start("fat", states=HUGE["states"], columns=16, model={"lengthscale": 100.0})
    maps.send("fat", 2900)
    told = until(lambda: maps.about("fat")["failure"], what="a failure")
    assert "memory" in told or "did not finish" in told
    maps.soon("small")
    maps.client.delete("/situations/fat")


def test_a_fitting_process_that_is_killed_is_replaced_and_told(maps):
    maps.start("struck")
    before = maps.about("small")
    for process in until(maps.fitting):
        os.kill(process, signal.SIGSTOP)  # the next fit hangs in one of them
    maps.send("struck")
    time.sleep(1.0)
    for process in maps.fitting():
        os.kill(process, signal.SIGKILL)
    maps.wait("struck")
    maps.soon("small")
    assert maps.about("struck")["failures"] <= 1 and maps.about("small")["version"] > before["version"]


def test_an_error_of_a_fit_is_counted_and_shown_until_a_retraction_removes_its_cause(maps):
    maps.start("bad")
    maps.send("bad", 3)
    maps.wait("bad")
    # What no caller can do: a label that the map does not have, straight into the database.
    with sqlite3.connect(maps.live.database) as connection:
        connection.execute(
            "INSERT INTO entry (situation, kind, id, longitude, latitude, label, source, received)"
            " VALUES ('bad', 'report', 'poison', -72.3, 18.5, 'lava', 'x', 0)"
        )
        connection.execute("UPDATE situation SET head = (SELECT max(seq) FROM entry) WHERE id = 'bad'")
    connection.close()
    until(lambda: maps.about("bad")["failure"], what="a failure")
    assert maps.about("bad")["version"] == 1  # the last good map stays
    maps.soon("small")
    # What fails shows at the next look at health: `/health` itself asks nobody.
    until(lambda: maps.client.get("/health").json()["checks"]["fits"] == "failing", what="health that tells it")
    assert maps.client.get("/health").json()["status"] == "degraded"
    assert 'crowdfield_map_fit_failures{situation="bad"}' in maps.client.get("/metrics").text
    assert maps.client.delete("/situations/bad/reports/poison").status_code == 202
    until(lambda: maps.about("bad")["failure"] is None, what="a good map")
    assert maps.about("bad")["reports"] == 3


def test_a_damaged_model_is_made_again_from_the_log(maps):
    maps.start("hurt")
    maps.send("hurt", 4)
    maps.wait("hurt")
    with sqlite3.connect(maps.live.database) as connection:
        connection.execute("UPDATE state SET model = CAST(substr(model, 1, 100) AS BLOB) WHERE situation = 'hurt'")
    connection.close()
    assert maps.client.get("/situations/hurt/point/-72.3,18.5").json()["why"] is None  # and not an error
    for process in maps.fitting():
        os.kill(process, signal.SIGKILL)  # they have it in memory
    maps.soon("hurt")
    assert maps.about("hurt")["failure"] is None
    assert "a saved model is damaged" in maps.live.said()


@pytest.mark.parametrize("hours", [-24, 24])
def test_a_clock_that_is_set_back_or_forth_freezes_no_map(maps, hours):
    maps.clock.write_text(str(3600 * hours))
    try:
        maps.soon("small")
        assert maps.client.get("/health").status_code == 200
    finally:
        maps.clock.write_text("0")
    maps.soon("small")


# Separate places and a length-scale far below their distances: a fit to all of them takes some two hundred times as
# long as one to the hundred that a coarser map is learned from, on any machine.
DEEP = {"states": ["low", "medium", "high"], "columns": 16, "model": {"lengthscale": 1000.0}}
DEEP_REPORTS = 1600
# The deadline, in times of a coarser fit that is measured first, and at least so many seconds.
DEADLINE, SHORTEST_DEADLINE = 8.0, 2.0


def seconds_of_a_coarser_fit():
    rng = np.random.default_rng(0)
    places = rng.random((FEWEST_REPORTS, 2))
    ledger = Ledger("deep")
    for i, (x, y) in enumerate(places.tolist()):
        label = DEEP["states"][int(3 * x)]
        ledger.reports[str(i)] = Entry("report", str(i), -72.6 + 0.6 * x, 18.2 + 0.6 * y, label, f"s{i % 5}")
        ledger.seq[str(i)] = i + 1
    situation = build(NewSituation(**FLOOD | {"id": "deep"} | DEEP))
    seconds = []
    for _ in range(2):  # the first loads libraries, which takes longer than the fit
        began = time.perf_counter()
        fit.fit_map(situation, ledger, None, effort=Effort.live(2, 600.0))
        seconds.append(time.perf_counter() - began)
    return min(seconds)


def test_a_fit_past_its_deadline_is_killed_reported_and_tried_with_fewer_reports(tmp_path):
    deadline = max(SHORTEST_DEADLINE, round(DEADLINE * seconds_of_a_coarser_fit(), 1))
    environment = {
        "CROWDFIELD_WORKER": "true", "CROWDFIELD_FIT_SECONDS": str(deadline), "CROWDFIELD_FIT_MEMORY": str(2**32),
        "CROWDFIELD_HEALTH_SECONDS": "0.2", "CROWDFIELD_REST_SECONDS": "3600", "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }  # fmt: skip
    with serving(tmp_path, environment=environment) as live:
        maps = Maps(live, None)
        with maps.client:  # closed where this fails, too: left open, it would be a warning in another test
            maps.start("deep", **DEEP)
            maps.start("small")
            maps.send("deep", DEEP_REPORTS)
            told = until(lambda: maps.about("deep")["failure"], what="a failure")
            assert f"did not finish within {deadline:g} s" in told and "fewer reports" in told
            maps.soon("small")
            maps.wait("deep", 120)
            about, newest = maps.about("deep"), maps.newest("deep")
            assert about["failure"] is None and about["failures"] >= 1
            # Health forgets the failure; the map still says that it is coarser.
            until(lambda: maps.client.get("/health").json()["checks"]["fits"] == "ok", what="health without a failure")
            assert newest["info"]["coarser"]["reports"] == FEWEST_REPORTS
            assert any(f"{FEWEST_REPORTS} of its 1,600 reports" in remark for remark in newest["info"]["remarks"])
