"""Detailed events of a job, out of the raw batches that hold them, a page at a time.

Batches are taken in the order of their first event, and only until no later one can hold an event of the page:
what a page costs does not depend on how many events there are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from backend.db.models import Batch
from backend.figures.facts import JobFacts
from backend.schemas.telemetry import Events
from backend.services import cursor as cursors
from engine.errors import UnknownNameError
from engine.telemetry.batch import decode
from engine.telemetry.events import EVENT, Clock, Kind, Track

ROW = np.dtype([("party", "<i2"), ("sequence", "<i4"), ("index", "<i4"), *EVENT.descr])
_KEY = ("start", "party", "sequence", "index")
Key = tuple[int, ...]
"""What events are ordered by, and what a cursor holds: their start, and the batch and place where they lie."""
KINDS = {kind.name.lower(): kind for kind in Kind}


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Which events."""

    step_from: int
    step_to: int
    """Both included."""
    party: int | None = None
    layer: int | None = None
    kinds: tuple[Kind, ...] = ()
    """None: all."""

    def of(self, events: np.ndarray) -> np.ndarray:
        """Which rows (n) of EVENT are asked for, (n) booleans."""
        wanted = (events["step"] >= self.step_from) & (events["step"] <= self.step_to)
        if self.layer is not None:
            wanted &= events["layer"] == self.layer
        if self.kinds:
            wanted &= np.isin(events["kind"], self.kinds)
        return wanted


def kinds(names: str | None) -> tuple[Kind, ...]:
    """Kinds by their names, with commas. Raises UnknownNameError listing them."""
    chosen = names.split(",") if names else []
    for name in chosen:
        if name not in KINDS:
            raise UnknownNameError("kind", name, "kind of event", KINDS)
    return tuple(KINDS[name] for name in chosen)


def read(
    session: Session,
    attempt_id: int,
    wanted: Wanted,
    *,
    limit: int,
    cursor: str | None,
    job: JobFacts,
    newest_step: int | None,
) -> Events:
    """At most `limit` events in order of their start, those after `cursor`. Raises UserError for none of ours.

    A cursor holds its range of steps, too: the newest ones are others by the time of the next page.
    """
    after = None
    if cursor is not None:
        *key, step_from, step_to = cursors.decode_numbers(cursor, len(_KEY) + 2)
        after, wanted = tuple(key), replace(wanted, step_from=step_from, step_to=step_to)
    rows, last = page(session, attempt_id, wanted, limit=limit, after=after)
    following = None
    if last is not None:
        following = cursors.encode(":".join(map(str, [*last, wanted.step_from, wanted.step_to])))
    return Events(
        rehearsed=job.rehearsed,
        slowed=job.slowed,
        worker=rows["party"].tolist(),
        step=rows["step"].tolist(),
        layer=rows["layer"].tolist(),
        unit=rows["unit"].tolist(),
        kind=[Kind(k).name.lower() for k in rows["kind"].tolist()],
        track=[Track(t).name.lower() for t in rows["track"].tolist()],
        peer=rows["peer"].tolist(),
        priority=rows["priority"].tolist(),
        queued_ns=rows["queued"].tolist(),
        start_ns=rows["start"].tolist(),
        end_ns=rows["end"].tolist(),
        bytes=rows["bytes"].tolist(),
        clock=[Clock(c).name.lower() for c in rows["clock"].tolist()],
        layers=list(job.layers),
        layer_names=list(job.titles),
        buckets={str(unit): name for unit, name in job.buckets.items()},
        parties=list(job.parties),
        kinds=list(KINDS),
        newest_step=newest_step,
        truncated=following is not None,
        next_cursor=following,
    )


def page(
    session: Session, attempt_id: int, wanted: Wanted, *, limit: int, after: Key | None
) -> tuple[np.ndarray, Key | None]:
    """The first `limit` wanted events after a key (ROW, in order), and the last one's key where more follow."""
    rows = _first(session, attempt_id, wanted, limit + 1, after)
    if len(rows) <= limit:
        return rows, None
    return rows[:limit], tuple(int(rows[name][limit - 1]) for name in _KEY)


def _first(session: Session, attempt_id: int, wanted: Wanted, count: int, after: Key | None) -> np.ndarray:
    found = np.empty(0, ROW)
    for party, sequence, first_ns in session.execute(_batches(attempt_id, wanted, after)):
        if np.count_nonzero(found["start"] < first_ns) >= count:
            break  # this batch and all that follow hold only later events
        key = (Batch.attempt_id == attempt_id, Batch.party == party, Batch.sequence == sequence)
        events = decode(session.scalars(select(Batch.body).where(*key)).one()).table("events")
        index = np.flatnonzero(wanted.of(events))
        rows = np.empty(len(index), ROW)
        rows["party"], rows["sequence"], rows["index"] = party, sequence, index
        for column in EVENT.names or ():
            rows[column] = events[column][index]
        if after is not None:
            rows = rows[_later(rows, after)]
        found = np.concatenate([found, rows])
        found = found[np.lexsort([found[name] for name in reversed(_KEY)])][:count]
    return found


def _batches(attempt_id: int, wanted: Wanted, after: Key | None) -> Select[int, int, int]:
    """Batches that may hold such events, by their first one; without their bodies, which would be sorted with them."""
    query = select(Batch.party, Batch.sequence, Batch.first_ns).where(
        Batch.attempt_id == attempt_id,
        Batch.events > 0,
        Batch.first_step <= wanted.step_to,
        Batch.last_step >= wanted.step_from,
    )
    if wanted.party is not None:
        query = query.where(Batch.party == wanted.party)
    if after is not None:
        query = query.where(Batch.last_ns >= after[0])
    return query.order_by(Batch.first_ns, Batch.party, Batch.sequence)


def _later(rows: np.ndarray, after: Key) -> np.ndarray:
    """Which rows (n) come after that key, (n) booleans."""
    later = np.zeros(len(rows), bool)
    equal = np.ones(len(rows), bool)
    for name, value in zip(_KEY, after, strict=True):
        later |= equal & (rows[name] > value)
        equal &= rows[name] == value
    return later
