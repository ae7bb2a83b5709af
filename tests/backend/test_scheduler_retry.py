"""Jobs that fail and are tried again, with a real database and real supervisors."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest
from sqlalchemy import select, update

from backend.db.models import Attempt, AuditEntry, Job, Maintenance, Transition
from backend.executors import files, process
from backend.executors.base import Running
from backend.executors.supervised import Supervised
from backend.lifecycle import Reason, State
from backend.scheduler import changes, record, retry, victims
from engine.errors import UserError
from engine.launch import Launch
from engine.plan.checkpoint import CheckpointSpec
from engine.plan.retry import RetrySpec
from engine.plan.serde import to_plain
from tests.backend.executor_attempts import job, until
from tests.backend.house import House

AT_ONCE = RetrySpec(times=2, backoff_s=0)
MUCH_LATER = RetrySpec(times=2, backoff_s=3000)
FAILS = ["queued", "placing", "starting", "stopping_failed"]
"""And `running` before the last, where it was seen: the program fails within milliseconds."""
SUCCEEDS = ["queued", "placing", "starting", "running", "stopping_succeeded", "succeeded"]


def backs_off(house: House, job_id: str) -> Job:
    return until(
        lambda: found if (found := house.job(job_id)).reason == Reason.BACKING_OFF else None, "it backs off"
    )


def test_a_job_that_failed_is_tried_again_and_every_attempt_is_kept(open_house: House) -> None:
    house = open_house
    id_ = house.submit("fails at first", retry=AT_ONCE)
    done = house.ends(id_)
    assert (done.state, done.reason) == ("succeeded", Reason.COMPLETED)
    story = house.story(id_)
    assert [*(s for s in story[:-6] if s != "running"), *story[-6:]] == [*FAILS, *SUCCEEDS]
    first, second = house.attempts(id_)
    assert (first.number, first.state, first.reason) == (1, "failed", Reason.PROCESS_FAILED)
    assert (second.number, second.state, second.reason) == (2, "succeeded", Reason.COMPLETED)
    assert first.exit_code == 3
    assert first.directory != second.directory
    checkpoints = {Launch.read(Path(each.directory)).checkpoints for each in (first, second)}
    assert checkpoints == {Path(first.directory).parent / "checkpoints"}
    with house.database.read() as session:
        of_first = (
            select(Transition.to_state).where(Transition.attempt_id == first.id).order_by(Transition.id)
        )
        assert list(session.scalars(of_first))[-2:] == ["stopping_failed", "failed"]
    assert house.living(id_) == []


def test_when_every_retry_failed_the_job_has_the_last_failure(open_house: House) -> None:
    id_ = open_house.submit("fails", retry=AT_ONCE)
    failed = open_house.ends(id_)
    assert (failed.state, failed.reason) == ("failed", Reason.PROCESS_FAILED)
    assert "the loss is nan at step 7" in str(failed.message)
    assert [a.number for a in open_house.attempts(id_)] == [1, 2, 3]


def test_a_job_that_backs_off_says_why_and_until_when_and_lets_others_pass(open_house: House) -> None:
    house = open_house
    id_ = house.submit("fails", priority=10, retry=MUCH_LATER)
    waits = backs_off(house, id_)
    (attempt,) = house.attempts(id_)
    assert waits.state == "queued"
    assert waits.retry_unix_ns is not None
    assert attempt.ended_unix_ns is not None
    assert waits.retry_unix_ns - attempt.ended_unix_ns > 2000e9  # of 3000 s
    assert str(waits.message).startswith("retry 1 of 2 at 20")
    assert "UTC: attempt 1 failed: worker 1 failed: ValueError: the loss is nan" in str(waits.message)
    assert str(waits.message).endswith(Reason.BACKING_OFF.remedy)
    assert house.ends(house.submit("work")).state == "succeeded"
    assert house.job(id_).reason == Reason.BACKING_OFF


def test_cancel_while_it_backs_off_ends_the_job(open_house: House) -> None:
    id_ = open_house.submit("fails", retry=MUCH_LATER)
    backs_off(open_house, id_)
    assert open_house.cancel(id_)
    cancelled = open_house.job(id_)
    assert (cancelled.state, cancelled.reason, cancelled.retry_unix_ns) == ("cancelled", "cancelled", None)
    assert open_house.story(id_)[-3:] == ["stopping_failed", "queued", "cancelled"]


def test_a_restarted_server_knows_which_jobs_back_off_and_tries_them_when_it_is_time(
    open_house: House,
) -> None:
    house = open_house
    id_ = house.submit("fails at first", retry=RetrySpec(times=1, backoff_s=4))  # it is seen meanwhile
    before = backs_off(house, id_).retry_unix_ns
    house.restart()
    assert house.ends(id_).state == "succeeded"
    assert house.attempts(id_)[1].created_unix_ns >= before


def test_a_lost_supervisor_is_cured_by_a_retry(open_house: House) -> None:
    house = open_house
    id_ = house.submit("sleep", retry=AT_ONCE)
    house.reaches(id_, "running")
    handle = changes.handle_of(house.attempts(id_)[0])
    assert handle is not None
    process.send(Supervised.of(handle).identity, signal.SIGKILL)
    until(lambda: len(house.attempts(id_)) == 2, "there is a second attempt")
    house.reaches(id_, "running")
    first = house.attempts(id_)[0]
    assert (first.state, first.reason) == ("failed", Reason.SUPERVISOR_LOST)
    assert process.marked(Path(first.directory)) == []
    house.cancel(id_)
    assert house.ends(id_).state == "cancelled"
    assert [a.state for a in house.attempts(id_)] == ["failed", "cancelled"]


def test_cancel_between_a_failure_and_its_retry_ends_the_job(house: House) -> None:
    """The attempt has failed, and its telemetry is still on the way."""
    id_ = house.submit("fails when told", retry=MUCH_LATER)
    house.scheduler.start()
    house.reaches(id_, "running")
    house.scheduler.close()
    (attempt,) = house.attempts(id_)
    (Path(attempt.directory) / "told").touch()
    end = until(lambda: files.read_end(Path(attempt.directory)), "the attempt has ended")
    going = Running(phase="stopping", outcome="failed", reason=end.reason, message=end.message)
    house.database.writer.run(lambda session: changes.progress(session, attempt.id, going))
    assert house.job(id_).state == State.STOPPING_FAILED
    assert house.cancel(id_)
    assert not house.cancel(id_)
    house.database.writer.run(lambda session: changes.close(session, attempt.id, end))
    cancelled, (attempt,) = house.job(id_), house.attempts(id_)
    assert (cancelled.state, cancelled.reason) == ("cancelled", Reason.CANCELLED)
    assert (attempt.state, attempt.reason) == ("failed", Reason.PROCESS_FAILED)


def test_without_retries_the_first_failure_is_the_end() -> None:
    row = Job(spec=to_plain(job("fails")), attempts=[])
    attempt = Attempt(id=1, number=1)
    assert retry.after(row, attempt, Reason.PROCESS_KILLED, "killed", 0) is None


@pytest.mark.parametrize("reason", [Reason.CANCELLED, Reason.SUPERVISOR_FAILED, Reason.LAUNCH_INTERRUPTED])
def test_what_a_retry_cannot_cure_is_not_retried(reason: Reason) -> None:
    row = Job(spec=to_plain(job("fails", retry=AT_ONCE)), attempts=[])
    assert retry.after(row, Attempt(id=1, number=1), reason, "so", 0) is None


def test_each_retry_waits_twice_as_long_up_to_an_hour() -> None:
    spec = RetrySpec(times=10, backoff_s=10)
    assert [spec.delay_s(n) for n in (1, 2, 3, 9, 10)] == [10, 20, 40, 2560, 3600]


@pytest.mark.parametrize(
    "fields", [{"times": -1}, {"times": 101}, {"backoff_s": -1}, {"backoff_s": float("nan")}]
)
def test_a_retry_that_makes_no_sense_is_refused(fields: dict) -> None:
    with pytest.raises(UserError, match=next(iter(fields))):
        RetrySpec(**fields)


def test_a_job_makes_room_for_one_that_waits_and_goes_on_behind_it(open_house: House) -> None:
    house = open_house
    first = house.submit("makes room", checkpoint=CheckpointSpec(every_steps=1))
    house.reaches(first, "running")
    second = house.submit("work")
    until(lambda: house.job(second).reason == Reason.WAITING_FOR_DEVICES, "the other one waits")

    def preempt() -> bool:
        return house.database.writer.run(lambda s: record.preempt(s, s.get_one(Job, first)))

    assert (preempt(), preempt()) == (True, False)
    house.scheduler.wake()
    assert house.ends(first).state == "succeeded"
    preempted, again = house.attempts(first)
    (other,) = house.attempts(second)
    assert (preempted.state, preempted.reason) == ("preempted", Reason.PREEMPTED)
    assert "the checkpoint of step 4" in str(preempted.message)
    assert preempted.created_unix_ns < other.created_unix_ns < again.created_unix_ns
    story = house.story(first)
    assert story[3:6] == ["running", "preempting", "queued"]
    assert story[6:] == SUCCEEDS[1:]


def test_a_job_of_a_higher_priority_takes_the_place_of_one_with_checkpoints(
    open_house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(victims, "SETTLED_S", 0.5)
    house = open_house
    low = house.submit("makes room", checkpoint=CheckpointSpec(every_steps=1))
    house.reaches(low, "running")
    urgent = house.submit("work", priority=5)
    assert house.ends(urgent).state == "succeeded"
    assert house.ends(low).state == "succeeded"
    first, again = house.attempts(low)
    assert (first.state, first.preempted_for) == ("preempted", urgent)
    assert str(first.message).endswith("the checkpoint of step 4. It did so for 'work' (priority 5)")
    (other,) = house.attempts(urgent)
    assert other.created_unix_ns < again.created_unix_ns
    with house.database.read() as session:
        (entry,) = session.scalars(select(AuditEntry))
        asked = select(Transition.message).where(
            Transition.job_id == low, Transition.to_state == "preempting"
        )
        said = set(session.scalars(asked))
    assert (entry.who, entry.action, entry.target) == (changes.WHO, "preempt_job", f"jobs/{low}")
    assert entry.details == {"for_job": urgent}
    assert len(said) == 1
    assert str(said.pop()).startswith("it makes room for 'work' (priority 5): it ends its attempt")


def test_a_job_with_checkpoints_leaves_devices_in_maintenance_and_goes_on_when_they_are_back(
    open_house: House,
) -> None:
    house = open_house
    id_ = house.submit("makes room", checkpoint=CheckpointSpec(every_steps=1))
    house.reaches(id_, "running")
    drained = Maintenance(
        devices=None, called="this one", begins_unix_ns=1, makes_room=True, created_unix_ns=1
    )
    house.database.writer.run(lambda s: s.add(drained))
    house.scheduler.wake()
    until(lambda: house.job(id_).reason == Reason.MAINTENANCE, "it waits until they are back")
    (first,) = house.attempts(id_)
    assert (first.state, first.preempted_for) == ("preempted", None)
    soon = update(Maintenance).values(ends_unix_ns=time.time_ns() + 300_000_000)
    house.database.writer.run(lambda s: s.execute(soon))
    house.scheduler.wake()
    assert house.ends(id_).state == "succeeded"
    with house.database.read() as session:
        assert session.scalars(select(Maintenance)).all() == [], "it is over, and nobody had to end it"


def test_a_job_that_fails_while_it_makes_room_is_tried_again(open_house: House) -> None:
    house = open_house
    id_ = house.submit("fails when told", retry=AT_ONCE, checkpoint=CheckpointSpec(every_steps=1))
    house.reaches(id_, "running")
    house.database.writer.run(lambda s: record.preempt(s, s.get_one(Job, id_)))
    house.scheduler.wake()
    (attempt,) = house.attempts(id_)
    until((Path(attempt.directory) / "preempt.json").exists, "it is asked")
    (Path(attempt.directory) / "told").touch()
    until(lambda: len(house.attempts(id_)) == 2, "there is a second attempt")
    assert house.attempts(id_)[0].reason == Reason.PROCESS_FAILED
    house.cancel(id_)
    house.ends(id_)
