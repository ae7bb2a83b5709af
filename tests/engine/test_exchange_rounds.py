"""Of an allreduce in rounds, finished sums are received where they belong."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.nn import Parameter

from engine.errors import TrainingError
from engine.exchange.ring_allreduce import RingAllreduce
from engine.plan.flow import derive
from engine.plan.plan import LayerPlan
from engine.plan.units import Segment, Unit
from engine.protocol.messages import Message
from engine.state.choice import Choice
from engine.state.host_memory import HostMemory
from engine.state.versions import Versions
from engine.tensor_bytes import as_bytes
from engine.transport.message import Header
from tests.jobs import job

COUNT = 6
UNIT = Unit(
    index=0,
    layers=("layer",),
    position=0,
    segments=(Segment("weight", 0, COUNT),),
    dtype="float32",
    shard=None,
)


class Rank:
    """Rank 0 of two in a ring, whose messages are kept in place of being sent."""

    def __init__(self, codec: str) -> None:
        self.weight = Parameter(torch.zeros(COUNT))
        self.sent: list[tuple[Header, list[memoryview]]] = []
        layer = LayerPlan(layer="layer", exchange="ring-allreduce", codec=codec, update="worker")
        flow = derive(layer, job(cluster={"workers": 2}))
        choice = Choice(unit=UNIT, layer=layer, flow=flow, rank=lambda *_: 0, layer_index=0, seed=0)
        self.versions = Versions(1, 30.0)
        context: Any = SimpleNamespace(
            rank=0,
            workers=2,
            choices={0: choice},
            memory=HostMemory({"weight": self.weight}),
            versions=self.versions,
            endpoint=SimpleNamespace(index=0, send=self._keep),
            recording=SimpleNamespace(
                now_ns=lambda: 0,
                reduced=lambda *_: None,
                encoding=lambda *_: nullcontext(),
                decoding=lambda *_: nullcontext(),
            ),
        )
        self.exchange = RingAllreduce(context)

    def _keep(self, _peer: int, header: Header, payload: list[memoryview], on_sent: Any) -> None:
        self.sent.append((header, payload))
        if on_sent is not None:
            on_sent()

    def begin(self, values: list[float]) -> None:
        """Its own gradients are there."""
        self.weight.grad = torch.tensor(values, dtype=torch.float32)
        self.exchange.handle(Header(kind=Message.ROUND_START, origin=0), None)

    def part(self, number: int, payload_bytes: int) -> Header:
        """The other rank's message of a round."""
        return Header(kind=Message.ROUND, origin=1, part=number, payload_bytes=payload_bytes)


def test_a_finished_sum_is_received_in_its_place_also_before_its_turn() -> None:
    """What is to be added is not; the allgather's part comes first."""
    rank = Rank("fp32")
    half = COUNT // 2 * 4
    assert rank.exchange.place(rank.part(1, half)) is None  # its own gradients are not there yet
    rank.begin([1, 2, 3, 4, 5, 6])
    scattered, gathered = rank.part(0, half), rank.part(1, half)
    assert rank.exchange.place(scattered) is None
    (place,) = rank.exchange.place(gathered) or []
    place[:] = as_bytes(torch.tensor([101.0, 102.0, 103.0]))
    rank.exchange.handle(gathered, None)
    rank.exchange.handle(scattered, as_bytes(torch.tensor([10.0, 20.0, 30.0])))
    assert rank.weight.grad is not None
    assert rank.weight.grad.tolist() == [101, 102, 103, 14, 25, 36]
    assert [bytes(views[0]) for _, views in rank.sent[1:]] == [bytes(as_bytes(torch.tensor([14.0, 25, 36])))]
    rank.versions.wait([UNIT], 1, lambda _: "")


def test_what_a_codec_must_decode_is_not_received_in_place() -> None:
    rank = Rank("fp16")
    rank.begin([1, 2, 3, 4, 5, 6])
    assert rank.exchange.place(rank.part(1, COUNT // 2 * 2)) is None


def test_a_message_that_nobody_awaits_is_refused() -> None:
    rank = Rank("fp32")
    rank.begin([1, 2, 3, 4, 5, 6])
    assert rank.exchange.place(rank.part(7, 4)) is None
    with pytest.raises(RuntimeError, match="which nobody here awaits"):
        rank.exchange.handle(rank.part(7, 4), as_bytes(torch.tensor([1.0])))


def test_a_codec_says_whose_parameters_it_has_also_of_the_models_own() -> None:
    layer = LayerPlan(layer="", exchange="ring-allreduce", codec="int8", update="worker")
    flow = derive(layer, job(cluster={"workers": 2}))
    unit = replace(UNIT, layers=("",))
    choice = Choice(unit=unit, layer=layer, flow=flow, rank=lambda *_: 0, layer_index=0, seed=0)
    with pytest.raises(TrainingError, match=r"what \(root\) sends holds a value that is not finite"):
        choice.codec("worker 0").encode([torch.full((COUNT,), torch.nan)], [0])
