"""Codecs that keep what their messages lose, or draw at random, trained against a plain loop that encodes each message
as it travels: with what has been kept, or from the same seed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from engine.axes.codec import CODEC
from engine.codec.base import Piece
from engine.codec.draws import seed_of
from engine.codec.opening import opened
from engine.codec.summed_powersgd import SummedPowerSgd
from engine.inputs.build import find_task, load_dataset
from engine.inputs.sharding import global_batch_at, shard
from engine.models.build import build_model
from engine.plan.encoding import Encoding, encoding
from engine.plan.job import JobSpec
from engine.plan.rounds import HALVING_DOUBLING, TREE, Algorithm, SendChunk, chunk
from engine.plan.serde import to_plain
from engine.plan.units import Unit
from engine.runtime.worker import seed_everything
from engine.state.updates import build_optimizer
from engine.telemetry.events import Kind
from engine.telemetry.spool import batches
from engine.tensor_bytes import as_bytes, joined
from tests.jobs import Run, distance, job, succeed
from tests.traffic import assert_declared

pytestmark = pytest.mark.usefixtures("gang_lane")

WAYS = {m.name: encoding(m.name) for m in CODEC if m.available and m.traits & {"feedback", "random"}}
WAYS["int8, block 100"] = encoding("int8", {"block": 100})
WAYS |= {name: encoding(name, {"threshold": 0.002}) for name in ("two-bit", "threshold")}
WAYS["top-k, coded"] = encoding("top-k", {"ratio": 0.05}, entropy_coding=True)
SELECTS = [name for name, way in WAYS.items() if "selects" in CODEC[way.codec].traits]
"""Of these, exchanges need no more than one example in which every party keeps something."""
EVERYWHERE = ("int8", "terngrad")
"""One that keeps what it loses and one that draws: these travel by every way in the suite, the others by a server's and
by one without, in turns, and by the rest in `soak`. How a message travels does not depend on what is in it."""
STEPS = 4
SEED = 11
Meet = Callable[[Sequence[Tensor]], Tensor]
"""Of each rank's gradient of a unit, 1-D: what all of them update with."""


def rows(
    cases: Sequence[tuple[Any, ...]],
    few: slice,
    turn: int = 0,
    stands: Callable[[tuple[Any, ...]], bool] = lambda case: True,
) -> list[Any]:
    """Each case with each codec: with those that select by `few` of the cases, with those that are summed in phases
    where a message `stands` by itself. In the suite every second codec goes by every second of those, beginning with
    `turn`."""
    found = []
    for number, name in enumerate(WAYS):
        linear = "linear" in CODEC[WAYS[name].codec].traits
        mine = cases[few][(number + turn) % 2 :: 2]
        for case in cases[few] if name in SELECTS else cases:
            later = name not in EVERYWHERE and case not in mine
            if linear and not stands(case):
                continue
            found.append(pytest.param(*case, name, marks=[pytest.mark.soak] if later else []))
    return found


def spec_of(workers: int, strategy: str, **options: Any) -> JobSpec:
    return job(
        strategy={"name": strategy, "options": options},
        cluster={"workers": workers},
        training={"steps": STEPS, "precision": "float64", "deterministic": workers > 1, "seed": SEED},
    )


def travelling(name: str) -> dict[str, Any]:
    """Options of a strategy."""
    way = WAYS[name]
    return {
        "codec": way.codec,
        "codec_options": to_plain(way.options),
        "entropy_coding": way.entropy_coding,
    }


class Sender:
    """One party that encodes a unit's messages."""

    def __init__(self, way: Encoding, unit: Unit, who: str) -> None:
        seed = seed_of(SEED, unit.index, who)
        piece = Piece(name=unit.layers[0], count=unit.count, dtype=torch.float64, rows=unit.rows, seed=seed)
        self._codec = opened(way, piece)

    def send(self, value: Tensor, start: int = 0) -> Tensor:
        """What arrives."""
        payload = joined([as_bytes(tensor) for tensor in self._codec.encode([value], [start])])
        found = torch.empty_like(value)
        self._codec.decode(payload, [found])
        return found


def ranks(way: Encoding, unit: Unit, workers: int) -> list[Sender]:
    return [Sender(way, unit, f"worker {rank}") for rank in range(workers)]


def server(way: Encoding, unit: Unit, workers: int, answers: bool) -> Meet:
    """Contributions are summed in rank order; the sum is encoded where workers update."""
    senders, home = ranks(way, unit, workers), Sender(way, unit, f"shard {unit.shard}")

    def meet(gradients: Sequence[Tensor]) -> Tensor:
        total = senders[0].send(gradients[0])
        for sender, gradient in zip(senders[1:], gradients[1:], strict=True):
            total = total + sender.send(gradient)
        return home.send(total) if answers else total

    return meet


