"""A job's model and its optimizer's state as other programs load them."""

from __future__ import annotations

import io
import json
import math
import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from engine import launch as launches
from engine.checkpoint import part as parts
from engine.checkpoint.part import Part
from engine.checkpoint.writer import Writer
from engine.consistency.policies import policy_of
from engine.errors import UserError
from engine.exchange.room import rooms_of, states_of
from engine.launch import Launch, ended_steps, shard_part, write_json
from engine.models.build import build_model
from engine.plan.plan import Plan
from engine.plan.worker_memory import COPY, declared_memory
from engine.runtime import export
from engine.runtime.cuts import WorkerCuts
from engine.runtime.evaluation import write_state
from engine.runtime.going_on import Held
from engine.runtime.meeting import Meeting
from engine.runtime.party import load_choices
from engine.runtime.trainer import Done
from engine.state.updates import HyperSchedule, PieceUpdater, Updater
from engine.transport.message import Buffer, Header
from tests.engine.test_checkpoints import CASES, MORE, Case, attempt, equal, spec_of, succeeded
from tests.jobs import describe, job, plan_of

CPU = torch.device("cpu")
STEP, TOTAL = 3, 9
DTYPES = {"F32": torch.float32, "I64": torch.int64}


class Odd(nn.Module):
    """A tied weight, batch statistics, a module and a buffer under two names, a buffer that its state_dict does not
    have, a frozen parameter, one that a hook of its own turns, and a value that it makes."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 3)
        self.norm = nn.BatchNorm1d(3)
        self.again = self.norm
        self.tied = nn.Linear(4, 3, bias=False)
        self.tied.weight = self.first.weight
        self.frozen = nn.Parameter(torch.ones(2), requires_grad=False)
        self.square = nn.Parameter(torch.arange(4.0).view(2, 2), requires_grad=False)
        self.register_buffer("one", torch.ones(2))
        self.register_buffer("same", self.one)
        self.register_buffer("unsaved", torch.ones(2), persistent=False)
        self.register_state_dict_post_hook(_sums)


def _sums(module: nn.Module, state: dict[str, Any], prefix: str, _: object) -> None:
    state[f"{prefix}sum"] = module.get_parameter("first.bias").detach().sum()
    state[f"{prefix}square"] = state[f"{prefix}square"].t()


def launched(folder: Path, **changes: Any) -> Launch:
    """Of a job of two workers, which writes what the others read."""
    changes = {"strategy": {"name": "ring-allreduce"}, **changes}
    spec = job(cluster={"workers": 2}, checkpoint={"every_steps": STEP}, **changes)
    launch = launches.prepare(spec, plan_of(spec), describe(spec), folder / "1", checkpoints=folder / "cuts")
    launch.write()
    return launch


class Nowhere:
    """Of cuts after so many steps nothing is said."""

    index = 0

    def send(self, peer: int, header: Header, payload: Sequence[Buffer] = ()) -> None:
        raise AssertionError(header)


def cut(launch: Launch, models: list[nn.Module], held: Held, served: Mapping[int, Part] = {}) -> None:
    """A checkpoint of all parties, the last of whom finds the others' words."""
    for index, part in served.items():
        writer = Writer(launch.cuts(), shard_part(index))
        writer.write(STEP, part)
        writer.close()
    for rank in (1, 0):
        meeting = Meeting(Nowhere(), rank=rank, workers=2, shards=(), deadline_s=1)
        cuts = WorkerCuts(launch, rank, models[rank], held, CPU, TOTAL, meeting)
        cuts.take(Done(steps=STEP))
        cuts.close()


def exported(launch: Launch, what: str = "model", step: int | None = STEP) -> bytes:
    request = {"directory": str(launch.directory), "what": what, "step": step, "about": {"job": "j"}}
    return b"".join(export.pieces(request))


def loaded(content: bytes) -> tuple[dict[str, Tensor], dict[str, str]]:
    """As the format's own description has it: tensors lie one after another, in the order of their names there."""
    size = int.from_bytes(content[:8], "little")
    header, data = json.loads(content[8 : 8 + size]), content[8 + size :]
    texts = header.pop("__metadata__")
    found, at = {}, 0
    for name, said in header.items():
        first, end = said["data_offsets"]
        assert first == at
        flat = torch.frombuffer(bytearray(data[first:end]), dtype=DTYPES[said["dtype"]])
        assert len(flat) == math.prod(said["shape"])
        found[name], at = flat.reshape(said["shape"]), end
    assert at == len(data)
    return found, texts


