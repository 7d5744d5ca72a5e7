"""A workspace in a temporary folder, clients of every role, and a PostgreSQL of our own."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from tests.service.workspace import FLOOD, Workspace

from crowdfield.service.settings import Settings


@pytest.fixture
def make_workspace(tmp_path: Path) -> Iterator[Callable[..., Workspace]]:
    made: list[Workspace] = []

    def make(database: str | None = None, **options: object) -> Workspace:
        path = database or str(tmp_path / f"workspace{len(made)}.db")
        settings = Settings(database=path, worker=False, coalesce_seconds=0, **options)  # type: ignore[arg-type]
        made.append(Workspace(settings))
        return made[-1]

    yield make
    for workspace in made:
        workspace.close()


@pytest.fixture
def workspace(make_workspace: Callable[..., Workspace]) -> Workspace:
    space = make_workspace()
    assert space.client("admin").post("/situations", json=FLOOD).status_code == 201
    return space


@pytest.fixture(scope="session")
def postgres() -> Iterator[Callable[[], str]]:
    """Addresses of empty databases on a PostgreSQL that only these tests use."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), reverse=True)
    initdb = str(found[0]) if found else shutil.which("initdb")
    if initdb is None:
        pytest.skip("PostgreSQL is not installed; `make test` as root installs it")
    folder = Path(tempfile.mkdtemp(prefix="crowdfield-postgres-"))
    # PostgreSQL refuses to run as root; the packages bring a user of their own.
    user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.geteuid() == 0 else []
    if user:
        shutil.chown(folder, "postgres", "postgres")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    data = folder / "data"
    quiet = {"check": True, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": folder}
    subprocess.run(
        [*user, initdb, "-D", str(data), "-A", "trust", "-U", "crowdfield", "-E", "UTF8", "--no-sync"], **quiet
    )  # type: ignore[call-overload]
    command = [*user, str(Path(initdb).parent / "postgres"), "-D", str(data), "-p", str(port), "-k", str(folder)]
    server = subprocess.Popen([*command, "-c", "listen_addresses=127.0.0.1"], stderr=subprocess.DEVNULL, cwd=folder)
    base = f"postgresql://crowdfield@127.0.0.1:{port}"
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
    server.send_signal(signal.SIGQUIT)  # at once: nothing of it is kept
    server.wait(20)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of each kind."""
    if request.param == "sqlite":
        return str(tmp_path / "workspace.db")
    return request.getfixturevalue("postgres")()  # type: ignore[no-any-return]
