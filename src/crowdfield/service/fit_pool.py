"""The processes that fits run in: starting them, giving them jobs, reading their results, and killing them.

They are forked from a fork server that has loaded the code of the models once. So a killed process is replaced within
milliseconds, and all of them share the memory of that code.
"""

import json
import logging
import math
import multiprocessing
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any

from crowdfield.service.fitter import PRELOADED, READY, Job, Outcome, serve
from crowdfield.service.settings import Settings

log = logging.getLogger("crowdfield.worker")
# The longest pause between two attempts to start a process, in seconds.
LONGEST_PAUSE = 30.0


@dataclass
class FitProcess:
    """One process, its current job, and the maps of which it has the newest model in memory (`warm`)."""

    process: Any
    connection: Connection
    ready: bool = False
    job: Job | None = None
    began: float = 0.0
    warm: set[str] = field(default_factory=set)

    @property
    def seconds(self) -> float:
        """How long the job has been running."""
        return time.monotonic() - self.began if self.job is not None else 0.0


class FitPool:
    """The processes that fits run in."""

    def __init__(self, settings: Settings):
        self._settings = settings.model_dump_json()
        self._memory = settings.memory_of_a_fit
        self._size = settings.fit_processes
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(PRELOADED)
        self.processes: list[FitProcess] = []
        # A process that ends before it is ready will probably do so again: the pause before the next start grows.
        self._failed_starts = 0
        self._not_before = -math.inf
        self._starting: threading.Thread | None = None
        self._closed = False

    @property
    def size(self) -> int:
        return self._size

    def fill(self) -> None:
        """Start the missing processes in the background: the fork server may still be loading, and the worker must not
        wait for it."""
        missing = len(self.processes) < self._size and time.monotonic() >= self._not_before
        if missing and (self._starting is None or not self._starting.is_alive()):
            self._starting = threading.Thread(target=self._start_missing, name="starting", daemon=True)
            self._starting.start()

    def _start_missing(self) -> None:
        """Start processes until there are enough; try again later if that fails."""
        while len(self.processes) < self._size and not self._closed:
            ours, theirs = self._context.Pipe()
            process = self._context.Process(
                target=serve, args=(theirs, self._settings, self._memory), name="fit", daemon=True
            )
            try:
                process.start()
            except OSError as error:  # no memory, or too many processes
                self._delay(str(error.strerror))
                return
            finally:
                theirs.close()
            self.processes.append(FitProcess(process, ours))

    def _delay(self, why: str) -> None:
        self._failed_starts += 1
        self._not_before = time.monotonic() + min(2.0**self._failed_starts, LONGEST_PAUSE)
        log.error("a fitting process does not start", extra={"why": why, "times": self._failed_starts})

    def idle(self) -> list[FitProcess]:
        """Processes that can take a job, and were alive a moment ago."""
        return [p for p in self.processes if p.job is None and p.ready and p.process.exitcode is None]

    def busy(self) -> list[FitProcess]:
        return [process for process in self.processes if process.job is not None]

    def start(self, process: FitProcess, job: Job) -> None:
        process.job, process.began = job, time.monotonic()
        with suppress(OSError):  # the process has just died, which `finished` will notice
            process.connection.send_bytes(json.dumps(asdict(job)).encode())

    def finished(self, seconds: float) -> Iterator[tuple[Job, Outcome]]:
        """The jobs that ended, after waiting up to `seconds` for the first; processes that died are replaced."""
        watched = {p.connection: p for p in self.processes} | {p.process.sentinel: p for p in self.processes}
        ready = {id(p): p for p in (watched[w] for w in wait(list(watched), seconds))}
        for process in ready.values():
            said = self._next_message(process)
            if said == READY:
                process.ready, self._failed_starts = True, 0
                continue
            job, process.job = process.job, None
            outcome = crashed(self._remove_dead(process)) if said is None else Outcome(**json.loads(said))
            if job is not None:
                self._remember(process, job, outcome)
                yield job, outcome
        self.fill()

    def _remember(self, process: FitProcess, job: Job, outcome: Outcome) -> None:
        """Which processes have the newest model of the map in memory now."""
        if outcome.result in ("lost", "failed"):
            process.warm.discard(job.situation)  # it has dropped the map
            return
        process.warm.add(job.situation)
        if outcome.result != "overtaken":  # else there is no newer model
            for other in self.processes:
                if other is not process:
                    other.warm.discard(job.situation)

    def _remove_dead(self, process: FitProcess) -> int | None:
        code = self._end(process)
        if not process.ready:
            self._delay(f"it ended with status {code}")
        return code

    def kill(self, process: FitProcess) -> Job | None:
        """Kill a process and replace it; returns the job that it worked on."""
        self._end(process)
        self.fill()
        return process.job

    def close(self) -> None:
        self._closed = True
        for process in list(self.processes):
            self._end(process)

    def _next_message(self, process: FitProcess) -> bytes | None:
        """The next message of a process; None if it has ended."""
        with suppress(OSError, EOFError):
            if process.connection.poll():
                return process.connection.recv_bytes()
        return None

    def _end(self, process: FitProcess) -> int | None:
        """How the process ended: an exit code, or the number of a signal below zero."""
        self.processes.remove(process)
        if process.process.is_alive():
            process.process.kill()
        process.process.join()
        process.connection.close()
        code: int | None = process.process.exitcode
        process.process.close()
        return code


def crashed(code: int | None) -> Outcome:
    """The outcome of a fit whose process ended unexpectedly."""
    if code == -signal.SIGKILL:
        how = "was killed by the system, most likely because memory ran out"
    elif code is not None and code < 0:
        how = f"crashed ({signal.Signals(-code).name})"
    else:
        how = f"ended unexpectedly (status {code})"
    return Outcome("failed", cause="crash", message=f"The process that fitted this map {how}.")
