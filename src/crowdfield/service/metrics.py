"""Prometheus metrics of one server; each app has its own registry, so that tests and servers do not mix."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram


class Metrics:
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
        self.streams = of(Gauge, "event_streams", "Connected event streams")
        self.version = of(Gauge, "map_version", "Number of the newest map", "situation")
        self.fit_seconds = of(Gauge, "map_fit_seconds", "Time that the newest map took to fit", "situation")
        self.behind = of(Gauge, "map_behind_entries", "Log entries that the newest map has not seen", "situation")
        self.failures = of(Gauge, "map_fit_failures", "Fits of this map that have failed so far", "situation")
        self.failed = of(Gauge, "map_fit_failed", "1 while the last fit failed", "situation")
        self.worker = of(Gauge, "worker_up", "1 while the worker beside this server runs")
