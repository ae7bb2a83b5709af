"""What this server counts of itself while it runs, for `GET /metrics`: the requests that it answered and the telemetry
that it stored. What is in the database is not counted here: `scrape.py` reads it when somebody asks.

Counters begin at zero with every start of the server, as Prometheus expects.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Histogram

ANSWER_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.3, 1.0, 3.0, 10.0, 60.0)
LAG_S = (0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0)


class Measures:
    """Of one server; safe to use from many threads."""

    def __init__(self) -> None:
        # A registry of its own: the library's default one is the process's, which may hold several servers in tests.
        self.registry = CollectorRegistry()
        self._answers = Counter(
            "trainyard_http_requests",
            "Requests that this server answered. `operation`: its id in the API's document, `page` for files of the "
            "page, `none` where there is no such address",
            ("operation", "status"),
            registry=self.registry,
        )
        self._answering = Histogram(
            "trainyard_http_request_duration_seconds",
            "From a request's head until the head of its answer",
            ("operation",),
            buckets=ANSWER_S,
            registry=self.registry,
        )
        self._batches = Counter(
            "trainyard_ingest_batches",
            "Batches of telemetry that this server stored",
            registry=self.registry,
        )
        self._events = Counter(
            "trainyard_ingest_events",
            "Detailed events in the batches that this server stored",
            registry=self.registry,
        )
        self._lag = Histogram(
            "trainyard_ingest_lag_seconds",
            "From the newest time in a batch, by its job's clock, until the batch was stored",
            buckets=LAG_S,
            registry=self.registry,
        )

    def answered(self, operation: str, status: int, seconds: float) -> None:
        """A request was answered."""
        self._answers.labels(operation, str(status)).inc()
        self._answering.labels(operation).observe(seconds)

    def stored(self, events: int, lag_s: float | None) -> None:
        """A batch was stored that had not been there. `lag_s`: None where its attempt has no clock yet."""
        self._batches.inc()
        self._events.inc(events)
        if lag_s is not None:
            self._lag.observe(max(lag_s, 0.0))