def ring(way: Encoding, unit: Unit, workers: int) -> Meet:
    """Chunk c begins at rank c; each rank adds its own, and the last one sends what all get."""
    senders = ranks(way, unit, workers)

    def meet(gradients: Sequence[Tensor]) -> Tensor:
        chunks = [chunk(unit.count, workers, index) for index in range(workers)]
        carried = [gradients[index][slice(*chunks[index])] for index in range(workers)]
        for hop in range(workers):  # in each of which every rank sends one message
            for index, (start, stop) in enumerate(chunks):
                rank = index + hop
                carried[index] = senders[rank % workers].send(carried[index], start)
                if hop < workers - 1:
                    carried[index] = gradients[(rank + 1) % workers][start:stop] + carried[index]
        return torch.cat(carried)

    return meet


def in_rounds(way: Encoding, unit: Unit, workers: int, algorithm: Algorithm) -> Meet:
    """Any program, played out: all must end with the same."""
    senders = ranks(way, unit, workers)
    programs = [algorithm.program(rank, workers, unit.count) for rank in range(workers)]

    def meet(gradients: Sequence[Tensor]) -> Tensor:
        held = [gradient.clone() for gradient in gradients]
        at, under_way = [0] * workers, dict[tuple[int, int], Tensor]()
        while any(at[rank] < len(programs[rank]) for rank in range(workers)):
            for rank, program in enumerate(programs):
                while at[rank] < len(program):
                    step = program[at[rank]]
                    here = held[rank][step.start : step.stop]
                    if isinstance(step, SendChunk):
                        value = here.clone()
                        if not step.finished or step.owned:
                            value = senders[rank].send(value, step.start)
                        if step.owned:
                            here.copy_(value)
                        under_way[step.peer, step.round] = value
                    elif (rank, step.round) not in under_way:
                        break
                    elif step.adds:
                        here += under_way.pop((rank, step.round))
                    else:
                        here.copy_(under_way.pop((rank, step.round)))
                    at[rank] += 1
        assert all(torch.equal(one, held[0]) for one in held)
        return held[0]

    return meet


def in_phases(way: Encoding, unit: Unit, workers: int) -> Meet:
    """What all give to a phase is summed, and each goes on from that."""
    assert unit.phases
    seed = seed_of(SEED, unit.index, "every worker")
    piece = Piece(name=unit.layers[0], count=unit.count, dtype=torch.float64, rows=unit.rows, seed=seed)
    codecs = [SummedPowerSgd(piece, way.options) for _ in range(workers)]

    def meet(gradients: Sequence[Tensor]) -> Tensor:
        by_segment = [gradient.split([s.count for s in unit.segments]) for gradient in gradients]
        sums = [sum_of([codec.begin(parts) for codec, parts in zip(codecs, by_segment, strict=True)])]
        if len(unit.phases) > 1:
            sums.append(sum_of([codec.go_on(sums[0]) for codec in codecs]))
        assert tuple(len(each) for each in sums) == unit.phases
        found = [[torch.empty_like(part) for part in parts] for parts in by_segment]
        for codec, parts in zip(codecs, found, strict=True):
            codec.end(sums, parts, [True] * len(parts))
        assert all(torch.equal(torch.cat(parts), torch.cat(found[0])) for parts in found)
        return torch.cat(found[0])

    return meet


def sum_of(given: Sequence[Tensor]) -> Tensor:
    return torch.stack([*given]).sum(dim=0)


def expected(run: Run, workers: int, meet_of: Callable[[Unit], Meet]) -> dict[str, Tensor]:
    """Plain PyTorch, with every unit's gradients met by hand."""
    spec = run.launch.job
    training = spec.training
    seed_everything(training.seed, False)
    data, task = load_dataset(spec.data), find_task(spec.model, spec.data)
    model = build_model(spec.model, training.precision)
    named = dict(model.named_parameters())
    optimizer = build_optimizer(spec.optimizer, list(named.items()))
    meets = {unit.index: meet_of(unit) for unit in run.units}
    for step in range(STEPS):
        indices = global_batch_at(step, len(data.train), training.global_batch, training.seed)
        by_rank = []
        for rank in range(workers):
            inputs, targets = data.train.batch(shard(indices, rank, workers))
            optimizer.zero_grad()
            (task(model, inputs.double(), targets).total / len(indices)).backward()
            by_rank.append({n: p.grad.clone().view(-1) for n, p in named.items() if p.grad is not None})
        for unit in run.units:
            found = meets[unit.index](
                [torch.cat([g[s.parameter][s.start : s.stop] for s in unit.segments]) for g in by_rank]
            )
            for segment, value in zip(
                unit.segments, found.split([s.count for s in unit.segments]), strict=True
            ):
                gradient = named[segment.parameter].grad
                assert gradient is not None
                gradient.view(-1)[segment.start : segment.stop] = value
        optimizer.step()
    return {name: value.detach() for name, value in model.state_dict().items()}


def coded(run: Run) -> tuple[int, int]:
    """How often something was encoded, and decoded but where it was added, as the timeline shows it."""
    kinds = np.concatenate([batch.table("events") for batch in batches(run.launch.spool)])["kind"]
    return int((kinds == Kind.ENCODE).sum()), int((kinds == Kind.DECODE).sum())


