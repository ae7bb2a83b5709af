"""From a recording process through the spool and a real HTTP server into the database: nothing lost, ever."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

import pytest
from sqlalchemy import func, select

from backend.db import Database
from backend.db.models import Attempt, Batch, LayerTotal, Notice
from engine.telemetry import batch as wire
from engine.telemetry import uploader as uploads
from engine.telemetry.batch import decode
from engine.telemetry.events import Kind, Track
from engine.telemetry.recorder import Recorder
from engine.telemetry.spool import parties
from engine.telemetry.uploader import Uploader
from tests.backend.executor_attempts import until
from tests.backend.ingest_server import TOKEN, IngestServer, PostServer, add_attempt

DEADLINE_S = 60.0

PARTY = """
import sys, time
from pathlib import Path
from engine.telemetry.events import Kind, Track
from engine.telemetry.recorder import Recorder
spool, attempt, party, steps, forever = Path(sys.argv[1]), *map(int, sys.argv[2:])
recorder = Recorder(party, f"worker {party}", time.monotonic_ns, spool, attempt=attempt, flush_s=0.02)
step = 0
while step < steps or forever:
    now = recorder.clock_ns()
    for layer in range(10):
        recorder.event(Kind.SEND, Track.SEND, step=step, layer=layer, start=now, end=now + 1000, bytes=100)
    recorder.step(step, start=now, end=recorder.clock_ns(), samples=8, loss=1.0)
    step += 1
    if step == steps:
        recorder.flush()
        print("recorded", flush=True)
    time.sleep(0.001)
