"""While strangers send the most expensive requests they may, reports are acknowledged and health is reported.

How fast is measured by `python -m benchmarks service`; here the bounds are generous: other tests share the machine.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from tests.service.served import serving
from tests.service.workspace import FLOOD, REGION, fit_all, worker_here

from crowdfield.service.helper_pool import HelperPool
from crowdfield.service.problems import Problem
from crowdfield.service.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
# Before there were pools, an acknowledgement took from 25 to 66 seconds under each of these loads.
USUAL_SECONDS, SLOWEST_SECONDS = 1.0, 4.0


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("load"), "--no-worker") as served:
        worker = worker_here(Settings(database=served.database, worker=False, coalesce_seconds=0))
        with served.client("admin") as admin:
            admin.post("/situations", json=FLOOD | {"id": "map", "columns": 128}).raise_for_status()
            admin.post("/situations", json=FLOOD).raise_for_status()
            rng = np.random.default_rng(0)
            for _ in range(3):
                rows = [
                    {"longitude": x, "latitude": y, "label": FLOOD["states"][int(x > -72.3)], "source": f"s{i % 9}"}
                    for i, (x, y) in enumerate(rng.uniform(REGION[:2], REGION[2:], (100, 2)).tolist())
                ]
                admin.post("/situations/map/reports", json=rows).raise_for_status()
                fit_all(worker)
        worker.close()
        yield served


def strangers(server, kind, seconds):
    command = [sys.executable, "-m", "benchmarks.loading", "--port", server.url.rsplit(":", 1)[1], "--kind", kind]
    command += ["--clients", "12", "--versions", "3", "--seconds", str(seconds)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)


@pytest.mark.parametrize("kind", ["basemap", "exports", "points", "tiles", "all"])
def test_reports_are_acknowledged_while_twelve_strangers_send_the_most_expensive_requests(server, kind):
    load = strangers(server, kind, 4)
    took: list[float] = []
    health: list[float] = []
    with server.client("reporter") as reporter, server.client() as anybody:
        time.sleep(1)
        end = time.monotonic() + 2.5
        while time.monotonic() < end:
            for path, times in (("/situations/flood/reports", took), ("/health", health)):
                began = time.perf_counter()
                body = {"longitude": -72.3, "latitude": 18.5, "label": "dry", "id": f"{kind}-{began}"}
                reply = reporter.post(path, json=body) if times is took else anybody.get(path)
                times.append(time.perf_counter() - began)
                assert reply.status_code in (200, 201), reply.text
    answers = json.loads(load.communicate(timeout=60)[0])["answers"]
    # 0: the connection was closed with the refusal before.
    assert set(map(int, answers)) <= {0, 200, 429, 503, 504}, answers
    assert np.median(took) < USUAL_SECONDS and max(took) < SLOWEST_SECONDS, took
    assert max(health) < SLOWEST_SECONDS, health


def test_the_same_export_is_made_once_and_told_apart_by_its_tag(server):
    with server.client() as anybody:
        first = anybody.get("/situations/map/export/kml", params={"version": 1})
        assert first.status_code == 200 and first.headers["content-encoding"] == "gzip"
        began = time.perf_counter()
        tag = {"If-None-Match": first.headers["etag"]}
        again = anybody.get("/situations/map/export/kml", params={"version": 1}, headers=tag)
        assert again.status_code == 304 and time.perf_counter() - began < SLOWEST_SECONDS
        other = anybody.get("/situations/map/export/kml", params={"version": 2})
        assert other.headers["etag"] != first.headers["etag"]


def test_metrics_tell_which_pool_is_full(server):
    with server.client() as anybody:
        told = anybody.get("/metrics").text
    assert 'crowdfield_pool_work{pool="exports"}' in told and 'crowdfield_pool_refused{pool="answers"}' in told
    assert re.search(r"^crowdfield_lag_seconds \d", told, re.MULTILINE)


# Helper processes


@pytest.fixture
def helpers(tmp_path):
    hello = {"database": str(tmp_path / "w.db"), "minimum_count": 3, "minimum_sources": 3, "period_hours": 24}
    pool = HelperPool("tests", hello | {"niceness": 1}, processes=1, waiting=4, per_client=4, seconds=60)
    yield pool
    pool.close()


LEGEND = {"task": "legend", "layer": "uncertainty"}


def processes_of(pool):
    return [helper._process.pid for helper in pool._helpers if helper._process is not None]


def test_a_helper_that_is_killed_is_replaced(helpers):
    assert helpers.ask(LEGEND)["image"]
    (first,) = processes_of(helpers)
    os.kill(first, signal.SIGKILL)
    assert helpers.ask(LEGEND)["image"]
    (second,) = processes_of(helpers)
    assert second != first


def test_a_helper_that_takes_too_long_is_ended_and_its_work_with_it(helpers):
    helpers.seconds = 0.001
    with pytest.raises(Problem) as late:
        helpers.ask(LEGEND)
    assert late.value.status_code == 504 and late.value.headers["Retry-After"] and processes_of(helpers) == []
    helpers.seconds = 60
    assert helpers.ask(LEGEND)["image"]


def test_a_helper_whose_server_has_ended_ends_without_a_trace(tmp_path):
    hello = {"database": str(tmp_path / "w.db"), "minimum_count": 3, "minimum_sources": 3, "period_hours": 24}
    helper = subprocess.Popen(
        [sys.executable, "-m", "crowdfield.service.helper"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    helper.stdout.close()  # nobody listens to the answer any more
    _, errors = helper.communicate("".join(json.dumps(line) + "\n" for line in (hello | {"niceness": 1}, LEGEND)), 60)
    assert helper.returncode == 0 and errors == ""


def test_errors_in_a_helper_process_are_reported_without_a_stack_trace(helpers):
    with pytest.raises(Problem) as missing:
        helpers.ask({"task": "points", "situation": "none", "version": 1, "exact": False, "target": "/nowhere"})
    assert missing.value.status_code == 503 and "SELECT" not in str(missing.value.detail)  # it has no tables
    with pytest.raises(Problem) as unknown:
        helpers.ask({"task": "nonsense"})
    assert unknown.value.status_code == 500 and "nonsense" not in str(unknown.value.detail)


def test_helpers_end_with_the_server(tmp_path):
    with serving(tmp_path, "--no-worker") as served:
        with served.client() as anybody:
            assert anybody.get("/legend/difference.png").status_code == 200
        children = Path(f"/proc/{served.process.pid}/task/{served.process.pid}/children")
        tasks = list(Path(f"/proc/{served.process.pid}/task").glob("*/children"))
        found = [int(pid) for path in (children, *tasks) for pid in path.read_text().split()]
        assert found
        served.process.kill()
        served.process.wait()
        for _ in range(100):
            if not any(Path(f"/proc/{pid}").exists() for pid in found):
                break
            time.sleep(0.1)
        assert not any(Path(f"/proc/{pid}").exists() for pid in found)
