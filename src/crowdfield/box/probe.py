"""What a process in the box can still do on this machine: `python -m crowdfield.box.probe` says so.

Every attempt should fail. One that succeeds means that a layer is not allowed here, for example by a container; the
others must make up for it.
"""

from __future__ import annotations

import os
import socket
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any


def _connect(port: int) -> None:
    socket.create_connection(("127.0.0.1", port), timeout=1.0).close()


def _write(path: str) -> None:
    with open(path, "ab") as file:
        file.write(b"x")


def _fork() -> None:
    if os.fork() == 0:
        os._exit(0)


def _fill_memory() -> None:
    blocks = []
    for _ in range(100):
        blocks.append(bytearray(os.urandom(1) * (64 * 2**20)))


def attempt(_: Path, *, port: int, secret: str, target: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Task of a box: which of these things succeeded."""
    attempts: dict[str, Callable[[], object]] = {
        "connect to this machine": lambda: _connect(port),
        "open a socket": lambda: socket.socket().close(),
        "read another file": lambda: Path(secret).read_bytes(),
        "list a folder": lambda: os.listdir(os.path.dirname(secret)),
        "write a file": lambda: _write(target),
        "remove a file": lambda: os.remove(secret),
        "start a process": _fork,
        "start a program": lambda: os.execv("/bin/true", ["true"]),  # noqa: S606 - it must fail
        "end another process": lambda: os.kill(os.getppid(), 0),
        "see the caller's settings": lambda: Path(f"/proc/{os.getppid()}/environ").read_bytes(),
        "take much memory": _fill_memory,
    }
    return {"done": {name: _succeeds(run) for name, run in attempts.items()}, "environment": sorted(os.environ)}, {}


def _succeeds(run: Callable[[], object]) -> bool:
    try:
        run()
    except (OSError, MemoryError):
        return False
    return True


def main() -> int:
    """Run every attempt in a box and print which succeeded; the exit code is 1 if any did."""
    from crowdfield.box import ask

    with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as server:
        given, secret = Path(folder) / "given", Path(folder) / "secret"
        for path in (given, secret):
            path.write_text("x")
        port = server.getsockname()[1]
        answer = ask(
            "crowdfield.box.probe:attempt",
            given,
            shown="probe",
            port=port,
            secret=str(secret),
            target=str(Path(folder) / "new"),
        )
    print("layers:", ", ".join(answer.layers))
    for name, done in answer.header["done"].items():
        print(f"{'COULD' if done else 'could not'} {name}")
    return int(any(answer.header["done"].values()))


if __name__ == "__main__":
    sys.exit(main())
