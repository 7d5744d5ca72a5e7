"""Health tells the truth, on a real server: it reports what is broken, and reports when it works again."""

import os
import shutil
import signal
import sqlite3
import subprocess
import time
from contextlib import closing
from pathlib import Path

import pytest
from tests.service.served import serving
from tests.service.workspace import FLOOD, HERE

# Looks follow each other quickly here, so that a test need not wait for them.
QUICKLY = {"CROWDFIELD_HEALTH_SECONDS": "0.2", "CROWDFIELD_LEASE_SECONDS": "1", "CROWDFIELD_LATE_SECONDS": "1"}


def until(true, seconds=180.0, what="it"):
    end = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < end, f"waited {seconds:g} s in vain for {what}"
        time.sleep(0.05)
    return found


def word(client, check):
    """What is said of one thing; None where the service cannot even tell whose key this is."""
    return client.get("/health").json().get("checks", {}).get(check)


@pytest.fixture(scope="module")
def idle(tmp_path_factory):
    """A server without a worker."""
    with serving(tmp_path_factory.mktemp("idle"), environment=QUICKLY) as live, live.client("admin") as client:
        client.post("/situations", json=FLOOD).raise_for_status()
        yield live, client


def test_strangers_learn_a_word_keys_a_few_and_admins_all(idle):
    live, admin = idle
    with live.client() as stranger, live.client("reader") as reader:
        assert set(stranger.get("/health").json()) == {"status"}
        assert set(reader.get("/health").json()) == {"status", "version", "checks"}
        assert stranger.get("/ready").json() == {"ready": True}
    told = admin.get("/health").json()
    assert told["details"]["database"]["write_seconds"] >= 0 and told["details"]["disk"]["free_bytes"]["database"] > 0
    before = beats(live.database)
    until(lambda: beats(live.database) > before, what="a heartbeat")  # really written


def beats(database):
    with closing(sqlite3.connect(database)) as connection:
        return connection.execute("SELECT beat FROM pulse WHERE kind = 'server'").fetchone()[0]


def test_a_report_that_no_worker_fits_is_missed(idle):
    _, admin = idle
    admin.post("/situations/flood/reports", json=HERE | {"label": "dry"}).raise_for_status()
    until(lambda: (word(admin, "worker"), word(admin, "maps")) == ("missing", "late"))
    told = admin.get("/health")
    assert told.status_code == 200 and told.json()["status"] == "degraded"  # reports are still stored
    assert told.json()["details"]["maps"]["oldest_unfitted_seconds"]["flood"] >= 1
    text = admin.get("/metrics").text
    assert 'crowdfield_map_oldest_unfitted_seconds{situation="flood"}' in text and "crowdfield_worker_up 0.0" in text
    assert "crowdfield_intake_up 1.0" in text and 'crowdfield_health{check="maps"} 0.0' in text


def test_a_database_that_cannot_be_written_is_down_until_it_can(idle):
    live, admin = idle
    lock = sqlite3.connect(live.database, isolation_level=None)
    lock.execute("BEGIN IMMEDIATE")  # as a disk that hangs would: nobody else can write
    try:
        until(lambda: admin.get("/health").status_code == 503, what="a 503")
        assert admin.get("/health").json()["status"] == "down" and word(admin, "database") == "not writable"
        with live.client() as stranger:
            began = time.monotonic()
            assert stranger.get("/ready").status_code == 503
            assert time.monotonic() - began < 2  # asking costs nothing, whatever the database does
        assert "crowdfield_intake_up 0.0" in admin.get("/metrics").text
    finally:
        lock.execute("ROLLBACK")
        lock.close()
    until(lambda: admin.get("/ready").status_code == 200, what="a 200")
    assert word(admin, "database") == "ok"


def test_a_database_that_is_damaged_is_down(tmp_path):
    with serving(tmp_path, environment=QUICKLY) as live, live.client("admin") as admin:
        assert admin.get("/health").status_code == 200
        content = Path(live.database).read_bytes()
        for name in (live.database, f"{live.database}-wal"):
            Path(name).write_bytes(os.urandom(len(content)))
        until(lambda: admin.get("/health").status_code == 503, what="a 503")
        assert admin.get("/ready").status_code == 503
        assert admin.get("/situations").status_code == 503  # and not 500


def worker_of(live):
    children = Path(f"/proc/{live.process.pid}/task/{live.process.pid}/children").read_text().split()
    return next(int(c) for c in children if b"service.worker" in Path(f"/proc/{c}/cmdline").read_bytes())


def stop_between_writes(process, database):
    """Stop a process, but not while it holds the lock of the database: then nobody could write at all."""
    while True:
        os.kill(process, signal.SIGSTOP)
        with closing(sqlite3.connect(database, timeout=1.0, isolation_level=None)) as connection:
            try:
                connection.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError:
                os.kill(process, signal.SIGCONT)
                time.sleep(0.05)


def test_a_worker_that_hangs_is_missed_and_one_that_lives_is_seen(tmp_path):
    environment = QUICKLY | {"CROWDFIELD_WORKER": "true"}
    with serving(tmp_path, environment=environment) as live, live.client("admin") as admin:
        until(lambda: word(admin, "worker") == "ok", what="a worker")
        worker = worker_of(live)
        stop_between_writes(worker, live.database)
        try:
            # Its own server gives it a minute to start before it is missed; another server misses it at once.
            with (
                serving(tmp_path, database=live.database, environment=QUICKLY) as other,
                other.client("admin") as client,
            ):
                client.post("/situations", json=FLOOD).raise_for_status()
                client.post("/situations/flood/reports", json=HERE | {"label": "dry"}).raise_for_status()
                until(lambda: word(client, "worker") == "missing")
        finally:
            os.kill(worker, signal.SIGCONT)
        until(lambda: admin.get("/situations/flood").json()["reports"] == 1)
        until(lambda: admin.get("/health").json()["status"] == "ok")


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 24 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(folder)], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"only root can mount a disk for this test: {mounted.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_is_reported_and_refuses_reports_until_there_is_space(small_disk, tmp_path):
    environment = QUICKLY | {"CROWDFIELD_DISK_RESERVE": str(4 * 2**20)}
    database = str(small_disk / "workspace.db")
    with serving(tmp_path, database=database, environment=environment) as live, live.client("admin") as admin:
        admin.post("/situations", json=FLOOD).raise_for_status()
        assert admin.get("/health").json()["status"] == "ok"
        filler = small_disk / "filler"
        with filler.open("wb") as file:  # to the last byte
            while True:
                try:
                    os.write(file.fileno(), bytes(4096))
                except OSError:
                    break
        until(lambda: word(admin, "disk") == "low", what="a low disk")
        rows = [HERE | {"label": "dry", "id": f"full-{i}", "text": "x" * 4000} for i in range(400)]

        def refused(path="/situations/flood/reports"):
            return admin.post(path, json=rows).status_code == 503

        assert refused()
        # A failure counts for a few looks only, so that one is caused for each time that is asked.
        until(lambda: refused() and admin.get("/health").status_code == 503, what="a 503")
        filler.unlink()
        until(lambda: admin.get("/health").json()["status"] != "down", what="recovery")
        assert admin.post("/situations/flood/reports", json=rows).json()["stored"] == 400
        assert shutil.disk_usage(small_disk).free > 0
