"""One job's columns, from the database as NumPy arrays. Nothing here draws; nothing that draws reads tables.

Dtypes: SPAN is an event and the party that recorded it; the others name the columns of their tables. Times
are ns on the attempt's clock, sizes bytes.
"""

from __future__ import annotations

from functools import cached_property, partial
from typing import Any

import numpy as np
from sqlalchemy import ColumnElement, Integer, Select, func, literal_column, select
from sqlalchemy.orm import Session

from backend.db.models import Attempt, Batch, Job, Link, LinkBin, Metric, SpeedUpRow, StepRow
from backend.db.models.rollups import STEP_FACTOR
from backend.figures import drifted, held, rolled
from backend.figures.batches import EventCache
from backend.figures.facts import LinkFacts, job_facts, period_of
from backend.figures.progress import STEP, StepCache, grouped
from engine.telemetry.absence import Absence
from engine.telemetry.events import ALL_LAYERS, EVENT, Direction, Kind
from engine.telemetry.spread import layers_per_row

SPAN = np.dtype([("party", "<i2"), *EVENT.descr])
BIN_ROW = np.dtype([("direction", "u1"), ("layer", "<i2"), ("bin", "<i8"), ("bytes", "<i8")])
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
_STEPS = StepCache()


class Source:
    """Reads one attempt of a job: the latest, or the one with this number. Raises LookupError for a job or an attempt
    that does not exist."""

    def __init__(self, session: Session, job_id: str, number: int | None = None) -> None:
        job = session.get(Job, job_id)
        if job is None:
            raise LookupError(f"job {job_id!r}: no such job. List the jobs for their ids")
        attempts = select(Attempt).where(Attempt.job_id == job_id).order_by(Attempt.number.desc())
        if number is not None:
            attempts = attempts.where(Attempt.number == number)
        attempt = session.scalars(attempts.limit(1)).first()
        if number is not None and attempt is None:
            raise LookupError(f"attempt {number}: job {job_id!r} has no such attempt. Count from 1")
        self._session = session
        self.job = job_facts(job, attempt)
        self.attempt = -1 if self.job.attempt is None else self.job.attempt

    def other(self, job_id: str) -> Source:
        """Another job in the same snapshot, e.g. the baseline."""
        return Source(self._session, job_id)

    def earlier(self) -> list[tuple[Source, int]]:
        """The attempts whose steps this one goes on from, the latest first, each with the number of steps until which
        it does; what they recorded of later ones was run again."""
        found: list[tuple[Source, int]] = []
        until = self.resumed_step()
        number = self._session.scalar(select(Attempt.number).where(Attempt.id == self.attempt)) or 0
        while until and number > 1:
            number -= 1
            one = Source(self._session, self.job.id, number)
            if one.last_step() < 0:  # it was over before its first step
                continue
            found.append((one, until))
            until = min(until, one.resumed_step() or 0)
        return found

    def resumed_step(self) -> int | None:
        """Of the checkpoint that it goes on from, its own job's or another one's; None: it began at step 0, or has not
        begun."""
        return rolled.resumed_step(self._session, self.attempt)

    @cached_property
    def period(self) -> int:
        """See `facts.period_of`."""
        return period_of(self._session, self.job.id)

    def ran_alone(self) -> bool:
        """Whether no other job ran on the machine while this one did."""
        start, end = self.job.started_unix_ns, self.job.ended_unix_ns
        if start is None:
            return True
        return self._session.scalar(ran_meanwhile(self.job.id, start, end).limit(1)) is None

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

    def step_range_ns(self, first: int) -> tuple[int, int] | None:
        """When step `first` or the next one that was recorded began, and when the last step ended; None where there is
        none."""
        steps = (StepRow.attempt_id == self.attempt, StepRow.step >= first)
        start, end = self._session.execute(
            select(func.min(StepRow.start_ns), func.max(StepRow.end_ns)).where(*steps)
        ).one()
        return None if start is None or end is None else (int(start), int(end))

    def ended_at(self, step: int) -> int:
        """When every worker that recorded `step` had ended it, in ns; 0 where none did."""
        last = select(func.max(StepRow.end_ns)).where(
            StepRow.attempt_id == self.attempt, StepRow.step == step
        )
        return int(self._session.scalar(last) or 0)

    def ended_until(self, step: int) -> int:
        """When the last of the steps up to `step` that were recorded ended, in ns; 0 where none did. A gang that is
        killed may have lost the newest ones."""
        steps = (StepRow.attempt_id == self.attempt, StepRow.step <= step)
        return int(self._session.scalar(select(func.max(StepRow.end_ns)).where(*steps)) or 0)

    def speed_ups(self, newest: int | None = None) -> list[SpeedUpRow]:
        """What was stored of its speed-up over its baseline, by step: all of it, or that of so many latest steps."""
        rows = select(SpeedUpRow).where(SpeedUpRow.attempt_id == self.attempt)
        found = self._session.scalars(rows.order_by(SpeedUpRow.step.desc()).limit(newest)).all()
        return list(reversed(found))

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

    def sent_bytes(self, first: int, last: int) -> float | None:
        """Mean bytes that all parties sent in a step, over steps `first` to `last`; None where nobody counted any."""
        return rolled.sent_bytes(self._session, self.attempt, first, last)

    def drifts(self) -> bool:
        """Whether its workers do not wait for one another in every step."""
        return drifted.drifts(self._session, self.job.id)

    def stale_by_worker(self) -> dict[int, drifted.Histogram]:
        """How stale every worker's contributions were."""
        return drifted.by_worker(self._session, self.attempt, self.job.workers)

    def stale_by_layer(self) -> dict[int, drifted.Histogram]:
        """How stale the contributions to every layer were."""
        return drifted.by_layer(self._session, self.attempt, max(len(self.job.layers), 1))

    def ended_steps(self) -> np.ndarray:
        """(workers) steps that each has ended so far."""
        until = np.array([self.trained_until()])
        return drifted.ended(self._session, self.attempt, self.job.workers, until)[:, 0]

    def course(self, most: int) -> drifted.Course:
        """How its workers drifted over time, in at most `most` windows."""
        return drifted.course(self._session, self.attempt, self.job.workers, most)

    def held_by_layer(self) -> dict[tuple[int, int], held.Held]:
        """By party and layer, what memory mechanisms did in the newest step."""
        return held.by_layer(self._session, self.attempt, self.last_step())

    def absences(self) -> dict[int, list[Absence]]:
        """By rank, of the workers that were lost: when they were away."""
        return rolled.absent(self._session, self.attempt, self.job.workers)

    def metric(self, name: str) -> np.ndarray:
        """METRIC_ROW of a named metric, by step."""
        query = select(Metric.step, Metric.at_ns, Metric.value).where(
            Metric.attempt_id == self.attempt, Metric.name == name
        )
        return self._rows(query.order_by(Metric.step), METRIC_ROW)

    def links(self) -> list[LinkFacts]:
        """Links that parties reported on, by party and interface; those that others use, too, are the last."""
        order = (Link.shared, Link.party, Link.interface)
        query = select(Link).where(Link.attempt_id == self.attempt).order_by(*order)
        return [
            LinkFacts(
                party=link.party,
                interface=link.interface,
                host=link.host,
                rate_bps=link.rate_bps,
                rate_source=link.rate_source,
                shared=link.shared,
                by_size=link.by_size,
            )
            for link in self._session.scalars(query)
        ]

    def bins(
        self, link: LinkFacts, level: int, first: int, last: int, direction: Direction | None = None
    ) -> np.ndarray:
        """BIN_ROW of one link at `level`, bins `first` to `last`, in both directions or in one; every byte is under its
        own layer, also where layers travelled in one unit."""
        query = select(LinkBin.direction, LinkBin.layer, LinkBin.bin, LinkBin.bytes).where(
            *self._of(link, level), LinkBin.bin >= first, LinkBin.bin <= last
        )
        if direction is not None:
            query = query.where(LinkBin.direction == direction)
        rows = rolled.fetch_whole(self._session, query, BIN_ROW)
        size = layers_per_row(len(self.job.layers)) if level else 1
        return self.job.units.split(rows, link.party, size)

    def sent(self, link: LinkFacts, level: int, first: int, last: int) -> int:
        """Bytes that a link's interface counted as sent in bins `first` to `last` at `level`, whosever they were."""
        counted = (LinkBin.direction == Direction.TX, LinkBin.layer == ALL_LAYERS)
        query = select(func.sum(LinkBin.bytes)).where(
            *self._of(link, level), *counted, LinkBin.bin >= first, LinkBin.bin <= last
        )
        return int(self._session.scalar(query) or 0)

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
        """SPAN of every detailed event that overlaps a window of time and takes some, by start."""
        query = select(Batch.party, Batch.sequence, Batch.sha256).where(*self._touching(from_ns, to_ns))
        batches = self._session.execute(query).all()
        parts = [_CACHE.events(key, partial(self._body, party, number)) for party, number, key in batches]
        events = np.concatenate([np.empty(0, EVENT), *parts])
        parties = np.repeat([party for party, *_ in batches], [len(part) for part in parts])
        chosen = np.flatnonzero(
            (events["end"] > from_ns) & (events["start"] < to_ns) & (events["kind"] != Kind.SAVED)
        )
        chosen = chosen[np.argsort(events["start"][chosen], kind="stable")]
        spans = np.empty(len(chosen), SPAN)
        spans["party"] = parties[chosen]
        for column in EVENT.names or ():
            spans[column] = events[column][chosen]
        return spans

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
        return grouped(self._steps(), points)

    def samples_until(self, steps: np.ndarray) -> np.ndarray:
        """(n) samples of the steps up to these, of each worker those of the steps that it has ended: one that was lost
        adds nothing."""
        rows = self._steps()
        total = np.concatenate([[0.0], np.cumsum(np.nan_to_num(rows["samples"]))])
        return total[np.searchsorted(rows["step"], steps, side="right")]

    def _steps(self) -> np.ndarray:
        """STEP rows of the whole run, by step."""
        if self.job.attempt is None:
            return np.empty(0, STEP)
        return _STEPS.steps(self._session, self.job.id, self.attempt, self.job.workers)

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


def ran_meanwhile(job_id: str, start_ns: int, end_ns: int | None) -> Select[str]:
    """Ids of the other jobs that ran at some time from `start_ns` to `end_ns` (None: now)."""
    return select(Job.id).where(
        Job.id != job_id,
        Job.started_unix_ns.is_not(None) if end_ns is None else Job.started_unix_ns < end_ns,
        Job.ended_unix_ns.is_(None) | (Job.ended_unix_ns > start_ns),
    )


def whole(number: int) -> ColumnElement[int]:
    """A number written into the statement: PostgreSQL takes two parameters for two different expressions, and then
    refuses to group by the one and to show the other."""
    return literal_column(str(int(number)), Integer)
