"""`kill -9` under load: the server or its worker dies at random moments while reports pour in.

What must hold afterwards: every acknowledged report is in the log, none twice, and the log replays to the same map.

    python tests/service/killing.py --kills 200                     # SQLite, in a temporary folder
    python tests/service/killing.py --kills 200 --database postgresql://…
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
from contextlib import closing
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import numpy as np
from sqlalchemy import text

from crowdfield.service import operations
from crowdfield.service.auth import Keys, Role
from crowdfield.service.database import connect, open_database

FLOOD = {
    "id": "flood",
    "title": "Flood",
    "states": ["dry", "flooded"],
    "region": [-72.6, -72.0, 18.2, 18.8],
    "columns": 16,
}


class Server:
    """`crowdfield serve` in a process of its own, started again after each death."""

    def __init__(self, database: str, port: int):
        self.port = port
        self.environment = os.environ | {
            "CROWDFIELD_DATABASE": database, "CROWDFIELD_LEASE_SECONDS": "1", "CROWDFIELD_COALESCE_SECONDS": "0.02"
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
        except OSError:
            return None
        return int(children[0]) if children else None

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


class Reporters:
    """Threads that send reports without pause and remember which were acknowledged. What failed is sent again."""

    def __init__(self, port: int, key: str, threads: int):
        self._port, self._key = port, key
        self.acknowledged: set[str] = set()
        self.outcomes: Counter[int] = Counter()
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._send, args=(k,), daemon=True) for k in range(threads)]
        for thread in self._threads:
            thread.start()

    def _send(self, k: int) -> None:
        number = 0
        connection = HTTPConnection("127.0.0.1", self._port, timeout=10)
        while not self._stop.is_set():
            name = f"{k}-{number}"
            rng = np.random.default_rng((k, number))  # the same report when it is sent again
            body = {
                "id": name, "longitude": -72.3 + 0.2 * rng.random(), "latitude": 18.4 + 0.2 * rng.random(),
                "label": ("dry", "flooded")[rng.integers(2)], "source": f"s{rng.integers(5)}",
            }  # fmt: skip
            headers = {"Authorization": f"Bearer {self._key}", "Content-Type": "application/json"}
            try:
                connection.request("POST", "/situations/flood/reports", json.dumps(body), headers)
                reply = connection.getresponse()
                reply.read()
            except (OSError, HTTPException):
                connection.close()
                time.sleep(0.05)
                continue
            self.outcomes[reply.status] += 1
            if reply.status in (200, 201):
                self.acknowledged.add(name)
                number += 1
            # A gentle load: what is tested is dying, not the size of the log.
            time.sleep(0.01)
        connection.close()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(15)
        assert not any(thread.is_alive() for thread in self._threads)


def torture(database: str, kills: int, seed: int, *, threads: int = 4, longest: float = 1.0) -> dict[str, object]:
    """Kill the server or its worker so often, then look at what is left. Raises AssertionError if anything is lost."""
    rng = np.random.default_rng(seed)
    engine = open_database(database)
    keys = Keys(engine)
    reporter, admin = keys.create("reporters", Role.reporter), keys.create("admin", Role.admin)
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
    reporters = Reporters(port, reporter, threads)
    done: Counter[str] = Counter()
    try:
        while sum(done.values()) < kills:
            time.sleep(float(rng.uniform(0.0, longest)))
            which = ("server", "worker")[rng.integers(2)]
            if not server.kill(which):
                time.sleep(0.2)
                continue
            done[which] += 1
            if which == "server":
                server.start()
                _answering(port)
        reporters.stop()
        _caught_up(database)
    finally:
        reporters.stop()
        server.stop()
    return judge(database, reporters) | {"kills": dict(done)}


def judge(database: str, reporters: Reporters) -> dict[str, object]:
    engine = connect(database)
    with engine.connect() as connection:
        stored = [row[0] for row in connection.execute(text("SELECT id FROM entry WHERE kind = 'report'"))]
    engine.dispose()
    lost = reporters.acknowledged - set(stored)
    assert not lost, f"{len(lost)} acknowledged reports are lost, such as {min(lost)}"
    assert len(stored) == len(set(stored)), "a report is stored twice"
    # At most the one that each sender was about to send may be stored without having been acknowledged.
    assert len(set(stored) - reporters.acknowledged) <= 64
    found = operations.check(database)
    assert not found.problems, found.problems
    assert reporters.acknowledged and "replayed" in found.facts["flood"]
    unexpected = {code: n for code, n in reporters.outcomes.items() if code not in (200, 201, 503)}
    assert not unexpected, unexpected
    return {
        "acknowledged": len(reporters.acknowledged),
        "stored": len(stored),
        "check": found.facts["flood"],
    }


def _caught_up(database: str, seconds: float = 180.0) -> None:
    """Wait for the survivors to fit the whole log: what it replays to is compared with what they made of it."""
    engine = connect(database)
    end = time.monotonic() + seconds
    query = text("SELECT head - (SELECT coalesce(max(head), 0) FROM version) FROM situation")
    behind = 1
    while behind and time.monotonic() < end:
        time.sleep(0.2)
        with engine.connect() as connection:
            behind = connection.execute(query).scalar_one()
    engine.dispose()
    assert not behind, "no map of the whole log was published"


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
    parser.add_argument("--database", default=None)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        result = torture(given.database or f"{folder}/workspace.db", given.kills, given.seed)
        print(json.dumps(result | {"seconds": round(time.monotonic() - began, 1)}))
