"""A PostgreSQL of our own, from the machine's binaries, on a private port and in a private folder."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg


def initdb() -> str | None:
    """Where the binaries are: Debian keeps them out of the search path."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), reverse=True)
    return str(found[0]) if found else shutil.which("initdb")


class Postgres:
    """One server in a folder of its own; it can be started again after a crash."""

    def __init__(self, folder: Path):
        binary = initdb()
        assert binary is not None, "PostgreSQL is not installed"
        self._folder, self._count = folder, iter(range(1000))
        # PostgreSQL refuses to run as root; the packages bring a user of their own.
        self._user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.geteuid() == 0 else []
        if self._user:
            shutil.chown(folder, "postgres", "postgres")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        data = folder / "data"
        create = [*self._user, binary, "-D", str(data), "-A", "trust", "-U", "crowdfield", "-E", "UTF8", "--no-sync"]
        subprocess.run(create, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder)
        self._command = [*self._user, str(Path(binary).parent / "postgres"), "-D", str(data), "-p", str(port)]
        # Little for its log, so that a small disk is enough.
        self._command += ["-k", str(folder), "-c", "listen_addresses=127.0.0.1", "-c", "max_wal_size=64MB",
                          "-c", "min_wal_size=32MB"]  # fmt: skip
        self._base = f"postgresql://crowdfield@127.0.0.1:{port}"
        self._server: subprocess.Popen[bytes] | None = None

    def start(self, seconds: float = 30.0) -> bool:
        """Whether it answers in time; one that runs already is left alone."""
        if self._server is None or self._server.poll() is not None:
            self._server = subprocess.Popen(self._command, stderr=subprocess.DEVNULL, cwd=self._folder)
        end = time.monotonic() + seconds
        while time.monotonic() < end and self._server.poll() is None:
            try:
                psycopg.connect(f"{self._base}/postgres").close()
                return True
            except psycopg.OperationalError:
                time.sleep(0.1)
        return False

    def fresh(self) -> str:
        """The address of a new, empty database."""
        name = f"workspace{next(self._count)}"
        with psycopg.connect(f"{self._base}/postgres", autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return f"{self._base}/{name}"

    def stop(self) -> None:
        if self._server is not None:
            self._server.send_signal(signal.SIGQUIT)  # at once: nothing of it is kept
            self._server.wait(20)


@contextmanager
def running() -> Iterator[Callable[[], str]]:
    """A function that gives the address of a new, empty database each time it is called."""
    folder = Path(tempfile.mkdtemp(prefix="crowdfield-postgres-"))
    server = Postgres(folder)
    try:
        assert server.start(), "PostgreSQL did not start"
        yield server.fresh
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)
