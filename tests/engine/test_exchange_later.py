"""What a worker encodes leaves by its lane, not from backward, and nothing of a unit overtakes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.nn import Parameter

from engine.axes.exchange import EXCHANGE
from engine.exchange.factors import FactorsExchange
from engine.exchange.peers import PeersExchange
from engine.exchange.server import LIGHT_BYTES, ServerExchange
from engine.plan.consistency import Consistency
from engine.plan.flow import derive
from engine.plan.plan import LayerPlan, Order
from engine.plan.units import Segment, Unit
from engine.protocol.instructions import Part
from engine.protocol.messages import Message
from engine.state.capture import Captured
from engine.state.choice import Choice
from engine.state.host_memory import HostMemory
from engine.state.versions import Versions
from engine.tensor_bytes import as_bytes, as_tensor
from engine.transport.message import Header
from tests.jobs import job
from tests.pairs import own_pace

COUNT = 6
SHARD = 1


class Worker:
    """Worker 0 of two with one unit, whose messages are kept in place of being sent."""

    def __init__(
        self,
        codec: str,
        exchange: str = "parameter-server",
        *,
        returns: Any = "push",
        count: int = COUNT,
        dtype: str = "float32",
    ) -> None:
        self.unit = Unit(
            index=0,
            layers=("layer",),
            position=0,
            segments=(Segment("weight", 0, count),),
            dtype=dtype,
            shard=0 if exchange == "parameter-server" else None,
        )
        self.weight = Parameter(torch.zeros(count, dtype=getattr(torch, dtype)))
        self.views: list[memoryview] = []
        """What has been handed to the endpoint, in whatever memory it is."""
        self.taken: list[list[Part]] = []
        """By step: which updates of others are said to be in the parameters."""
        self.sent: list[tuple[int, Header, bytes]] = []
        self.hurried: list[bool] = []
        self.captures: dict[int, Any] = {}
        layer = LayerPlan(
            layer="layer", exchange=exchange, codec=codec, update="worker", order=Order(returns=returns)
        )
        consistency: Consistency | None = own_pace() if exchange == "peers" else None
        flow = derive(layer, job(cluster={"workers": 2}), consistency)
        choice = Choice(unit=self.unit, layer=layer, flow=flow, rank=lambda *_: 0, layer_index=0, seed=0)
        self.versions = Versions(1, 30.0)
        context: Any = SimpleNamespace(
            rank=0,
            workers=2,
            choices={0: choice},
            captures=self.captures,
            memory=HostMemory({"weight": self.weight}),
            versions=self.versions,
            device="cpu",
            lockstep=True,
            written=lambda unit: False,
            shard_party=lambda shard: SHARD,
            party_name=str,
            endpoint=SimpleNamespace(index=0, send=self._keep, nudge=lambda: None),
            recording=SimpleNamespace(
                now_ns=lambda: 0,
                encoding=lambda *_: nullcontext(),
                reduced=lambda *_: None,
                applied_late=lambda _, parts: self.taken.append(parts),
            ),
        )
        self.exchange: ServerExchange | PeersExchange | FactorsExchange = EXCHANGE[exchange].load()(context)

    def _keep(
        self,
        peer: int,
        header: Header,
        payload: Sequence[memoryview],
        on_sent: Any = None,
        hurry: bool = True,
    ) -> None:
        self.sent.append((peer, header, b"".join(payload)))
        self.views += payload
        self.hurried.append(hurry)

    def starts(self, values: list[float], step: int = 0) -> None:
        """Its gradient of a step is final."""
        self.weight.grad = torch.tensor(values, dtype=self.weight.dtype)
        self.exchange.start(self.unit, step)

    def encodes(self) -> None:
        """The lane's thread takes what has been left to it."""
        (header,) = [header for _, header, _ in self.sent if header.kind == Message.ENCODE][-1:]
        self.exchange.handle(header, None)

    @property
    def kinds(self) -> list[tuple[int, int]]:
        return [(peer, header.kind) for peer, header, _ in self.sent]


