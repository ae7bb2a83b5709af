"""Scheduling decisions, one table: who is placed, who waits, and why."""

from __future__ import annotations

import pytest

from backend.lifecycle import Reason
from backend.scheduler.decide import (
    MOST_REHEARSED,
    Demand,
    Device,
    Inventory,
    Occupant,
    QueuedJob,
    State,
    check_demand,
    decide,
)
from backend.scheduler.instructions import Refuse, Start, Wait
from backend.scheduler.words import COUNTED
from engine.errors import UserError
from engine.plan.job import ClusterSpec


def inventory(cpus: int = 2, gpus: int = 0, rehearsals: int = 1) -> Inventory:
    return Inventory(
        devices=(
            *(Device(id=f"rehearsal:{i}", kind="rehearsal", name="slot") for i in range(rehearsals)),
            *(Device(id=f"cpu:{i}", kind="cpu", name=f"CPU slot {i}") for i in range(cpus)),
            *(Device(id=f"cuda:{i}", kind="cuda", name="GPU", memory_bytes=1) for i in range(gpus)),
        )
    )


def job(
    name: str,
    workers: int = 1,
    *,
    age: int = 0,
    priority: int = 0,
    device: str = "auto",
    alone: bool = False,
    rehearsal: bool = False,
) -> QueuedJob:
    cluster = ClusterSpec(workers=workers, device=device, alone=alone)  # type: ignore[arg-type]
    demand = Demand.of(cluster, "rehearse" if rehearsal else "train")
    return QueuedJob(id=name, name=name, demand=demand, priority=priority, queued_unix_ns=-age)


def decided(
    *jobs: QueuedJob, has: Inventory | None = None, held: dict[str, str] | None = None, alone: str = ""
) -> list[str]:
    """Decisions in short: `a on cpu:0+cpu:1`, `b waits 2`, `c refused`."""
    occupied = {
        device: Occupant(job_id=who, job_name=who, alone=who == alone) for device, who in (held or {}).items()
    }
    short = []
    for instruction in decide(State(queued=jobs, inventory=has or inventory(), occupied=occupied)):
        match instruction:
            case Start(job_id=id_, devices=devices):
                short.append(f"{id_} on {'+'.join(d.id for d in devices)}")
            case Wait(job_id=id_, position=position, blocked_by=blocked):
                short.append(f"{id_} waits {position} for {'+'.join(blocked)}")
            case Refuse(job_id=id_):
                short.append(f"{id_} refused")
    return short


def test_the_whole_gang_or_nothing() -> None:
    assert decided(job("a", 2)) == ["a on cpu:0+cpu:1"]
    assert decided(job("a", 2), held={"cpu:0": "r"}) == ["a waits 1 for r"]


def test_several_are_placed_at_once_while_there_is_room() -> None:
    assert decided(job("a", age=2), job("b", age=1)) == ["a on cpu:0", "b on cpu:1"]


def test_a_paused_server_places_and_refuses_nobody() -> None:
    jobs = (job("young", age=1), job("old", age=9), job("too wide", 3))
    state = State(queued=jobs, inventory=inventory(), occupied={}, paused=True)
    assert [(w.job_id, w.position, w.reason) for w in decide(state) if isinstance(w, Wait)] == [
        ("old", 1, Reason.SERVER_PAUSED),
        ("young", 2, Reason.SERVER_PAUSED),
        ("too wide", 3, Reason.SERVER_PAUSED),
    ]


def test_priority_then_age() -> None:
    jobs = (job("young", 2, age=1), job("old", 2, age=9), job("urgent", 2, priority=1))
    assert decided(*jobs) == ["urgent on cpu:0+cpu:1", "old waits 1 for urgent", "young waits 2 for old"]


def test_nobody_overtakes_a_waiting_job() -> None:
    jobs = (job("wide", 2, age=9), job("narrow", 1, age=1))
    assert decided(*jobs, held={"cpu:1": "r"}) == ["wide waits 1 for r", "narrow waits 2 for wide"]


def test_kinds_of_device_have_lines_of_their_own() -> None:
    jobs = (job("gpu", 2, age=9, device="cuda"), job("cpu", 1, age=1, device="cpu"))
    held = {"cuda:0": "r"}
    assert decided(*jobs, has=inventory(2, 2), held=held) == ["gpu waits 1 for r", "cpu on cpu:0"]


def test_auto_takes_cuda_where_the_inventory_has_enough() -> None:
    assert decided(job("a", 2), has=inventory(4, 2)) == ["a on cuda:0+cuda:1"]
    assert decided(job("a", 3), has=inventory(4, 2)) == ["a on cpu:0+cpu:1+cpu:2"]


def test_what_can_never_run_is_refused_and_blocks_nobody() -> None:
    assert decided(job("huge", 3, age=9), job("b", 2)) == ["huge refused", "b on cpu:0+cpu:1"]


