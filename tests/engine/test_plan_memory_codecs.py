"""What codecs keep is declared: counted in real codecs, opened and used by the exchanges that a plan names."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.nn import Parameter

from engine.axes.codec import CODEC
from engine.axes.exchange import EXCHANGE
from engine.axes.matrices import rows_of
from engine.codec.base import Piece
from engine.codec.opening import opened
from engine.codec.trial import ways
from engine.launch import Launch
from engine.liveness.measured import peak_bytes
from engine.plan.memory import held
from engine.plan.plan import Plan
from engine.protocol.messages import Lane, Message
from engine.runtime.party import PartyBase, load_choices
from engine.runtime.servers import make_shard
from engine.state.host_memory import HostMemory
from engine.state.versions import Versions
from engine.tensor_bytes import as_bytes, joined
from engine.transport.message import Header
from tests.jobs import job, prepare


def test_what_a_codec_works_in_is_declared() -> None:
    """Beside its last message, of a weight and a bias, in numbers of four bytes; within a tenth."""
    weight, bias = torch.randn(80, 512), torch.randn(80)
    parts, at = [weight.reshape(-1), bias], [0, weight.numel()]
    count = weight.numel() + bias.numel()
    for way in ways([codec.name for codec in CODEC]):
        rows = (rows_of(weight.shape, 0, weight.numel()), rows_of(bias.shape, 0, len(bias)))
        codec = opened(way, Piece(name="layer", count=count, dtype=torch.float32, rows=rows, seed=1))
        for _ in range(2):
            sent = codec.encode(parts, at)
        peak = peak_bytes(partial(codec.encode, parts, at)) / (4 * count)
        message = sum(each.nbytes for each in sent) / (4 * count)
        assert peak - message <= CODEC[way.codec].working + 0.1, way.text
        assert CODEC[way.codec].working <= 1.1 * peak + 0.1, way.text


def launched(strategy: str, workers: int, directory: Path, **options: Any) -> Launch:
    spec = job(
        model={"name": "mlp"}, strategy={"name": strategy, "options": options}, cluster={"workers": workers}
    )
    return prepare(spec, directory)


def declared(launch: Launch) -> list[int]:
    """Residuals of each party."""
    assert isinstance(launch.plan, Plan)
    return [held(launch.plan, launch.model, party, launch.job)["residuals"] for party in launch.parties]


def kept_by(codecs: Sequence[Any]) -> int:
    return sum(tensor.nbytes for codec in codecs for tensor in codec.state().values())


def codecs_of(exchange: Any) -> list[Any]:
    """Also those of units that are summed in phases, where an exchange has such."""
    phases = getattr(exchange, "_phases", None)
    return [*exchange._codecs.values(), *(phases.codecs.values() if phases is not None else ())]


class Workers:
    """All workers of a plan without servers, whose messages are handed from one to the other here."""

    def __init__(self, launch: Launch) -> None:
        self.choices, workers = load_choices(launch), launch.job.cluster.workers
        (self.name,) = {choice.layer.exchange for choice in self.choices.values()}
        self.travelling: deque[tuple[int, Header, memoryview]] = deque()
        self.weights = [
            {
                p.name: Parameter(torch.zeros(p.shape))
                for layer in launch.model.layers
                for p in layer.parameters
            }
            for _ in range(workers)
        ]
        self.exchanges = [EXCHANGE[self.name].load()(self._context(rank, workers)) for rank in range(workers)]

    def _context(self, rank: int, workers: int) -> Any:
        def send(
            peer: int, header: Header, payload: Sequence[memoryview], on_sent: Any = None, hurry: bool = True
        ) -> None:
            self.travelling.append((peer, header, memoryview(bytearray().join(payload))))
            if on_sent is not None:
                on_sent()

        recording = SimpleNamespace(
            now_ns=lambda: 0,
            reduced=lambda *_: None,
            encoding=lambda *_: nullcontext(),
            decoding=lambda *_: nullcontext(),
            coding=lambda *_: nullcontext(),
        )
        return SimpleNamespace(
            rank=rank,
            workers=workers,
            choices=self.choices,
            memory=HostMemory(self.weights[rank]),
            versions=Versions(len(self.choices), 30.0),
            endpoint=SimpleNamespace(index=rank, send=send),
            recording=recording,
        )

    def exchange_a_step(self) -> list[int]:
        """What each keeps after it."""
        random = torch.Generator().manual_seed(1)
        for exchange, weights in zip(self.exchanges, self.weights, strict=True):
            for weight in weights.values():
                weight.grad = torch.randn(weight.shape, generator=random)
            for choice in self.choices.values():
                exchange.start(choice.unit, 0)
        while self.travelling:
            peer, header, payload = self.travelling.popleft()
            self.exchanges[peer].handle(header, payload)
        return [kept_by(codecs_of(exchange)) for exchange in self.exchanges]


@pytest.mark.parametrize("codec", ["powersgd", "int8"])
@pytest.mark.parametrize(
    ("strategy", "workers"),
    [
        ("ring-allreduce", 2),
        ("ring-allreduce", 3),
        ("tree-allreduce", 3),
        ("ring-allreduce", 1),
        ("decentralized-async", 2),
    ],
)
def test_workers_keep_what_is_declared(strategy: str, workers: int, codec: str, tmp_path: Path) -> None:
    """In rounds each encodes parts, and what it keeps of a part's matrix is as wide as the whole one's."""
    launch = launched(strategy, workers, tmp_path, codec=codec)
    found = Workers(launch).exchange_a_step()
    assert found == declared(launch)
    assert all(found) == (workers > 1)


@pytest.mark.parametrize("workers", [2, 3, 4, 5])
def test_halving_keeps_what_is_declared(workers: int, tmp_path: Path) -> None:
    """Each rank encodes parts of other sizes; those too many the whole."""
    launch = launched(
        "tree-allreduce", workers, tmp_path, codec="powersgd", algorithm="recursive-halving-doubling"
    )
    found = Workers(launch)
    assert found.name == "recursive-halving-doubling"
    assert found.exchange_a_step() == declared(launch)


@pytest.mark.parametrize(
    ("strategy", "options"),
    [
        ("parameter-server", {"answers": "powersgd"}),
        ("async-sgd", {"answers": "powersgd"}),
        ("async-sgd", {"answers": "int8"}),
        ("parameter-server", {"codec": "int8", "update": "worker"}),
        ("parameter-server", {"codec": "powersgd", "update": "worker"}),
    ],
)
def test_shards_keep_what_is_declared(strategy: str, options: dict[str, Any], tmp_path: Path) -> None:
    """Where workers drift, for each of them."""
    launch = launched(strategy, 2, tmp_path, servers=1, where="dedicated", **options)
    base = PartyBase(launch, launch.parties[2])
    with base:
        choices = load_choices(launch)
        initial = {p.name: torch.zeros(p.shape) for layer in launch.model.layers for p in layer.parameters}
        shard = make_shard(launch, choices, initial, base, 0, 2, lambda: 0.0)
        nowhere: Any = SimpleNamespace(index=2, send=lambda peer, header, payload: None)
        shard._endpoint = nowhere

        def say(kind: Message, rank: int, payload: memoryview, phase: int = 0) -> None:
            unit, size = choice.unit.index, len(payload)
            header = Header(
                kind=kind, lane=Lane.SERVER, origin=rank, unit=unit, part=phase, payload_bytes=size
            )
            shard.handle(header, payload)

        random = torch.Generator().manual_seed(1)
        for choice in choices.values():
            for (phase, count), rank in product(enumerate(choice.unit.summed), range(2)):
                gradient = torch.randn(count, generator=random)
                encoded = choice.codec("worker").encode([gradient], [0])
                say(Message.PUSH, rank, joined([as_bytes(tensor) for tensor in encoded]), phase)
            if choice.layer.order.returns != "push":
                say(Message.PULL, 0, memoryview(b""))
        rooms = shard._every_room()
        differences = {id(one): one for room in rooms for one in room.differences.values()}
        found = kept_by([*differences.values(), *(room.codec for room in rooms)])
    assert found == declared(launch)[2]
    assert bool(found) == (options.get("codec") != "powersgd"), "a sum that is made in phases is whole"