recorder.close()
"""


def start_party(
    spool: Path, attempt: int, party: int, steps: int, *, forever: bool = False
) -> subprocess.Popen[str]:
    arguments = [str(value) for value in (spool, attempt, party, steps, int(forever))]
    return subprocess.Popen([sys.executable, "-c", PARTY, *arguments], stdout=subprocess.PIPE, text=True)


@pytest.fixture
def database(new_database: Database) -> Database:
    """One for each test."""
    return new_database


@pytest.fixture
def server(database: Database) -> Iterator[IngestServer]:
    server = IngestServer(database)
    yield server
    server.close()


def bytes_by_party(database: Database) -> dict[int, int]:
    query = select(LayerTotal.party, func.sum(LayerTotal.bytes)).group_by(LayerTotal.party)
    with database.read() as session:
        return {party: int(size) for party, size in session.execute(query)}


def record(spool: Path, attempt: int, batches: int, *, party: int = 0) -> None:
    recorder = Recorder(party, "worker", lambda: 0, spool, attempt=attempt, flush_s=3600)
    for step in range(batches):
        recorder.event(Kind.SEND, Track.SEND, step=step, layer=0, start=0, end=10, bytes=100)
        if step < batches - 1:
            recorder.flush()
    recorder.close()


def test_two_processes_record_while_the_uploader_posts(
    tmp_path: Path, database: Database, server: IngestServer
) -> None:
    attempt = add_attempt(database, parties=["worker 0", "worker 1"])
    spool = tmp_path / "spool"
    uploader = Uploader(spool, server.url, TOKEN, attempt=attempt, poll_s=0.01)
    processes = [start_party(spool, attempt, party, 200) for party in (0, 1)]
    for process in processes:
        process.communicate(timeout=DEADLINE_S)
        assert process.returncode == 0
    outcome = uploader.finish(timeout_s=DEADLINE_S)
    assert (outcome.sealed, outcome.problem) == (True, None)
    assert bytes_by_party(database) == {0: 200 * 10 * 100, 1: 200 * 10 * 100}
    assert all(reader.sequences() == [] for reader in parties(spool)), "acknowledged batches are deleted"
    with database.read() as session:
        assert session.get_one(Attempt, attempt).sealed
        batches = session.scalars(select(Batch)).all()
        last = session.scalars(select(Notice).order_by(Notice.id.desc())).first()
    assert len(batches) == sum(last + 1 for last in outcome.last_sequences.values())
    assert sum(decode(batch.body).final for batch in batches) == 2
    assert last is not None
    assert last.kind == "sealed"


def test_what_a_killed_process_spooled_still_arrives(
    tmp_path: Path, database: Database, server: IngestServer
) -> None:
    attempt = add_attempt(database)
    spool = tmp_path / "spool"
    process = start_party(spool, attempt, 0, 50, forever=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "recorded\n"
    process.send_signal(signal.SIGKILL)
    process.wait(DEADLINE_S)
    process.stdout.close()
    assert Uploader(spool, server.url, TOKEN, attempt=attempt).finish(timeout_s=DEADLINE_S).sealed
    query = (
        select(LayerTotal.step, func.sum(LayerTotal.count))
        .where(LayerTotal.step < 50)
        .group_by(LayerTotal.step)
    )
    with database.read() as session:
        assert {step: int(count) for step, count in session.execute(query)} == dict.fromkeys(range(50), 10)


def test_a_server_that_goes_away_and_comes_back_misses_nothing(
    tmp_path: Path, database: Database, port: int
) -> None:
    attempt = add_attempt(database)
    spool = tmp_path / "spool"
    server = IngestServer(database, port)
    uploader = Uploader(spool, server.url, TOKEN, attempt=attempt, poll_s=0.01)
    recorder = Recorder(0, "worker", lambda: 0, spool, attempt=attempt, flush_s=0.01)
    for step in range(30):
        if step == 10:
            server.close()
        if step == 20:
            server = IngestServer(database, port)
        recorder.event(Kind.SEND, Track.SEND, step=step, layer=0, start=0, end=10, bytes=100)
        recorder.flush()
    recorder.close()
    assert uploader.finish(timeout_s=DEADLINE_S).sealed
    server.close()
    assert bytes_by_party(database) == {0: 3000}


def test_a_server_that_stays_away_leaves_everything_for_the_next_uploader(
    tmp_path: Path, database: Database, port: int
) -> None:
    attempt = add_attempt(database)
    spool = tmp_path / "spool"
    server = IngestServer(database, port)
    server.close()
    record(spool, attempt, 3)
    tried = threading.Event()
    uploader = Uploader(spool, server.url, TOKEN, attempt=attempt, moved=tried.set)
    assert tried.wait(DEADLINE_S), "the server is asked, and then where it is now"
    outcome = uploader.finish(timeout_s=0.3)
    assert not outcome.sealed
    assert "ConnectionRefusedError" in (outcome.problem or "")
    assert outcome.last_sequences == {0: 2}

    server = IngestServer(database, port)
    assert Uploader(spool, server.url, TOKEN, attempt=attempt).finish(timeout_s=DEADLINE_S).sealed
    server.close()
    assert bytes_by_party(database) == {0: 300}


def test_an_acknowledgement_that_got_lost_is_harmless(
    tmp_path: Path, database: Database, server: IngestServer
) -> None:
    attempt = add_attempt(database)
    spool = tmp_path / "spool"
    record(spool, attempt, 3)
    kept = {path: path.read_bytes() for path in (spool / "0").glob("*.batch")}
    assert Uploader(spool, server.url, TOKEN, attempt=attempt).finish(timeout_s=DEADLINE_S).sealed
    # As if the supervisor had died after the server's commit, before it noted the answer.
    (spool / "0" / "acknowledged").unlink()
    for path, body in kept.items():
        path.write_bytes(body)
    assert Uploader(spool, server.url, TOKEN, attempt=attempt).finish(timeout_s=DEADLINE_S).sealed
    assert bytes_by_party(database) == {0: 300}


def test_a_torn_tail_is_cut_and_the_attempt_still_seals(
    tmp_path: Path, database: Database, server: IngestServer
) -> None:
    attempt = add_attempt(database)
    spool = tmp_path / "spool"
    record(spool, attempt, 3)
    tail = spool / "0" / "0000000002.batch"
    tail.write_bytes(tail.read_bytes()[:-1])
    outcome = Uploader(spool, server.url, TOKEN, attempt=attempt).finish(timeout_s=DEADLINE_S)
    assert (outcome.sealed, outcome.last_sequences) == (True, {0: 1})
    assert bytes_by_party(database) == {0: 200}


def test_a_torn_batch_in_the_middle_leaves_no_gap(
    tmp_path: Path, database: Database, server: IngestServer
) -> None:
    attempt = add_attempt(database)
    spool = tmp_path / "spool"
    record(spool, attempt, 4)
    (spool / "0" / "0000000001.batch").write_bytes(b"")
    outcome = Uploader(spool, server.url, TOKEN, attempt=attempt).finish(timeout_s=DEADLINE_S)
    assert (outcome.sealed, outcome.last_sequences) == (True, {0: 3})
    assert bytes_by_party(database) == {0: 300}
    with database.read() as session:
        assert decode(session.get_one(Batch, (attempt, 0, 1)).body).name == "lost"


def test_a_file_far_ahead_is_put_aside_and_the_attempt_still_seals(
    tmp_path: Path, database: Database, server: IngestServer
) -> None:
    """A user's code, or a damaged disk: without this, billions of empty batches would go before it."""
    attempt = add_attempt(database)
    spool = tmp_path / "spool"
    record(spool, attempt, 3)
    body = wire.encode(wire.Batch(attempt=attempt, party=0, name="worker 0", sequence=3))
    for name in ("4999999999", "9999999999"):
        (spool / "0" / f"{name}.batch").write_bytes(body)
    outcome = Uploader(spool, server.url, TOKEN, attempt=attempt).finish(timeout_s=DEADLINE_S)
    assert (outcome.sealed, outcome.last_sequences) == (True, {0: 2}), outcome.problem
    assert len(list((spool / "0").glob("*.torn"))) == 2