def test_a_checkpoint_is_exported_as_the_job_would_have_saved_it(tmp_path: Path) -> None:
    launch, models = launched(tmp_path), [Odd(), Odd()]
    models[1].load_state_dict(models[0].state_dict(), strict=False)
    for rank, model in enumerate(models):
        model.get_submodule("norm")(torch.randn(5, 3) + rank)
        for _ in range(rank):
            model.get_submodule("norm")(torch.randn(5, 3))
        model.get_buffer("one").fill_(rank)
    cut(launch, models, Held())
    state, texts = loaded(exported(launch))
    fresh = Odd()
    fresh.register_buffer("sum", torch.zeros(()))  # what the hook has added
    fresh.load_state_dict(state, strict=True)
    assert texts == {"format": "pt", "job": "j", "step": "3", "of": "checkpoint"}
    own = models[0].state_dict()
    assert list(state) == list(own)
    mean = (models[0].state_dict()["norm.running_mean"] + models[1].state_dict()["norm.running_mean"]) / 2
    for name in ("norm", "again"):
        assert torch.allclose(state[f"{name}.running_mean"], mean, rtol=1e-6)
        assert state[f"{name}.num_batches_tracked"] == 2
    assert state["one"].tolist() == state["same"].tolist() == [0.5, 0.5]
    for name in ("first.weight", "first.bias", "tied.weight", "frozen", "square", "sum"):
        assert torch.equal(state[name], own[name]), name


def trained(model: nn.Module, optimizer: torch.optim.Optimizer, step: int) -> dict[str, Tensor]:
    """Made-up gradients of one step, and the optimizer's update by them; a parameter has none in the last step."""
    generator = torch.Generator().manual_seed(step)
    found = {}
    for name, parameter in model.named_parameters():
        parameter.grad = None
        if parameter.requires_grad and not (step == STEP - 1 and name.endswith("bias")):
            parameter.grad = torch.randn(parameter.shape, generator=generator)
            found[name] = parameter.grad.clone()
    optimizer.step()
    return found


def same_state(found: Any, expected: Any) -> None:
    assert isinstance(found, type(expected))
    if isinstance(expected, dict):
        assert list(found) == list(expected)
        for key, value in expected.items():
            same_state(found[key], value)
    elif isinstance(expected, Tensor):
        assert torch.equal(found, expected)
    else:
        assert found == expected


ADAM = {"optimizer": {"name": "adamw", "learning_rate": 0.01, "options": {"foreach": False}}}


def reference(build: Any) -> tuple[nn.Module, torch.optim.Optimizer, list[dict[str, Tensor]]]:
    """A model, its optimizer after STEP steps, and their gradients."""
    model = build()
    next(model.parameters()).requires_grad_(False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, foreach=False)
    return model, optimizer, [trained(model, optimizer, step) for step in range(STEP)]


def goes_on(content: bytes, model: nn.Module, expected: torch.optim.Optimizer) -> None:
    """Another optimizer of that class goes on as the one whose state it is."""
    found = torch.load(io.BytesIO(content), weights_only=True)
    same_state(found["state"], expected.state_dict()["state"])
    assert [group["params"] for group in found["param_groups"]] == [list(range(len([*model.parameters()])))]
    fresh = torch.optim.AdamW(model.parameters(), lr=1.0)
    fresh.load_state_dict(found)
    same_state(fresh.state_dict()["param_groups"], expected.state_dict()["param_groups"])
    same_state(fresh.state_dict()["state"], expected.state_dict()["state"])


def test_the_state_of_an_optimizer_on_workers_is_pytorchs(tmp_path: Path) -> None:
    launch = launched(tmp_path, **ADAM)
    model, optimizer, gradients = reference(partial(build_model, launch.job.model))
    own = build_model(launch.job.model)
    named = {n: p for n, p in own.named_parameters() if n in gradients[0]}
    updater = Updater(launch.job.optimizer, named)
    hyper = HyperSchedule(launch.job.optimizer, launch.job.schedule, TOTAL)
    for step, found in enumerate(gradients):
        for name, parameter in named.items():
            parameter.grad = found.get(name)
        updater.update(hyper.at(step))
    cut(launch, [own, own], Held(updater=updater))
    assert isinstance(launch.plan, Plan)
    declared, _ = declared_memory(launch.job, launch.plan, launch.model)
    written = (launch.cuts().place(STEP) / "worker-0.safetensors").stat().st_size
    assert 0 < written - declared[COPY] < 24_000, "random states and names are not predicted"
    goes_on(exported(launch, "optimizer"), model, optimizer)


