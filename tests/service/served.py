"""`crowdfield serve` as a process of its own, as an operator would start it, and clients of every role."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

import crowdfield
from crowdfield.service.auth import MAY_NAME_ANY_SOURCE, Keys, Role
from crowdfield.service.database import open_database

# The same code that the tests import, wherever the environment's own installation points.
SOURCE = str(Path(crowdfield.__file__).parents[1])
COMMAND = (sys.executable, "-c", "from crowdfield.cli import main; main()")
STARTING_SECONDS = 60.0
STOPPING_SECONDS = 30.0


@dataclass(frozen=True)
class Served:
    url: str
    database: str
    keys: Mapping[str, str]
    process: "subprocess.Popen[bytes]"
    log: Path

    def client(self, role: str | None = None, *, key: str | None = None, **options: object) -> httpx.Client:
        key = key or (self.keys[role] if role else None)
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        return httpx.Client(base_url=self.url, headers=headers, timeout=60.0, **options)  # type: ignore[arg-type]

    def said(self) -> str:
        """All that the process wrote to its standard error."""
        return self.log.read_text()


@contextmanager
def serving(
    folder: Path, *arguments: str, database: str | None = None, environment: Mapping[str, str] | None = None
) -> Iterator[Served]:
    """A server on a free port with a key of every role. Settings of whoever runs the tests are not passed on; there is
    no worker unless `environment` or `arguments` ask for one."""
    database = database or str(folder / "workspace.db")
    engine = open_database(database)
    # As keys of older workspaces are: they may name any source, and share their report ids.
    keys = {
        role.name: Keys(engine).create(f"a {role.name}", role, MAY_NAME_ANY_SOURCE, origin="") for role in Role if role
    }
    engine.dispose()
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CROWDFIELD_")}
    given = {"CROWDFIELD_DATABASE": database, "CROWDFIELD_WORKER": "false", "PYTHONPATH": SOURCE, **(environment or {})}
    log = folder / f"serve-{time.monotonic_ns()}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*COMMAND, "serve", "--port", "0", *arguments], env=kept | given, stderr=output, cwd=folder
        )
    try:
        yield Served(_address(process, log), database, keys, process, log)
    finally:
        process.terminate()
        process.wait(STOPPING_SECONDS)


def _address(process: "subprocess.Popen[bytes]", log: Path) -> str:
    """Where it listens, as soon as it answers."""
    end = time.monotonic() + STARTING_SECONDS
    while time.monotonic() < end:
        found = re.search(r"crowdfield runs at (http://\S+)/", log.read_text())
        if found is not None:
            try:
                if httpx.get(f"{found[1]}/health", timeout=5.0).status_code:
                    return found[1]
            except httpx.TransportError:
                pass
        if process.poll() is not None:
            raise AssertionError(f"the server ended with {process.returncode}:\n{log.read_text()}")
        time.sleep(0.05)
    raise AssertionError(f"the server did not answer:\n{log.read_text()}")