def test_what_is_lossless_leaves_at_once() -> None:
    worker = Worker("fp32")
    worker.starts([1.0] * COUNT)
    assert worker.kinds == [(SHARD, Message.PUSH)]


@pytest.mark.parametrize("codec", ["fp16", "int8"])
def test_what_is_encoded_is_left_to_the_lanes_thread(codec: str) -> None:
    worker = Worker(codec)
    worker.starts([1.0] * COUNT)
    assert worker.kinds == [(0, Message.ENCODE)]
    worker.encodes()
    assert worker.kinds == [(0, Message.ENCODE), (SHARD, Message.PUSH)]


def test_it_is_the_gradient_of_its_step() -> None:
    """Also where workers go on without the answer: the gradient has been given up, and another one come, by then."""
    worker = Worker("fp16")
    worker.starts([1.0] * COUNT)
    worker.weight.grad = None
    worker.starts([2.0] * COUNT, step=1)
    worker.encodes()
    worker.encodes()
    pushed = [(h.step, p) for _, h, p in worker.sent if h.kind == Message.PUSH]
    halves = [bytes(torch.full((COUNT,), value).half().numpy().tobytes()) for value in (1.0, 2.0)]
    assert pushed == list(enumerate(halves))


def test_nothing_of_a_unit_overtakes_it() -> None:
    """A pull that the next step begins with, and the word that this worker contributes nothing more."""
    worker = Worker("fp16", returns="deferred-pull")
    worker.starts([1.0] * COUNT)
    worker.exchange.begin_step(1)
    worker.exchange.finished(1)
    assert {kind for _, kind in worker.kinds} == {Message.ENCODE}
    for _ in range(3):
        worker.encodes()
    assert worker.kinds[-3:] == [(SHARD, m) for m in (Message.PUSH, Message.PULL, Message.FINISH)]
    worker.exchange.finished(1)
    assert worker.kinds[-1] == (SHARD, Message.FINISH), "nothing waits any more"
    with pytest.raises(RuntimeError, match="nothing of unit 0 waits"):
        worker.encodes()


