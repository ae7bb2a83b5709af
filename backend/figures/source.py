"""One job's columns, from the database as NumPy arrays. Nothing here draws; nothing that draws reads tables.

Dtypes: SPAN is an event and the party that recorded it; the others name the columns of their tables. Times
are ns on the attempt's clock, sizes bytes.
"""

from __future__ import annotations

from functools import cached_property, partial
from typing import Any

import numpy as np
from sqlalchemy import ColumnElement, Integer, Select, case, func, literal_column, select
from sqlalchemy.orm import Session

from backend.db.models import Attempt, Batch, Job, Link, LinkBin, Metric, StepRow
from backend.db.models.rollups import STEP_FACTOR
from backend.figures import rolled
from backend.figures.batches import EventCache
from backend.figures.facts import LinkFacts, job_facts, period_of
from engine.telemetry.events import EVENT, Direction, Kind

SPAN = np.dtype([("party", "<i2"), *EVENT.descr])
BIN_ROW = np.dtype([("direction", "u1"), ("layer", "<i2"), ("bin", "<i8"), ("bytes", "<i8")])
PROGRESS_ROW = np.dtype(
    [
        ("step", "<i4"),
        ("end", "<i8"),
        *(
            (name, "<f8")
            for name in (
                "loss",
                "loss_min",
                "loss_max",
                "samples_per_s",
                "iteration",
                "iteration_min",
                "iteration_max",
            )
        ),
    ]
)
"""A group of steps: its last step and end, mean and extremes of loss and iteration time (ns, the slowest
worker's), samples per second over all workers; NaN where not known."""
SHARE_ROW = np.dtype(
    [
        ("party", "<i2"),
        ("step", "<i4"),
        ("start", "<i8"),
        ("end", "<i8"),
        *((name, "<f8") for name in ("compute", "wait", "send", "receive")),
    ]
)
"""One worker's group of steps, from the first one's start to the last one's end: the share (0 to 1, more for
transfers at the same time) of that time that it computed, waited exposed, sent and received."""
METRIC_ROW = np.dtype([("step", "<i4"), ("at", "<i8"), ("value", "<f8")])

_CACHE = EventCache()


