"""The scheduler with a real database, real supervisors and a real address for telemetry."""

from __future__ import annotations

import hashlib
import json
import signal
import stat
from contextlib import suppress
from pathlib import Path

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from backend.db.models import Attempt, Batch, Job, Notice, Transition
from backend.executors import files, process
from backend.executors.supervised import Supervised
from backend.lifecycle import InvalidTransitionError, Reason, State
from backend.scheduler import changes, record
from engine.telemetry import batch as wire
from engine.telemetry.spool import SpoolWriter
from tests.backend.executor_attempts import until
from tests.backend.house import House

ALL_THE_WAY = ["queued", "placing", "starting", "running", "stopping_succeeded", "succeeded"]


def test_a_job_goes_all_the_way_and_every_station_is_recorded(open_house: House) -> None:
    house = open_house
    id_ = house.submit("work")
    done = house.ends(id_)
    assert (done.state, done.reason) == ("succeeded", Reason.COMPLETED)
    assert done.queued_unix_ns <= done.started_unix_ns <= done.ended_unix_ns
    assert house.story(id_) == ALL_THE_WAY
    (attempt,) = house.attempts(id_)
    assert (attempt.state, attempt.devices, attempt.sealed) == ("succeeded", ["cpu:0", "cpu:1"], True)
    assert attempt.parties == ["worker 0", "worker 1"]
    with house.database.read() as session:
        told = session.scalars(select(Notice).where(Notice.kind == "job").order_by(Notice.id)).all()
        moves = session.scalars(select(Transition).where(Transition.attempt_id == attempt.id)).all()
    assert [n.payload["state"] for n in told] == ALL_THE_WAY
    assert [n.payload["revision"] for n in told] == sorted({n.payload["revision"] for n in told})
    assert [m.to_state for m in moves] == ALL_THE_WAY[1:]
    assert house.living(id_) == []


def test_who_runs_alone_waits_for_what_is_no_job_and_others_do_not(open_house: House) -> None:
    house = open_house
    with house.scheduler.aside("profile of mlp"):
        other = house.submit("work", workers=1)
        assert house.ends(other).state == "succeeded"
        alone = house.submit("work", workers=1, alone=True)
        until(lambda: house.job(alone).message is not None, "it is told why it waits")
        waits = house.job(alone)
        assert (waits.state, waits.message) == (
            "queued",
            "next in the queue: it runs alone, as it asked (cluster.alone), and 'profile of mlp' runs still",
        )
    assert house.ends(alone).state == "succeeded"


