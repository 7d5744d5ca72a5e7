"""The inference worker: turns logs into numbered map versions, fairly.

It looks for situations whose log is ahead of their newest map and hands each to one of a few fitting processes (see
`fitter`). Maps take turns: whoever was served longest ago is next. One process is always left to fits that take a
moment, so that no map, however large, keeps the others waiting. A fit has a deadline and a limit on memory; a map that
exceeds them is fitted more coarsely and says so. If a fit fails, the last good map stays, the failure is counted and
told, and the map waits a while before it is tried again; no other map does.
"""

import argparse
import logging
import os
import signal
import socket
import threading
import time
from dataclasses import replace
from uuid import uuid4

from sqlalchemy.exc import SQLAlchemyError

from crowdfield.service import logs, pulse
from crowdfield.service.configuration import load
from crowdfield.service.courier import Courier
from crowdfield.service.database import connect, writing
from crowdfield.service.fit_pool import FitPool, FitProcess
from crowdfield.service.fitter import Job, Outcome
from crowdfield.service.lease import Leases
from crowdfield.service.schedule import LIMITS, QUICK_SECONDS, Schedule, Turn
from crowdfield.service.settings import Settings
from crowdfield.service.store import Store

log = logging.getLogger("crowdfield.worker")
# Others must see several beats within the time after which they take a silent worker's leases.
BEATS_PER_LEASE = 4
# How long a worker waits before it asks a database again that did not answer.
PATIENCE_SECONDS = 1.0


