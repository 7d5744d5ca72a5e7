"""Prometheus metrics of one server; each app has its own registry, so that tests and servers do not mix."""

import threading
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

if TYPE_CHECKING:
    from crowdfield.service.health import Health, MapFacts


class Metrics:
    """The metrics of one server."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()

        def of(kind: type, name: str, what: str, *labels: str, **options: object):  # type: ignore[no-untyped-def]
            return kind(f"crowdfield_{name}", what, labels, registry=self.registry, **options)

        self.requests = of(Counter, "requests", "Requests answered", "method", "route", "status")
        self.seconds = of(
            Histogram, "request_seconds", "Time to answer", "route",
            buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10),
        )  # fmt: skip
        self.reports = of(Counter, "reports", "Reports received", "outcome")
        self.commits = of(Gauge, "journal_commits", "Transactions that made reports durable")
        self.committed = of(Gauge, "journal_entries", "Entries made durable in those transactions")
        self.pool_work = of(Gauge, "pool_work", "Tasks that are running or queued", "pool")
        self.pool_refused = of(Gauge, "pool_refused", "Requests that a pool refused or timed out", "pool")
        self.loop_lag = of(Gauge, "lag_seconds", "The lag of the server's event loop")
        self.streams = of(Gauge, "event_streams", "Connected event streams")
        self.version = of(Gauge, "map_version", "Number of the newest map", "situation")
        self.fit_seconds = of(Gauge, "map_fit_seconds", "Time that the newest map took to fit", "situation")
        self.behind = of(Gauge, "map_behind_entries", "Log entries that the newest map does not include", "situation")
        self.failures = of(Gauge, "map_fit_failures", "Fits of this map that have failed so far", "situation")
        self.failed = of(Gauge, "map_fit_failed", "1 while the last fit failed", "situation")
        self.worker = of(Gauge, "worker_up", "1 while a worker of this database is alive, by its heartbeat")
        self.fits = of(Gauge, "worker_fits", "Fits that run now")
        self.up = of(Gauge, "intake_up", "1 while reports are stored")
        self.status = of(Gauge, "health", "1 while this check succeeds; see the runbook", "check")
        self.checked = of(Gauge, "health_looked_timestamp_seconds", "When health was checked last")
        self.check_seconds = of(Gauge, "health_look_seconds", "How long the last check of health took")
        self.write_seconds = of(Gauge, "database_write_seconds", "Time to write a heartbeat durably")
        self.free = of(Gauge, "disk_free_bytes", "Free space on the disks that the service writes to", "folder")
        self.lag = of(Gauge, "journal_lag_seconds", "How long the oldest report has waited to be stored")
        self.waiting = of(Gauge, "journal_waiting", "Requests whose reports are not stored yet")
        self.unfitted = of(
            Gauge, "map_oldest_unfitted_seconds", "How long the oldest entry has waited for a fit", "situation"
        )
        self.last_failure = of(Gauge, "map_last_failure_timestamp_seconds", "When a fit failed last", "situation")
        self.file_peak = of(Gauge, "file_peak_bytes", "The most memory that a process has used to read a file")
        self.file_seconds = of(
            Histogram, "file_seconds", "Time to read a file", buckets=(0.5, 1, 2, 4, 8, 12, 16, 20, 40)
        )
        self._by_map = (
            self.version, self.fit_seconds, self.behind, self.failures, self.failed, self.unfitted, self.last_failure
        )  # fmt: skip
        self._lock = threading.Lock()

    def health(self, found: "Health", seconds: float) -> None:
        """Record the results of a health check."""
        detail = {name: check.detail for name, check in found.checks.items()}
        self.up.set(found.intake)
        self.checked.set(time.time())
        self.check_seconds.set(seconds)
        for name, check in found.checks.items():
            self.status.labels(name).set(check.ok)
        self.write_seconds.set(detail["database"].get("write_seconds", float("nan")))
        self.lag.set(detail["journal"]["lag_seconds"])
        self.waiting.set(detail["journal"]["waiting"])
        for folder, free in detail["disk"]["free_bytes"].items():
            self.free.labels(folder).set(free)
        self.worker.set(detail["worker"].get("alive", 0) > 0)
        self.fits.set(len(detail["worker"].get("fits", [])))

    def maps(self, rows: "Iterable[MapFacts]") -> None:
        """Record the facts about every map; metrics of removed maps disappear."""
        with self._lock:
            for gauge in self._by_map:
                gauge.clear()
            for row in rows:
                self.version.labels(row.name).set(row.number)
                self.fit_seconds.labels(row.name).set(row.seconds)
                self.behind.labels(row.name).set(row.behind)
                self.failures.labels(row.name).set(row.failures)
                self.failed.labels(row.name).set(row.failed is not None)
                self.unfitted.labels(row.name).set(row.oldest_unfitted)
                if row.failed is not None:
                    self.last_failure.labels(row.name).set(row.failed)

    def text(self) -> bytes:
        with self._lock:
            return generate_latest(self.registry)
