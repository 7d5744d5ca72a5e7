"""The inference worker: a process of its own that turns the log into numbered map versions.

It looks for situations whose log is ahead of their newest map, takes the lease on one, waits a moment so that a burst
is fitted once, fits with a warm start, and publishes. When the log rests, the map is fitted once more from the log
alone, so that it does not depend on how the reports came in. If a fit fails, the last good map stays and the failure
is told.
"""

import argparse
import logging
import os
import signal
import socket
import threading
import time
from uuid import uuid4

import numpy as np
from sqlalchemy.exc import SQLAlchemyError

from crowdfield.errors import CrowdfieldError
from crowdfield.service import lease, logs
from crowdfield.service.configuration import load
from crowdfield.service.database import connect
from crowdfield.service.fit import Previous, fit_map, load_model, rested_map
from crowdfield.service.journal import Ledger
from crowdfield.service.maps import unpack
from crowdfield.service.settings import Settings
from crowdfield.service.store import Published, Situation, Store, VersionInfo

log = logging.getLogger("crowdfield.worker")
# A change of probability below this is not worth a version of its own.
VISIBLE = 0.005


class Worker:
    def __init__(self, settings: Settings):
        self.settings = settings
        self.engine = connect(settings.database, pool_size=2)
        self.store = Store(self.engine)
        self.holder = f"{socket.gethostname()[:40]}-{os.getpid()}-{uuid4().hex[:8]}"
        self.stop = threading.Event()
        self._ledgers: dict[str, Ledger] = {}
        self._models: dict[str, Previous] = {}
        # A fit that failed is not tried again until there is something new to fit.
        self._failed_at: dict[str, int] = {}

    def run(self) -> None:
        log.info("worker started", extra={"holder": self.holder})
        while not self.stop.is_set():
            try:
                busy = self.look()
            except SQLAlchemyError as error:
                log.error("the database did not answer", extra={"error": type(error).__name__})
                self.stop.wait(2.0)
                continue
            if not busy:
                self.stop.wait(self.settings.poll_seconds)
        for name in self._ledgers:
            lease.release(self.engine, name, self.holder)
        self.engine.dispose()
        log.info("worker stopped")

    def look(self) -> bool:
        """One round over all situations; whether anything was fitted."""
        busy = False
        for situation in self.store.situations():
            if self.stop.is_set():
                break
            newest = self.store.version(situation.id)
            behind = situation.head > (newest.head if newest else 0)
            held = self._models.get(situation.id)
            settling = held is not None and held.model is not None and not held.model.converged_
            resting = not (behind or settling) and newest is not None and self._due_to_rest(newest)
            if not (behind or settling or resting) or self._failed_at.get(situation.id) == situation.head:
                continue
            if not lease.acquire(self.engine, situation.id, self.holder, self.settings.lease_seconds):
                self._ledgers.pop(situation.id, None)
                self._models.pop(situation.id, None)
                continue
            if behind:
                self.stop.wait(self.settings.coalesce_seconds)
            self.renew(situation, resting=resting)
            busy = True
        return busy

    def _due_to_rest(self, newest: VersionInfo) -> bool:
        rested = newest.info.get("rested") or newest.reports >= self.settings.distribute_above
        return not rested and time.time() - newest.created >= self.settings.rest_seconds

    def renew(self, situation: Situation, *, resting: bool = False) -> int | None:
        """Fit what the log holds now and publish it; the number of the new version."""
        ledger = self._ledgers.setdefault(situation.id, Ledger(situation.id))
        with lease.Keeping(self.engine, situation.id, self.holder, self.settings.lease_seconds):
            ledger.follow(self.engine)
            try:
                made = (
                    rested_map(situation, ledger, lambda: self._overtaken(ledger))
                    if resting
                    else fit_map(situation, ledger, self._previous(situation, ledger), self._scheduler(ledger))
                )
            except (CrowdfieldError, ArithmeticError, MemoryError, ValueError, RuntimeError, ImportError) as error:
                # Whatever the numerics raise must not take the service down: it is told, and the last good map stays.
                log.exception("a fit failed", extra={"situation": situation.id})
                self._failed_at[situation.id] = ledger.head
                self._models.pop(situation.id, None)
                self.store.fail(situation.id, f"{type(error).__name__}: {error}"[:500])
                return None
            if made is None:
                return None  # something new came in: that is more urgent
            published, model = made
            if not self._news(situation, ledger, published):
                if resting:
                    self._note_rest(situation)
                self._models[situation.id] = Previous(ledger.head, model)
                return None
            number = self.store.publish(situation.id, published, holder=self.holder, keep=self.settings.keep_versions)
        if number is None:
            log.warning("the lease was lost during a fit", extra={"situation": situation.id})
            self._ledgers.pop(situation.id, None)
            return None
        ledger.settle()
        self._models[situation.id] = Previous(ledger.head, model)
        log.info(
            "map published",
            extra={
                "situation": situation.id, "version": number, "reports": published.reports,
                "seconds": round(published.seconds, 3),
            },
        )  # fmt: skip
        return number

    def _overtaken(self, ledger: Ledger) -> bool:
        return self.stop.is_set() or self.store.situation(ledger.situation).head > ledger.head

    def _note_rest(self, situation: Situation) -> None:
        newest = self.store.version(situation.id)
        if newest is not None:
            self.store.rested(situation.id, newest.number)

    def _scheduler(self, ledger: Ledger) -> str | None:
        """The Dask cluster for a map past the size limit; None fits it here."""
        large = len(ledger.reports) >= self.settings.distribute_above
        return self.settings.dask_scheduler if large else None

    def _news(self, situation: Situation, ledger: Ledger, made: Published) -> bool:
        """Whether a map says what the newest version does not: more reports, or visibly other probabilities."""
        newest = self.store.version(situation.id)
        if newest is None or newest.head != ledger.head:
            return True
        before = unpack(self.store.blob(situation.id, newest.number, "arrays"))["probability"]
        return bool(np.nanmax(np.abs(unpack(made.arrays)["probability"] - before)) > VISIBLE)

    def _previous(self, situation: Situation, ledger: Ledger) -> Previous | None:
        """The model to go on from; none where something was taken away that a warm start would remember."""
        if ledger.shrunk:
            return None
        held = self._models.get(situation.id)
        if held is not None:
            return held
        stored = self.store.model(situation.id)
        return None if stored is None else Previous(stored[1], load_model(stored[2]))


def main(arguments: list[str] | None = None) -> None:
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
            time.sleep(60)
            os._exit(1)  # a fit that takes longer than this is not worth waiting for

        threading.Thread(target=watch, daemon=True).start()
    worker.run()


if __name__ == "__main__":
    main()