def test_a_refusal_ends_the_upload_with_its_reason(
    tmp_path: Path, database: Database, server: IngestServer
) -> None:
    attempt = add_attempt(database)
    spool = tmp_path / "spool"
    record(spool, attempt, 2)
    outcome = Uploader(spool, server.url, "another token", attempt=attempt).finish(timeout_s=DEADLINE_S)
    assert not outcome.sealed
    assert "batch 0 of party 0 refused (401): the attempt's token is not valid" in (outcome.problem or "")
    assert parties(spool)[0].sequences() == [0, 1]


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "BACK_OFF_S", (0.01, 0.05))


@pytest.mark.usefixtures("impatient")
def test_a_stranger_on_the_servers_port_is_waited_out(tmp_path: Path, database: Database, port: int) -> None:
    attempt = add_attempt(database)
    spool = tmp_path / "spool"
    server = IngestServer(database, port)
    server.close()
    answers = [
        (200, "<html>Hello</html>"),
        (200, "{}"),
        (200, "[" * 100_000),
        (302, ""),
        (401, "Unauthorized"),
        (403, "{}"),
        (404, "<html>Not found</html>"),
        (410, '{"type": "about:blank"}'),
        (401, '{"type": "/problems/ingest", "detail": "another server of ours, with other data"}'),
        (404, '{"type": "/problems/not-found"}'),
    ]
    coming = cycle(answers)
    asked = []

    def answer(path: str, *_: object) -> tuple[int, str]:
        asked.append(path)
        return next(coming)

    stranger = PostServer(answer, port)
    uploader = Uploader(spool, server.url, TOKEN, attempt=attempt, poll_s=0.01)
    record(spool, attempt, 3)
    until(lambda: len(asked) > 2 * len(answers), "every answer was given")
    stranger.close()
    assert parties(spool)[0].sequences() == [0, 1, 2], "nothing was taken for acknowledged"
    server = IngestServer(database, port)
    until(lambda: bytes_by_party(database) == {0: 300}, "all of it arrives while the attempt runs")
    assert uploader.finish(timeout_s=DEADLINE_S).sealed
    server.close()
    assert bytes_by_party(database) == {0: 300}


@pytest.mark.usefixtures("impatient")
def test_the_address_is_asked_for_again_when_the_server_is_gone(
    tmp_path: Path, database: Database, port: int
) -> None:
    attempt = add_attempt(database)
    spool = tmp_path / "spool"
    first = IngestServer(database, port)
    first.close()
    said: list[str | None] = [None, "no address", first.url]
    uploader = Uploader(
        spool,
        first.url,
        TOKEN,
        attempt=attempt,
        poll_s=0.01,
        moved=lambda: said.pop(0) if len(said) > 1 else said[0],
    )
    record(spool, attempt, 3)
    until(lambda: len(said) == 1, "it asked again and again")
    second = IngestServer(database)
    said.append(second.url)
    assert uploader.finish(timeout_s=DEADLINE_S).sealed
    second.close()
    assert bytes_by_party(database) == {0: 300}


def test_changed_content_is_refused_and_stays_in_the_spool(
    tmp_path: Path, database: Database, server: IngestServer
) -> None:
    attempt = add_attempt(database)
    record(tmp_path / "one", attempt, 2)
    record(tmp_path / "other", attempt, 1)
    assert (
        Uploader(tmp_path / "other", server.url, TOKEN, attempt=attempt).finish(timeout_s=DEADLINE_S).sealed
    )
    outcome = Uploader(tmp_path / "one", server.url, TOKEN, attempt=attempt).finish(timeout_s=DEADLINE_S)
    assert "409" in (outcome.problem or "")
    assert bytes_by_party(database) == {0: 100}


def test_an_address_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Give http://host:port"):
        Uploader(tmp_path, "localhost:8000", TOKEN, attempt=1)