def test_the_state_of_optimizers_on_servers_is_put_together(tmp_path: Path) -> None:
    """Of slices, each with an optimizer of its own."""
    options = {"slice_size": 100, "servers": 2, "where": "dedicated"}
    launch = launched(tmp_path, strategy={"name": "p3", "options": options}, **ADAM)
    model, optimizer, gradients = reference(partial(build_model, launch.job.model))
    own = build_model(launch.job.model)
    initial = {name: held.detach() for name, held in own.named_parameters()}
    hyper = HyperSchedule(launch.job.optimizer, launch.job.schedule, TOTAL)
    served = {0: Part(), 1: Part()}
    for index, choice in load_choices(launch).items():
        segments = choice.unit.segments
        assert choice.unit.shard is not None
        rooms = rooms_of(
            choice,
            initial,
            lambda choice, pieces: PieceUpdater(
                launch.job.optimizer, [s.parameter for s in choice.unit.segments], pieces
            ),
            shard=choice.unit.shard,
            workers=2,
            policy=partial(policy_of, launch.consistency, 2),
            rank_order=True,
        )
        (room,) = rooms
        assert room.updater is not None
        for step, found in enumerate(gradients):
            pieces = [
                found[s.parameter].view(-1)[s.start : s.stop] if s.parameter in found else None
                for s in segments
            ]
            room.updater.update(pieces, hyper.at(step))
        served[choice.unit.shard].put(str(index), states_of(rooms))
    cut(launch, [own, own], Held(), served)
    goes_on(exported(launch, "optimizer"), model, optimizer)


def test_what_a_job_has_ended_with_is_exported(tmp_path: Path) -> None:
    launch, model = launched(tmp_path), nn.Linear(2, 2)
    assert ended_steps(launch.directory) is None
    with pytest.raises(UserError, match="cannot be read"):
        exported(launch, step=None)
    write_state(model.state_dict(), launch.result / "model.pt")
    write_json(launch.summary(0), {"steps": 7})
    assert ended_steps(launch.directory) == 7
    state, texts = loaded(exported(launch, step=None))
    nn.Linear(2, 2).load_state_dict(state, strict=True)
    equal(state, model.state_dict())
    assert (texts["step"], texts["of"]) == ("7", "end")
    with pytest.raises(UserError, match="keeps its model and not its optimizer"):
        exported(launch, "optimizer", step=None)
    write_state({"x": torch.ones(1), "extra": [1]}, launch.result / "model.pt")
    with pytest.raises(UserError, match="is no tensor"):
        exported(launch, step=None)


def test_a_checkpoint_that_is_not_there_or_not_whole_is_refused(tmp_path: Path) -> None:
    launch = launched(tmp_path)
    with pytest.raises(UserError, match="no checkpoint of this step"):
        exported(launch)
    cut(launch, [Odd(), Odd()], Held())
    path = launch.cuts().place(STEP) / "worker-1.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(UserError, match="not whole: its part of worker-1"):
        exported(launch)


def test_a_checkpoint_that_lacks_a_tensor_is_refused_with_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its sums are right, as who writes others into it can make them."""
    launch = launched(tmp_path)
    cut(launch, [Odd(), Odd()], Held())
    store = launch.cuts()
    path = store.part(STEP, "worker-0")
    part = parts.read(path)
    del part.tensors["parameter/frozen"]
    path.unlink()
    store.say(STEP, "worker-0", parts.write(part, path))
    assert store.complete(STEP, launch.cut_parts, lambda: 0.0) is None
    request = {"directory": str(launch.directory), "what": "model", "step": STEP, "about": {}}
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(request)))
    monkeypatch.setattr(export, "_NICE", 0)
    answer, errors = os.dup(1), os.dup(2)
    try:
        assert export.main() == 1
    finally:
        os.dup2(answer, 1)
        os.dup2(errors, 2)
    said = json.loads(capfd.readouterr().err.strip().splitlines()[-1])
    assert (said["field"], said["value"]) == ("step", STEP)
    assert "'parameter/frozen' is missing" in said["rule"]
    assert said["remedy"].startswith("Name another checkpoint")


def test_of_a_part_only_what_is_wanted_is_read(tmp_path: Path) -> None:
    part = Part(tensors={name: torch.full((5,), value) for value, name in enumerate("abc")})
    parts.write(part, tmp_path / "part")
    found = parts.read(tmp_path / "part", lambda name: name != "b")
    equal(found.tensors, {name: part.tensors[name] for name in "ac"})


def is_as_ended(case: Case, tmp_path: Path) -> None:
    """What is exported of step 4 is what a job of 4 steps ends with."""
    steady = (case[0], case[1], {**case[2], "schedule": {"name": "constant"}})
    folder = tmp_path / "checkpoints"
    whole = attempt(spec_of(steady, tmp_path), tmp_path / "1", folder)
    succeeded(whole)
    short = succeeded(attempt(spec_of(steady, tmp_path, steps=4), tmp_path / "2", tmp_path / "others"))
    equal(loaded(exported(whole.launch, step=4))[0], short)


@pytest.mark.usefixtures("gang_lane")
def test_what_is_exported_of_a_step_is_what_a_job_of_so_many_ends_with(tmp_path: Path) -> None:
    is_as_ended(CASES["p3, one-bit"], tmp_path)


@pytest.mark.soak
@pytest.mark.usefixtures("gang_lane")
@pytest.mark.parametrize("case", [*CASES, *MORE])
def test_what_is_exported_is_that_whatever_the_strategy(case: str, tmp_path: Path) -> None:
    is_as_ended({**CASES, **MORE}[case], tmp_path)
