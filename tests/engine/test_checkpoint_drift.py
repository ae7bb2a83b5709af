"""Checkpoints of jobs whose workers drift: nobody's contribution is lost or counted twice."""

from __future__ import annotations

import json
import math
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.checkpoint import part as parts
from engine.checkpoint import preemption
from engine.checkpoint.names import DONE
from engine.consistency.asynchronous import Asynchronous
from engine.consistency.bounded_staleness import BoundedStaleness
from engine.consistency.policy import Policy
from engine.consistency.softsync import Softsync
from engine.gang.gang import Gang
from engine.launch import worker_part
from engine.protocol.home import Home
from engine.protocol.instructions import Add, Instruction, Update
from engine.protocol.messages import Lane
from engine.runtime.meeting import Meeting, Pause
from tests.engine.test_checkpoint_meeting import Captures, Wires
from tests.engine.test_checkpoints import Case, attempt, places, spec_of, succeeded
from tests.jobs import Run

WORKERS = 3
POLICIES: dict[str, Policy] = {
    "asynchronous": Asynchronous(),
    "softsync": Softsync(2),
    "softsync, all": Softsync(WORKERS, own_writes=True),
    "bounded": BoundedStaleness(2),
    "bounded, by clock": BoundedStaleness(2, apply="clock"),
}


def home_with(policy: Policy) -> Home:
    return Home(7, 4, workers=WORKERS, policy=policy, returns="push")


def applied(found: list[Instruction]) -> list[tuple[int, int]]:
    """By rank and step, in the order of their sums."""
    return [(each.origin, each.step) for each in found if isinstance(each, Add)]


@pytest.mark.parametrize("policy", POLICIES)
def test_a_home_goes_on_with_what_had_come(policy: str) -> None:
    """Worker 0 is ahead, worker 2 behind, as far as the mode lets them."""
    before = [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (2, 0)]
    after = [(2, 1), (1, 2), (2, 2), (0, 3), (1, 3), (2, 3)]
    straight, first, second = (home_with(POLICIES[policy]) for _ in range(3))
    expected: list[Instruction] = []
    for rank, step in before:
        expected += straight.pushed(rank, step, 0)
        first.pushed(rank, step, 0)
    state = json.loads(json.dumps(first.state()))
    second.load(state)
    found: list[Instruction] = []
    for rank in range(WORKERS):
        found += second.joined(rank, first.clocks.contributed[rank], 0)
    assert [each for each in found if isinstance(each, Add | Update)] == [], "to join contributes nothing"
    for rank, step in after:
        there, here = straight.pushed(rank, step, 1), second.pushed(rank, step, 1)
        assert [e for e in here if isinstance(e, Add | Update)] == [
            e for e in there if isinstance(e, Add | Update)
        ]
        expected += there
    assert second.clocks == straight.clocks
    assert set(Counter(applied(expected)).values()) == {1}


class Drifting:
    """Two workers and a shard beside neither."""

    def __init__(self) -> None:
        self.wires = Wires()
        self.workers = [
            Meeting(self.wires.of(rank), rank=rank, workers=2, shards=[2], deadline_s=10) for rank in (0, 1)
        ]
        self.shard = Captures(self.wires.of(2), workers=2)
        for rank, meeting in enumerate(self.workers):
            self.wires.receivers[rank, Lane.WORKER] = meeting
        self.wires.receivers[2, Lane.SERVER] = self.shard


def test_nobody_goes_on_before_all_have_stopped_and_the_shard_has_captured() -> None:
    world = Drifting()
    pause = Pause(cut=5, after=0, ends=True)
    world.workers[0].say_pause(pause)
    assert world.workers[1].pause == pause
    stopped = []
    threads = [
        threading.Thread(target=lambda: stopped.append(world.workers[0].stop(5)), daemon=True),
        threading.Thread(target=lambda: stopped.append(world.workers[1].stop(3)), daemon=True),
    ]
    threads[0].start()
    assert not world.shard.told.wait(0.01), "worker 1 is in its step"
    threads[1].start()
    assert world.shard.told.wait(60)
    assert stopped == []
    world.shard.may.set()
    for thread in threads:
        thread.join(60)
    assert stopped == [pause, pause]
    assert world.shard.paused == {0: 5, 1: 3}
    assert world.workers[1].pause is None


def leaves(meeting: Meeting, clock: int, look: Callable[[], None] = lambda: None) -> list[Pause]:
    """The cuts that are made behind all steps, until one ends the attempt or all leave."""
    made: list[Pause] = []
    while not (made and made[-1].ends) and not meeting.may_leave(look):
        made.append(meeting.stop(clock))
    return made


def in_thread(found: list[list[Pause]], *told: Any) -> threading.Thread:
    thread = threading.Thread(target=lambda: found.append(leaves(*told)), daemon=True)
    thread.start()
    return thread


