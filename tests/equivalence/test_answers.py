"""Answers that say what a server's parameters have moved by, trained against a plain loop that keeps both: the server's
parameters and what workers hold. That all workers hold the same, to the bit, is compared before a state is saved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from engine.axes.codec import CODEC
from engine.axes.exchange import EXCHANGE
from engine.codec.base import Piece
from engine.codec.draws import seed_of
from engine.codec.opening import opened
from engine.inputs.build import find_task, load_dataset
from engine.inputs.sharding import global_batch_at, shard
from engine.models.build import build_model
from engine.plan.encoding import Encoding, encoding
from engine.plan.job import JobSpec
from engine.plan.overrides import Override
from engine.plan.serde import to_plain
from engine.plan.units import Unit
from engine.runtime.worker import seed_everything
from engine.state.updates import build_optimizer
from engine.tensor_bytes import as_bytes, joined
from tests.arrays import covering_rows
from tests.equivalence import against_plain
from tests.equivalence.test_composition import assert_close, trained
from tests.equivalence.test_error_feedback import SEED, STEPS, ranks, spec_of
from tests.jobs import Run, distance, job, succeed
from tests.pairs import AXES, SIZES, Choices
from tests.traffic import assert_declared

pytestmark = pytest.mark.usefixtures("gang_lane")

NEAR = [m.name for m in CODEC if m.available and not m.traits & {"lossless", "own", "random", "votes"}]
WAYS = {name: encoding(name) for name in NEAR} | {
    name: encoding(name, {"threshold": 0.002}) for name in ("two-bit", "threshold")
}


def answered(name: str, workers: int, strategy: str, **options: Any) -> JobSpec:
    way = WAYS[name]
    return spec_of(workers, strategy, answers=way.codec, answer_options=to_plain(way.options), **options)


def of_unit(model: nn.Module, unit: Unit) -> list[Tensor]:
    """Views of a unit's parts."""
    named = dict(model.named_parameters())
    return [named[s.parameter].detach().view(-1)[s.start : s.stop] for s in unit.segments]


class Server:
    """One unit's: what brings `model` nearer to `to`. What a message loses is in no other memory than in these two."""

    def __init__(self, unit: Unit, way: Encoding) -> None:
        self._unit = unit
        seed = seed_of(SEED, unit.index, f"shard {unit.shard}")
        piece = Piece(name="", count=unit.count, dtype=torch.float64, rows=unit.rows, seed=seed)
        self._codec = opened(way, piece, remembers=False)

    def answers(self, model: nn.Module, to: nn.Module) -> None:
        here = of_unit(model, self._unit)
        moved = torch.cat(of_unit(to, self._unit)) - torch.cat(here)
        sent = torch.empty_like(moved)
        self._codec.decode(joined([as_bytes(t) for t in self._codec.encode([moved], [0])]), [sent])
        for part, by in zip(here, sent.split([s.count for s in self._unit.segments]), strict=True):
            part.add_(by)


def expected(
    run: Run, workers: int, gradients: Encoding, answers: Encoding
) -> tuple[Mapping[str, Tensor], Mapping[str, Tensor]]:
    """(what workers hold in the end, what the server does)."""
    spec = run.launch.job
    training = spec.training
    data, task = load_dataset(spec.data), find_task(spec.model, spec.data)
    seed_everything(training.seed, False)
    model = build_model(spec.model, training.precision)
    server = build_model(spec.model, training.precision)
    server.load_state_dict(model.state_dict())
    named, there = dict(model.named_parameters()), dict(server.named_parameters())
    optimizer = build_optimizer(spec.optimizer, list(there.items()))
    servers = [Server(unit, answers) for unit in run.units]
    senders = {unit.index: ranks(gradients, unit, workers) for unit in run.units}
    for step in range(STEPS):
        indices = global_batch_at(step, len(data.train), training.global_batch, training.seed)
        for name, parameter in there.items():
            parameter.grad = torch.zeros_like(named[name])
        for rank in range(workers):
            inputs, targets = data.train.batch(shard(indices, rank, workers))
            model.zero_grad()
            (task(model, inputs.double(), targets).total / len(indices)).backward()
            for unit in run.units:
                parts = [(s, there[s.parameter].grad, named[s.parameter].grad) for s in unit.segments]
                mine = torch.cat([g.view(-1)[s.start : s.stop] for s, _, g in parts if g is not None])
                arrived = senders[unit.index][rank].send(mine).split([s.count for s in unit.segments])
                for (segment, total, _), value in zip(parts, arrived, strict=True):
                    assert total is not None
                    total.view(-1)[segment.start : segment.stop] += value
        optimizer.step()
        with torch.no_grad():
            for one in servers:
                one.answers(model, server)
    return model.state_dict(), server.state_dict()


SERVED: list[tuple[str, int, dict[str, Any]]] = [
    ("p3", 3, {"slice_size": 1024}),
    ("parameter-server", 2, {"codec": "int8"}),
    ("p3", 2, {"slice_size": 300, "where": "dedicated", "servers": 2, "codec": "top-k"}),
    ("central-reduce", 2, {"where": "dedicated"}),
    ("parameter-server-deferred", 3, {"codec": "qsgd"}),
]


