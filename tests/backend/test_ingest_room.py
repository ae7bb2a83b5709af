"""Memory that telemetry may take is set aside before a batch is read and before it is unpacked."""

from __future__ import annotations

import asyncio
import json
import sys
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from fastapi.testclient import TestClient
from sqlalchemy import select

from backend.db.models import StalenessCount, StalenessWindow
from backend.ingest import BODIES_BYTES, UNPACKED_BYTES, IngestError, Room, accept, needed
from backend.ingest.room import MOST_ROWS
from engine.telemetry import batch as wire
from engine.telemetry.batch import MAX_HEADER_BYTES, MAX_RAW_BYTES, TABLES, Batch, LinkInfo
from engine.telemetry.events import LEVELS, STALENESS_LEVEL
from tests.backend.executor_attempts import until
from tests.backend.job_specs import submit
from tests.backend.posted_run import Posted, start_attempt
from tests.engine.test_telemetry_batch import reseal, split

LINK = LinkInfo(interface="transport", host="here", rate_bps=None, rate_source="unknown")


def batch_of(table: str, rows: int, *, attempt: int = 1) -> bytes:
    """Zeros, which go into almost nothing."""
    zeros = {table: np.zeros(rows, TABLES[table])}
    return wire.encode(
        Batch(attempt=attempt, party=0, name="w", sequence=0, metrics=("m",), links=(LINK,), tables=zeros)
    )


def declaring(table: str, size: int) -> bytes:
    """A batch of one row whose header says that there are `size` bytes."""
    header, columns = split(batch_of(table, 1))
    header["tables"][0]["rows"] = size // TABLES[table].itemsize
    return reseal(json.dumps(header).encode(), columns)


# --- what a batch needs ---


def test_what_is_declared_counts_and_nothing_is_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    bodies = {table: batch_of(table, 1_000) for table in TABLES}
    large = declaring("events", MAX_RAW_BYTES)
    monkeypatch.setattr(zlib, "decompressobj", None)
    for table, body in bodies.items():
        columns = 1_000 * TABLES[table].itemsize
        assert wire.declared(body) == {table: columns}
        assert needed(body) == len(body) + columns * (3 if table in {"events", "samples"} else 15)
    assert 3 * MAX_RAW_BYTES < needed(large) + 1_000 < UNPACKED_BYTES, "the largest batch that there may be"


@pytest.mark.parametrize(
    ("body", "status", "rule"),
    [
        (batch_of("bins", 3_000_000), 413, "rows = 3000000: a batch may make 300000 rows at most"),
        (declaring("metrics", MAX_RAW_BYTES), 413, "a batch may make 300000 rows at most"),
        (declaring("events", 2**40), 400, "more than 268435456. Send smaller batches"),
        (reseal(b"[" * (MAX_HEADER_BYTES + 1), b""), 400, "more than 4194304. Send smaller batches"),
        (reseal(b"{}", b""), 400, "KeyError: 'tables'"),
        (b"", 400, "too few for a batch"),
    ],
    ids=["rows", "a bomb of rows", "more than a batch", "a header that is the bomb", "no tables", "nothing"],
)
def test_more_than_there_is_is_refused_before_it_is_unpacked(
    monkeypatch: pytest.MonkeyPatch, body: bytes, status: int, rule: str
) -> None:
    monkeypatch.setattr(zlib, "decompressobj", None)
    with pytest.raises(IngestError, match=rule) as refused:
        needed(body)
    assert refused.value.status == status
    assert refused.value.remedy


def test_a_bomb_is_unpacked_no_further_than_its_header_says() -> None:
    header, _ = split(batch_of("events", 1))
    bomb = zlib.compress(bytes(2**26))
    with pytest.raises(wire.BatchError, match=f"decompress to {TABLES['events'].itemsize + 1} bytes or more"):
        wire.decode(reseal(json.dumps(header).encode(), bomb))


# --- the room ---