SERVED: list[tuple[str, int, dict[str, Any]]] = [
    ("parameter-server", 2, {}),
    ("p3", 3, {"slice_size": 1024, "update": "server"}),
    ("parameter-server", 3, {"update": "worker"}),
    ("p3", 2, {"slice_size": 300, "where": "dedicated", "servers": 2}),
    ("async-sgd", 1, {"where": "dedicated"}),
]


@pytest.mark.parametrize(
    ("strategy", "workers", "options", "name"),
    rows(SERVED, slice(1, 3), stands=lambda case: case[2].get("update") != "worker"),
    ids=lambda value: str(len(value)) if isinstance(value, dict) else str(value),
)
def test_servers_sum_what_messages_say(
    name: str, strategy: str, workers: int, options: dict[str, Any], tmp_path: Path
) -> None:
    run = succeed(spec_of(workers, strategy, **travelling(name), **options), tmp_path)
    if strategy != "async-sgd":  # whose workers have one answer more than they have steps
        assert_declared(run)
    answers = options.get("update") == "worker"
    messages = workers * STEPS * len(run.units)
    assert coded(run) == (messages + answers * messages // workers, answers * messages)
    wanted = expected(run, workers, lambda unit: server(WAYS[name], unit, workers, answers))
    assert distance(run.state, wanted) <= 1e-12


@pytest.mark.parametrize(("workers", "name"), rows([(2,), (3,)], slice(1, 2), stands=lambda case: False))
def test_a_ring_encodes_at_each_hop_and_hands_on_what_is_finished(
    name: str, workers: int, tmp_path: Path
) -> None:
    run = succeed(spec_of(workers, "ring-allreduce-overlap", **travelling(name), bucket_bytes=8000), tmp_path)
    assert_declared(run)
    assert coded(run) == (workers**2 * STEPS * len(run.units),) * 2
    assert distance(run.state, expected(run, workers, lambda unit: ring(WAYS[name], unit, workers))) <= 1e-12


IN_ROUNDS = [
    ("tree", 3, TREE),
    ("recursive-halving-doubling", 3, HALVING_DOUBLING),
    ("recursive-halving-doubling", 5, HALVING_DOUBLING),
]


@pytest.mark.parametrize(
    ("algorithm", "workers", "played", "name"),
    rows(IN_ROUNDS, slice(2, 3), turn=1, stands=lambda case: False),
    ids=lambda value: "" if isinstance(value, Algorithm) else str(value),
)
def test_finished_sums_are_handed_on_as_they_were_encoded(
    name: str, algorithm: str, workers: int, played: Algorithm, tmp_path: Path
) -> None:
    """Also those of several ranks in one message, which doubling sends."""
    options = {"algorithm": algorithm, "bucket_bytes": 8000, **travelling(name)}
    run = succeed(spec_of(workers, "tree-allreduce", **options), tmp_path)
    assert_declared(run)
    assert min(coded(run)) >= STEPS * len(run.units)
    wanted = expected(run, workers, lambda unit: in_rounds(WAYS[name], unit, workers, played))
    assert distance(run.state, wanted) <= 1e-12


IN_PHASES: list[tuple[str, int, dict[str, Any]]] = [
    ("ring-allreduce-overlap", 3, {"bucket_bytes": 8000}),
    ("p3", 2, {"slice_size": 1024, "update": "worker"}),
]
MORE_IN_PHASES: list[tuple[str, int, dict[str, Any]]] = [
    ("ring-allreduce", 2, {}),
    ("tree-allreduce", 3, {"bucket_bytes": 8000}),
    ("tree-allreduce", 5, {"algorithm": "recursive-halving-doubling", "bucket_bytes": 8000}),
    ("central-reduce", 3, {"update": "worker"}),
    ("parameter-server-deferred", 3, {"update": "worker", "where": "dedicated", "servers": 2}),
    ("parameter-server", 1, {"update": "worker", "where": "dedicated"}),
]


@pytest.mark.parametrize(
    ("strategy", "workers", "options"),
    [*IN_PHASES, *(pytest.param(*case, marks=pytest.mark.soak) for case in MORE_IN_PHASES)],
    ids=lambda value: str(len(value)) if isinstance(value, dict) else str(value),
)
def test_what_is_linear_is_summed_in_phases(
    strategy: str, workers: int, options: dict[str, Any], tmp_path: Path
) -> None:
    """On its way, by rings, trees and servers alike, so that all get the same of so few directions."""
    run = succeed(spec_of(workers, strategy, **travelling("powersgd"), **options), tmp_path)
    assert_declared(run)
    assert any(len(unit.phases) == 2 for unit in run.units)
    encoded = STEPS * workers * sum(len(unit.phases) for unit in run.units)
    assert coded(run) == (encoded, STEPS * workers * len(run.units))
    wanted = expected(run, workers, lambda unit: in_phases(WAYS["powersgd"], unit, workers))
    assert distance(run.state, wanted) <= 1e-10