def test_jobs_wait_while_the_executor_can_launch_none_and_say_why(
    open_house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = open_house
    outage: list[str | None] = ["the Ray cluster at 10.0.0.1:6379 does not answer"]
    monkeypatch.setattr(house.scheduler._executor, "outage", lambda: outage[0])
    id_ = house.submit("work")
    until(lambda: house.job(id_).message is not None, "it is told why it waits")
    assert (house.job(id_).state, house.job(id_).reason) == ("queued", Reason.WAITING_FOR_DEVICES)
    assert house.job(id_).message == f"no device can be reached: {outage[0]}. It starts when that is over"
    outage[0] = None
    assert house.ends(id_).state == "succeeded"


def test_the_token_is_in_one_private_file_and_nowhere_else(open_house: House) -> None:
    house = open_house
    id_ = house.submit("work")
    house.ends(id_)
    (attempt,) = house.attempts(id_)
    directory = Path(attempt.directory)
    ingest = files.read_ingest(directory)
    assert ingest is not None
    assert stat.S_IMODE((directory / "ingest.json").stat().st_mode) == 0o600
    assert hashlib.sha256(ingest.token.encode()).hexdigest() == attempt.token_sha256
    holders = [
        p.name for p in house.directory.rglob("*") if p.is_file() and ingest.token.encode() in p.read_bytes()
    ]
    assert holders == ["ingest.json"]


def test_a_failed_job_has_the_processs_own_error_and_gives_its_devices_on(open_house: House) -> None:
    house = open_house
    failing, next_one = house.submit("fails"), house.submit("work")
    failed = house.ends(failing)
    assert (failed.state, failed.reason) == ("failed", Reason.PROCESS_FAILED)
    assert failed.message == "worker 1 failed: ValueError: the loss is nan at step 7 (exit code 3)"
    assert house.attempts(failing)[0].exit_code == 3
    assert house.living(failing) == []
    assert house.ends(next_one).state == "succeeded"


def test_who_waits_is_told_why_and_runs_when_devices_are_free(open_house: House) -> None:
    house = open_house
    first = house.submit("sleep")
    house.reaches(first, "running")
    second, third = house.submit("work"), house.submit("work", workers=1)
    until(lambda: house.job(third).reason == Reason.WAITING_IN_LINE, "the third knows why it waits")
    assert house.job(second).message == (
        "next in the queue: needs 2 CPU devices, 0 of 2 are free; 'sleep' holds cpu:0 and cpu:1"
    )
    assert house.job(third).message == "number 2 in the queue, behind 'work' (older)"
    house.cancel(first)
    assert [house.ends(i).state for i in (second, third)] == ["succeeded", "succeeded"]


def test_cancel_ends_queued_and_running_jobs_and_twice_changes_nothing(open_house: House) -> None:
    house = open_house
    running, queued = house.submit("stubborn"), house.submit("work")
    house.reaches(running, "running")
    assert house.cancel(queued)
    assert house.job(queued).state == "cancelled"
    assert house.attempts(queued) == []
    assert house.cancel(running)
    assert not house.cancel(running)
    done = house.ends(running)
    assert (done.state, done.reason) == ("cancelled", Reason.CANCELLED)
    assert house.story(running)[-2:] == ["stopping_cancelled", "cancelled"]
    assert house.living(running) == []
    assert not house.cancel(running)


def test_an_ended_job_cannot_be_cancelled_and_the_error_tells_its_story(open_house: House) -> None:
    id_ = open_house.submit("work")
    open_house.ends(id_)
    with pytest.raises(
        InvalidTransitionError, match=r"it has ended.*running -> stopping_succeeded -> succeeded"
    ):
        open_house.cancel(id_)


def test_a_running_job_goes_on_over_a_restart_of_the_server(open_house: House) -> None:
    house = open_house
    id_ = house.submit("sleep")
    house.reaches(id_, "running")
    before = house.living(id_)
    house.restart()
    assert house.job(id_).state == "running"
    assert house.living(id_) == before
    house.cancel(id_)
    assert house.ends(id_).state == "cancelled"
    assert len(house.attempts(id_)) == 1


def test_a_running_jobs_telemetry_follows_the_server_to_another_port(open_house: House) -> None:
    house = open_house
    id_ = house.submit("sleep")
    house.reaches(id_, "running")
    (attempt,) = house.attempts(id_)
    directory, old = Path(attempt.directory), house.port
    house.close()
    spool = SpoolWriter(directory / "spool", 0)
    for number in range(3):
        body = wire.encode(wire.Batch(attempt=attempt.id, party=0, name="worker 0", sequence=number))
        spool.write(number, body)
    house.port = 0
    house.open(2)
    house.scheduler.start()

    def arrived() -> bool:
        with house.database.read() as session:
            found = session.scalars(select(Batch.sequence).where(Batch.attempt_id == attempt.id))
            return sorted(found) == [0, 1, 2]

    assert house.port != old
    until(arrived, "all of it arrives at the new port")
    assert house.job(id_).state == "running"
    assert stat.S_IMODE((directory / "ingest.json").stat().st_mode) == 0o600
    house.cancel(id_)
    assert house.ends(id_).state == "cancelled"
    assert house.attempts(id_)[0].sealed


def test_a_paused_server_starts_nothing_but_follows_and_cancels_what_runs(open_house: House) -> None:
    house = open_house
    killed, cancelled = (house.submit("sleep", workers=1) for _ in range(2))
    for id_ in (killed, cancelled):
        house.reaches(id_, "running")
    house.restart(paused=True)
    waiting = house.submit("work")
    until(lambda: house.job(waiting).reason == Reason.SERVER_PAUSED, "it is told why it waits")
    assert "without TRAINYARD_PAUSED" in str(house.job(waiting).message)
    house.cancel(cancelled)
    handle = changes.handle_of(house.attempts(killed)[0])
    assert handle is not None
    process.send(Supervised.of(handle).identity, signal.SIGKILL)
    assert house.ends(killed).reason == Reason.SUPERVISOR_LOST
    assert house.ends(cancelled).state == "cancelled"
    until(lambda: house.attempts(killed)[0].sealed, "what it left is sent")
    assert house.job(waiting).state == "queued"
    house.restart()
    assert house.ends(waiting).state == "succeeded"


def test_a_job_that_ended_while_the_server_was_away_is_closed_and_sealed(open_house: House) -> None:
    house = open_house
    id_ = house.submit("sleep")
    house.reaches(id_, "running")
    (attempt,) = house.attempts(id_)
    house.close()
    directory = Path(attempt.directory)
    for worker in process.marked(directory):
        with suppress(FileNotFoundError):  # the first one's death makes the supervisor end the others
            if b"sleep" in Path(f"/proc/{worker.pid}/cmdline").read_bytes():
                process.send(worker, signal.SIGKILL)
    until(lambda: files.read_progress(directory)[1], "the supervisor has noticed")
    house.open(2)
    house.scheduler.start()
    failed = house.ends(id_)
    assert (failed.state, failed.reason) == ("failed", Reason.PROCESS_KILLED)
    assert house.attempts(id_)[0].exit_code == -signal.SIGKILL
    until(lambda: house.attempts(id_)[0].sealed, "its telemetry is sealed")


def test_a_lost_supervisor_fails_the_job_and_its_spool_still_arrives(open_house: House) -> None:
    house = open_house
    id_ = house.submit("stubborn")
    house.reaches(id_, "running")
    (attempt,) = house.attempts(id_)
    handle = changes.handle_of(attempt)
    assert handle is not None
    body = wire.encode(wire.Batch(attempt=attempt.id, party=0, name="worker 0", sequence=0))
    SpoolWriter(Supervised.of(handle).directory / "held", 0).write(0, body)
    process.send(Supervised.of(handle).identity, signal.SIGKILL)
    (Supervised.of(handle).directory / "held" / "0").rename(Supervised.of(handle).directory / "spool" / "0")
    failed = house.ends(id_)
    assert (failed.state, failed.reason) == ("failed", Reason.SUPERVISOR_LOST)
    assert house.living(id_) == []
    until(lambda: house.attempts(id_)[0].sealed, "its telemetry is sealed")
    with house.database.read() as session:
        assert len(session.scalars(select(Batch).where(Batch.attempt_id == attempt.id)).all()) == 1


def test_a_supervisor_lost_while_the_server_was_away_is_noticed_at_the_start(open_house: House) -> None:
    house = open_house
    id_ = house.submit("sleep")
    house.reaches(id_, "running")
    handle = changes.handle_of(house.attempts(id_)[0])
    assert handle is not None
    house.close()
    process.send(Supervised.of(handle).identity, signal.SIGKILL)
    house.open(2)
    house.scheduler.start()
    assert house.ends(id_).reason == Reason.SUPERVISOR_LOST
    assert house.living(id_) == []


def test_a_launch_that_the_server_did_not_live_to_see_is_done_again(house: House) -> None:
    id_ = house.submit("work")

    def placed_but_not_launched(session: Session) -> None:
        attempt = Attempt(
            job_id=id_,
            number=1,
            parties=[],
            token_sha256="",
            directory=str(house.directory / "jobs" / id_ / "1"),
            devices=["cpu:0", "cpu:1"],
            created_unix_ns=1,
        )
        record.place(session, session.get_one(Job, id_), attempt)

    house.database.writer.run(placed_but_not_launched)
    house.scheduler.start()
    assert house.ends(id_).state == "succeeded"
    assert house.story(id_) == ["queued", "placing", *ALL_THE_WAY]
    assert [(a.state, a.reason) for a in house.attempts(id_)] == [
        ("failed", Reason.LAUNCH_INTERRUPTED),
        ("succeeded", Reason.COMPLETED),
    ]


def test_a_launch_that_happened_but_was_not_recorded_is_found(open_house: House) -> None:
    house = open_house
    id_ = house.submit("sleep")
    house.reaches(id_, "running")
    house.scheduler.close()

    def forget(session: Session) -> None:
        attempt = session.get_one(Job, id_).attempts[0]
        attempt.handle = None
        attempt.state = attempt.job.state = State.PLACING

    house.database.writer.run(forget)
    house.restart()
    house.reaches(id_, "running")
    assert len(house.attempts(id_)) == 1


def test_a_job_too_wide_for_a_smaller_server_fails_with_the_remedy(house: House) -> None:
    id_ = house.submit("work")
    house.close()
    house.open(1)
    house.scheduler.start()
    failed = house.ends(id_)
    assert (failed.state, failed.reason) == ("failed", Reason.TOO_FEW_DEVICES)
    assert "more workers than the server's 1 CPU device. Use at most 1" in str(failed.message)


def test_a_directory_that_cannot_be_made_fails_the_job_and_nothing_else(open_house: House) -> None:
    house = open_house
    (house.directory / "jobs").write_text("in the way")
    failed = house.ends(house.submit("work"))
    assert (failed.state, failed.reason) == ("failed", Reason.LAUNCH_FAILED)
    assert "cannot start the supervisor in" in str(failed.message)
    (house.directory / "jobs").unlink()
    assert house.ends(house.submit("work")).state == "succeeded"


def test_a_job_written_by_another_version_fails_and_says_so(open_house: House) -> None:
    house = open_house
    blocker = house.submit("sleep")
    house.reaches(blocker, "running")
    id_ = house.submit("work")

    def change(session: Session) -> None:
        row = session.get_one(Job, id_)
        row.spec = {**row.spec, "colour": "red"}

    house.database.writer.run(change)
    house.cancel(blocker)
    failed = house.ends(id_)
    assert (failed.state, failed.reason) == ("failed", Reason.LAUNCH_FAILED)
    assert "colour" in str(failed.message)


def test_what_a_supervisor_says_when_it_breaks_itself(open_house: House) -> None:
    failed = open_house.ends(open_house.submit("breaks its supervisor"))
    assert (failed.state, failed.reason) == ("failed", Reason.SUPERVISOR_FAILED)
    assert failed.message == "KeyError: 'a mistake in the gang'"
    attempt = open_house.attempts(failed.id)[0]
    end = json.loads((Path(attempt.directory) / "end.json").read_text())
    assert "Traceback" in end["error"]["traceback"]
    assert open_house.living(failed.id) == []


def test_a_job_that_cannot_be_launched_fails_once(open_house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not only for the errors that executors announce: anything else must not place the job again and again."""
    house = open_house
    monkeypatch.setattr("backend.scheduler.start.prepare", _refusing)
    id_ = house.submit("exit")
    house.reaches(id_, "failed")
    (attempt,) = house.attempts(id_)
    assert attempt.message == "ValueError: no such launch"


def _refusing(*given: object, **fields: object) -> None:
    raise ValueError("no such launch")


def test_a_launch_that_is_interrupted_again_and_again_fails_the_job(house: House) -> None:
    id_ = house.submit("work")

    def interrupt(session: Session) -> None:
        row = session.get_one(Job, id_)
        number = len(row.attempts) + 1
        attempt = Attempt(
            job=row, number=number, parties=[], token_sha256="", directory="", created_unix_ns=number
        )
        record.place(session, row, attempt)
        changes.interrupted(session, attempt.id)

    for state in ["queued"] * (changes.INTERRUPTIONS - 1) + ["failed"]:
        house.database.writer.run(interrupt)
        assert house.job(id_).state == state
    assert house.job(id_).reason == Reason.LAUNCH_INTERRUPTED
