"""What the scheduler reads of the database: of several machines, of clocks that differ, of a long queue."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.orm import Session

from backend.db import Database
from backend.db.models import Attempt, Job, Maintenance, Project, Transition
from backend.lifecycle import Reason
from backend.scheduler import durations, record, snapshot, victims
from backend.scheduler.alone import Alone
from backend.scheduler.decide import Device, Inventory, Occupant, State, decide
from backend.scheduler.instructions import Preempt, Start, Wait
from backend.scheduler.learned import expected_ns
from backend.scheduler.next_look import next_look
from backend.scheduler.place import Place
from backend.scheduler.start import _beyond_quota
from backend.scheduler.usage import Usage
from backend.services.inventory import Inventory as Shown
from backend.services.jobs import _check_project
from backend.services.maintenance import Maintenances
from engine.errors import UserError

S = 10**9
NOW = 1_000 * S


def inventory(gpus: int) -> Inventory:
    return Inventory(devices=tuple(Device(id=f"cuda:{n}", kind="cuda", name="GPU") for n in range(gpus)))


def stored(name: str, state: str, **attempt: Any) -> Job:
    """A job of the project `name`, with an attempt where that is described."""
    project = name.partition(" ")[0]
    spec = {"cluster": {"workers": 1, "device": "cuda"}}
    row = Job(id=name, name=name, spec=spec, state=state, project=project, created_unix_ns=NOW)
    if attempt:
        common = {"number": 1, "parties": [], "token_sha256": "", "directory": "", "created_unix_ns": NOW}
        row.attempts.append(Attempt(state=state, **common, **attempt))
    return row


def test_gpus_of_another_machine_are_none_of_this_one(small_database: Database, tmp_path: Path) -> None:
    database, member = small_database, Alone(small_database, tmp_path, "here", inventory(4))
    member.place = Place(home="a", view="kernel x")
    devices = ["cuda:0", "cuda:1"]
    away = stored("vision", "running", devices=devices, home="b", view="another y")
    away.idempotency_key = "race r 0 0 0"
    waits = stored("vision 2", "queued")
    waits.idempotency_key = "race r 1 0 0"
    beside = stored("speech", "running", devices=["cuda:1"], home="c", view="kernel z")
    common = {"called": "b", "begins_unix_ns": 1, "makes_room": False, "created_unix_ns": 1}
    drained = Maintenance(devices=devices, home="b", view="another y", **common)
    near = Maintenance(devices=["cuda:1"], home="c", view="kernel z", **common)
    project = Project(name="vision", weight=1.0, cuda=2, created_unix_ns=1)
    database.writer.run(lambda session: session.add_all([away, waits, beside, drained, near, project]))
    given = Start(job_id="vision 2", devices=inventory(1).devices)
    with database.read() as session:
        assert set(snapshot.occupied(session, member.place)) == {"cuda:1"}
        assert snapshot.taken(session, member.place) == {"cuda:1": False}
        assert Usage().elsewhere(session, member.place, inventory(4)) == {("vision", "cuda"): 2}
        (queued,) = snapshot.Queue().read(session, member.place, NOW)
        assert not set(queued.job.beside) & set(devices)
        assert _beyond_quota(session, "vision", given), "another server may have placed since the decision"
        session.get_one(Project, "vision").cuda = 3
        assert not _beyond_quota(session, "vision", given)
        assert not _beyond_quota(session, None, given)
        session.rollback()
    shown = Maintenances(database, inventory(4), member).all()
    assert [[who.job_id for who in one.holders] for one in shown] == [["vision"], ["speech"]]


def test_a_clock_that_ran_ahead_hides_nothing_that_ends_until_then(small_database: Database) -> None:
    database, usage = small_database, Usage()

    def used(name: str, end_ns: int) -> float:
        ended = stored(name, "succeeded", devices=["cuda:0"], ended_unix_ns=end_ns)
        ended.digest, ended.ended_unix_ns = name, end_ns
        database.writer.run(lambda session: session.add(ended))
        with database.read() as session:
            queue.learned.read(session, {"vision", "vision 2"}, NOW)
            return usage.used(session, {}, NOW)["vision", "cuda"]

    queue = snapshot.Queue()
    before = used("vision", NOW + 3600 * S)
    assert used("vision 2", NOW + 60 * S) == pytest.approx(before + 60, abs=5)
    assert queue.learned.took("vision 2") == [60 * S]


def test_a_look_at_the_queue_reads_what_has_changed_since_the_last_one(
    new_database: Database, tmp_path: Path
) -> None:
    database, place, queue = new_database, Place.of(tmp_path, shared=False), snapshot.Queue()
    rows = [stored(f"vision {n}", "queued") for n in range(4)]
    like = durations.digest({"name": "vision"})
    rows[2].digest, rows[3].idempotency_key = like, "race r 1 0 0"
    database.writer.run(lambda session: session.add_all(rows))

    def look() -> dict[str, snapshot.Queued]:
        with database.read() as session:
            return {one.job.id: one for one in queue.read(session, place, NOW)}

    def write(session: Session) -> None:
        record.wait(session, session.get_one(Job, "vision 1"), Reason.WAITING_FOR_DEVICES, "it waits")
        for number in range(durations.LEAST):
            ended = stored(f"took {number}", "succeeded", devices=["cuda:0"], ended_unix_ns=NOW + 9 * S)
            ended.digest, ended.ended_unix_ns = like, NOW + 9 * S
            session.add(ended)
        raced = stored("raced", "succeeded", devices=["cuda:1"], ended_unix_ns=NOW)
        raced.idempotency_key = "race r 0 0 0"
        session.add_all([raced, stored("speech", "queued")])
        session.get_one(Job, "vision 0").revision += 1
        session.get_one(Job, "vision 0").priority = 7

    first, second = look(), look()
    assert all(second[id_] is one for id_, one in first.items()), "nothing is put together twice"
    database.writer.run(write)
    third = look()
    assert {one.job.name for one in third.values()} == {row.name for row in rows} | {"speech"}
    assert third["vision 0"].job.priority == 7
    assert third["vision 1"].said == "it waits"
    assert (third["vision 2"].job.duration_ns, third["vision 2"].learned) == (9 * S, True)
    with database.read() as session:
        assert expected_ns(session, {"name": "one more"}) == 9 * S, "what a preview says"
        assert expected_ns(session, {"name": "it says", "duration_s": 3}) == 3 * S
    assert third["vision 3"].job.beside == ("cuda:1",)
    database.writer.run(lambda session: record.cancel(session, session.get_one(Job, "vision 3")))
    fourth = look()
    assert "vision 3" not in fourth
    assert all(fourth[id_] is third[id_] for id_ in fourth)


def test_the_next_job_is_shown_although_many_older_ones_wait(
    small_database: Database, tmp_path: Path
) -> None:
    rows = [stored(f"vision {n}", "queued") for n in range(9)]
    rows.append(stored("speech", "queued"))
    for age, row in enumerate(rows):
        row.queued_unix_ns = NOW + age
    shown = Shown(small_database, inventory(1), Alone(small_database, tmp_path, "here", inventory(1)))
    small_database.writer.run(lambda session: session.add_all(rows))
    assert [one.job_id for one in shown.queue(2).items] == ["vision 0", "vision 1"]
    projects = [Project(name=name, weight=1.0, created_unix_ns=1) for name in ("vision", "speech")]
    small_database.writer.run(lambda session: session.add_all(projects))
    found = shown.queue(2)
    assert ([one.job_id for one in found.items], found.total) == (["vision 0", "speech"], 10)
    with small_database.read() as session:
        _check_project(session, "speech")
        _check_project(session, None)
        with pytest.raises(UserError, match="speach"):
            _check_project(session, "speach")


def test_a_paused_server_makes_room_for_maintenance() -> None:
    """It starts nobody, and its devices are to be free all the same."""
    held = {
        "cuda:0": Occupant(job_id="saves", job_name="saves", saves=True),
        "cuda:1": Occupant(job_id="stays", job_name="stays"),
    }
    emptied = {"cuda:0": NOW, "cuda:1": NOW}
    now = State(
        queued=(),
        inventory=inventory(2),
        occupied=held,
        paused=True,
        now_unix_ns=NOW,
        drained=emptied,
        emptied=emptied,
    )
    assert [one.job_id for one in decide(now)] == ["saves"]
    later = replace(now, drained={}, emptied={"cuda:0": NOW + S})
    assert next_look(later) == NOW + S


def test_who_was_asked_long_ago_and_stays_is_not_counted_on(small_database: Database, tmp_path: Path) -> None:
    place, queue, late = Place.of(tmp_path, shared=False), snapshot.Queue(), NOW + round(victims.LEAVES_S * S)
    stays = stored("stays", "preempting", devices=["cuda:0"])
    other = stored("other", "running", devices=["cuda:1"])
    other.spec = {**other.spec, "checkpoint": {"every_steps": 1}}
    urgent = stored("urgent", "queued")
    urgent.priority = 1

    def write(session: Session) -> None:
        session.add_all([stays, other, urgent])
        session.flush()
        common = {"job_id": stays.id, "attempt_id": stays.attempts[0].id, "from_state": "running"}
        session.add(Transition(to_state="preempting", at_unix_ns=NOW, **common))

    small_database.writer.run(write)
    with small_database.read() as session:
        soon, then = (
            snapshot.state(
                session,
                queue.read(session, place, now),
                inventory(2),
                place,
                {},
                queue.learned,
                Usage(),
                paused=False,
                now_unix_ns=now,
            )
            for now in (late - 1, late)
        )
    assert next_look(soon) == late
    (waits,) = decide(soon)
    assert isinstance(waits, Wait)
    assert "'stays' holds cuda:0, and makes room" in waits.text
    waits, room = decide(then)
    assert isinstance(waits, Wait)
    assert "'stays' holds cuda:0, was asked to make room more than 10 min ago, and has not left" in waits.text
    assert isinstance(room, Preempt)
    assert room.job_id == "other"
