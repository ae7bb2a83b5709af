"""`GET /metrics`: how the service and its jobs are, in Prometheus' text format or in OpenMetrics.

Everything is read when it is asked for, in one snapshot. What grows with the number of jobs is bounded: only jobs that
run have series of their own, and the `LAST_ENDED` that ended last, so that a scrape also sees how a short job ended;
of each, at most `MOST_LINKS` links. Several servers of one database answer the same about jobs; requests and telemetry
are each server's own.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    InfoMetricFamily,
    Metric,
)
from sqlalchemy import func, make_url, select
from sqlalchemy.orm import Session

from backend.db import Database, models
from backend.figures import link_bytes
from backend.figures.source import Source
from backend.lifecycle import ENDED, State
from backend.schemas.jobs import JobSummary
from backend.services.context import Context
from backend.services.inventory import Inventory
from backend.services.stored import spec_of
from backend.services.views import Views
from backend.version import program_version
from engine.errors import UserError
from engine.telemetry.definitions import exposed_share, link_utilization
from engine.telemetry.events import BIN_NS, LEVEL_FACTOR, LEVELS, Direction
from engine.telemetry.recorder import TRANSPORT

LAST_ENDED = 20
"""Jobs that have ended and still have series."""
MOST_RUNNING = 1_000
"""Jobs that run and have series: the newest."""
MOST_LINKS = 32
"""Links of one job."""
NEWEST_LEVEL = 3
"""Utilization is that of the newest whole bin of 5.12 s; of a job that is younger, of a finer level's."""
DIRECTIONS = {Direction.TX: "send", Direction.RX: "receive"}
JOB = ("job", "name", "strategy")
"""Labels of what is said of one job."""


def scrape(context: Context, accept: str) -> tuple[bytes, str]:
    """The text, and its media type by what the client accepts."""
    own = CollectorRegistry()
    own.register(Collected(context.database, context.inventory, context.views))
    encode, media_type = choose_encoder(accept)
    # Both end with a line of OpenMetrics' that says so: the collectors are read as one.
    both = CollectorRegistry()
    both.register(_Both(own, context.measures.registry))
    return encode(both), media_type


class _Both:
    """Several registries as one collector."""

    def __init__(self, *registries: CollectorRegistry) -> None:
        self._registries = registries

    def collect(self) -> Iterator[Metric]:
        for registry in self._registries:
            yield from registry.collect()


