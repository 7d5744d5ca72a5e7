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


@contextmanager
def running() -> Iterator[Callable[[], str]]:
    """A function that gives the address of a new, empty database each time it is called."""
    binary = initdb()
    assert binary is not None
    folder = Path(tempfile.mkdtemp(prefix="crowdfield-postgres-"))
    # PostgreSQL refuses to run as root; the packages bring a user of their own.
    user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.geteuid() == 0 else []
    if user:
        shutil.chown(folder, "postgres", "postgres")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    data = folder / "data"
    create = [*user, binary, "-D", str(data), "-A", "trust", "-U", "crowdfield", "-E", "UTF8", "--no-sync"]
    subprocess.run(create, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder)
    command = [*user, str(Path(binary).parent / "postgres"), "-D", str(data), "-p", str(port), "-k", str(folder)]
    command += ["-c", "listen_addresses=127.0.0.1"]
    server = subprocess.Popen(command, stderr=subprocess.DEVNULL, cwd=folder)
    base = f"postgresql://crowdfield@127.0.0.1:{port}"
    try:
        for _ in range(100):
            try:
                psycopg.connect(f"{base}/postgres").close()
                break
            except psycopg.OperationalError:
                assert server.poll() is None, "PostgreSQL did not start"
                time.sleep(0.1)
        count = iter(range(1000))

        def fresh() -> str:
            name = f"workspace{next(count)}"
            with psycopg.connect(f"{base}/postgres", autocommit=True) as connection:
                connection.execute(f"CREATE DATABASE {name}")  # type: ignore[call-overload]
            return f"{base}/{name}"

        yield fresh
    finally:
        server.send_signal(signal.SIGQUIT)  # at once: nothing of it is kept
        server.wait(20)
        shutil.rmtree(folder, ignore_errors=True)
