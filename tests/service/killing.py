"""`kill -9` under load: the server, its worker or a fitting process dies at random moments while reports pour in.

What must hold afterwards: every acknowledged report is in the log as it was sent, none twice, and the log replays to
the same map. With `--disk-full` the database is on a small disk that is filled to the last byte at random moments, for
moments, while processes die as well (this mounts a disk in memory, and needs root). From the root of the repository:

    PYTHONPATH=src:. python tests/service/killing.py --kills 200                  # SQLite, in a temporary folder
    PYTHONPATH=src:. python tests/service/killing.py --kills 200 --postgresql     # a PostgreSQL of its own
    PYTHONPATH=src:. python tests/service/killing.py --kills 200 --disk-full [--postgresql]
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
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import Engine, text
from sqlalchemy.exc import DBAPIError
from tests.service import postgres

from crowdfield.service import operations
from crowdfield.service.auth import MAY_NAME_ANY_SOURCE, Keys, Role
from crowdfield.service.database import connect, open_database
from crowdfield.service.store import Store

FLOOD: dict[str, Any] = {
    "id": "flood",
    "title": "Flood",
    "states": ["dry", "flooded"],
    "region": [-72.6, 18.2, -72.0, 18.8],
    "columns": 16,
}


# The share of requests that send once more what was acknowledged before.
AGAIN = 0.85
KINDS = ("server", "worker", "fit")
# Of the deaths, at least this share comes while maps are being made, the others at any moment, the very start included.
AT_WORK = 0.4
# Of the deaths on a small disk, so many come while it is full.
FULL = 0.5
# Megabytes: enough for all that is stored, little enough to be filled in a moment.
DISK = {"sqlite": 192, "postgresql": 512}


class Server:
    """`crowdfield serve` in a process of its own, started again after each death."""

    def __init__(self, database: str, port: int):
        self.port = port
        self.environment = os.environ | {
            "CROWDFIELD_DATABASE": database, "CROWDFIELD_LEASE_SECONDS": "1", "CROWDFIELD_COALESCE_SECONDS": "0.02",
            "CROWDFIELD_REST_SECONDS": "1", "CROWDFIELD_HEALTH_SECONDS": "0.5",
        }  # fmt: skip
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        code = "from crowdfield.cli import main; main()"
        command = [sys.executable, "-c", code, "serve", "--port", str(self.port), "--log-level", "error"]
        self.process = subprocess.Popen(command, env=self.environment, stderr=subprocess.DEVNULL)

    def victims(self, which: str) -> list[int]:
        """The processes of one kind that run: the server itself, its worker, or those that fit maps."""
        assert self.process is not None
        if which == "server":
            return [self.process.pid]
        workers = [child for child in _children(self.process.pid) if "service.worker" in _command(child)]
        if which == "worker":
            return workers
        # Below the worker is the server that its fitting processes are forked from.
        forks = [fork for worker in workers for fork in _children(worker)]
        return [fit for fork in forks for fit in _children(fork)]

    def kill(self, which: str, rng: np.random.Generator) -> bool:
        """SIGKILL to a process of this kind; whether there was one."""
        assert self.process is not None
        victims = self.victims(which)
        if not victims:
            return False
        try:
            os.kill(int(rng.choice(victims)), signal.SIGKILL)
        except ProcessLookupError:
            return False
        if which == "server":
            self.process.wait()
        return True

    def keep_up(self, seconds: float = 120.0) -> None:
        """Start it, and again if it does not come up: on a full disk it may have to wait for room."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.process is None or self.process.poll() is not None:
                self.start()
            if _answers(self.port):
                return
            time.sleep(0.1)
        raise AssertionError("the server did not come up")

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(30)


def _children(process: int) -> list[int]:
    """Those that live: one that was killed a moment ago stays listed until its parent notices, but cannot die again."""
    try:
        listed = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except OSError:
        return []
    return [int(child) for child in listed if _state(child) not in ("Z", "")]


def _state(process: str) -> str:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def _command(process: int) -> str:
    try:
        return Path(f"/proc/{process}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


class SmallDisk:
    """A disk in memory that can be filled to the last byte."""

    def __init__(self, folder: Path, megabytes: int):
        self.folder = folder
        folder.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)]
        done = subprocess.run(mount, capture_output=True, text=True)
        if done.returncode:
            raise PermissionError(f"a small disk cannot be mounted, which only root can: {done.stderr.strip()}")

    def fill(self) -> None:
        with (self.folder / "filler").open("wb") as file:
            block = 2**20
            while block:
                try:
                    os.write(file.fileno(), bytes(block))
                except OSError:
                    block //= 2  # what is left is smaller

    def free(self) -> None:
        (self.folder / "filler").unlink(missing_ok=True)

    def close(self) -> None:
        subprocess.run(["umount", "-l", str(self.folder)], check=True)