def test_who_has_done_all_steps_takes_part_in_the_cuts_of_who_has_not() -> None:
    world, found = Drifting(), list[list[Pause]]()
    world.shard.may.set()
    thread = in_thread(found, world.workers[1], 9)
    pause = Pause(cut=5, after=0, ends=False)
    world.workers[0].say_pause(pause)
    world.workers[0].stop(5)
    assert found == [], "worker 0 is in its step"
    assert leaves(world.workers[0], 9) == []
    thread.join(60)
    assert found == [[pause]]


def test_worker_0_makes_room_behind_its_last_step_while_another_is_in_its_own() -> None:
    world, found = Drifting(), list[list[Pause]]()
    world.shard.may.set()
    pause = Pause(cut=9, after=0, ends=True)
    thread = in_thread(found, world.workers[0], 9, lambda: world.workers[0].say_pause(pause))
    assert world.workers[1].pause is None or world.workers[1].pause == pause
    while world.workers[1].pause is None:
        assert thread.is_alive()
        thread.join(0.01)
    world.workers[1].stop(3)
    thread.join(60)
    assert found == [[pause]]
    assert world.shard.paused == {0: 9, 1: 3}


DEDICATED = {"where": "dedicated", "servers": 2}
STEPS, EVERY = 24, 5
MORE = {
    "model": {"name": "mlp"},
    "training": {"deterministic": False},
    "cluster": {"workers": WORKERS},
    "optimizer": {"name": "sgd", "learning_rate": 0.2, "options": {"momentum": 0.5}},
    "telemetry": {"updates": True},
    "evaluation": {"at_end": True},
    "faults": {
        "stragglers": [
            {"worker": rank, "factor": 1, "pause_every_steps": 1, "pause_s": 0.02 * rank} for rank in (1, 2)
        ]
    },
}
SOFTSYNC: Case = ("softsync", {**DEDICATED, "contributions": 2, "slice_size": 3000}, MORE)
CASES: dict[str, tuple[Case, int]] = {
    "softsync": (SOFTSYNC, WORKERS * STEPS // 2),
    "async-sgd": (("async-sgd", DEDICATED, MORE), WORKERS * STEPS),
    "async-sgd, beside, one-bit": (("async-sgd", {"codec": "one-bit"}, MORE), WORKERS * STEPS),
    "async-sgd, not its own writes": (("async-sgd", {"own_writes": False}, MORE), WORKERS * STEPS),
    "async-sgd, differences": (("async-sgd", {"answers": "int8"}, MORE), WORKERS * STEPS),
    "staleness-aware, adam": (
        ("staleness-aware", {}, {**MORE, "optimizer": {"name": "adam", "learning_rate": 0.002}}),
        WORKERS * STEPS,
    ),
    "softsync, all": (("softsync", {"contributions": WORKERS}, MORE), STEPS),
    "bounded": (("bounded-staleness", {**DEDICATED, "bound": 1}, MORE), WORKERS * STEPS),
    "bounded, by clock": (("bounded-staleness", {"bound": 2, "apply": "clock"}, MORE), STEPS),
    "by the clock": (
        ("async-sgd", {}, {**MORE, "checkpoint": {"every_seconds": 1e-9, "keep": 3}}),
        WORKERS * STEPS,
    ),
}
"""And the updates that each unit has seen in the end."""


def come_to(run: Run, cut: int) -> list[int]:
    """By rank: how many steps each worker had done at the cut."""
    store = run.launch.cuts()
    said = (parts.read(store.part(cut, worker_part(rank))).texts[DONE] for rank in range(WORKERS))
    return [json.loads(each)["steps"] for each in said]


def contributions(rows: np.ndarray) -> Counter[tuple[int, int, int]]:
    return Counter(zip(*(rows[name].tolist() for name in ("unit", "worker", "step")), strict=True))


def goes_on(case: Case, updates: int, tmp_path: Path) -> None:
    """From the last checkpoint but one, as the last is not whole. Each contribution is in the updates of one attempt
    before the cut, or of the other behind it."""
    spec, folder = spec_of(case, tmp_path, steps=STEPS, every=EVERY), tmp_path / "checkpoints"
    whole = attempt(spec, tmp_path / "1", folder)
    succeeded(whole)
    next(places(folder)[-1].glob("shard-*.safetensors")).unlink()
    cut = int(places(folder)[-2].name.removeprefix("step-"))
    own = come_to(whole, cut)
    assert own[0] == cut
    again = attempt(spec, tmp_path / "2", folder)
    succeeded(again)
    assert again.launch.resumed == cut
    rows, units = again.updates(), {unit.index for unit in again.units}
    expected = {(u, rank, step) for u in units for rank in range(WORKERS) for step in range(own[rank], STEPS)}
    found = contributions(rows)
    assert set(found.values()) == {1}, "nothing is applied twice"
    late = found.keys() - expected  # had come before the cut, and were in no update yet
    assert expected <= found.keys()
    before = contributions(whole.updates())
    assert all(step < own[rank] and before[unit, rank, step] == 1 for unit, rank, step in late)
    for unit in units:
        mine = np.sort(np.unique(rows["version"][rows["unit"] == unit]))
        assert mine[-1] == updates, "with those before the cut"
        assert (np.diff(mine) == 1).all(), "versions grow on"
    assert again.summary()["test_loss"] < 0.95 * math.log(10)
    assert again.summary()["steps"] == STEPS


@pytest.mark.usefixtures("gang_lane")
def test_no_contribution_is_lost_or_applied_twice(tmp_path: Path) -> None:
    goes_on(*CASES["softsync"], tmp_path)


@pytest.mark.soak
@pytest.mark.usefixtures("gang_lane")
@pytest.mark.parametrize("case", CASES)
def test_no_contribution_is_lost_or_applied_twice_whatever_the_mode(case: str, tmp_path: Path) -> None:
    goes_on(*CASES[case], tmp_path)


def makes_room(case: Case, steps: int, tmp_path: Path) -> None:
    spec = spec_of(case, tmp_path, steps=steps, every=steps)
    folder = tmp_path / "checkpoints"
    first = attempt(spec, tmp_path / "1", folder, lambda gang: preemption.ask(tmp_path / "1"))
    assert first.end.status == "succeeded", f"{first.end.reason}\n{first.logs()}"
    cut = preemption.preempted_step(tmp_path / "1")
    assert cut is not None
    again = attempt(spec, tmp_path / "2", folder)
    succeeded(again)
    assert again.launch.resumed == cut
    both = contributions(first.updates()) + contributions(again.updates())
    units = {unit.index for unit in again.units}
    assert both == Counter((u, rank, step) for u in units for rank in range(WORKERS) for step in range(steps))


@pytest.mark.soak
@pytest.mark.usefixtures("gang_lane")
@pytest.mark.parametrize("case", ["bounded", "async-sgd", "bounded, by clock"])
def test_a_preempted_job_goes_on(case: str, tmp_path: Path) -> None:
    makes_room(CASES[case][0], STEPS, tmp_path)


@pytest.mark.soak
@pytest.mark.usefixtures("gang_lane")
def test_what_waits_for_an_update_at_the_cut_is_applied_behind_it_alone(tmp_path: Path) -> None:
    """All stop after their first step, so that two of three contributions are in an update."""
    slow = [{"worker": rank, "factor": 1, "pause_every_steps": 1, "pause_s": 0.3} for rank in (1, 2)]
    makes_room(("softsync", {"contributions": 2}, {**MORE, "faults": {"stragglers": slow}}), 4, tmp_path)


@pytest.mark.soak
@pytest.mark.usefixtures("gang_lane")
@pytest.mark.parametrize("slow", [0, 2])
def test_a_job_of_which_workers_have_ended_makes_room(slow: int, tmp_path: Path) -> None:
    """All but one have done all their steps when it is asked; and once more, in the attempt that goes on."""
    paused = [{"worker": slow, "factor": 1, "pause_every_steps": 1, "pause_s": 1.5}]
    spec = spec_of(("async-sgd", {}, {**MORE, "faults": {"stragglers": paused}}), tmp_path, steps=8, every=8)
    folder, both, cuts = tmp_path / "checkpoints", Counter[tuple[int, int, int]](), []
    for number in (1, 2):

        def late(gang: Gang, number: int = number) -> None:
            time.sleep(5 if number == 1 else 0)
            preemption.ask(tmp_path / str(number))

        run = attempt(spec, tmp_path / str(number), folder, late)
        cut = preemption.preempted_step(tmp_path / str(number))
        assert cut is not None, run.logs()
        cuts.append(cut)
        own = come_to(run, cut)
        assert [steps == 8 for steps in own] == [rank != slow for rank in range(WORKERS)]
        both += contributions(run.updates())
    assert cuts[0] < cuts[1]
    again = attempt(spec, tmp_path / "3", folder)
    succeeded(again)
    both += contributions(again.updates())
    units = {unit.index for unit in again.units}
    assert both == Counter((u, rank, step) for u in units for rank in range(WORKERS) for step in range(8))


@pytest.mark.soak
@pytest.mark.usefixtures("gang_lane")
def test_one_worker_that_has_nobody_to_drift_from_goes_on_to_the_bit(tmp_path: Path) -> None:
    case: Case = ("async-sgd", DEDICATED, {**MORE, "cluster": {"workers": 1}, "faults": {}})
    spec, folder = spec_of(case, tmp_path, steps=STEPS, every=EVERY), tmp_path / "checkpoints"
    expected = succeeded(attempt(spec, tmp_path / "1", folder))
    again = attempt(spec, tmp_path / "2", folder)
    found = succeeded(again)
    assert again.launch.resumed == 20
    assert all(bool((found[name] == held).all()) for name, held in expected.items())