@pytest.mark.parametrize(
    ("strategy", "workers", "options", "name"),
    [
        (*case, name)
        for turn, name in enumerate(WAYS)
        for case in (SERVED if name == "int8" else SERVED[turn % 2 :: 4])
    ],
    ids=lambda value: str(len(value)) if isinstance(value, dict) else str(value),
)
def test_workers_hold_what_messages_have_said(
    name: str, strategy: str, workers: int, options: dict[str, Any], tmp_path: Path
) -> None:
    run = succeed(answered(name, workers, strategy, **options), tmp_path)
    assert_declared(run)
    wanted, _ = expected(run, workers, encoding(options.get("codec", "fp32")), WAYS[name])
    assert distance(run.state, wanted) <= 1e-12


DRIFTING: list[tuple[str, int, dict[str, Any]]] = [
    ("async-sgd", 1, {"where": "dedicated"}),
    ("softsync", 3, {"contributions": 3}),
    ("bounded-staleness", 2, {"bound": 0, "apply": "clock", "where": "dedicated", "servers": 1}),
]
"""At their trivial settings, in which updates are those of lockstep."""


@pytest.mark.parametrize(
    ("strategy", "workers", "options", "name"),
    [
        pytest.param(*case, name, marks=[] if name == "int8" or place == turn else [pytest.mark.soak])
        for turn, name in enumerate(("fp16", "int8", "top-k"))
        for place, case in enumerate(DRIFTING)
    ],
)
def test_workers_that_may_drift_are_told_apart_and_hold_the_servers_parameters_in_the_end(
    strategy: str, workers: int, options: dict[str, Any], name: str, tmp_path: Path
) -> None:
    """Each has an answer of its own after each step, and one more, in which the parameters are as they are."""
    spec = answered(name, workers, strategy, slice_size=1024, **options)
    spec = replace(spec, training=replace(spec.training, deterministic=False))
    run = succeed(spec, tmp_path)
    _, wanted = expected(run, workers, encoding("fp32"), WAYS[name])
    assert distance(run.state, wanted) <= 1e-12
    assert_declared(run)


@pytest.mark.parametrize(
    ("strategy", "options"),
    [
        ("async-sgd", {"codec": "top-k"}),
        pytest.param("softsync", {"contributions": 2}, marks=pytest.mark.soak),
        pytest.param("bounded-staleness", {"bound": 2}, marks=pytest.mark.soak),
    ],
)
def test_workers_that_drift_train_on_what_they_hold(
    strategy: str, options: dict[str, Any], tmp_path: Path
) -> None:
    """The network learns the digits, of which it knows a tenth by chance."""
    spec = job(
        strategy={"name": strategy, "options": {"answers": "int8", **options}},
        cluster={"workers": 3},
        training={"steps": 300},
        evaluation={"every_epochs": None, "at_end": True},
    )
    run = succeed(spec, tmp_path)
    assert run.summary()["test_accuracy"] > 0.85


def test_it_is_chosen_layer_by_layer(tmp_path: Path) -> None:
    """Beside layers whose parameters return as they are, and layers that no server has."""
    spec = spec_of(2, "parameter-server", codec="int8", answers="int8", answer_options={"block": 64})
    overrides = (
        Override(layers="0", answers="fp32"),
        Override(layers="6", exchange="ring-allreduce"),
    )
    run = succeed(replace(spec, overrides=overrides), tmp_path)
    assert_declared(run)
    assert [layer.answers for layer in run.plan.layers] == ["fp32", "int8", "fp32"]


@pytest.mark.parametrize(
    ("strategy", "workers", "how"),
    [("p3", 2, "clamp"), ("parameter-server", 3, "hook"), ("parameter-server-deferred", 2, "replaced")],
)
def test_what_all_workers_write_alike_is_held_by_the_server_as_well(
    strategy: str, workers: int, how: str, tmp_path: Path
) -> None:
    """It is not encoded: all hold it already. What fp16 loses of a step is far less than what is written."""
    spec = against_plain.spec_of("writes:model", strategy, workers, how=how, when=3)
    answers = {**spec.strategy.options, "answers": "fp16"}
    run = succeed(replace(spec, strategy=replace(spec.strategy, options=answers)), tmp_path)
    wanted = against_plain.expected("writes:model", workers, how=how, when=3)
    assert distance(run.state, wanted) <= 1e-4


def rows_that_answer() -> Iterator[Choices]:
    """Every codec of answers beside every one of gradients, and beside whatever else a server's layer may choose."""
    axes = {axis: AXES[axis] for axis in ("unit", "depart", "rank", "returns", "exchange")}
    axes["unit"] = tuple(unit for unit in axes["unit"] if unit != "bucket")
    axes["returns"] = tuple(returns for returns in axes["returns"] if returns != "none")
    axes["exchange"] = tuple(name for name in axes["exchange"] if "server" in EXCHANGE[name].traits)
    codecs = [codec for codec in AXES["codec"] if not CODEC[codec].traits & {"own", "votes"}]
    rows = covering_rows(NEAR, *axes.values())
    for answers in NEAR:
        mine = [row[1:] for row in rows if row[0] == answers]
        for number in range(max(len(mine), len(codecs))):
            others = dict(zip(axes, mine[number % len(mine)], strict=True))
            yield {"answers": answers, "codec": codecs[number % len(codecs)], **others}


def test_every_pair_with_an_encoded_answer_stays_close(tmp_path: Path) -> None:
    overrides = [
        {"layers": f"layers.{index}", "size": SIZES[row["unit"]], "update": "server", **row}
        for index, row in enumerate(rows_that_answer())
    ]
    run, far = trained(overrides, 2, tmp_path, name="p3", options={"servers": 1})
    assert_close(far, bound=0.0, kind="random")
    assert {layer.answers for layer in run.launch.plan.layers} == set(NEAR)