class Collected:
    """What the database says, as a collector."""

    def __init__(self, database: Database, inventory: Inventory, views: Views) -> None:
        self._database = database
        self._inventory = inventory
        self._views = views

    def describe(self) -> Iterable[Metric]:
        """Nothing: registering would otherwise read everything once."""
        return ()

    def collect(self) -> Iterator[Metric]:
        yield InfoMetricFamily(
            "trainyard_build",
            "This server's program",
            value={
                "version": program_version(),
                "python": platform.python_version(),
                "database": make_url(self._database.url).get_backend_name(),
            },
        )
        yield self._devices()
        with self._database.read() as session:
            yield _by_state(session)
            yield from _queue(session)
            yield _races(session)
            yield from self._jobs(session)

    def _devices(self) -> Metric:
        found = GaugeMetricFamily("trainyard_devices", "Devices of this server", labels=("kind", "state"))
        counts: dict[tuple[str, str], int] = {}
        for device in self._inventory.devices():
            for state in ("free", "held"):
                counts.setdefault((device.kind, state), 0)
            counts[device.kind, "held" if device.job_id else "free"] += 1
        for labels, count in sorted(counts.items()):
            found.add_metric(labels, count)
        return found

    def _jobs(self, session: Session) -> Iterator[Metric]:
        info = InfoMetricFamily("trainyard_job", "A job, and how it stands", labels=(*JOB,))
        gauges = {
            name: GaugeMetricFamily(f"trainyard_job_{name}", text, labels=JOB)
            for name, text in (
                ("steps", "Steps that every worker has finished"),
                ("samples_per_second", "Throughput over the newest window of steps, warm-up left out"),
                ("iteration_seconds", "Median iteration time of the slowest worker over that window"),
                ("exposed_ratio", "Exposed communication as a share of the iteration, 0 to 1"),
                ("loss", "Training loss of the last step"),
                ("test_accuracy", "Last measured share of the test data, 0 to 1"),
                ("speed_up", "Throughput over the baseline's, as it was stored last"),
            )
        }
        utilization = GaugeMetricFamily(
            "trainyard_job_link_utilization_ratio",
            "Share of a link's rate that was used in the newest whole bin of time, 1 is full",
            labels=(*JOB, "link", "direction"),
        )
        moved = CounterMetricFamily(
            "trainyard_job_link_bytes",
            "Bytes over a link in all attempts",
            labels=(*JOB, "link", "direction"),
        )
        wire = CounterMetricFamily(
            "trainyard_job_wire_bytes", "Bytes that the job's processes sent, in all attempts", labels=JOB
        )
        for job in _shown(session):
            try:
                spec_of(job)
            except UserError:  # another version stored it: the list of jobs says what cannot be read
                continue
            row = self._views.summary(session, job)
            labels = [row.id, row.name, row.strategy]
            info.add_metric(labels, {"state": row.state, "model": row.model, "workers": str(row.workers)})
            for name, value in _values(row, self._views.of(session, job).exposed_ns).items():
                if value is not None:
                    gauges[name].add_metric(labels, value)
            links = _Links(session, job)
            wire.add_metric(labels, links.sent())
            for link, way, total in links.totals():
                moved.add_metric([*labels, link, way], total)
            if job.state not in ENDED:
                for link, way, used in links.utilization():
                    utilization.add_metric([*labels, link, way], used)
        yield info
        yield from gauges.values()
        yield from (utilization, moved, wire)


def _by_state(session: Session) -> Metric:
    found = GaugeMetricFamily("trainyard_jobs", "Jobs by the state that they are in", labels=("state",))
    query = select(models.Job.state, func.count()).group_by(models.Job.state)
    counts = dict(session.execute(query).all())
    for state in State:
        if state != State.PREEMPTED:  # of attempts alone
            found.add_metric([state], counts.get(state, 0))
    return found


def _queue(session: Session) -> Iterator[Metric]:
    job = models.Job
    waiting = job.state == State.QUEUED
    by_reason = GaugeMetricFamily(
        "trainyard_queue_jobs", "Jobs that wait, by the code of what they wait for", labels=("reason",)
    )
    query = select(job.reason, func.count()).where(waiting).group_by(job.reason)
    for reason, count in session.execute(query):
        by_reason.add_metric([reason or ""], count)
    yield by_reason
    since = session.scalar(
        select(func.min(func.coalesce(job.queued_unix_ns, job.created_unix_ns))).where(waiting)
    )
    yield GaugeMetricFamily(
        "trainyard_queue_oldest_seconds",
        "For how long the job that waits longest has waited; 0 where none waits",
        value=0.0 if since is None else max(0.0, (time.time_ns() - int(since)) / 1e9),
    )


def _races(session: Session) -> Metric:
    found = GaugeMetricFamily("trainyard_races", "Races by the state that they are in", labels=("state",))
    query = select(models.Race.state, func.count()).group_by(models.Race.state)
    for state, count in session.execute(query):
        found.add_metric([state], count)
    return found


def _shown(session: Session) -> list[models.Job]:
    """The jobs that have series of their own."""
    job = models.Job
    going = job.state.not_in([*ENDED, State.QUEUED])
    running = session.scalars(select(job).where(going).order_by(job.id.desc()).limit(MOST_RUNNING)).all()
    ended = select(job).where(job.state.in_(ENDED), job.started_unix_ns.is_not(None))
    return [*running, *session.scalars(ended.order_by(job.ended_unix_ns.desc(), job.id).limit(LAST_ENDED))]


