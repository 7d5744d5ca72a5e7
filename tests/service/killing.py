"""`kill -9` under load: the server or its worker dies at random moments while reports pour in.

What must hold afterwards: every acknowledged report is in the log as it was sent, none twice, and the log replays to
the same map. From the root of the repository:

    PYTHONPATH=src:. python tests/service/killing.py --kills 200                  # SQLite, in a temporary folder
    PYTHONPATH=src:. python tests/service/killing.py --kills 200 --postgresql     # a PostgreSQL of its own
    PYTHONPATH=src:. python tests/service/killing.py --kills 200 --database postgresql://…
"""

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import ExitStack, closing
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import numpy as np
from sqlalchemy import Engine, text
from tests.service import postgres

from crowdfield.service import operations
from crowdfield.service.auth import EVERYTHING, Keys, Role
from crowdfield.service.database import connect, open_database
from crowdfield.service.store import Store

FLOOD = {
    "id": "flood",
    "title": "Flood",
    "states": ["dry", "flooded"],
    "region": [-72.6, 18.2, -72.0, 18.8],
    "columns": 16,
}


# The share of requests that send once more what was acknowledged before.
AGAIN = 0.85
# Of the deaths, at least this share comes while maps are being made, the others at any moment, the very start included.
AT_WORK = 0.4


class Server:
    """`crowdfield serve` in a process of its own, started again after each death."""

    def __init__(self, database: str, port: int):
        self.port = port
        self.environment = os.environ | {
            "CROWDFIELD_DATABASE": database, "CROWDFIELD_LEASE_SECONDS": "1", "CROWDFIELD_COALESCE_SECONDS": "0.02",
            "CROWDFIELD_REST_SECONDS": "1",
        }  # fmt: skip
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        code = "from crowdfield.cli import main; main()"
        command = [sys.executable, "-c", code, "serve", "--port", str(self.port), "--log-level", "error"]
        self.process = subprocess.Popen(command, env=self.environment, stderr=subprocess.DEVNULL)

    def worker(self) -> int | None:
        """The worker beside the server, if it runs."""
        assert self.process is not None
        try:
            children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
            # One that was killed a moment ago stays listed until the server notices; it cannot die again.
            alive = [child for child in children if _state(child) != "Z"]
        except OSError:
            return None
        return int(alive[0]) if alive else None

    def kill(self, which: str) -> bool:
        """SIGKILL to the server or its worker; whether there was one."""
        assert self.process is not None
        if which == "server":
            self.process.kill()
            self.process.wait()
            return True
        worker = self.worker()
        if worker is None:
            return False
        os.kill(worker, signal.SIGKILL)
        return True

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(30)


def _state(process: str) -> str:
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]


def report(name: str) -> dict[str, object]:
    """The report of this name: the same whenever it is sent."""
    rng = np.random.default_rng([int(part) for part in name.split("-")])
    east, north, source = rng.random(), rng.random(), int(rng.integers(5))
    wet = np.sin(7 * east) + np.cos(6 * north) > 0.3
    right = rng.random() < 0.5 + 0.1 * source
    return {
        "id": name, "longitude": -72.4 + 0.2 * east, "latitude": 18.4 + 0.2 * north,
        "label": ("dry", "flooded")[int(wet == right)], "source": f"s{source}",
    }  # fmt: skip


class Reporters:
    """Threads that send reports without pause and remember which were acknowledged. What failed is sent again, and most
    of what was acknowledged too: a sender cannot know, and the log must not grow by it."""

    def __init__(self, port: int, key: str, threads: int):
        self._port, self._key = port, key
        self.acknowledged: set[str] = set()
        self.statuses: Counter[int] = Counter()
        self.outcomes: Counter[str] = Counter()
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._send, args=(k,), daemon=True) for k in range(threads)]
        for thread in self._threads:
            thread.start()

    def _send(self, k: int) -> None:
        number = 0
        rng = np.random.default_rng(k)
        connection = HTTPConnection("127.0.0.1", self._port, timeout=10)
        while not self._stop.is_set():
            again = number > 0 and rng.random() < AGAIN
            name = f"{k}-{rng.integers(number) if again else number}"
            body = report(name)
            headers = {"Authorization": f"Bearer {self._key}", "Content-Type": "application/json"}
            try:
                connection.request("POST", "/situations/flood/reports", json.dumps(body), headers)
                reply = connection.getresponse()
                reply.read()
            except (OSError, HTTPException):
                connection.close()
                time.sleep(0.05)
                continue
            self.statuses[reply.status] += 1
            if reply.status in (200, 201):
                self.acknowledged.add(name)
                self.outcomes["again" if again else "new"] += 1
                number += not again
            time.sleep(0.01)
        connection.close()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(15)
        assert not any(thread.is_alive() for thread in self._threads)