def report(name: str) -> dict[str, Any]:
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


def torture(
    database: str,
    kills: int,
    seed: int,
    *,
    threads: int = 4,
    longest: float = 0.7,
    disk: SmallDisk | None = None,
    revive: Callable[[], object] = lambda: None,
) -> dict[str, Any]:
    """Kill the server, its worker or a fitting process so often, then look at what is left.

    With a `disk` it is full during half of the deaths; `revive` starts a database that did not survive that. Raises
    AssertionError if anything is lost.
    """
    rng = np.random.default_rng(seed)
    engine = open_database(database)
    keys = Keys(engine)
    reporter, admin = (
        keys.create("reporters", Role.reporter, MAY_NAME_ANY_SOURCE, origin=""),
        keys.create("admin", Role.admin),
    )
    engine.dispose()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = Server(database, port)
    server.keep_up()
    headers = {"Authorization": f"Bearer {admin}", "Content-Type": "application/json"}
    with closing(HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        connection.request("POST", "/situations", json.dumps(FLOOD), headers)
        assert connection.getresponse().status == 201
    watched = connect(database, pool_size=1)
    reporters = Reporters(port, reporter, threads)
    done: Counter[str] = Counter()
    queue: list[str] = []
    full = made = 0
    try:
        while sum(done.values()) < kills:
            if rng.random() < AT_WORK:
                _another_version(watched, made)
            filled = disk is not None and rng.random() < FULL
            if disk is not None and filled:
                disk.fill()
                full += 1
            time.sleep(float(rng.uniform(0.0, longest)))
            # Each kind dies once in three deaths, in random order.
            queue = queue or [str(kind) for kind in rng.permutation(KINDS)]
            which = queue.pop()
            # A server waits ever longer before it replaces a worker that keeps dying; we do not.
            which = which if server.kill(which, rng) else "server"
            if which == "server" and server.process is not None and server.process.poll() is None:
                server.kill("server", rng)
            done[which] += 1
            if disk is not None and filled:
                time.sleep(float(rng.uniform(0.0, longest)))
                disk.free()
                revive()
            made = _newest(watched) or made
            server.keep_up()
            if sum(done.values()) % 20 == 0:
                print(dict(done), "deaths,", made, "versions", file=sys.stderr, flush=True)
        reporters.stop()
        _caught_up(watched)
    finally:
        reporters.stop()
        server.stop()
        watched.dispose()
    return {"kills": dict(done), "times the disk was full": full} | judge(database, reporters)


def judge(database: str, reporters: Reporters) -> dict[str, Any]:
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
    unexpected = {code: n for code, n in reporters.statuses.items() if code not in (200, 201, 503, 504)}
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
    """The number of the newest version; 0 where there is none, or where the database cannot say just now."""
    try:
        with engine.connect() as connection:
            return int(connection.execute(text("SELECT coalesce(max(number), 0) FROM version")).scalar_one())
    except DBAPIError:
        return 0


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


def _answers(port: int) -> bool:
    """Whether it takes reports: until then what is sent is refused, which tests nothing."""
    try:
        with closing(HTTPConnection("127.0.0.1", port, timeout=5)) as connection:
            connection.request("GET", "/ready")
            return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False


@contextmanager
def somewhere(kind: str, *, small_disk: bool) -> Iterator[dict[str, Any]]:
    """A database of its own for one run: the arguments of `torture` that name it."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        disk = None
        if small_disk:
            disk = SmallDisk(folder / "disk", DISK[kind])
            stack.callback(disk.close)
        place = disk.folder if disk else folder
        if kind == "sqlite":
            yield {"database": str(place / "workspace.db"), "disk": disk}
            return
        folder.chmod(0o755)  # the user that PostgreSQL runs as must get through
        home = place / "postgres"
        home.mkdir()
        server = postgres.Postgres(home)
        stack.callback(server.stop)
        assert server.start(), "PostgreSQL did not start"
        yield {"database": server.fresh(), "disk": disk, "revive": server.start}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--database", default=None)
    where.add_argument("--postgresql", action="store_true", help="start a PostgreSQL for this run")
    parser.add_argument("--disk-full", action="store_true", help="fill the disk at random moments as well; needs root")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    began = time.monotonic()
    if given.database:
        result = torture(given.database, given.kills, given.seed)
    else:
        with somewhere("postgresql" if given.postgresql else "sqlite", small_disk=given.disk_full) as there:
            result = torture(kills=given.kills, seed=given.seed, **there)
    print(json.dumps(result | {"seconds": round(time.monotonic() - began, 1)}))