class Worker:
    """Follows the logs of all maps and has them fitted."""

    def __init__(self, settings: Settings, pool: FitPool | None = None):
        self.settings = settings
        self.engine = connect(settings.database, pool_size=2)
        self.store = Store(self.engine)
        self.holder = f"{socket.gethostname()[:20]}-{os.getpid()}-{uuid4().hex[:8]}"
        self.stop = threading.Event()
        self.pool = pool or FitPool(settings)
        self.leases = Leases(self.engine, self.holder, settings.lease_seconds)
        self.schedule = Schedule(settings)
        self._beaten = -float("inf")

    def run(self) -> None:
        log.info("worker started", extra={"holder": self.holder, "processes": self.pool.size})
        self.pool.fill()
        alerts = threading.Thread(target=Courier(self.settings).run, args=(self.stop,), name="alerts", daemon=True)
        alerts.start()
        while not self.stop.is_set():
            try:
                self.look()
            except SQLAlchemyError as error:
                log.error("the database did not answer", extra={"error": type(error).__name__})
                self.stop.wait(PATIENCE_SECONDS)
            self.conclude(self.settings.poll_seconds)
        self.close()
        log.info("worker stopped")

    def close(self) -> None:
        self.pool.close()
        try:
            self.leases.release_all()
            pulse.end(self.engine, self.holder)
        except SQLAlchemyError as error:
            log.error("the leases could not be given back", extra={"error": type(error).__name__})
        self.engine.dispose()

    def look(self) -> bool:
        """One round over all maps; whether any fit was started."""
        self._beat()
        self.schedule.update(self.store)
        self._enforce()
        running = {p.job.situation for p in self.pool.busy() if p.job is not None}
        started = False
        for turn in self.schedule.turns(running):
            process = self._process_for(turn)
            if process is None:
                continue
            if not self.leases.acquire(turn.situation):
                self.schedule.elsewhere(turn.situation)
                continue
            self.schedule.started(turn)
            self.pool.start(process, self._job(turn))
            started = True
        self.leases.release(*self.schedule.to_release(running))
        return started

    def conclude(self, seconds: float) -> None:
        """Wait so long for fits to end, and note how they did."""
        for job, outcome in self.pool.finished(seconds):
            self._conclude(job, outcome)

    def _job(self, turn: Turn) -> Job:
        return Job(turn.situation, self.holder, turn.task, turn.level, self.settings.fit_seconds)

    # Who gets a process

    def _process_for(self, turn: Turn) -> FitProcess | None:
        """An idle process, best one that has this map in memory; none if all that is left is kept for quick fits."""
        idle = self.pool.idle()
        if turn.slow and sum(map(self._slow, self.pool.busy())) >= self.pool.size - 1:
            return None
        if not idle and not turn.slow:
            idle = self._make_room()
        return min(idle, key=lambda p: (turn.situation not in p.warm, len(p.warm)), default=None)

    def _slow(self, process: FitProcess) -> bool:
        job = process.job
        return job is not None and (self.schedule.is_slow(job) or process.seconds > QUICK_SECONDS)

    def _make_room(self) -> list[FitProcess]:
        """Where every process is held by a long fit, one that was thought to be quick, or is not urgent, gives way."""
        busy = self.pool.busy()
        if len(busy) < self.pool.size or not all(map(self._slow, busy)):
            return []  # one is starting, or free in a moment
        able = [p for p in busy if p.job is not None and (p.job.patient or not self.schedule.is_slow(p.job))]
        if not able:
            return []
        # The least is lost with one that nobody waits for, or that began last.
        process = min(able, key=lambda p: (not p.job.patient, p.seconds) if p.job else (True, 0.0))
        self._interrupt(process)
        return []  # its successor is ready in a moment

    def _interrupt(self, process: FitProcess) -> None:
        job = self.pool.kill(process)
        if job is not None:
            log.info("a fit gives way to others", extra={"situation": job.situation, "task": job.task})
            self.schedule.interrupted(job)

    # What a fit may not do

    def _enforce(self) -> None:
        """End fits that are past their deadline, and those that nobody needs any more."""
        for process in self.pool.busy():
            job = process.job
            if job is None:
                continue
            if process.seconds > job.seconds:
                self.pool.kill(process)
                words = f"The fit did not finish within {job.seconds:g} s."
                self._conclude(job, Outcome("failed", cause="time", message=words, seconds=job.seconds))
            elif job.patient and process.seconds > QUICK_SECONDS and self.schedule.behind(job.situation):
                self._interrupt(process)

    def _conclude(self, job: Job, outcome: Outcome) -> None:
        if outcome.result != "failed":
            self.schedule.ended(job, outcome)
            return
        level = self.schedule.failed(job, outcome)
        if level > job.level:
            outcome = replace(outcome, message=f"{outcome.message} It is tried again with fewer of its reports.")
        log.error(
            "a map could not be renewed",
            extra={"situation": job.situation, "task": job.task, "cause": outcome.cause, "seconds": outcome.seconds},
        )
        # What makes a map better is not owed: where it needs more than one fit may use, the map that is there is good.
        extra = job.task != "news" and outcome.cause in LIMITS
        try:
            if extra:
                self.store.count_failure(job.situation)
            else:
                self.store.fail(job.situation, outcome.message)
        except SQLAlchemyError as error:
            log.error("a failure could not be noted", extra={"error": type(error).__name__})

    def _beat(self) -> None:
        """Show that this worker is alive. Done here and not by a thread: a loop that hangs must not look alive."""
        now = time.monotonic()
        if now - self._beaten < self.settings.lease_seconds / BEATS_PER_LEASE:
            return
        fits = [
            {"situation": p.job.situation, "task": p.job.task, "seconds": round(p.seconds, 1)}
            for p in self.pool.busy()
            if p.job is not None
        ]
        with writing(self.engine) as connection:
            pulse.beat(connection, self.holder, "worker", {"processes": self.pool.size, "fits": fits})
        self._beaten = now


def main(arguments: list[str] | None = None) -> None:
    """Run a worker until it is stopped."""
    parser = argparse.ArgumentParser(prog="crowdfield worker", description=__doc__)
    parser.add_argument("--with-parent", action="store_true", help="stop when standard input closes")
    options = parser.parse_args(arguments)
    logs.configure()
    worker = Worker(load().settings)

    def stop(*_: object) -> None:
        worker.stop.set()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, signal.SIG_IGN if options.with_parent else stop)
    if options.with_parent:
        # A server that is killed cannot say goodbye; its end of the pipe closes all the same.
        def watch() -> None:
            # Not through `sys.stdin`: its lock would hold up the end of the process.
            while os.read(0, 1024):
                continue
            worker.stop.set()
            time.sleep(10)
            os._exit(1)  # the database does not answer; nothing is lost by not waiting for it

        threading.Thread(target=watch, daemon=True).start()
    worker.run()


if __name__ == "__main__":
    main()
