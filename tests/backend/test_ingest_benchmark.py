"""The ingest benchmark counts what it sent, and notices what is missing."""

from __future__ import annotations

import pytest

from backend.db import Database
from backend.ingest.benchmark import check
from backend.ingest.benchmark_load import KINDS, Mix, Sender
from engine.telemetry.batch import decode
from tests.backend.ingest_server import TOKEN, IngestServer, add_attempt

MIX = Mix(layers=3, events=100)


@pytest.fixture
def database(new_database: Database) -> Database:
    """One for each test."""
    return new_database


def test_a_batch_holds_the_mix_that_is_stated(database: Database) -> None:
    sender = Sender("http://127.0.0.1:1", 1, TOKEN, 0, MIX)
    first, second = map(decode, sender.prepare(2))
    assert (MIX.steps, MIX.per_batch) == (2, 2 * 3 * len(KINDS))
    assert len(first.table("events")) == first.table("totals")["count"].sum() == MIX.per_batch
    assert set(first.table("events")["step"].tolist()) == {0, 1}
    assert set(second.table("events")["step"].tolist()) == {2, 3}
    assert (first.sequence, second.sequence) == (0, 1)
    assert len(first.table("samples")) == 50, "one every 10 ms"


def test_a_batch_that_is_missing_is_noticed(database: Database) -> None:
    server = IngestServer(database)
    attempt = add_attempt(database)
    senders = [Sender(server.url, attempt, TOKEN, party, MIX) for party in (0, 1)]
    for sender in senders:
        sender.rush(sender.prepare(3))
        sender.close()
    check(database, attempt, senders, MIX)
    assert [len(sender.latency_s) for sender in senders] == [3, 3]
    senders[1].sent += 1
    with pytest.raises(RuntimeError, match=r"'batches': 7.*'batches': 6"):
        check(database, attempt, senders, MIX)
    server.close()


def test_a_refusal_ends_the_benchmark(database: Database) -> None:
    server = IngestServer(database)
    sender = Sender(server.url, add_attempt(database), "another token", 0, MIX)
    with pytest.raises(RuntimeError, match="batch 0 of worker 0: 401"):
        sender.rush(sender.prepare(1))
    sender.close()
    server.close()
