"""A job's records as columns, a page at a time: what `record_tables.py` lists, read from the database.

Each page is read in a snapshot of its own, so that who reads slowly holds up no checkpoint of the database; rows that
come meanwhile are in it where they come behind what was read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlalchemy import func, select, tuple_
from sqlalchemy.orm import Session

from backend.db import Database, models
from backend.figures import rolled
from backend.figures.facts import JobFacts, LinkFacts
from backend.figures.source import Source
from backend.services import events
from engine.telemetry.definitions import link_utilization
from engine.telemetry.events import ALL_LAYERS, BIN_NS, NONE, Clock, Direction, Kind, Track

ROWS_AT_ONCE = 50_000
"""At most about so many rows of a page: they and their columns are what an export holds in memory."""
Columns = dict[str, Any]
"""By name: a list or an array (n), or a value that all rows have."""
LAYER_ROW = np.dtype(
    [
        (name, "<i8")
        for name in ("step", "party", "layer", "kind", "track", "count", "busy", "bytes", "exposed")
    ]
)
WAYS = {Direction.TX: "send", Direction.RX: "receive"}


@dataclass(frozen=True, kw_only=True)
class Place:
    """Of a job in its race, each from 0; None where it is asked for by itself."""

    member: int | None = None
    condition: int | None = None
    round: int | None = None


@dataclass(frozen=True, kw_only=True)
class Records:
    """One attempt's records of the steps from `first` to `last`."""

    database: Database
    job_id: str
    number: int | None
    """Of the attempt; None: the latest."""
    first: int
    last: int
    place: Place = Place()

    def pages(self, table: str) -> Iterator[Columns]:
        """All rows of one table, each page with every column of it but `job`."""
        with self.database.read() as session:
            source = Source(session, self.job_id, self.number)
            facts, links = source.job, source.links()
            _ = facts.titles, facts.buckets, facts.parties, facts.units  # read while the session is there
        if table == "jobs":
            yield self._job(facts)
        elif facts.attempt is not None:
            read = {
                "steps": self._steps,
                "metrics": self._metrics,
                "layers": self._layers,
                "events": self._events,
                "links": lambda facts: self._links(facts, links),
            }[table]
            yield from read(facts)

    def _job(self, facts: JobFacts) -> Columns:
        with self.database.read() as session:
            job = session.get_one(models.Job, self.job_id)
            attempt = None if facts.attempt is None else session.get_one(models.Attempt, facts.attempt)
        row = {
            "name": facts.name,
            "strategy": facts.strategy,
            "model": facts.model,
            "dataset": facts.data,
            "workers": facts.workers,
            "global_batch": facts.global_batch,
            "state": job.state,
            "rehearsed": facts.rehearsed,
            "slowed": facts.slowed,
            "attempt": attempt.number if attempt else None,
            "epoch_unix_ns": attempt.epoch_unix_ns if attempt else None,
            "member": self.place.member,
            "condition": self.place.condition,
            "round": self.place.round,
        }
        return {name: [value] for name, value in row.items()}

    def _steps(self, facts: JobFacts) -> Iterator[Columns]:
        assert facts.attempt is not None
        many = max(1, ROWS_AT_ONCE // max(facts.workers, 1))
        with self.database.read() as session:
            last = min(self.last, rolled.last_step(session, facts.attempt))
        for first in range(self.first, last + 1, many):
            with self.database.read() as session:
                rows = rolled.step_rows(session, facts.attempt, first, min(first + many - 1, last))
            yield {
                "step": rows["step"],
                "worker": rows["party"],
                "start_ns": rows["start"],
                "end_ns": rows["end"],
                "samples": rows["samples"],
                "loss": _finite(rows["loss"]),
                "compute_ns": rows["compute"],
                "exposed_ns": rows["exposed"],
                "input_ns": rows["input"],
            }

    def _metrics(self, facts: JobFacts) -> Iterator[Columns]:
        row = models.Metric
        key = (row.name, row.step)
        query = (
            select(*key, row.at_ns, row.value)
            .where(row.attempt_id == facts.attempt, row.step >= self.first, row.step <= self.last)
            .order_by(*key)
            .limit(ROWS_AT_ONCE)
        )
        after: tuple[str, int] | None = None
        while True:
            asked = query if after is None else query.where(tuple_(*key) > tuple_(*after))
            with self.database.read() as session:
                rows = session.execute(asked).all()
            if rows:
                name, step, at_ns, value = zip(*rows, strict=True)
                yield {"name": name, "step": step, "at_ns": at_ns, "value": value}
            if len(rows) < ROWS_AT_ONCE:
                return
            after = (rows[-1].name, rows[-1].step)

    def _layers(self, facts: JobFacts) -> Iterator[Columns]:
        row = models.LayerTotal
        key = (row.step, row.party, row.layer, row.kind, row.track)
        query = (
            select(*key, row.count, row.busy_ns, row.bytes, row.exposed_ns)
            .where(row.attempt_id == facts.attempt, row.step >= self.first, row.step <= self.last)
            .order_by(*key)
            .limit(ROWS_AT_ONCE)
        )
        after: list[int] | None = None
        while True:
            asked = query if after is None else query.where(tuple_(*key) > tuple_(*after))
            with self.database.read() as session:
                rows = rolled.fetch(session, asked, LAYER_ROW)
            if len(rows):
                yield {
                    "step": rows["step"],
                    "party": _named(rows["party"], facts.parties),
                    "layer": _named(rows["layer"], facts.layers),
                    "kind": _named(rows["kind"], KINDS),
                    "track": _named(rows["track"], TRACKS),
                    "count": rows["count"],
                    "busy_ns": rows["busy"],
                    "bytes": rows["bytes"],
                    "exposed_ns": rows["exposed"],
                }
            if len(rows) < ROWS_AT_ONCE:
                return
            after = [int(rows[-1][name]) for name in ("step", "party", "layer", "kind", "track")]

    def _events(self, facts: JobFacts) -> Iterator[Columns]:
        assert facts.attempt is not None
        wanted = events.Wanted(step_from=self.first, step_to=self.last)
        after: events.Key | None = None
        while True:
            with self.database.read() as session:
                rows, after = events.page(session, facts.attempt, wanted, limit=ROWS_AT_ONCE, after=after)
            if len(rows):
                peers = rows["peer"] != NONE
                yield {
                    "step": rows["step"],
                    "party": _named(rows["party"], facts.parties),
                    "layer": _named(rows["layer"], facts.layers),
                    "slice": _where(rows["unit"] != NONE, rows["unit"]),
                    "kind": _named(rows["kind"], KINDS),
                    "track": _named(rows["track"], TRACKS),
                    "peer": _named(rows["peer"], facts.parties),
                    "priority": _where(peers, rows["priority"]),
                    "queued_ns": _where(rows["queued"] != NONE, rows["queued"]),
                    "start_ns": rows["start"],
                    "end_ns": rows["end"],
                    "bytes": rows["bytes"],
                    "clock": _named(rows["clock"], CLOCKS),
                }
            if after is None:
                return

    def _links(self, facts: JobFacts, links: Sequence[LinkFacts]) -> Iterator[Columns]:
        many = max(1, ROWS_AT_ONCE // (2 * (len(facts.layers) + 2)))
        for link in links:
            with self.database.read() as session:
                first, last = self._bins(Source(session, self.job_id, self.number), link)
            for begin in range(first, last + 1, many):
                with self.database.read() as session:
                    source = Source(session, self.job_id, self.number)
                    rows = source.bins(link, 0, begin, min(begin + many - 1, last))
                if not len(rows):
                    continue
                used = link_utilization(rows["bytes"], BIN_NS, link.rate)
                yield {
                    "party": _named(np.full(len(rows), link.party), facts.parties),
                    "interface": [link.interface] * len(rows),
                    "host": [link.host] * len(rows),
                    "direction": [WAYS[Direction(way)] for way in rows["direction"].tolist()],
                    "layer": _named(rows["layer"], facts.layers),
                    "all_layers": rows["layer"] == ALL_LAYERS,
                    "start_ns": rows["bin"] * BIN_NS,
                    "bytes": rows["bytes"],
                    "rate_bps": [link.rate_bps] * len(rows),
                    "utilization": [None] * len(rows) if used is None else used,
                }

    def _bins(self, source: Source, link: LinkFacts) -> tuple[int, int]:
        """The finest bins of a link in which the steps lie; (0, -1) where there are none."""
        found = source.bin_range(link, 0)
        if found is None:
            return 0, -1
        first, last = found
        if (first_ns := _began(source, self.first)) is not None and self.first > 0:
            first = max(first, first_ns // BIN_NS)
        if (next_ns := _began(source, self.last + 1)) is not None:
            last = min(last, next_ns // BIN_NS)
        return first, last


KINDS = tuple(kind.name.lower() for kind in sorted(Kind))
TRACKS = tuple(track.name.lower() for track in sorted(Track))
CLOCKS = tuple(clock.name.lower() for clock in sorted(Clock))


def _began(source: Source, step: int) -> int | None:
    """When that step, or the next one that was recorded, began, in ns; None where there is none."""
    found = None if step > 2**31 - 1 else source.step_range_ns(step)
    return None if found is None else found[0]


def _named(index: np.ndarray, names: Sequence[str]) -> list[str | None]:
    """Names by their numbers, None for numbers that have none."""
    return [names[at] if 0 <= at < len(names) else None for at in index.tolist()]


def _where(there: np.ndarray, values: np.ndarray) -> list[int | None]:
    return [value if known else None for known, value in zip(there.tolist(), values.tolist(), strict=True)]


def _finite(values: np.ndarray) -> list[float | None]:
    return _where(np.isfinite(values), values)  # type: ignore[return-value]


def last_step(session: Session, attempt_id: int | None) -> int:
    """The last step of which anything was recorded; -1 where nothing was."""
    newest = select(func.max(models.Batch.last_step)).where(models.Batch.attempt_id == attempt_id)
    return max(session.scalar(newest) or -1, rolled.last_step(session, attempt_id or -1))
