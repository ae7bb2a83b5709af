"""A server shard answers with the version that was asked for, whatever has arrived of the next one."""

from __future__ import annotations

import queue
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from engine.codec.difference import moved_by
from engine.protocol.messages import Lane, Message, Payload
from engine.runtime.party import PartyBase, load_choices
from engine.runtime.servers import make_shard
from engine.tensor_bytes import as_bytes, kept
from engine.transport.message import Header
from tests.jobs import job, prepare


def test_a_late_pull_gets_its_own_step(tmp_path: Path) -> None:
    """Worker 0 has pulled step 0 and pushed step 1 before worker 1, beside the shard, pulls step 0."""
    launch = prepare(
        job(
            strategy={"name": "parameter-server-deferred", "options": {"update": "worker", "servers": 1}},
            cluster={"workers": 2},
        ),
        tmp_path,
    )
    base = PartyBase(launch, launch.parties[1])
    answers: queue.SimpleQueue[list[float]] = queue.SimpleQueue()

    def answer(header: Header, payload: Payload) -> None:
        if header.kind == Message.ANSWER:
            assert payload is not None
            answers.put(torch.frombuffer(payload, dtype=torch.float32).tolist())

    base.endpoint.register(Lane.WORKER, place=lambda header: None, handle=answer)
    base.endpoint.connect({})
    with base:
        choices = load_choices(launch)
        choice = choices[0]
        initial = {p.name: torch.zeros(p.shape) for layer in launch.model.layers for p in layer.parameters}
        shard = make_shard(launch, choices, initial, base, 0, 2, lambda: 0.0)

        def say(kind: Message, rank: int, step: int, value: float | None = None) -> None:
            data = None if value is None else as_bytes(torch.full((choice.unit.count,), value))
            header = Header(
                kind=kind,
                lane=Lane.SERVER,
                origin=rank,
                step=step,
                unit=choice.unit.index,
                payload_bytes=len(data or b""),
            )
            shard.handle(header, data)

        say(Message.PUSH, 0, 0, 1.0)
        say(Message.PUSH, 1, 0, 2.0)
        say(Message.PUSH, 0, 1, 10.0)
        say(Message.PULL, 1, 0)
        assert answers.get(timeout=30) == [3.0] * choice.unit.count


def test_phases_are_summed_one_after_the_other(tmp_path: Path) -> None:
    """The first one's sum is answered by itself; a pull may come ahead of what is pushed last, and waits from then
    on."""
    options = {"update": "worker", "servers": 1, "codec": "powersgd", "codec_options": {"rank": 1}}
    launch = prepare(
        job(
            model={"name": "mlp"},
            strategy={"name": "parameter-server-deferred", "options": options},
            cluster={"workers": 2},
        ),
        tmp_path,
    )
    base = PartyBase(launch, launch.parties[1])
    answers: list[tuple[int, int, list[float]]] = []

    def send(peer: int, header: Header, payload: Sequence[memoryview]) -> None:
        if header.kind == Message.ANSWER:
            answers.append((peer, header.part, torch.frombuffer(payload[0], dtype=torch.float32).tolist()))

    with base:
        choices = load_choices(launch)
        choice = next(each for each in choices.values() if len(each.unit.phases) == 2)
        left, right = choice.unit.phases
        initial = {p.name: torch.zeros(p.shape) for layer in launch.model.layers for p in layer.parameters}
        shard = make_shard(launch, choices, initial, base, 0, 2, lambda: 0.0)
        nowhere: Any = SimpleNamespace(index=1, send=send)
        shard._endpoint = nowhere

        def say(kind: Message, rank: int, phase: int = 0, values: tuple[int, float] | None = None) -> None:
            data = None if values is None else as_bytes(torch.full((values[0],), values[1]))
            header = Header(
                kind=kind,
                lane=Lane.SERVER,
                origin=rank,
                unit=choice.unit.index,
                part=phase,
                payload_bytes=len(data or b""),
            )
            shard.handle(header, data)

        say(Message.PUSH, 1, 0, (left, 2.0))
        say(Message.PUSH, 0, 0, (left, 1.0))
        assert answers == [(rank, 0, [3.0] * left) for rank in range(2)]
        say(Message.PULL, 1)
        assert shard.overdue() is None
        say(Message.PUSH, 1, 1, (right, 20.0))
        say(Message.PUSH, 0, 1, (right, 10.0))
        assert answers[2:] == [(1, 1, [30.0] * right)], "worker 0 has not asked"


def test_who_joins_again_gets_whole_parameters_and_then_what_they_have_moved_by(tmp_path: Path) -> None:
    """Of every element 0.05 is taken in the first step, and 0.095 in the second; an answer has a hundredth of them."""
    answers = {"answers": "top-k", "servers": 1, "where": "dedicated"}
    launch = prepare(
        job(
            strategy={"name": "async-sgd", "options": answers},
            cluster={"workers": 2, "worker_loss": "rejoin"},
            optimizer={"name": "sgd", "learning_rate": 0.05, "options": {"momentum": 0.9}},
        ),
        tmp_path,
    )
    base = PartyBase(launch, launch.parties[1])
    said: queue.SimpleQueue[tuple[int, memoryview]] = queue.SimpleQueue()

    def answer(header: Header, payload: Payload) -> None:
        if header.kind == Message.ANSWER:
            assert payload is not None
            said.put((header.part, kept(payload)))

    base.endpoint.register(Lane.WORKER, place=lambda header: None, handle=answer)
    base.endpoint.connect({})
    with base:
        choices = load_choices(launch)
        choice = max(choices.values(), key=lambda choice: choice.unit.count)
        count = choice.unit.count
        initial = {p.name: torch.zeros(p.shape) for layer in launch.model.layers for p in layer.parameters}
        shard = make_shard(launch, choices, initial, base, 0, 3, lambda: 0.0)

        def say(kind: Message, step: int, payload: memoryview | None = None, meta: bytes = b"") -> None:
            header = Header(
                kind=kind,
                lane=Lane.SERVER,
                origin=1,
                step=step,
                unit=choice.unit.index,
                part=1,
                payload_bytes=len(payload or b""),
                meta=meta,
            )
            shard.handle(header, payload)

        def moved() -> tuple[int, float]:
            """(how many elements, by how much) a difference says."""
            part, payload = said.get(timeout=30)
            assert part == 0
            found = moved_by(choice.answer_codec("worker 1"), payload, count, torch.float32)
            there = found[found != 0]
            return len(there), float(there.mean())

        gradient = as_bytes(torch.ones(count))
        few = max(1, round(count / 100))
        say(Message.PUSH, 0, gradient)
        assert moved() == (few, pytest.approx(-0.05))
        say(Message.LOST, 0, meta=b"it was killed")
        say(Message.RETURNED, 1)
        say(Message.JOIN, 1)
        part, whole = said.get(timeout=30)
        assert part == 1
        assert torch.allclose(torch.frombuffer(whole, dtype=torch.float32), torch.full((count,), -0.05))
        say(Message.PUSH, 1, gradient)
        assert moved() == (few, pytest.approx(-0.095)), "from what it has got, not from what it held before"