def torture(database: str, kills: int, seed: int, *, threads: int = 4, longest: float = 0.7) -> dict[str, object]:
    """Kill the server or its worker so often, then look at what is left. Raises AssertionError if anything is lost."""
    rng = np.random.default_rng(seed)
    engine = open_database(database)
    keys = Keys(engine)
    reporter, admin = keys.create("reporters", Role.reporter, EVERYTHING, origin=""), keys.create("admin", Role.admin)
    engine.dispose()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = Server(database, port)
    server.start()
    _answering(port)
    headers = {"Authorization": f"Bearer {admin}", "Content-Type": "application/json"}
    with closing(HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        connection.request("POST", "/situations", json.dumps(FLOOD), headers)
        assert connection.getresponse().status == 201
    watched = connect(database, pool_size=1)
    reporters = Reporters(port, reporter, threads)
    done: Counter[str] = Counter()
    made = 0
    try:
        while sum(done.values()) < kills:
            if rng.random() < AT_WORK:
                _another_version(watched, made)
            time.sleep(float(rng.uniform(0.0, longest)))
            # A server waits ever longer before it replaces a worker that keeps dying; we do not.
            which = "worker" if rng.integers(2) and server.kill("worker") else "server"
            if which == "server":
                server.kill("server")
            done[which] += 1
            made = _newest(watched)
            if which == "server":
                server.start()
                _answering(port)
            if sum(done.values()) % 20 == 0:
                print(dict(done), "deaths,", made, "versions", file=sys.stderr, flush=True)
        reporters.stop()
        _caught_up(watched)
    finally:
        reporters.stop()
        server.stop()
        watched.dispose()
    return {"kills": dict(done)} | judge(database, reporters)


def judge(database: str, reporters: Reporters) -> dict[str, object]:
    engine = connect(database)
    with engine.connect() as connection:
        rows = connection.execute(
            text("SELECT id, longitude, latitude, label, source FROM entry WHERE kind = 'report'")
        ).all()
    versions = _newest(engine)
    engine.dispose()
    stored = {row.id: dict(row._mapping) for row in rows}
    lost = reporters.acknowledged - set(stored)
    assert not lost, f"{len(lost)} acknowledged reports are lost, such as {min(lost)}"
    assert len(rows) == len(stored), "a report is stored twice"
    changed = [name for name, row in stored.items() if row != report(name)]
    assert not changed, f"{changed[0]} is not stored as it was sent"
    # At most the one that each sender was about to send may be stored without having been acknowledged.
    assert len(set(stored) - reporters.acknowledged) <= 64
    found = operations.check(database)
    assert not found.problems, found.problems
    assert reporters.acknowledged and "replayed" in found.facts["flood"]
    unexpected = {code: n for code, n in reporters.statuses.items() if code not in (200, 201, 503)}
    assert not unexpected, unexpected
    return {
        "acknowledged": len(reporters.acknowledged),
        "sent again": reporters.outcomes["again"],
        "stored": len(rows),
        "lost": len(lost),
        "twice": len(rows) - len(stored),
        "versions": versions,
        "replay differs by": found.facts["flood"]["replayed"],
    }


def _newest(engine: Engine) -> int:
    with engine.connect() as connection:
        return connection.execute(text("SELECT coalesce(max(number), 0) FROM version")).scalar_one()


def _another_version(engine: Engine, than: int, seconds: float = 8.0) -> None:
    """Wait for a map made since: then the worker is in the middle of its work, as new reports keep coming."""
    end = time.monotonic() + seconds
    while _newest(engine) <= than and time.monotonic() < end:
        time.sleep(0.05)


def _caught_up(engine: Engine, seconds: float = 180.0) -> None:
    """Wait for the survivors to fit the whole log and to come to rest: what it replays to is compared with that."""
    end = time.monotonic() + seconds
    store = Store(engine)
    while time.monotonic() < end:
        newest = store.version("flood")
        if newest is not None and newest.head == store.situation("flood").head and newest.info["rested"]:
            return
        time.sleep(0.2)
    raise AssertionError("no map of the whole log was published")


def _answering(port: int, seconds: float = 90.0) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            with closing(HTTPConnection("127.0.0.1", port, timeout=5)) as connection:
                connection.request("GET", "/health")
                if connection.getresponse().status == 200:
                    return
        except (OSError, HTTPException):
            time.sleep(0.1)
    raise AssertionError("the server did not come up")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--database", default=None)
    where.add_argument("--postgresql", action="store_true", help="start a PostgreSQL for this run")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    began = time.monotonic()
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        own = stack.enter_context(postgres.running())() if given.postgresql else f"{folder}/workspace.db"
        result = torture(given.database or own, given.kills, given.seed)
        print(json.dumps(result | {"seconds": round(time.monotonic() - began, 1)}))