@pytest.mark.parametrize(("count", "hurries"), [(LIGHT_BYTES // 2, False), (LIGHT_BYTES // 2 + 1, True)])
def test_what_is_light_wakes_nobody_until_the_next_one_leaves(count: int, hurries: bool) -> None:
    worker = Worker("fp16", count=count)
    worker.starts([1.0] * count)
    assert worker.hurried == [hurries]


@pytest.mark.parametrize("codec", ["fp32", "fp16"])
def test_peers_get_it_from_there_too(codec: str) -> None:
    worker = Worker(codec, "peers", returns="none")
    worker.starts([1.0] * COUNT)
    if codec == "fp16":
        assert worker.kinds == [(0, Message.ENCODE)]
        worker.encodes()
    assert worker.kinds[-1] == (1, Message.UPDATE)
    worker.versions.wait([worker.unit], 1, lambda _: "")


def update_of_the_other(worker: Worker, step: int, value: float) -> None:
    """Comes, and is added to what waits."""
    payload = as_bytes(torch.full((COUNT,), value, dtype=worker.weight.dtype))
    header = Header(kind=Message.UPDATE, origin=1, step=step, payload_bytes=len(payload))
    worker.exchange.handle(header, payload)


@pytest.mark.parametrize("codec", ["fp32", "bf16"])
def test_what_leaves_for_peers_is_not_the_memory_that_others_are_added_to(codec: str) -> None:
    """A codec whose type is the unit's own has nothing to convert, and gives the gradient's own memory."""
    worker = Worker(codec, "peers", returns="none", dtype="bfloat16")
    worker.starts([1.0] * COUNT)
    if codec == "bf16":
        worker.encodes()
    update_of_the_other(worker, 0, 2.0)
    worker.exchange.finish(worker.unit, 0)
    assert worker.weight.grad is not None
    assert worker.weight.grad.tolist() == [3.0] * COUNT
    assert as_tensor(worker.views[-1], torch.bfloat16).tolist() == [1.0] * COUNT


class FactorsWorker(Worker):
    """The same of a fully-connected layer of 3 inputs and 2 outputs, of 4 rows."""

    def __init__(self, codec: str) -> None:
        super().__init__(codec, "factors", returns="none")
        self.given = torch.arange(12.0).view(4, 3), torch.arange(8.0).view(4, 2)

    def starts(self, values: list[float], step: int = 0) -> None:
        """Its factors of a step are final; with `values` its gradient is, which is no product then."""
        self.weight.grad = torch.tensor(values) if values else None
        whole = self.weight.grad
        captured = Captured(
            present=(True,),
            factors=None if values else self.given,
            gradients=(whole,) if whole is not None else (),
        )
        self.captures[0] = SimpleNamespace(take=lambda step: captured)
        self.exchange.start(self.unit, step)


@pytest.mark.parametrize("values", [[], [1.0] * COUNT], ids=["factors", "gradient"])
@pytest.mark.parametrize("codec", ["fp32", "bf16", "int8"])
def test_factors_are_encoded_there_too(codec: str, values: list[float]) -> None:
    """And what travels in their place. As they are, they leave at once."""
    worker, kind = FactorsWorker(codec), Message.WHOLE_GRADIENT if values else Message.FACTORS
    worker.starts(values)
    if codec != "fp32":
        assert worker.kinds == [(0, Message.ENCODE)]
        worker.encodes()
    assert worker.kinds[-1] == (1, kind)
    worker.starts(values, step=1)
    assert [header.step for _, header, _ in worker.sent if header.kind == kind] == [0, 1][
        : 1 + (codec == "fp32")
    ]


class Locks:
    """In place of a worker's: whenever it holds none of them, another thread may do something. It does so once."""

    def __init__(self, exchange: Any, gap: int) -> None:
        """`gap`: in which of these moments."""
        exchange._adding = exchange._lock = self
        self._held, self._left = 0, gap
        self.meanwhile: Callable[[], None] | None = None

    def __enter__(self) -> None:
        self._held += 1

    def __exit__(self, *error: object) -> None:
        self._held -= 1
        if self._held or self.meanwhile is None:
            return
        self._left -= 1
        if self._left < 0:
            then, self.meanwhile = self.meanwhile, None
            then()


@pytest.mark.parametrize("gap", [0, 1])
@pytest.mark.parametrize("interrupted", ["training", "lane"])
def test_updates_are_said_to_be_taken_with_the_step_that_has_their_numbers(
    interrupted: str, gap: int
) -> None:
    """Whenever the lane's thread adds one while the training thread takes what has come, or the other way around."""
    worker = Worker("fp32", "peers", returns="none")
    worker.starts([0.0] * COUNT)
    numbers = []

    def training() -> None:
        worker.weight.grad = torch.zeros(COUNT)
        worker.exchange.finish(worker.unit, 0)
        numbers.append(int(worker.weight.grad[0]))

    def lane() -> None:
        update_of_the_other(worker, 1, 1.0)

    update_of_the_other(worker, 0, 1.0)
    first, last = (training, lane) if interrupted == "training" else (lane, training)
    locks = Locks(worker.exchange, gap)
    locks.meanwhile = last
    first()
    if locks.meanwhile is not None:  # there are fewer moments
        locks.meanwhile = None
        last()
    training()
    assert numbers == [len(parts) for parts in worker.taken]
    assert sum(numbers) == 2


def test_a_version_that_is_told_late_changes_nothing() -> None:
    """Of two threads, each of which tells what an event led to."""
    worker = Worker("fp32", "peers", returns="none")
    worker.versions.advance(0, 2)
    worker.versions.advance(0, 1)
    assert worker.versions.reached([worker.unit], 2)
