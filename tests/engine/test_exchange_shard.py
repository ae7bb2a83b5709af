"""A server shard answers with the version that was asked for, whatever has arrived of the next one."""

from __future__ import annotations

import queue
from pathlib import Path

import torch

from engine.protocol.messages import Lane, Message, Payload
from engine.runtime.party import PartyBase, load_choices
from engine.runtime.servers import make_shard
from engine.tensor_bytes import as_bytes
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
        shard = make_shard(launch, choices, initial, base, 0, 2)

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
