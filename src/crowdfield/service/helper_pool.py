"""The server's side of its helper processes: pools of them, limits for clients, and a cache of their answers."""

import contextlib
import json
import logging
import math
import os
import select
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from queue import LifoQueue
from typing import Any, TypeVar

from crowdfield.service.packing import Packed
from crowdfield.service.pools import Pool
from crowdfield.service.problems import Problem

log = logging.getLogger("crowdfield.service")
T = TypeVar("T")
# How long results are kept in the cache, and the most bytes and results in it.
KEPT_SECONDS, KEPT_BYTES, KEPT_COUNT = 900.0, 512 * 2**20, 4096
# Exact places and names must disappear soon after a purge; outlines, the same for everybody, are kept forever.
EXACT_SECONDS, FOREVER_SECONDS = 30.0, math.inf
CLEAR_SECONDS = 30.0
# A file that was requested this recently may be about to be opened, and is not deleted.
IN_USE_SECONDS = 10.0
# The assumed size of an answer without a file.
SMALL_BYTES = 4096


class HelperDied(Exception):
    """The process ended before it answered."""


class Helper:
    """One helper process. It is started by the first question, and again after it ended or was killed."""

    def __init__(self, hello: dict[str, Any]):
        self._hello = hello
        self._process: subprocess.Popen[bytes] | None = None
        self._starting, self.ended = threading.Lock(), False

    def ask(self, question: dict[str, Any], seconds: float) -> dict[str, Any]:
        """The answer to a question; a process that takes longer than `seconds` is killed."""
        fresh = self._process is None or self._process.poll() is not None
        try:
            return self._ask(question, seconds)
        except HelperDied:
            self.close()
            if fresh:
                raise
        # It had been idle for long and ended by itself: a new process answers.
        try:
            return self._ask(question, seconds)
        except HelperDied:
            self.close()
            raise

    def _ask(self, question: dict[str, Any], seconds: float) -> dict[str, Any]:
        """Send one question and read the answer; kill the process if it takes too long."""
        process = self._running()
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(json.dumps(question).encode() + b"\n")
            process.stdin.flush()
        except OSError as error:
            raise HelperDied from error
        end, received = time.monotonic() + seconds, b""
        while not received.endswith(b"\n"):
            ready, _, _ = select.select([process.stdout], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                self.close()
                raise Problem(
                    504, f"this took longer than {seconds:g} s and was stopped; ask for less, or try again later",
                    headers={"Retry-After": "30"},
                )  # fmt: skip
            block = os.read(process.stdout.fileno(), 65536)
            if not block:
                raise HelperDied
            received += block
        answer: dict[str, Any] = json.loads(received)
        return answer

    def _running(self) -> "subprocess.Popen[bytes]":
        with self._starting:
            if self.ended:
                raise HelperDied
            return self._process_now()

    def _process_now(self) -> "subprocess.Popen[bytes]":
        """The running process; started if there is none."""
        if self._process is None or self._process.poll() is not None:
            self.close()
            environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
            self._process = subprocess.Popen(
                [sys.executable, "-m", "crowdfield.service.helper"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, start_new_session=True,
            )  # fmt: skip
            assert self._process.stdin is not None
            # The address of the database may contain a password: it is sent here, not through the environment.
            self._process.stdin.write(json.dumps(self._hello).encode() + b"\n")
        return self._process

    def end(self) -> None:
        """Kill the process, and start no other: a question that was under way would be asked again after the server has
        ended, when its database may be gone."""
        with self._starting:
            self.ended = True
            self.close()

    def close(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


class HelperPool(Pool):
    """A pool whose threads each wait for a helper process. `permanent`: how many of the processes do not end after a
    while without questions."""

    def __init__(
        self,
        name: str,
        hello: dict[str, Any],
        *,
        processes: int,
        waiting: int,
        per_client: int,
        seconds: float,
        permanent: int = 0,
    ):
        super().__init__(name, threads=processes, waiting=waiting, per_client=per_client, seconds=seconds, priced=True)
        # The last one is used first, so the permanent processes are those in use.
        self._helpers = [Helper(hello | {"permanent": k >= processes - permanent}) for k in range(processes)]
        self._free: LifoQueue[Helper] = LifoQueue()
        for helper in self._helpers:
            self._free.put(helper)

    def ask(self, question: dict[str, Any], charge: Callable[[float], None] = lambda seconds: None) -> dict[str, Any]:
        """The answer of a helper, called in a thread of this pool; an error in the answer is raised."""
        helper = self._free.get()
        try:
            answer = helper.ask(question, self.seconds)
        except HelperDied as error:
            if not helper.ended:
                log.error("a helper process died", extra={"pool": self.name, "task": question.get("task")})
            raise Problem(
                503, "this could not be computed; try again, or ask for less", headers={"Retry-After": "5"}
            ) from error
        finally:
            self._free.put(helper)
        charge(answer.pop("seconds", 0.0))
        if answer.get("status", 200) >= 400:
            retry = {"Retry-After": "5"} if answer["status"] == 503 else None
            raise Problem(answer["status"], answer["detail"], headers=retry)
        return answer

    def close(self) -> None:
        super().close()
        for helper in self._helpers:
            helper.end()


@dataclass
class _Kept:
    """A cached result, its size, until when it is kept, and when it was last used."""

    value: Any
    size: int
    until: float
    used: float


@dataclass
class _InProgress:
    """A result that is being computed, and how many requests wait for it."""

    future: "Future[Any]"
    waiting: int = 0


class ResultCache:
    """Recent results by key. If the same result is requested twice at once, it is computed only once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, _Kept] = OrderedDict()
        self._in_progress: dict[Hashable, _InProgress] = {}
        self._bytes = 0
        self._folder: Path | None = None
        self._number = 0

    def new_file(self) -> Path:
        """A path for a new result, in a folder that only this service can read."""
        with self._lock:
            if self._folder is None:
                self._folder = Path(tempfile.mkdtemp(prefix="crowdfield-"))
            self._number += 1
            return self._folder / str(self._number)

    def cached(self, key: Hashable) -> Any:
        with self._lock:
            kept = self._kept.get(key)
            if kept is None or time.monotonic() > kept.until:
                return None
            kept.used = time.monotonic()
            self._kept.move_to_end(key)
            return kept.value

    async def get(self, key: Hashable, pool: Pool, make: Callable[[], T], *, seconds: float = KEPT_SECONDS) -> T:
        """The result of `make`, computed in `pool` unless it is cached or in progress, and kept for `seconds`."""
        found = self.cached(key)
        if found is not None:
            return found  # type: ignore[no-any-return]
        with self._lock:
            work = self._in_progress.get(key)
        if work is None:
            work = _InProgress(pool.submit(lambda: self._keep(key, make(), seconds)))
            with self._lock:
                self._in_progress[key] = work
            work.future.add_done_callback(lambda _: self._in_progress.pop(key, None))
        work.waiting += 1
        try:
            return await pool.wait(work.future, shared=True)
        finally:
            work.waiting -= 1
            if not work.waiting:
                work.future.cancel()  # no request waits for it; work that has begun is still finished and cached

    def _keep(self, key: Hashable, value: T, seconds: float) -> T:
        now = time.monotonic()
        size = value.size if isinstance(value, Packed) else SMALL_BYTES
        with self._lock:
            if key in self._kept:
                self._drop(key)
            self._clear(size)
            self._kept[key] = _Kept(value, size, now + seconds, now)
            self._bytes += size
        return value

    def clear(self) -> None:
        """Delete expired results."""
        with self._lock:
            self._clear(0)

    def _clear(self, needed: int) -> None:
        now = time.monotonic()
        for key, kept in list(self._kept.items()):
            crowded = self._bytes + needed > KEPT_BYTES or len(self._kept) >= KEPT_COUNT
            if (crowded or now > kept.until) and now - kept.used > IN_USE_SECONDS:
                self._drop(key)

    def _drop(self, key: Hashable) -> None:
        kept = self._kept.pop(key)
        self._bytes -= kept.size
        for path in kept.value.files if isinstance(kept.value, Packed) else ():
            path.unlink(missing_ok=True)  # a response that has the file open can still read it

    def close(self) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