class Source:
    """Reads one job's latest attempt. Raises LookupError for a job that does not exist."""

    def __init__(self, session: Session, job_id: str) -> None:
        job = session.get(Job, job_id)
        if job is None:
            raise LookupError(f"job {job_id!r}: no such job. List the jobs for their ids")
        latest = select(Attempt).where(Attempt.job_id == job_id).order_by(Attempt.number.desc()).limit(1)
        self._session = session
        self.job = job_facts(job, session.scalars(latest).first())
        self.attempt = -1 if self.job.attempt is None else self.job.attempt

    def other(self, job_id: str) -> Source:
        """Another job in the same snapshot, e.g. the baseline."""
        return Source(self._session, job_id)

    @cached_property
    def period(self) -> int:
        """See `facts.period_of`."""
        return period_of(self._session, self.job.id)

    def ran_alone(self) -> bool:
        """Whether no other job ran on the machine while this one did."""
        start, end = self.job.started_unix_ns, self.job.ended_unix_ns
        if start is None:
            return True
        meanwhile = (
            select(func.count())
            .select_from(Job)
            .where(
                Job.id != self.job.id,
                Job.started_unix_ns.is_not(None),
                Job.ended_unix_ns.is_(None) | (Job.ended_unix_ns > start),
            )
        )
        if end is not None:
            meanwhile = meanwhile.where(Job.started_unix_ns < end)
        return not self._session.scalar(meanwhile)

    def step_rows(self, first: int = 0, last: int | None = None) -> np.ndarray:
        """STEP_ROW of steps `first` to `last`, by step and party."""
        return rolled.step_rows(self._session, self.attempt, first, last)

    def last_step(self) -> int:
        """The last step that any worker ended; -1 where none did."""
        return rolled.last_step(self._session, self.attempt)

    def trained_until(self) -> int:
        """When the last step ended, in ns; 0 where none did."""
        last = self._session.scalar(
            select(func.max(StepRow.end_ns)).where(StepRow.attempt_id == self.attempt)
        )
        return int(last or 0)

    def trained_from(self) -> int:
        """When the first step began, in ns; 0 where none did."""
        first = self._session.scalar(
            select(func.min(StepRow.start_ns)).where(StepRow.attempt_id == self.attempt)
        )
        return int(first or 0)

    def steps_between(self, from_ns: int, to_ns: int) -> tuple[int, int]:
        """First and last step that overlap a window of time; (0, -1) where none does."""
        first, last = self._session.execute(
            select(func.min(StepRow.step), func.max(StepRow.step)).where(
                StepRow.attempt_id == self.attempt, StepRow.end_ns > from_ns, StepRow.start_ns < to_ns
            )
        ).one()
        return (0, -1) if first is None else (int(first), int(last))

    def waits(self, first: int, last: int, size: int = 1) -> np.ndarray:
        """WAIT_ROW of the steps from `first` to `last` in groups of `size` (1, 8, 64, ...): all workers' exposed wait
        for each layer."""
        return rolled.waits(self._session, self.attempt, first, last, size)

    def waits_for(self, layer: int, first: int, last: int, size: int) -> tuple[np.ndarray, np.ndarray]:
        """The same of one layer: see `rolled.waits_for`."""
        return rolled.waits_for(self._session, self.attempt, layer, first, last, size)

    def exposed_by_layer(self, first: int, last: int) -> dict[int, float]:
        """Mean exposed wait of a worker and step, in ns, over steps `first` to `last`, by layer."""
        each = max(last - first + 1, 1) * max(self.job.workers, 1)
        found = rolled.exposed_by_layer(self._session, self.attempt, first, last)
        return {layer: total / each for layer, total in found.items()}

    def metric(self, name: str) -> np.ndarray:
        """METRIC_ROW of a named metric, by step."""
        query = select(Metric.step, Metric.at_ns, Metric.value).where(
            Metric.attempt_id == self.attempt, Metric.name == name
        )
        return self._rows(query.order_by(Metric.step), METRIC_ROW)

    def links(self) -> list[LinkFacts]:
        """Links that parties reported on, by party and interface."""
        query = select(Link).where(Link.attempt_id == self.attempt).order_by(Link.party, Link.interface)
        return [
            LinkFacts(
                party=link.party,
                interface=link.interface,
                host=link.host,
                rate_bps=link.rate_bps,
                rate_source=link.rate_source,
            )
            for link in self._session.scalars(query)
        ]

    def bins(
        self, link: LinkFacts, level: int, first: int, last: int, direction: Direction | None = None
    ) -> np.ndarray:
        """BIN_ROW of one link at `level`, bins `first` to `last`, in both directions or in one."""
        query = select(LinkBin.direction, LinkBin.layer, LinkBin.bin, LinkBin.bytes).where(
            *self._of(link, level), LinkBin.bin >= first, LinkBin.bin <= last
        )
        if direction is not None:
            query = query.where(LinkBin.direction == direction)
        return self._rows(query, BIN_ROW)

    def count_bins(self, link: LinkFacts, level: int, first: int, last: int, most: int) -> int:
        """How many rows `bins` answers; more than `most` are not counted."""
        within = (*self._of(link, level), LinkBin.bin >= first, LinkBin.bin <= last)
        rows = select(LinkBin.bin).where(*within).limit(most).subquery()
        return self._session.scalar(select(func.count()).select_from(rows)) or 0

    def bin_range(self, link: LinkFacts, level: int) -> tuple[int, int] | None:
        """First and last bin that a link has at `level`; None where it has none."""
        # Two queries: asked for both at once, SQLite reads every row between.
        first, last = (
            self._session.scalar(select(end(LinkBin.bin)).where(*self._of(link, level)))
            for end in (func.min, func.max)
        )
        return None if first is None or last is None else (int(first), int(last))

    def detailed_steps(self) -> np.ndarray:
        """Steps of which every worker kept events, ascending."""
        return rolled.detailed_steps(self._session, self.attempt, self.job.workers)

    def count_events(self, from_ns: int, to_ns: int) -> int:
        """At most so many detailed events lie in a window: those of all batches that touch it."""
        query = select(func.sum(Batch.events)).where(*self._touching(from_ns, to_ns))
        return int(self._session.scalar(query) or 0)

    def spans(self, from_ns: int, to_ns: int) -> np.ndarray:
        """SPAN of every detailed event that overlaps a window of time, by start."""
        query = select(Batch.party, Batch.sequence, Batch.sha256).where(*self._touching(from_ns, to_ns))
        parts = []
        for party, sequence, sha256 in self._session.execute(query):
            events = _CACHE.events(sha256, partial(self._body, party, sequence))
            events = events[(events["end"] > from_ns) & (events["start"] < to_ns)]
            rows = np.empty(len(events), SPAN)
            rows["party"] = party
            for column in EVENT.names or ():
                rows[column] = events[column]
            parts.append(rows)
        spans = np.concatenate([np.empty(0, SPAN), *parts])
        return spans[np.argsort(spans["start"], kind="stable")]

    def track_shares(self, first: int, last: int, stride: int) -> np.ndarray:
        """SHARE_ROW of steps `first` to `last` in groups of `stride`, by party and step."""
        size = rolled.group_size(stride, 1)
        if size > stride:
            size //= STEP_FACTOR  # whole groups of the rollup make up a group of the figure
        stride = -(-stride // size) * size
        first, last = rolled.aligned(first, last, size)
        group = StepRow.step // whole(stride)
        steps = select(
            StepRow.party,
            func.min(StepRow.step),
            func.min(StepRow.start_ns),
            func.max(StepRow.end_ns),
            func.sum(StepRow.compute_ns),
            func.sum(StepRow.exposed_ns),
        ).where(StepRow.attempt_id == self.attempt, StepRow.step >= first, StepRow.step <= last)
        rows = self._session.execute(
            steps.group_by(StepRow.party, group).order_by(StepRow.party, group)
        ).all()
        busy: dict[tuple[int, int, int], int] = {}
        for party, step, kind, ns in rolled.transfers(self._session, self.attempt, first, last, size):
            key = (party, step // stride, kind)
            busy[key] = busy.get(key, 0) + ns
        shares = np.empty(len(rows), SHARE_ROW)
        for i, (party, step, start, end, compute, exposed) in enumerate(rows):
            sent, received = (
                busy.get((party, step // stride, kind), 0) for kind in (Kind.SEND, Kind.RECEIVE)
            )
            length = max(end - start, 1)
            shares[i] = (
                party,
                step,
                start,
                end,
                *(int(x) / length for x in (compute, exposed, sent, received)),
            )
        return shares

    def progress(self, points: int) -> np.ndarray:
        """PROGRESS_ROW of the whole run in at most `points` groups of steps, by step."""
        stride = max(1, -(-(self.last_step() + 1) // points))
        steps = (
            select(
                StepRow.step,
                StepRow.start_ns,
                StepRow.end_ns,
                StepRow.samples,
                StepRow.loss,
                func.lead(StepRow.start_ns)
                .over(partition_by=StepRow.party, order_by=StepRow.step)
                .label("next_ns"),
                func.lead(StepRow.step)
                .over(partition_by=StepRow.party, order_by=StepRow.step)
                .label("next_step"),
            )
            .where(StepRow.attempt_id == self.attempt)
            .subquery()
        )
        of = steps.c
        weight = case((of.loss.is_not(None), of.samples))
        each = (
            select(
                of.step,
                func.max(of.end_ns).label("end_ns"),
                func.sum(of.samples).label("samples"),
                (func.sum(of.loss * of.samples) / func.sum(weight)).label("loss"),
                func.max(case((of.next_step == of.step + 1, of.next_ns - of.start_ns))).label("iteration_ns"),
            )
            .group_by(of.step)
            .subquery()
        )
        of = each.c
        timed = case((of.iteration_ns.is_not(None), of.samples))
        query = select(
            func.max(of.step),
            func.max(of.end_ns),
            func.avg(of.loss),
            func.min(of.loss),
            func.max(of.loss),
            func.sum(timed) * 1e9 / func.sum(of.iteration_ns),
            func.avg(of.iteration_ns),
            func.min(of.iteration_ns),
            func.max(of.iteration_ns),
        ).group_by(of.step // whole(stride))
        return self._rows(query.order_by(of.step // whole(stride)), PROGRESS_ROW)

    def _touching(self, from_ns: int, to_ns: int) -> tuple[Any, ...]:
        return (
            Batch.attempt_id == self.attempt,
            Batch.events > 0,
            Batch.last_ns >= from_ns,
            Batch.first_ns <= to_ns,
        )

    def _of(self, link: LinkFacts, level: int) -> tuple[Any, ...]:
        return (
            LinkBin.attempt_id == self.attempt,
            LinkBin.level == level,
            LinkBin.party == link.party,
            LinkBin.interface == link.interface,
        )

    def _body(self, party: int, sequence: int) -> bytes:
        key = (Batch.attempt_id == self.attempt, Batch.party == party, Batch.sequence == sequence)
        return self._session.scalars(select(Batch.body).where(*key)).one()

    def _rows(self, query: Select[*tuple[Any, ...]], dtype: np.dtype) -> np.ndarray:
        return rolled.fetch(self._session, query, dtype)


def whole(number: int) -> ColumnElement[int]:
    """A number written into the statement: PostgreSQL takes two parameters for two different expressions, and then
    refuses to group by the one and to show the other."""
    return literal_column(str(int(number)), Integer)
