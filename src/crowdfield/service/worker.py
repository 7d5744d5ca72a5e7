"""The inference worker: it turns logs into numbered map versions, and is fair to all maps.

It finds situations whose log has entries that their newest version does not include, and gives each to one of a few
fitting processes (see `fitter`). Maps take turns: the one served longest ago is next. One process is reserved for quick
fits, so that a large map does not delay the others. A fit has a deadline and a memory limit; a map that exceeds them is
fitted more coarsely, and says so. If a fit fails, the last good version stays, the failure is counted and reported, and
the map waits a while before the next attempt; other maps do not.
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
from crowdfield.service.fitter import CAN_WAIT, Job, Outcome
from crowdfield.service.lease import Leases
from crowdfield.service.schedule import LIMITS, QUICK_SECONDS, Schedule, Turn
from crowdfield.service.settings import Settings
from crowdfield.service.store import Store

log = logging.getLogger("crowdfield.worker")
# How many heartbeats there are within the time after which others take over the leases of a silent worker.
BEATS_PER_LEASE = 4
# Pause before a database that did not answer is asked again.
RETRY_SECONDS = 1.0


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
        """Find maps that need a fit, start fits and take in their results until told to stop."""
        log.info("worker started", extra={"holder": self.holder, "processes": self.pool.size})
        self.pool.fill()
        alerts = threading.Thread(target=Courier(self.settings).run, args=(self.stop,), name="alerts", daemon=True)
        alerts.start()
        while not self.stop.is_set():
            try:
                self.poll()
            except SQLAlchemyError as error:
                log.error("the database did not answer", extra={"error": type(error).__name__})
                self.stop.wait(RETRY_SECONDS)
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

    def poll(self) -> bool:
        """Check all maps once and start the fits that are due; whether any was started."""
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
                self.schedule.held_elsewhere(turn.situation)
                continue
            self.schedule.started(turn)
            self.pool.start(process, self._job(turn))
            started = True
        self.leases.release(*self.schedule.to_release(running))
        return started

    def conclude(self, seconds: float) -> None:
        """Wait up to `seconds` for fits to end, and record their outcomes."""
        for job, outcome in self.pool.finished(seconds):
            self._conclude(job, outcome)

    def _job(self, turn: Turn) -> Job:
        return Job(turn.situation, self.holder, turn.task, turn.level, self.settings.fit_seconds)

    # Who gets a process

    def _process_for(self, turn: Turn) -> FitProcess | None:
        """An idle process, or None if the last one is reserved for quick fits.

        News go to one that has the map in memory; a fit that can wait to another, so that news need not wait for it.
        """
        idle = self.pool.idle()
        if turn.slow and sum(map(self._slow, self.pool.busy())) >= self.pool.size - 1:
            return None
        if not idle and not turn.slow:
            idle = self._make_room()
        can_wait = turn.task in CAN_WAIT
        return min(idle, key=lambda p: ((turn.situation in p.warm) == can_wait, len(p.warm)), default=None)

    def _slow(self, process: FitProcess) -> bool:
        job = process.job
        return job is not None and (self.schedule.is_slow(job) or process.seconds > QUICK_SECONDS)

    def _make_room(self) -> list[FitProcess]:
        """If every process runs a long fit, kill one that was expected to be quick, or that can wait."""
        busy = self.pool.busy()
        if len(busy) < self.pool.size or not all(map(self._slow, busy)):
            return []  # a process is starting, or will be free in a moment
        candidates = [p for p in busy if p.job is not None and (p.job.can_wait or not self.schedule.is_slow(p.job))]
        if not candidates:
            return []
        # The least work is lost with a fit that can wait, or that began last.
        process = min(candidates, key=lambda p: (not p.job.can_wait, p.seconds) if p.job else (True, 0.0))
        self._interrupt(process)
        return []  # the new process will be ready in a moment

    def _interrupt(self, process: FitProcess) -> None:
        job = self.pool.kill(process)
        if job is not None:
            log.info("a fit was stopped for a more urgent one", extra={"situation": job.situation, "task": job.task})
            self.schedule.interrupted(job)

    # Deadlines

    def _enforce(self) -> None:
        """Kill fits that are past their deadline, and those that new reports have made useless."""
        for process in self.pool.busy():
            job = process.job
            if job is None:
                continue
            if process.seconds > job.seconds:
                self.pool.kill(process)
                words = f"The fit did not finish within {job.seconds:g} s."
                self._conclude(job, Outcome("failed", cause="time", message=words, seconds=job.seconds))
            elif job.can_wait and self.schedule.behind(job.situation):
                elsewhere = any(job.situation in p.warm for p in self.pool.idle())
                if elsewhere or process.seconds > QUICK_SECONDS:
                    self._interrupt(process)

    def _conclude(self, job: Job, outcome: Outcome) -> None:
        """Take in the outcome of a fit; a failure is logged, shown on the map, and tried again with fewer reports."""
        if outcome.result != "failed":
            self.schedule.ended(job, outcome)
            return
        level = self.schedule.failed(job, outcome)
        if level > job.level:
            outcome = replace(outcome, message=f"{outcome.message} It will be tried again with fewer reports.")
        log.error(
            "a fit failed",
            extra={"situation": job.situation, "task": job.task, "cause": outcome.cause, "seconds": outcome.seconds},
        )
        # If only an improvement exceeds the limits of a fit, the published map is good and does not count as failing.
        extra = job.task != "news" and outcome.cause in LIMITS
        try:
            if extra:
                self.store.count_failure(job.situation)
            else:
                self.store.record_failure(job.situation, outcome.message)
        except SQLAlchemyError as error:
            log.error("a failure could not be stored", extra={"error": type(error).__name__})

    def _beat(self) -> None:
        """Show that this worker is alive. Not in a thread of its own: if this loop hangs, the heartbeat must stop."""
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
        # If the server is killed, its end of the pipe closes.
        def watch() -> None:
            # Not through `sys.stdin`, whose lock would delay the end of the process.
            while os.read(0, 1024):
                continue
            worker.stop.set()
            time.sleep(10)
            os._exit(1)  # the database does not answer; nothing is lost by ending now

        threading.Thread(target=watch, daemon=True).start()
    worker.run()


if __name__ == "__main__":
    main()
