"""Batches and seals at the service: everything stored once, everything refused with its reason."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest
from sqlalchemy import func, select

from backend.db import Database
from backend.db.models import (
    Attempt,
    Batch,
    DroppedDetail,
    Job,
    LayerTotal,
    Link,
    LinkBin,
    Metric,
    Notice,
    StepRow,
)
from backend.ingest import MAX_BODY_BYTES, IngestError, accept, room, seal
from engine.telemetry import batch as wire
from engine.telemetry.batch_limits import MOST_AHEAD
from engine.telemetry.events import ALL_LAYERS, LEVELS, NO_LAYER, Direction, Kind, Track
from engine.telemetry.recorder import Recorder
from tests.backend.full_recorder import full_recorder
from tests.backend.ingest_server import TOKEN, add_attempt

MS = 1_000_000


@pytest.fixture
def database(new_database: Database) -> Database:
    """One for each test."""
    return new_database


def recorded(attempt: int, *, party: int = 0, batches: int = 1, steps: int = 4) -> list[bytes]:
    """What a party of an attempt records: `steps` steps of two layers in each batch."""
    recorder = full_recorder(attempt, party, lambda: 7)
    for batch in range(batches):
        for step in range(batch * steps, (batch + 1) * steps):
            start = step * 50 * MS
            for layer in (0, 1):
                for kind, track in ((Kind.FORWARD, Track.COMPUTE), (Kind.SEND, Track.SEND)):
                    recorder.event(
                        kind, track, step=step, layer=layer, start=start, end=start + 20 * MS, bytes=1000
                    )
            recorder.event(Kind.WAIT, Track.COMPUTE, step=step, layer=0, start=start, end=start + 3 * MS)
            recorder.step(
                step, start=start, end=start + 45 * MS, samples=16, loss=1 / (step + 1), exposed=3 * MS
            )
        recorder.metric("test_accuracy", (batch + 1) * steps - 1, 0.5 + batch / 10)
        recorder.flush()
    recorder.declare_link("transport", rate_bps=10**8, rate_source="shaped")
    recorder.link("transport", time=0, tx_bytes=0, rx_bytes=0)
    recorder.link("transport", time=20 * MS, tx_bytes=5000, rx_bytes=0)
    recorder.close()
    return recorder.memory


def counts(database: Database) -> dict[str, int]:
    with database.read() as session:
        return {
            model.__tablename__: session.scalar(select(func.count()).select_from(model)) or 0
            for model in (Batch, StepRow, Metric, LayerTotal, LinkBin, Link, Notice)
        }


def test_a_batch_becomes_rows_of_every_kind(database: Database) -> None:
    attempt = add_attempt(database)
    bodies = recorded(attempt, batches=2)
    for body in bodies:
        accept(database, attempt, TOKEN, body)
    with database.read() as session:
        steps = session.scalars(select(StepRow).order_by(StepRow.step)).all()
        assert [(s.step, s.samples, s.loss, s.exposed_ns) for s in steps] == [
            (step, 16, 1 / (step + 1), 3 * MS) for step in range(8)
        ]
        sent = session.scalars(select(LayerTotal).where(LayerTotal.kind == Kind.SEND)).all()
        assert [(t.step, t.layer, t.track, t.count, t.busy_ns, t.bytes, t.exposed_ns) for t in sent] == [
            (step, layer, Track.SEND, 1, 20 * MS, 1000, 0) for step in range(8) for layer in (0, 1)
        ]
        waits = session.scalars(select(LayerTotal).where(LayerTotal.kind == Kind.WAIT)).all()
        assert {(t.layer, t.busy_ns, t.exposed_ns) for t in waits} == {(0, 3 * MS, 3 * MS)}
        assert {(m.name, m.step, m.value) for m in session.scalars(select(Metric))} == {
            ("test_accuracy", 3, 0.5),
            ("test_accuracy", 7, 0.6),
        }
        link = session.scalars(select(Link)).one()
        assert (link.interface, link.rate_bps, link.rate_source) == ("transport", 10**8, "shaped")
        raw = [wire.decode(b.body) for b in session.scalars(select(Batch).order_by(Batch.sequence))]
        assert sum(len(batch.table("events")) for batch in raw) == 8 * 5
        assert session.scalars(select(Job)).one().revision == len(bodies)


def test_every_level_of_the_link_bins_holds_all_bytes(database: Database) -> None:
    attempt = add_attempt(database)
    for body in recorded(attempt, batches=3):
        accept(database, attempt, TOKEN, body)
    query = (
        select(LinkBin.level, LinkBin.layer, func.sum(LinkBin.bytes))
        .where(LinkBin.direction == Direction.TX)
        .group_by(LinkBin.level, LinkBin.layer)
    )
    with database.read() as session:
        found = {(level, layer): size for level, layer, size in session.execute(query)}
        first = session.get_one(LinkBin, (attempt, 0, 0, "transport", 0, Direction.TX, 0))
    assert found == {
        (level, layer): size
        for level in range(LEVELS)
        for layer, size in ((0, 12000), (1, 12000), (ALL_LAYERS, 5000))
    }
    assert first.bytes == 500, "1000 bytes over 20 ms: half of them in the first 10 ms"
    assert NO_LAYER not in {layer for _, layer in found}


def test_totals_of_one_step_from_two_batches_add_up(database: Database) -> None:
    attempt = add_attempt(database)
    first, second = (replace(wire.decode(body), final=False) for body in recorded(attempt, batches=2)[:2])
    second.table("totals")["step"] = first.table("totals")["step"]
    for batch in (first, second):
        accept(database, attempt, TOKEN, wire.encode(batch))
    with database.read() as session:
        assert set(session.scalars(select(LayerTotal.count))) == {2}


def test_a_repeated_batch_changes_nothing_and_is_acknowledged(database: Database) -> None:
    attempt = add_attempt(database)
    bodies = recorded(attempt)
    first = [accept(database, attempt, TOKEN, body) for body in bodies]
    before = counts(database)
    with database.read() as session:
        total = session.scalar(select(func.sum(LayerTotal.bytes)))
    again = [accept(database, attempt, TOKEN, body) for body in bodies]
    assert [a.repeated for a in first] == [False] * len(bodies)
    assert [a.repeated for a in again] == [True] * len(bodies)
    assert counts(database) == before
    with database.read() as session:
        assert session.scalar(select(func.sum(LayerTotal.bytes))) == total


def test_other_content_under_the_same_number_is_refused(database: Database) -> None:
    attempt = add_attempt(database)
    body = recorded(attempt)[0]
    accept(database, attempt, TOKEN, body)
    before = counts(database)
    with pytest.raises(IngestError, match="other content") as refused:
        accept(database, attempt, TOKEN, wire.encode(replace(wire.decode(body), dropped=1)))
    assert refused.value.status == 409
    assert counts(database) == before


def test_a_number_far_ahead_of_what_was_received_is_refused(database: Database) -> None:
    """Accepted, it could never be sealed: the server would miss all those before it."""
    attempt = add_attempt(database)
    whole = [replace(wire.decode(body), final=False) for body in recorded(attempt, batches=2)[:2]]

    def send(number: int, party: int = 0) -> None:
        accept(database, attempt, TOKEN, wire.encode(replace(whole[0], sequence=number, party=party)))

    with pytest.raises(
        IngestError, match=f"of party 0 the next is 0, and the furthest .* {MOST_AHEAD}"
    ) as refused:
        send(MOST_AHEAD + 1)
    assert (refused.value.status, refused.value.field) == (409, "sequence")
    assert counts(database)["batches"] == 0
    send(0)
    with pytest.raises(IngestError, match="the next is 1"):
        send(2**31 - 1)
    with pytest.raises(IngestError, match="of party 1 the next is 0"):
        send(MOST_AHEAD + 1, party=1)
    send(MOST_AHEAD + 1)
    assert counts(database)["batches"] == 2
    with pytest.raises(IngestError, match="Missing: 1, 2") as refused:
        seal(database, attempt, TOKEN, {0: MOST_AHEAD + 1})
    assert refused.value.status == 409


def test_refusals_name_value_rule_and_remedy(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    attempt = add_attempt(database, parties=["worker 0", "worker 1"])
    body = recorded(attempt)[0]

    def refusal(*arguments: object) -> tuple[int, str]:
        with pytest.raises(IngestError) as refused:
            accept(database, *arguments)  # type: ignore[arg-type]
        return refused.value.status, str(refused.value)

    assert refusal(attempt, "a guess", body) == (401, refusal(attempt + 1, TOKEN, body)[1].replace("2", "1"))
    assert refusal(attempt, TOKEN, body[:-1])[0] == 400
    assert refusal(attempt, TOKEN, b"")[0] == 400
    status, message = refusal(attempt, TOKEN, recorded(attempt, party=2)[0])
    assert (status, "party = 2: attempt 1 has 2 parties: worker 0, worker 1" in message) == (400, True)
    assert refusal(attempt, TOKEN, recorded(attempt + 7)[0])[0] == 400
    assert refusal(attempt, TOKEN, bytes(MAX_BODY_BYTES + 1))[0] == 413
    monkeypatch.setattr(room, "MOST_ROWS", 5)
    status, message = refusal(attempt, TOKEN, body)
    assert (status, ": a batch may make 5 rows at most" in message) == (413, True)
    monkeypatch.setattr(room, "MOST_ROWS", 3)
    monkeypatch.setattr(sys.modules[accept.__module__], "build", None)
    assert refusal(attempt, TOKEN, body)[1].startswith("rows = 4: "), "steps with events are counted before"
    assert counts(database)["batches"] == 0


def test_a_loss_that_is_no_finite_number_is_stored_as_none(database: Database) -> None:
    attempt = add_attempt(database)
    recorder = Recorder(0, "w", lambda: 0, None, attempt=attempt)
    recorder.step(0, start=0, end=1, samples=1, loss=float("nan"))
    recorder.step(1, start=1, end=2, samples=1, loss=float("inf"))
    recorder.metric("test_loss", 1, np.nan)
    recorder.close()
    for body in recorder.memory:
        accept(database, attempt, TOKEN, body)
    with database.read() as session:
        assert list(session.scalars(select(StepRow.loss).order_by(StepRow.step))) == [None, None]
        assert session.scalars(select(Metric)).one().value is None


def test_notices_carry_the_latest_values(database: Database) -> None:
    attempt = add_attempt(database)
    for body in recorded(attempt, batches=2):
        accept(database, attempt, TOKEN, body)
    with database.read() as session:
        notices = session.scalars(select(Notice).order_by(Notice.id)).all()
        job_id = session.scalars(select(Job.id)).one()
    assert {(n.job_id, n.kind) for n in notices} == {(job_id, "telemetry")}
    assert [n.payload["revision"] for n in notices] == [1, 2, 3]
    assert notices[1].payload["step"] == 7
    assert notices[1].payload["loss"] == 1 / 8
    assert notices[1].payload["metrics"] == {"test_accuracy": {"step": 7, "value": 0.6}}


def test_a_seal_needs_every_batch_and_then_nothing_follows(database: Database) -> None:
    attempt = add_attempt(database)
    bodies = recorded(attempt, batches=3)
    last = len(bodies) - 1
    for body in (bodies[0], bodies[2]):
        accept(database, attempt, TOKEN, body)
    with pytest.raises(IngestError, match=r"Missing: 1, 3") as refused:
        seal(database, attempt, TOKEN, {0: last})
    assert refused.value.status == 409
    for body in bodies:
        accept(database, attempt, TOKEN, body)
    with pytest.raises(IngestError, match=r"the newest is 3.*Give 3 as its last sequence number"):
        seal(database, attempt, TOKEN, {0: last - 1})
    with pytest.raises(IngestError, match="of party 1 the server has 0 batches"):
        seal(database, attempt, TOKEN, {0: last, 1: 0})
    with pytest.raises(IngestError, match=r"Missing: 4, 5, .*, 13, \.\.\."):
        seal(database, attempt, TOKEN, {0: 2**62})  # counted up to, it would fill the memory
    with pytest.raises(IngestError) as refused:
        seal(database, attempt, "a guess", {0: last})
    assert refused.value.status == 401

    assert seal(database, attempt, TOKEN, {0: last, 1: -1}).repeated is False
    assert seal(database, attempt, TOKEN, {0: last, 1: -1}).repeated is True
    with pytest.raises(IngestError, match="was sealed with") as refused:
        seal(database, attempt, TOKEN, {0: last + 1})
    assert refused.value.status == 410

    assert accept(database, attempt, TOKEN, bodies[0]).repeated, "a late repetition is still harmless"
    with pytest.raises(IngestError, match="sealed") as refused:
        accept(database, attempt, TOKEN, recorded(attempt, party=1)[0])
    assert refused.value.status == 410
    with database.read() as session:
        row = session.get_one(Attempt, attempt)
    assert (row.sealed, row.last_sequences) == (True, {"0": last, "1": -1})


def test_where_detail_is_missing_is_stored(database: Database) -> None:
    attempt = add_attempt(database)
    whole = wire.decode(recorded(attempt)[0])
    accept(database, attempt, TOKEN, wire.encode(whole.without_detail()))
    with database.read() as session:
        (row,) = session.scalars(select(DroppedDetail)).all()
        total = session.scalar(select(func.sum(LayerTotal.count)))
    assert (row.party, row.sequence, row.events, row.first_step, row.last_step) == (0, 0, 20, 0, 3)
    assert total == 20, "totals are complete"
