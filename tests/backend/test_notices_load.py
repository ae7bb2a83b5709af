"""The live feed while much is written: who comes and goes at random misses nothing; who does not read is cut off."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from sqlalchemy.orm import Session

from backend.db import Database
from backend.db.models import Job
from backend.db.writer import notify
from backend.services import notices
from backend.services.benchmark_fill import add_others
from backend.services.notices import Hub
from backend.services.views import Views
from tests.databases import opened_by

WAIT_S = 120.0
JOBS, CHANGES, PER_S, CLIENTS = 120, 4, 200, 6
"""One job after another changes so often, and is then left alone: what is lost of its last change is lost for ever."""


@asynccontextmanager
async def running(database: Database) -> AsyncIterator[Hub]:
    hub = Hub(database, Views(), kept=10_000)
    await hub.start()
    try:
        yield hub
    finally:
        await hub.stop()


def change(job_id: str) -> Callable[[Session], None]:
    def write(session: Session) -> None:
        session.get_one(Job, job_id).revision += 1
        notify(session, job_id, "job", {})

    return write


def test_whoever_comes_and_goes_sees_every_jobs_last_state_and_ids_that_only_grow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notices, "PACE_S", 0.02)  # more deliveries that fall into somebody's return
    database = Database(opened_by(tmp_path))
    jobs = add_others(database, JOBS)

    def writer() -> None:
        begin = time.monotonic()
        for number in range(JOBS * CHANGES):
            time.sleep(max(0.0, begin + number / PER_S - time.monotonic()))
            database.writer.run(change(jobs[number // CHANGES]))

    all_ready = asyncio.Barrier(CLIENTS + 1)

    async def client(hub: Hub, seed: int) -> tuple[dict[str, int], int]:
        """The newest revision of every job that it was told of, and how often it came back."""
        dice, revisions, times = random.Random(seed), dict[str, int](), 0
        last = 0
        while True:
            feed = hub.subscribe(last if times else None)
            patience = dice.randrange(1, 12)
            async for event in feed:
                assert event.kind == "job" or (event.kind, times) == ("ready", 0), "never a reset"
                assert event.id > last or event.kind == "ready"
                last = event.id
                if event.kind == "ready":
                    await all_ready.wait()
                if event.kind == "job":
                    assert event.data["revision"] >= revisions.get(event.data["job_id"], 0)
                    revisions[event.data["job_id"]] = event.data["revision"]
                if revisions.get(jobs[-1]) == final:
                    await feed.aclose()
                    return revisions, times
                patience -= 1
                if not patience:
                    break
            await feed.aclose()
            times += 1
            await asyncio.sleep(dice.choice((0, 0, dice.uniform(0, 0.1))))

    async def everybody() -> list[tuple[dict[str, int], int]]:
        async with running(database) as hub:
            clients = [asyncio.create_task(client(hub, seed)) for seed in range(CLIENTS)]
            await asyncio.wait_for(all_ready.wait(), WAIT_S)
            await asyncio.to_thread(writer)
            return await asyncio.wait_for(asyncio.gather(*clients), WAIT_S)

    with database.read() as session:
        final = session.get_one(Job, jobs[-1]).revision + CHANGES
    try:
        seen = asyncio.run(everybody())
        with database.read() as session:
            wanted = {job_id: session.get_one(Job, job_id).revision for job_id in jobs}
    finally:
        database.close()
    for revisions, times in seen:
        assert revisions == wanted
        assert times > 5, "it came back often enough to say something"


def test_who_does_not_read_is_cut_off_and_misses_nothing_when_it_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notices, "QUEUE", 10)
    database = Database(opened_by(tmp_path))
    jobs = add_others(database, 30)

    async def story() -> tuple[list[str], list[str]]:
        async with running(database) as hub:
            slow, watcher = hub.subscribe(None), hub.subscribe(None)
            ready = await anext(slow)
            await anext(watcher)
            heard: list[str] = []
            for job_id in jobs:
                await asyncio.to_thread(database.writer.run, change(job_id))
                while len(heard) < jobs.index(job_id) + 1 - 5:  # it reads as it comes
                    heard.append((await anext(watcher)).data["job_id"])
            while len(heard) < len(jobs):
                heard.append((await anext(watcher)).data["job_id"])
            assert [event async for event in slow] == [], "it was cut off, with nothing in between"
            again, caught_up = hub.subscribe(ready.id), []
            while len(caught_up) < len(jobs):
                caught_up.append((await anext(again)).data["job_id"])
            for feed in (again, watcher):
                await feed.aclose()
            return heard, caught_up

    try:
        heard, caught_up = asyncio.run(asyncio.wait_for(story(), WAIT_S))
    finally:
        database.close()
    assert heard == jobs
    assert caught_up == jobs


def test_who_caught_up_further_than_what_was_handed_out_hears_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It read the newest notice from the database, left, and is back before that one is delivered."""
    monkeypatch.setattr(notices, "PACE_S", 0.05)
    database = Database(opened_by(tmp_path))
    first, second = add_others(database, 2)

    async def scenario() -> list[tuple[int, str]]:
        async with running(database) as hub:
            others, heard = hub.subscribe(None), []
            ready = await anext(others)
            await asyncio.to_thread(database.writer.run, change(first))
            await anext(others)  # delivered; the next delivery comes when it may
            may, tell = asyncio.Event(), hub._tell

            async def tell_when_it_may() -> None:
                await may.wait()
                await tell()

            monkeypatch.setattr(hub, "_tell", tell_when_it_may)
            await asyncio.to_thread(database.writer.run, change(second))
            feed = hub.subscribe(ready.id)
            caught_up = [await anext(feed), await anext(feed)]
            await feed.aclose()
            assert caught_up[-1].id > hub._last, "the second change is not delivered yet"
            feed = hub.subscribe(caught_up[-1].id)
            coming = asyncio.ensure_future(anext(feed))
            may.set()
            await anext(others)  # the second change, delivered now
            await asyncio.to_thread(database.writer.run, change(first))
            event = await coming
            heard.append((event.id - caught_up[-1].id, event.data["job_id"]))
            await feed.aclose()
            await others.aclose()
            return heard

    assert asyncio.run(scenario()) == [(1, first)]
    database.close()