def test_who_asks_first_gets_first_and_never_more_than_there_is() -> None:
    async def run() -> list[str]:
        room, story, go = Room(10), list[str](), {name: asyncio.Event() for name in "abcd"}

        async def use(name: str, size: int) -> None:
            async with room.taken(size):
                story.append(f"+{name}")
                await go[name].wait()
            story.append(f"-{name}")

        tasks = {}
        for name, size in {"a": 6, "b": 6, "c": 1, "d": 99}.items():
            tasks[name] = asyncio.create_task(use(name, size))
            await asyncio.sleep(0)
        assert story == ["+a"], "c has room, but b was first"
        for name in "abcd":
            go[name].set()
        await asyncio.gather(*tasks.values())
        return story

    story = asyncio.run(run())
    assert [entry for entry in story if entry.startswith("+")] == ["+a", "+b", "+c", "+d"]
    assert story.index("-c") < story.index("+d"), "who wants more than there is has all of it, alone"


@pytest.mark.parametrize("when", ["while it waits", "in the moment in which it is served"])
def test_who_leaves_gives_back_its_room(when: str) -> None:
    async def run() -> None:
        room = Room(10)

        async def take() -> None:
            async with room.taken(10):
                pass

        async with room.taken(10):
            left, stays = asyncio.create_task(take()), asyncio.create_task(take())
            await asyncio.sleep(0)
            if when == "while it waits":
                left.cancel()
        left.cancel()
        await asyncio.wait_for(stays, 10)
        assert left.cancelled()

    asyncio.run(run())


@pytest.fixture
def run(api: TestClient, tmp_path: Path) -> Posted:
    return start_attempt(api, submit(api, "bombs")["id"], tmp_path)


def test_contributions_that_one_row_counts_take_the_room_of_one(api: TestClient, run: Posted) -> None:
    alike = np.zeros(MOST_ROWS + 1, TABLES["staleness"])
    alike["count"] = 1
    alike["staleness"] = np.arange(len(alike)) % 2
    assert run.post(api, staleness_of(run, alike)).status_code == 200
    database = api.app.state.context.database  # type: ignore[attr-defined]
    for table in (StalenessCount, StalenessWindow):
        with database.read() as session:
            rows = session.scalars(select(table).where(table.attempt_id == run.attempt)).all()
        levels = 1 if table is StalenessCount else LEVELS - STALENESS_LEVEL
        assert len(rows) == 2 * levels
        assert sum(row.count for row in rows) == levels * len(alike)


def test_contributions_that_stay_apart_are_counted_before_rows_are_made(
    api: TestClient, run: Posted, monkeypatch: pytest.MonkeyPatch
) -> None:
    apart = np.zeros(MOST_ROWS + 1, TABLES["staleness"])
    apart["staleness"] = np.arange(len(apart))
    monkeypatch.setattr(sys.modules[accept.__module__], "build", None)
    answer = run.post(api, staleness_of(run, apart))
    assert answer.status_code == 413
    assert f"a batch may make {MOST_ROWS} rows at most" in answer.text


def staleness_of(run: Posted, rows: np.ndarray) -> bytes:
    return wire.encode(
        Batch(attempt=run.attempt, party=0, name="w", sequence=0, tables={"staleness": rows}),
    )


@pytest.mark.parametrize("room", ["bodies", "unpacked"])
def test_a_batch_waits_for_its_room(api: TestClient, run: Posted, room: str) -> None:
    context, portal = api.app.state.context, api.portal  # type: ignore[attr-defined]
    assert portal is not None
    taken: Room = getattr(context, room)
    size = {"bodies": BODIES_BYTES, "unpacked": UNPACKED_BYTES}[room]
    body = batch_of("steps", 1, attempt=run.attempt)
    with ThreadPoolExecutor(1) as thread:
        with portal.wrap_async_context_manager(taken.taken(size)):
            answer = thread.submit(run.post, api, body)
            until(lambda: len(taken._waiting) == 1, "it waits")
            assert api.get(f"/api/v1/jobs/{run.job_id}/summary").json()["steps"] in {0, None}
        assert answer.result().status_code == 200
    assert (taken._free, len(taken._waiting)) == (size, 0)


def test_a_refused_batch_gives_back_its_room(api: TestClient, run: Posted) -> None:
    for body in (b"none", declaring("bins", MAX_RAW_BYTES), batch_of("steps", 1, attempt=run.attempt + 1)):
        assert run.post(api, body).status_code in {400, 413}
    context = api.app.state.context  # type: ignore[attr-defined]
    assert (context.bodies._free, context.unpacked._free) == (BODIES_BYTES, UNPACKED_BYTES)
