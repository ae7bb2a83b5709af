"""The live feed: what changed, to every page that listens, without gaps.

The writer wakes the hub after every commit that wrote notices. The hub reads them once for all listeners,
joins those of one job that came together (a notice says what a thing is now, not how it got there), adds
the job's newest figures and hands them out. A listener that comes back subscribes first, then catches up
from the database, and drops what it gets twice: ids come from the committing writer and only grow.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from backend.db import Database, DatabaseUnavailableError, WriterError, models
from backend.services.removal import DELETED
from backend.services.views import Views

logger = logging.getLogger(__name__)

PACE_S = 0.2
"""Notices that come within this time leave together."""
QUEUE = 1_000
"""Notices that a listener may leave unread; it is cut off then, and catches up when it comes back."""
CATCH_UP = 5_000
"""More missed notices than this are answered with a reset: asking again for what is visible is cheaper."""
PRUNE_EVERY = 1_000
STATE_CHANGES = frozenset({"job"})
"""Kinds of notices that are sent as `job`; all others are news of telemetry and are sent as `data`."""


@dataclass(frozen=True, kw_only=True)
class Event:
    """One message of the feed."""

    id: int
    kind: str
    """`ready`, `job`, `data`, `deleted` or `reset`."""
    data: dict[str, Any]


class Hub:
    """Lives on one event loop; `subscribe` is called there."""

    def __init__(self, database: Database, views: Views, *, kept: int) -> None:
        self._database = database
        self._views = views
        self._kept = kept
        self._listeners: set[asyncio.Queue[Event | None]] = set()
        self._wake = asyncio.Event()
        self._closed = False
        self._last = 0
        self._pruned = 0
        self._unlisten: Callable[[], None] = lambda: None
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to deliver what is committed from now on."""
        loop = asyncio.get_running_loop()
        self._last = await asyncio.to_thread(self._newest)
        self._pruned = self._last

        def committed(_notices: list[models.Notice]) -> None:
            loop.call_soon_threadsafe(self._wake.set)

        self._unlisten = self._database.writer.listen(committed)
        self._task = asyncio.create_task(self._deliver(), name="notices")

    def close(self) -> None:
        """End every stream. Call it before waiting for open connections."""
        self._closed = True
        self._wake.set()
        for queue in self._listeners:
            _put(queue, None)

    async def stop(self) -> None:
        """Close, and wait for what was under way."""
        self.close()
        self._unlisten()
        if self._task is not None:
            await self._task

    def newest(self) -> int | None:
        """The id of the newest notice; None where the database does not answer, so that whoever asks begins anew."""
        try:
            return self._newest()
        except DatabaseUnavailableError:
            return None

    async def subscribe(self, last_seen: int | None) -> AsyncIterator[Event]:
        """The feed from after `last_seen` (an id) on, or from now; ends when the hub closes."""
        queue: asyncio.Queue[Event | None] = asyncio.Queue(QUEUE)
        self._listeners.add(queue)
        try:
            sent, missed = await asyncio.to_thread(self._catch_up, last_seen, self._last)
            for event in missed:
                yield event
                sent = max(sent, event.id)
            while not self._closed and (found := await queue.get()) is not None:
                if found.id > sent:
                    yield found
        finally:
            self._listeners.discard(queue)

    def _catch_up(self, since: int | None, now: int) -> tuple[int, list[Event]]:
        """The newest id that the listener has, at least `now`, and what it missed."""
        with self._database.read() as session:
            newest = session.scalar(select(func.max(models.Notice.id))) or 0
            if since is None:
                return now, [Event(id=max(newest, now), kind="ready", data={"revision": None})]
            oldest = session.scalar(select(func.min(models.Notice.id))) or 1
            if not oldest - 1 <= since <= newest or newest - since > CATCH_UP:
                reason = f"{since} is not kept any more"
                return now, [Event(id=newest, kind="reset", data={"reason": reason})]
            # It may have caught up from the database beyond what was handed out until now.
            return max(now, since), self._events(session, since)

    async def _deliver(self) -> None:
        while not self._closed:
            await self._wake.wait()
            self._wake.clear()
            try:
                await self._tell()
                await asyncio.to_thread(self._prune)
            except DatabaseUnavailableError as error:
                logger.error("notices could not be delivered: %s", error)
            except Exception:  # the feed outlives one failed look; the next commit wakes it again
                logger.exception("notices could not be delivered")
            await asyncio.sleep(PACE_S)

    async def _tell(self) -> None:
        newest = await asyncio.to_thread(self._newest)
        if not self._listeners:
            # Nobody to tell: figures that nobody sees would slow down what trains. Who comes after this line
            # catches up from the database, which holds everything until `newest` already.
            self._last = max(self._last, newest)
            return
        for event in await asyncio.to_thread(self._news):
            self._hand_out(event)
        self._last = max(
            self._last, newest
        )  # also where the newest was of a job of which nothing can be said

    def _hand_out(self, event: Event) -> None:
        self._last = max(self._last, event.id)
        for queue in list(self._listeners):
            _put(queue, event)

    def _news(self) -> list[Event]:
        with self._database.read() as session:
            return self._events(session, self._last)

    def _newest(self) -> int:
        with self._database.read() as session:
            return session.scalar(select(func.max(models.Notice.id))) or 0

    def _events(self, session: Session, since: int) -> list[Event]:
        """Notices after `since`: one event per job and kind, in the order of their newest ids."""
        newest: dict[tuple[str, str], int] = {}
        query = select(models.Notice.id, models.Notice.job_id, models.Notice.kind).where(
            models.Notice.id > since
        )
        for number, job_id, kind in session.execute(query.order_by(models.Notice.id)):
            if job_id is not None:
                newest[job_id, "job" if kind in STATE_CHANGES else "data"] = number
        events = self._deleted(session, since)
        for (job_id, kind), number in sorted(newest.items(), key=lambda item: item[1]):
            job = session.get(models.Job, job_id)
            if job is None:
                continue
            try:
                summary = self._views.summary(session, job)
            except (AttributeError, LookupError, TypeError, ValueError):
                # What one job's row makes impossible must not silence the others.
                logger.exception("job %s: no notice can be made of it", job_id)
                continue
            names = {
                "id",
                "revision",
                "state",
                "step",
                "steps",
                "loss",
                "samples_per_s",
                "rehearsed",
                "slowed",
            }
            data = summary.model_dump(mode="json", include=names)
            events.append(Event(id=number, kind=kind, data={"job_id": data.pop("id"), **data}))
        return sorted(events, key=lambda event: event.id)

    def _deleted(self, session: Session, since: int) -> list[Event]:
        query = select(models.Notice.id, models.Notice.payload).where(
            models.Notice.id > since, models.Notice.kind == DELETED
        )
        return [Event(id=number, kind=DELETED, data=payload) for number, payload in session.execute(query)]

    def _prune(self) -> None:
        """Forget the oldest notices, now and then."""
        if self._last - self._pruned < min(PRUNE_EVERY, self._kept):
            return
        self._pruned = self._last
        limit = self._last - self._kept
        try:
            self._database.writer.run(
                lambda session: session.execute(delete(models.Notice).where(models.Notice.id <= limit))
            )
        except WriterError:
            logger.info("notices are not pruned: the writer is closed")


def _put(queue: asyncio.Queue[Event | None], item: Event | None) -> None:
    """Hand over without waiting; a listener that does not read is cut off by dropping what it left unread."""
    if queue.full():
        while not queue.empty():
            queue.get_nowait()
        item = None
    queue.put_nowait(item)