def test_a_rehearsal_takes_one_slot_whatever_runs_beside_it() -> None:
    rehearsals = job("a", 4, age=9, rehearsal=True), job("b", 4, age=8, rehearsal=True)
    placed = " on " + "+".join(["rehearsal:0"] * 4)
    held = {"cpu:0": "r", "cpu:1": "r"}
    assert decided(*rehearsals, held=held) == ["a" + placed, "b waits 1 for a"]
    assert decided(job("c", 2), held={"rehearsal:0": "a"}) == ["c on cpu:0+cpu:1"]


def test_who_runs_alone_waits_for_everybody_and_everybody_for_him() -> None:
    held = {"cpu:0": "r"}
    jobs = job("me", alone=True, age=9), job("b", age=8), job("c", rehearsal=True)
    assert decided(*jobs, held=held) == ["me waits 1 for r", "b waits 2 for me", "c waits 2 for me"]
    assert decided(*jobs) == ["me on cpu:0", "b waits 1 for me", "c waits 1 for me"]
    assert decided(jobs[1], held=held, alone="r") == ["b waits 1 for r"]
    (wait,) = decide(
        State(
            queued=jobs[:1],
            inventory=inventory(),
            occupied={"cpu:0": Occupant(job_id="r", job_name="resnet p3")},
        )
    )
    assert isinstance(wait, Wait)
    assert (
        wait.text
        == "next in the queue: it runs alone, as it asked (cluster.alone), and 'resnet p3' runs still"
    )


def test_who_can_never_run_alone_blocks_nobody() -> None:
    assert decided(job("huge", 3, alone=True, age=9), job("b")) == ["huge refused", "b on cpu:0"]


def test_a_wait_says_position_need_and_who_holds_what() -> None:
    state = State(
        queued=(job("a", 2, age=2), job("b", age=1), job("c", age=3, priority=-1)),
        inventory=inventory(),
        occupied={"cpu:0": Occupant(job_id="r", job_name="resnet p3")},
    )
    first, second, third = decide(state)
    assert isinstance(first, Wait)
    assert isinstance(second, Wait)
    assert isinstance(third, Wait)
    assert first.reason is Reason.WAITING_FOR_DEVICES
    assert first.text == ("next in the queue: needs 2 CPU devices, 1 of 2 is free; 'resnet p3' holds cpu:0")
    assert second.reason is Reason.WAITING_IN_LINE
    assert second.text == "number 2 in the queue, behind 'a' (older)"
    assert third.text == "number 3 in the queue, behind 'b' (priority 0)"
    assert third.blocked_by == ("b",)


def test_far_behind_a_placement_changes_nothing_that_is_said() -> None:
    """So that a long queue is not written anew whenever a job starts."""
    jobs = [job(f"{i:03}", age=-i) for i in range(100)]

    def said(queued: list[QueuedJob]) -> dict[str, str]:
        held = {"cpu:0": Occupant(job_id="r", job_name="r")}
        decided = decide(State(queued=tuple(queued), inventory=inventory(1), occupied=held))
        return {i.job_id: i.text for i in decided if isinstance(i, Wait)}

    before, after = said(jobs), said(jobs[1:])
    assert len([id_ for id_ in after if after[id_] != before[id_]]) == COUNTED
    assert before["050"] == "beyond the first 20 of the queue, behind '049' (older)"


@pytest.mark.parametrize(
    ("workers", "device", "has", "said"),
    [
        (
            3,
            "auto",
            inventory(2),
            "cluster.workers = 3: more workers than the server's 2 CPU devices. Use at most 2",
        ),
        (3, "cpu", inventory(2, 4), "cluster.workers = 3: more workers than the server's 2 CPU devices"),
        (1, "cuda", inventory(2), "cluster.device = 'cuda': this server has no CUDA device. Use cpu or auto"),
        (
            2,
            "cuda",
            inventory(4, 1),
            "cluster.workers = 2: more workers than the server's 1 CUDA device. Use at most 1",
        ),
        (5, "auto", inventory(4, 4), "more workers than the server's 4 CPU devices"),
    ],
)
def test_impossible_demands_are_refused_with_value_rule_and_remedy(
    workers: int, device: str, has: Inventory, said: str
) -> None:
    with pytest.raises(UserError) as caught:
        check_demand(Demand(workers=workers, device=device), has)  # type: ignore[arg-type]
    assert said in str(caught.value)


def test_a_rehearsal_has_a_limit_too() -> None:
    assert check_demand(Demand(workers=MOST_REHEARSED, rehearsal=True), inventory(1)) == "rehearsal"
    with pytest.raises(UserError, match="a rehearsal has at most 64 workers"):
        check_demand(Demand(workers=MOST_REHEARSED + 1, rehearsal=True), inventory())