def _values(row: JobSummary, exposed_ns: float | None) -> dict[str, float | None]:
    iteration_s = None if row.iteration_ms is None else row.iteration_ms / 1e3
    share = None if exposed_ns is None or not iteration_s else exposed_share(exposed_ns, iteration_s * 1e9)
    return {
        "steps": row.step or 0,
        "samples_per_second": row.samples_per_s,
        "iteration_seconds": iteration_s,
        "exposed_ratio": share,
        "loss": row.loss,
        "test_accuracy": row.test_accuracy,
        "speed_up": row.speed_up,
    }


class _Links:
    """What a job's links moved: sums of the coarsest bins, of which there are few."""

    def __init__(self, session: Session, job: models.Job) -> None:
        attempts = session.scalars(
            select(models.Attempt).where(models.Attempt.job_id == job.id).order_by(models.Attempt.number)
        ).all()
        self._source = Source(session, job.id) if attempts else None
        self._sums: dict[tuple[int, str, int], int] = {}
        self._parties = list(attempts[-1].parties) if attempts else []
        coarse = models.LinkBin
        by_layer = (coarse.attempt_id, coarse.party, coarse.interface, coarse.direction)
        everything = func.sum(coarse.bytes).filter(coarse.layer < -1)
        layers = func.sum(coarse.bytes).filter(coarse.layer >= -1)
        query = select(*by_layer, everything, layers).where(
            coarse.attempt_id.in_([one.id for one in attempts]), coarse.level == LEVELS - 1
        )
        for _, party, interface, direction, counted, told in session.execute(query.group_by(*by_layer)):
            key = (party, interface, direction)
            # As `figures/link_bytes.py`: what the interface counted, or the layers' own bytes where these are more.
            self._sums[key] = self._sums.get(key, 0) + max(int(counted or 0), int(told or 0))

    def sent(self) -> int:
        """Bytes that all processes sent: by their own transports; else, as with a backend's own connections, by the
        interfaces."""
        by_transport = [
            size for (_, name, way), size in self._sums.items() if name == TRANSPORT and way == Direction.TX
        ]
        others = [size for (_, _, way), size in self._sums.items() if way == Direction.TX]
        return sum(by_transport or others)

    def totals(self) -> Iterator[tuple[str, str, int]]:
        """(link, direction, bytes)."""
        shown = sorted(self._sums)[: 2 * MOST_LINKS]
        for party, interface, direction in shown:
            total = self._sums[party, interface, direction]
            yield self._name(party, interface), DIRECTIONS[Direction(direction)], total

    def utilization(self) -> Iterator[tuple[str, str, float]]:
        """(link, direction, share) of the links whose rate is known."""
        if self._source is None:
            return
        for link in self._source.links()[:MOST_LINKS]:
            level, last = self._newest_whole(link)
            if link.rate is None or last is None:
                continue
            wide = BIN_NS * LEVEL_FACTOR**level
            found = link_bytes.read_links(self._source, [link], level, (last, last))
            totals = {one.direction: one.total for one in found}
            for direction, name in DIRECTIONS.items():
                share = link_utilization(totals[direction], wide, link.rate) if direction in totals else None
                yield self._name(link.party, link.interface), name, 0.0 if share is None else float(share[0])

    def _newest_whole(self, link: link_bytes.LinkFacts) -> tuple[int, int | None]:
        """The level, and the last bin of it that is over; None where none is."""
        assert self._source is not None
        for level in range(NEWEST_LEVEL, -1, -1):
            bins = self._source.bin_range(link, level)
            if bins is not None and bins[1] > bins[0]:
                return level, bins[1] - 1
        return 0, None

    def _name(self, party: int, interface: str) -> str:
        """As people read it: `worker 0 transport`."""
        known = 0 <= party < len(self._parties)
        return f"{self._parties[party] if known else party} {interface}"
