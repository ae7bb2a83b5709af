"""Workers tell the first one what they saw: seldom, step by step, and nothing is lost on the way."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import Parameter

from engine.coordination.agreement import EVERY, Agreement
from engine.errors import TrainingError
from engine.instrumentation.writes import Seen
from engine.transport.message import Header

NOTHING = Seen(looked_at={}, wrote={})


class Wire:
    """Keeps what the second worker sends to the first one."""

    def __init__(self) -> None:
        self.sent: list[Header] = []

    def send(self, peer: int, header: Header, payload: Any = b"") -> None:
        assert peer == 0
        self.sent.append(header)


def two_workers() -> tuple[Agreement, Agreement, Wire]:
    wire: Any = Wire()
    gather: Any = None  # only `check` gathers
    first, second = (
        Agreement({}, sender=wire, gather=gather, rank=rank, workers=2, device=torch.device("cpu"))
        for rank in range(2)
    )
    return first, second, wire


def report(seen: dict[int, tuple[Seen, Seen]], steps: int) -> Wire:
    """Both tell what they saw in each step; the first one gets all of it."""
    first, second, wire = two_workers()
    for step in range(steps):
        for agreement, one in zip((first, second), seen.get(step, (NOTHING, NOTHING)), strict=True):
            agreement.report(step, one)
    for header in wire.sent:
        first.handle(header, memoryview(b""))
    return wire


def test_who_saw_nothing_reports_every_few_steps() -> None:
    assert [header.step for header in report({}, 3 * EVERY).sent] == [EVERY - 1, 2 * EVERY - 1, 3 * EVERY - 1]


def test_a_part_is_reported_when_it_is_due_with_what_was_written_before() -> None:
    same = Seen(looked_at={"a": 1}, wrote={})
    wrote = Seen(looked_at={}, wrote={"b": 5})
    [header] = report({2: (wrote, wrote), 4: (same, same)}, 5).sent
    said = json.loads(header.meta)
    assert (header.step, said["looked_at"], said["wrote"]) == (4, {"a": 1}, {"2": {"b": 5}})


@pytest.mark.parametrize(
    "seen",
    [
        (Seen(looked_at={}, wrote={"a": 1}), Seen(looked_at={}, wrote={"a": 2})),
        (Seen(looked_at={}, wrote={"a": 1}), NOTHING),
        (NOTHING, Seen(looked_at={}, wrote={"a": 1})),
        (Seen(looked_at={"a": 1}, wrote={}), Seen(looked_at={"a": 2}, wrote={})),
    ],
)
def test_a_difference_of_any_step_is_found_when_its_steps_are_reported(seen: tuple[Seen, Seen]) -> None:
    with pytest.raises(TrainingError, match="a is not the same on worker 0 and on worker 1"):
        report({3: seen}, EVERY)


def test_equal_writes_of_different_steps_are_not_mixed() -> None:
    one, two = Seen(looked_at={}, wrote={"a": 1}), Seen(looked_at={}, wrote={"a": 2})
    report({1: (one, one), 2: (two, two)}, EVERY)
    with pytest.raises(TrainingError):
        report({1: (one, two), 2: (two, one)}, EVERY)


class Meeting:
    """Two workers give each other their tensors; each from a thread of its own."""

    def __init__(self) -> None:
        self._given: list[Any] = [None, None]
        self._both = threading.Barrier(2, timeout=30)

    def of(self, rank: int) -> Any:
        def run(tensors: list[Tensor]) -> list[list[Tensor]]:
            self._given[rank] = tensors
            self._both.wait()
            return self._given

        return SimpleNamespace(run=run)


@pytest.mark.parametrize("steps", [(5, 5), (5, 6)])
def test_workers_that_ended_at_different_steps_need_not_hold_the_same(steps: tuple[int, int]) -> None:
    wire: Any = Wire()
    meeting = Meeting()
    device = torch.device("cpu")
    workers = [
        Agreement(
            {"a": Parameter(torch.full((2,), float(rank)))},
            sender=wire,
            gather=meeting.of(rank),
            rank=rank,
            workers=2,
            device=device,
        )
        for rank in range(2)
    ]
    with ThreadPoolExecutor(2) as pool:
        checks = [pool.submit(worker.check, step) for worker, step in zip(workers, steps, strict=True)]
    for check in checks:
        with nullcontext() if steps == (5, 6) else pytest.raises(TrainingError, match="a is not the same"):
            check.result()


@pytest.mark.parametrize("machines", [("one", "one"), ("one", "another")])
@pytest.mark.parametrize("values", [(1, 1), (1, 2), (1, None)])
def test_what_was_written_since_the_last_report_is_compared_before_anything_is_saved(
    machines: tuple[str, str], values: tuple[int, int | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    wire: Any = Wire()
    meeting, workers = Meeting(), []
    for rank, kind in enumerate(machines):
        monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda kind=kind: kind)
        mine = {name: Parameter(torch.zeros(2)) for name in ("a", "b")}
        gather, device = meeting.of(rank), torch.device("cpu")
        workers.append(Agreement(mine, sender=wire, gather=gather, rank=rank, workers=2, device=device))
    for worker, value in zip(workers, values, strict=True):
        worker.report(0, NOTHING if value is None else Seen(looked_at={}, wrote={"b": value}))
    with ThreadPoolExecutor(2) as pool:
        checks = [pool.submit(worker.check) for worker in workers]
    for check in checks:
        if values == (1, 1):
            check.result()
        else:
            with pytest.raises(TrainingError, match="b is not the same on worker 0 and on worker 1"):
                check.result()
    assert not wire.sent
