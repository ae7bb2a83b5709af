"""The rules that a decision is made of: backfill, shares, quotas, victims, maintenance, and a day under all of them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy.orm import Session

from backend.db import Database
from backend.db.models import Job, Maintenance, Project
from backend.lifecycle import Reason
from backend.scheduler import durations, snapshot, victims
from backend.scheduler.day import jobs as day_jobs
from backend.scheduler.day.measures import jain, measure
from backend.scheduler.day.play import ALL, play
from backend.scheduler.decide import Demand, Device, Inventory, Occupant, QueuedJob, State, decide
from backend.scheduler.fair_share import Held, Ledger, Shares
from backend.scheduler.instructions import Preempt, Start, Wait
from backend.scheduler.next_look import next_look
from backend.scheduler.place import Place
from backend.scheduler.quota import Quota, check
from backend.scheduler.usage import Usage
from backend.scheduler.virtual import Virtual, forecast
from engine.errors import UserError
from engine.plan.job import JobSpec
from engine.plan.serde import from_plain
from tests.backend.recorded_run import add_job

S = 10**9
SPEC = {"name": "a", "model": {"name": "mlp"}, "data": {"name": "digits"}, "training": {"steps": 1}}
NOW = 1_000 * S


def inventory(gpus: int) -> Inventory:
    return Inventory(devices=tuple(Device(id=f"cuda:{n}", kind="cuda", name="GPU") for n in range(gpus)))


def job(name: str, workers: int = 1, seconds: int | None = None, **other: Any) -> QueuedJob:
    alone = other.pop("alone", False)
    known = {"priority": 0, "queued_unix_ns": 0} | other
    duration = None if seconds is None else seconds * S
    demand = Demand(workers=workers, device="cuda", alone=alone)
    return QueuedJob(id=name, name=name, demand=demand, duration_ns=duration, **known)


def run(name: str, devices: str, seconds: int | None = None, **other: Any) -> dict[str, Occupant]:
    """A job that runs on `devices` for so long from now on."""
    ends = None if seconds is None else NOW + seconds * S
    who = Occupant(job_id=name, job_name=name, ends_unix_ns=ends, **other)
    return {f"cuda:{n}": who for n in devices}


def decided(
    *jobs: QueuedJob, held: dict[str, Occupant] | None = None, gpus: int = 4, **state: Any
) -> dict[str, Any]:
    """By job: the devices that it starts on, the reason why it waits, or `room` for one that makes room."""
    in_order = tuple(replace(one, queued_unix_ns=n) for n, one in enumerate(jobs))
    found: dict[str, Any] = {}
    asked = State(queued=in_order, inventory=inventory(gpus), occupied=held or {}, now_unix_ns=NOW, **state)
    for instruction in decide(asked):
        match instruction:
            case Start():
                found[instruction.job_id] = "".join(device.id[-1] for device in instruction.devices)
            case Wait():
                found[instruction.job_id] = instruction.reason
            case Preempt():
                found[instruction.job_id] = "room"
    return found


LINE, DEVICES = Reason.WAITING_IN_LINE, Reason.WAITING_FOR_DEVICES


def test_who_ends_in_time_or_stays_off_starts_before_the_first() -> None:
    held = run("r", "01", 100)
    first = job("first", 4)
    assert decided(first, job("short", 2, 100), held=held) == {"first": DEVICES, "short": "23"}
    assert decided(first, job("long", 1, 101), held=held)["long"] is LINE
    assert decided(first, job("unknown", 1), held=held)["unknown"] is LINE
    # The first one takes what comes free last, so one of the two that are free now is nobody's.
    assert decided(job("first", 3), job("long", 1), job("b", 1), held=held) == {
        "first": DEVICES,
        "long": "3",
        "b": LINE,
    }
    assert decided(first, job("short", 2, 100), held=held, backfill=False)["short"] is LINE


@pytest.mark.parametrize("seconds", [None, -1])
def test_nobody_starts_before_the_first_where_nobody_knows_when_that_is(seconds: int | None) -> None:
    assert decided(job("first", 4), job("short", 1, 1), held=run("r", "0", seconds))["short"] is LINE


def test_who_wants_to_be_alone_is_delayed_by_nobody() -> None:
    me = job("me", 1, alone=True)
    found = decided(me, job("short", 1, 5), job("long", 1, 11), held=run("r", "0", 10))
    assert found == {"me": DEVICES, "short": "1", "long": LINE}
    assert decided(job("b", 1, 5), held=run("r", "0", 10, alone=True)) == {"b": DEVICES}


@st.composite
def yards(draw: st.DrawFn) -> State:
    """Four devices, some of them held until known times, and jobs whose durations are known."""
    held: dict[str, Occupant] = {}
    for device in draw(st.lists(st.sampled_from("0123"), unique=True)):
        held |= run(f"r{device}", device, draw(st.integers(1, 20)))
    queued = tuple(
        job(
            f"q{n}",
            draw(st.integers(1, 4)),
            draw(st.integers(1, 20)),
            queued_unix_ns=n,
            alone=draw(st.integers(0, 5)) == 0,
        )
        for n in range(draw(st.integers(1, 8)))
    )
    return State(queued=queued, inventory=inventory(4), occupied=held, now_unix_ns=NOW)


def _first_waiting(state: State) -> str | None:
    return next((found.job_id for found in decide(state) if isinstance(found, Wait)), None)


@settings(max_examples=150, deadline=None, database=None)
@given(yards())
def test_backfill_never_delays_who_is_first(state: State) -> None:
    first = _first_waiting(state)
    if first is None:
        return
    without = forecast(replace(state, backfill=False))
    assert forecast(state)[first] <= without[first]


def test_projects_take_turns_by_what_they_have_used_for_their_weight() -> None:
    four = [job(f"{project}{n}", 1, 10, project=project) for project in "ab" for n in range(2)]
    assert decided(*four, gpus=2) == {"a0": "0", "b0": "1", "a1": DEVICES, "b1": LINE}
    used = {("a", "cuda"): 100.0, ("b", "cuda"): 60.0}
    assert decided(*four, gpus=1, shares=Shares(used=used))["b0"] == "0"
    assert decided(*four, gpus=1, shares=Shares(used=used, weights={"a": 2.0}))["a0"] == "0"
    assert decided(*four, job("c", priority=1), gpus=1, shares=Shares(used=used))["c"] == "0"


def test_what_was_used_halves_with_each_half_life_and_what_runs_counts_whole() -> None:
    ledger, h = Ledger(half_life_s=100.0), 100 * S
    ledger.ended(Held(project="a", kind="cuda", devices=2, start_ns=NOW, ends_ns=None), NOW + S // 100)
    just = ledger.used((), NOW + S // 100)["a", "cuda"]
    assert just == pytest.approx(0.02, rel=1e-3)
    assert ledger.used((), NOW + S // 100 + h)["a", "cuda"] == pytest.approx(just / 2)
    running = Held(project="b", kind="cuda", devices=3, start_ns=NOW, ends_ns=NOW + 50 * S)
    assert ledger.used([running], NOW)["b", "cuda"] == pytest.approx(150.0)


def test_a_project_at_its_quota_waits_and_is_in_nobodys_way() -> None:
    held = run("r", "01", project="a")
    jobs = job("a0", 2, project="a"), job("a1", 1, project="a"), job("b", 1, project="b")
    found = decided(*jobs, held=held, quotas={"a": Quota(cuda=3)})
    assert found == {"a0": Reason.OVER_QUOTA, "b": "2", "a1": "3"}
    elsewhere = {("a", "cuda"): 1}
    assert decided(jobs[1], held=held, quotas={"a": Quota(cuda=3)}, elsewhere=elsewhere) == {
        "a1": Reason.OVER_QUOTA
    }
    with pytest.raises(UserError, match=r"4.*'a' may hold at most 3 devices.*larger quota"):
        check("a", Quota(cuda=3), "cuda", 4)
    with pytest.raises(UserError, match="from 0 to"):
        Quota(cpu=-1)


def test_who_makes_room_has_a_lower_priority_and_the_least_behind_it() -> None:
    long_ago, lately = NOW - 900 * S, NOW - 100 * S
    held = {
        **run("old", "0", priority=1, yields=True, since_unix_ns=long_ago),
        **run("new", "1", priority=1, yields=True, since_unix_ns=lately),
        **run("low", "2", priority=0, yields=True, since_unix_ns=long_ago),
        **run("fresh", "3", priority=0, yields=True, since_unix_ns=NOW - S),
    }
    one, two = job("one", 1, priority=5), job("two", 2, priority=5)
    assert decided(one, held=held) == {"one": DEVICES, "low": "room"}
    assert decided(two, held=held) == {"two": DEVICES, "low": "room", "new": "room"}
    assert decided(job("equal", 2, priority=1), held=held) == {"equal": DEVICES}
    assert decided(job("wide", 4, priority=5), held=held) == {"wide": DEVICES}  # it would not be enough
    assert decided(replace(one, asks=False), held=held) == {"one": DEVICES}  # it made room itself
    leaving = run("low", "2", priority=0, yields=True, leaving=True)
    assert decided(one, job("short", 1, 1), held=held | leaving) == {"one": DEVICES, "short": LINE}


def test_who_has_just_begun_is_asked_when_it_has_settled() -> None:
    held = {
        **run("fresh", "0", yields=True, since_unix_ns=NOW - S),
        **run("stays", "1", since_unix_ns=NOW - S // 2),
    }
    state = State(
        queued=(job("urgent", 1, priority=1),), inventory=inventory(2), occupied=held, now_unix_ns=NOW
    )
    assert (at := next_look(state)) == NOW - S + victims.SETTLED_S * S
    assert [found.job_id for found in decide(replace(state, now_unix_ns=at))] == ["urgent", "fresh"]
    assert next_look(replace(state, queued=(job("equal"),))) is None


def test_nobody_is_asked_who_turns_out_not_to_be_needed() -> None:
    runs = [victims.Run(job_id=name, priority=n, since_ns=0) for n, name in enumerate(("small", "large"))]
    sizes = {"small": 1, "large": 4}

    def fits(gone: Any, _: int) -> list[str] | None:
        return [] if sum(sizes[id_] for id_ in gone) >= 4 else None

    assert victims.victims(fits, 5, (), runs, NOW) == ("large",)


def test_a_drained_device_is_given_to_nobody_and_a_later_drain_to_who_has_ended_by_then() -> None:
    assert decided(job("a", 3), job("b", 2), drained={"cuda:0": NOW}) == {"a": "123", "b": DEVICES}
    late = {f"cuda:{n}": NOW + 60 * S for n in range(4)}
    found = decided(job("unknown"), job("long", 1, 61), job("short", 1, 60), drained=late)
    assert found == {"unknown": Reason.MAINTENANCE, "long": Reason.MAINTENANCE, "short": "0"}


def test_who_can_save_a_checkpoint_leaves_drained_devices_where_that_is_asked() -> None:
    held = {**run("saves", "0", saves=True), **run("stays", "1"), **run("elsewhere", "2", saves=True)}
    now, later = (dict.fromkeys(("cuda:0", "cuda:1"), NOW + wait) for wait in (0, S))
    assert decided(held=held, drained=now, emptied=now) == {"saves": "room"}
    assert decided(held=held, drained=now) == decided(held=held, drained=later, emptied=later) == {}
    state = State(queued=(), inventory=inventory(3), occupied=held, drained=later, now_unix_ns=NOW)
    assert next_look(state) == NOW + S
    leaving = run("saves", "0", saves=True, leaving=True)
    assert decided(held=held | leaving, drained=now, emptied=now) == {}


def test_a_races_jobs_run_on_the_same_gpus() -> None:
    member = job("member", 2, beside=("cuda:1", "cuda:2"))
    assert decided(member) == {"member": "12"}
    assert decided(member, held=run("r", "1")) == {"member": DEVICES}
    assert decided(member, drained={"cuda:1": NOW}) == {"member": "20"}


def test_how_long_a_job_takes_is_what_it_declared_else_what_earlier_ones_took() -> None:
    assert durations.expected(5.0, [1, 2, 3]) == 5 * S
    assert durations.expected(None, [30, 10, 20]) == 20
    assert durations.expected(None, [10, 20]) is None
    assert [durations.left(expected, 20) for expected in (None, 20, 50)] == [None, None, 30]
    again = SPEC | {"name": "b", "priority": 3, "training": {"steps": 1, "seed": 7}}
    assert durations.digest(SPEC) == durations.digest(again)
    assert durations.digest(SPEC) != durations.digest(SPEC | {"training": {"steps": 2}})


def test_what_jobs_declare_and_earlier_ones_took_reaches_the_decision(
    database: Database, tmp_path: Path
) -> None:
    waits, runs, silent, *earlier = (
        add_job(database, name)[0] for name in ("waits", "runs", "silent", "e0", "e1", "e2", "e3")
    )

    def write(session: Session) -> None:
        for id_, state, seconds in (
            (waits, "queued", 30),
            (runs, "running", 60.5),
            (silent, "running", None),
        ):
            row = session.get_one(Job, id_)
            row.state, row.spec = state, {**row.spec, "duration_s": seconds}
            row.attempts[0].state = state
            row.attempts[0].devices, row.attempts[0].created_unix_ns = [f"cpu:{row.name}"], NOW
        session.get_one(Job, silent).digest = "d"
        saves = session.get_one(Job, runs)
        saves.spec = {**saves.spec, "checkpoint": {"every_steps": 5, "every_seconds": None, "yields": True}}
        first = session.get_one(Job, waits).attempts[0]
        first.state, first.created_unix_ns, first.ended_unix_ns = "preempted", NOW, NOW + 10 * S
        first.preempted_for = runs

    def ended(session: Session, id_: str, seconds: int) -> None:
        row = session.get_one(Job, id_)
        row.digest, row.ended_unix_ns = "d", NOW + seconds * S
        (attempt,) = row.attempts
        attempt.created_unix_ns, attempt.ended_unix_ns = NOW, NOW + seconds * S
        attempt.state = "succeeded"

    queue, place = snapshot.Queue(), Place.of(tmp_path, shared=False)
    database.writer.run(write)
    for id_, seconds in zip(earlier[:3], (8, 6, 7), strict=True):
        database.writer.run(partial(ended, id_=id_, seconds=seconds))
    with database.read() as session:
        (queued,) = queue.read(session, place, NOW)
        held = snapshot.occupied(session, place, queue.learned)
        declared = snapshot.occupied(session, place)
    # Of the 30 s that it declared it ran 10 before it made room.
    assert (queued.job.duration_ns, queued.job.asks, queued.learned) == (20 * S, False, False)
    assert (held["cpu:runs"].ends_unix_ns, held["cpu:runs"].yields) == (NOW + 60_500_000_000, True)
    assert (held["cpu:silent"].ends_unix_ns, held["cpu:silent"].yields) == (NOW + 7 * S, False)
    assert declared["cpu:silent"].ends_unix_ns is None
    database.writer.run(partial(ended, id_=earlier[3], seconds=9))
    with database.read() as session:
        queue.read(session, place, NOW)
        held = snapshot.occupied(session, place, queue.learned)
    assert held["cpu:silent"].ends_unix_ns == NOW + 7_500_000_000
    with pytest.raises(UserError, match=r"duration_s.*0.*from 1 to"):
        from_plain(JobSpec, {**SPEC, "duration_s": 0})


def test_projects_races_and_maintenance_reach_the_decision(new_database: Database, tmp_path: Path) -> None:
    database = new_database
    runs, raced, next_one = (add_job(database, name)[0] for name in ("runs", "raced", "next one"))

    def write(session: Session) -> None:
        for id_, state, key, devices in (
            (runs, "running", None, ["cpu:0", "cpu:2"]),
            (raced, "succeeded", "race r 0 0 0", ["cpu:1"]),
            (next_one, "queued", "race r 1 0 0", []),
        ):
            row = session.get_one(Job, id_)
            row.state, row.project, row.idempotency_key = state, "vision", key
            (attempt,) = row.attempts
            attempt.state = "failed" if state == "queued" else state
            attempt.devices, attempt.created_unix_ns = devices, NOW - 10 * S
            attempt.ended_unix_ns = None if state == "running" else NOW
        session.add(Project(name="vision", weight=2.0, cpu=3, created_unix_ns=NOW))
        common = {"called": "a server", "created_unix_ns": NOW}
        session.add(Maintenance(devices=["cpu:0"], begins_unix_ns=NOW + S, makes_room=True, **common))
        session.add(Maintenance(devices=None, begins_unix_ns=NOW + 2 * S, makes_room=False, **common))

    database.writer.run(write)
    cpus = Inventory(devices=tuple(Device(id=f"cpu:{n}", kind="cpu", name="slot") for n in range(2)))
    queue, place, usage = snapshot.Queue(), Place.of(tmp_path, shared=False), Usage()
    with database.read() as session:
        waiting = queue.read(session, place, NOW)
        state, again = (
            snapshot.state(
                session, waiting, cpus, place, {}, queue.learned, usage, paused=False, now_unix_ns=NOW
            )
            for _ in range(2)
        )
    (queued,) = state.queued
    assert (queued.project, queued.beside) == ("vision", ("cpu:1",))
    assert state.quotas == {"vision": Quota(cpu=3)}
    assert state.shares.weights == {"vision": 2.0}
    # Of the 10 s that ended hardly anything has faded; the two devices are taken for 10 min more.
    assert state.shares.used == {("vision", "cpu"): pytest.approx(10 + 2 * (10 + 600), rel=1e-3)}
    assert again.shares == state.shares, "what has ended counts once"
    assert state.elsewhere == {("vision", "cpu"): 1}, "cpu:2 is no device of this server"
    assert (state.drained, state.emptied) == (
        {"cpu:0": NOW + S, "cpu:1": NOW + 2 * S},
        {"cpu:0": NOW + S},
    )


def test_when_jobs_will_start_is_known_as_far_as_ends_are() -> None:
    queued = tuple(job(name, 4, 10, queued_unix_ns=n) for n, name in enumerate("ab"))
    state = State(queued=queued, inventory=inventory(4), occupied=run("r", "0", 5), now_unix_ns=NOW)
    assert forecast(state) == {"a": NOW + 5 * S, "b": NOW + 15 * S}
    assert forecast(replace(state, occupied=run("r", "0"))) == {}
    unknown = (replace(queued[0], duration_ns=None), queued[1])
    assert forecast(replace(state, queued=unknown)) == {"a": NOW + 5 * S}


def test_a_preempted_job_goes_on_and_is_not_asked_for_ever() -> None:
    """Urgent jobs come again and again: who makes room gets all its time in the end."""
    state = State(queued=(job("low", 1, 500),), inventory=inventory(1), occupied={}, now_unix_ns=NOW)
    urgent = [job(f"u{n}", 1, 10, priority=1, queued_unix_ns=NOW + 100 * n * S) for n in range(1, 9)]
    asked = iter([True] * victims.MOST + [False] * 9)
    happened = list(Virtual(state, yields=lambda one: one.id == "low" and next(asked)).run(urgent))
    lows = [(one.what, one.at_ns) for one in happened if one.job.id == "low"]
    assert [what for what, _ in lows].count("preempted") == victims.MOST
    starts, ends = lows[::2], lows[1::2]
    assert lows[-1][0] == "ended"
    assert sum(end - start for (_, start), (_, end) in zip(starts, ends, strict=True)) == 500 * S


def test_a_simulated_day_under_every_rule() -> None:
    day = day_jobs.Day(jobs=300, devices=64, load=0.9, seed=3)
    jobs = day_jobs.make(day)
    assert jobs == day_jobs.make(day)
    found = {}
    for rules in ALL:
        played = play(jobs, day.devices, rules)
        for one in played:  # whatever the rules are, every job gets all of its time
            assert sum(end - start for start, end in one.segments) == one.job.takes_ns
            assert one.waited_ns >= 0
        found[rules.name] = measure(played, day.devices)
    fifo, backfill, fair, urgent, everything = found.values()
    assert backfill.wait_mean_s < fifo.wait_mean_s
    assert fair.fairness > backfill.fairness
    assert urgent.urgent_mean_s < fair.urgent_mean_s
    assert everything.urgent_mean_s <= urgent.urgent_mean_s
    assert everything.preemptions > 0


def test_jains_index() -> None:
    assert jain([2.0, 2.0]) == 1.0
    assert jain([1.0, 0.0, 0.0, 0.0]) == 0.25
