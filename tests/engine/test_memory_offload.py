"""offload: an optimizer's state in a second tier of memory changes no bit, and is in no memory of the process."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from engine.checkpoint import part as parts
from engine.checkpoint.part import Part
from engine.errors import TrainingError, UserError
from engine.mapped import folder_of
from engine.memory.offload import OnDisk, OnHost, in_memory
from engine.plan.cluster import parties
from engine.plan.memory import held, offloaded
from engine.plan.offload import NOTHING, WHERE
from engine.plan.optimizers import OPTIMIZERS
from engine.plan.updates import OFFLOADED_BYTES, OptimizerSpec, ParameterGroupSpec
from engine.state.updates import Away, PieceUpdater, Updater, as_they_are
from tests.engine.test_liveness_peak import MODELS, compared, predicted
from tests.jobs import describe, job, plan_of

SHAPES = {"a.weight": (96, 64), "a.bias": (96,), "b.weight": (64, 96), "b.scale": (1,)}
STEPS = 4
KERNELS: dict[str, dict[str, Any]] = {
    "loop": {},
    "foreach": {"foreach": True},
    "fused": {"fused": True},
}
MOMENTUM = {
    "sgd": {"momentum": 0.9},
    "rmsprop": {"momentum": 0.9, "centered": True},
    "adam": {"amsgrad": True},
}


def spec_of(name: str, **options: Any) -> OptimizerSpec:
    groups = (ParameterGroupSpec(match="b.*", options={"weight_decay": 0.0}),)
    options = {"weight_decay": 0.1, **MOMENTUM.get(name, {}), **options}
    return OptimizerSpec(name=name, learning_rate=0.01, options=options, groups=groups, offload=True)


def parameters(name: str) -> dict[str, nn.Parameter]:
    torch.manual_seed(0)
    shapes = {key: shape for key, shape in SHAPES.items() if name != "muon" or len(shape) == 2}
    return {key: nn.Parameter(torch.randn(shape)) for key, shape in shapes.items()}


def stepped(spec: OptimizerSpec, updater: Updater, named: dict[str, nn.Parameter], first: int = 0) -> None:
    """Some steps, of which the second is of a part of the parameters and the third without a gradient of one."""
    for step in range(first, STEPS):
        torch.manual_seed(1 + step)
        for parameter in named.values():
            parameter.grad = torch.randn_like(parameter)
        if step == 2:
            named["a.weight"].grad = None
        chosen = list(named.values())[:1] if step == 1 else None
        updater.update(as_they_are(spec), chosen)


def equal(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("tier", ["disk", "host"])
@pytest.mark.parametrize(
    ("name", "kernel"),
    [
        *((name, "loop") for name in OPTIMIZERS),
        ("adam", "foreach"),
        ("adamw", "fused"),
        ("sgd", "foreach"),
        ("sgd", "fused"),
    ],
)
def test_a_state_elsewhere_changes_no_bit(name: str, kernel: str, tier: str, tmp_path: Path) -> None:
    spec = spec_of(name, **KERNELS[kernel])
    make: dict[str, Callable[[], Away]] = {"disk": lambda: OnDisk(str(tmp_path)), "host": OnHost}
    plain, away = parameters(name), parameters(name)
    here, there = Updater(spec, plain), Updater(spec, away, make[tier]())
    stepped(spec, here, plain)
    stepped(spec, there, away)
    assert equal({**plain}, {**away})
    assert equal(here.state(), there.state())


def test_pieces_on_a_server_are_updated_as_without(tmp_path: Path) -> None:
    spec = spec_of("adam")
    found = []
    for tier in (None, OnDisk(str(tmp_path))):
        torch.manual_seed(0)
        pieces = [torch.randn(count) for count in (5000, 7, 6000)]
        updater = PieceUpdater(spec, ["a", "b", "b"], pieces, tier)
        for _ in range(3):
            updater.update([torch.randn_like(piece) for piece in pieces], as_they_are(spec))
        found.append({**updater.state(), **{f"{at}": piece for at, piece in enumerate(pieces)}})
    assert equal(*found)


def test_training_goes_on_from_a_saved_state(tmp_path: Path) -> None:
    """Also where the state that is loaded takes the place of one that is there, whose room it uses again."""
    spec = spec_of("adam")
    named = parameters("adam")
    whole = Updater(spec, named)
    stepped(spec, whole, named)
    begun = parameters("adam")
    tier = OnDisk(str(tmp_path))
    first = Updater(spec, begun, tier)
    for step in range(2):
        torch.manual_seed(1 + step)
        for parameter in begun.values():
            parameter.grad = torch.randn_like(parameter)
        first.update(as_they_are(spec), list(begun.values())[:1] if step == 1 else None)
    saved = {name: value.clone() for name, value in first.state().items()}
    reserved = tier._file.reserved
    first.load(saved)
    assert equal(saved, first.state())
    assert tier._file.reserved == reserved
    assert in_memory(first.state(), spec) == [v for v in first.state().values() if v.nbytes < OFFLOADED_BYTES]
    stepped(spec, first, begun, first=2)
    assert equal({**named}, {**begun})


def test_an_average_of_states_takes_their_place(tmp_path: Path) -> None:
    """As where workers average what their optimizers keep."""
    weight = nn.Parameter(torch.randn(256, 256))
    updater = Updater(spec_of("adam"), {"weight": weight}, OnDisk(str(tmp_path)))
    assert updater.slot(weight, "exp_avg") is None
    for value in (1.0, 2.0):
        updater.set_slot(weight, "exp_avg", torch.full((256, 256), value))
        assert (resident(tmp_path) or 0) < weight.nbytes, "pages are let go, also of what was there before"
        found = updater.slot(weight, "exp_avg")
        assert found is not None
        assert bool((found == value).all())


def resident(folder: Path) -> int | None:
    """Bytes of a file in the folder that are mapped and count as this process's; None where none is mapped."""
    found, inside = None, False
    for line in Path("/proc/self/smaps").read_text(encoding="utf-8").splitlines():
        if "-" in line.split()[0]:
            inside = str(folder) in line
            found = (found or 0) if inside else found
        elif inside and line.startswith("Rss:"):
            found = (found or 0) + 1024 * int(line.split()[1])
    return found


def test_the_file_has_no_name_and_its_pages_are_let_go(tmp_path: Path) -> None:
    spec = spec_of("adam")
    named = {f"{number}": nn.Parameter(torch.randn(256, 256)) for number in range(6)}
    updater = Updater(spec, named, OnDisk(str(tmp_path)))
    assert resident(tmp_path) is None, "before there is a state there is no file"
    for _ in range(2):
        for parameter in named.values():
            parameter.grad = torch.randn_like(parameter)
        updater.update(as_they_are(spec))
        assert list(tmp_path.iterdir()) == []
        mapped = resident(tmp_path)
        assert mapped is not None
        assert mapped < 256 * 256 * 4, (
            "the system maps pages around one that is touched, but no whole tensor stays"
        )
    state = updater.state()
    assert sum(bool(value.any()) for value in state.values()) == 4 * len(named), (
        "and what was in them is not lost"
    )
    assert (resident(tmp_path) or 0) >= sum(v.nbytes for v in state.values() if v.nbytes >= OFFLOADED_BYTES)


def test_a_checkpoint_holds_one_tensor_of_the_state_at_a_time(tmp_path: Path) -> None:
    """The copy that is made, the file that is written of it, and the state of who goes on from that."""
    spec, size = spec_of("adagrad"), 256 * 256 * 4
    named = {f"{number}": nn.Parameter(torch.randn(256, 256)) for number in range(6)}
    updater = Updater(spec, named, OnDisk(str(tmp_path)))
    assert (resident(tmp_path) or 0) < size, "an optimizer that begins with a value begins on the disk"
    for parameter in named.values():
        parameter.grad = torch.randn_like(parameter)
    updater.update(as_they_are(spec))
    part = Part()
    part.put("optimizer", updater.state())
    assert (resident(tmp_path) or 0) < size
    assert {folder_of(held) for held in part.tensors.values() if held.nbytes >= OFFLOADED_BYTES} == {
        str(tmp_path)
    }
    parts.write(part, tmp_path / "part")
    assert (resident(tmp_path) or 0) < size
    again = Updater(spec, named, OnDisk(str(tmp_path)))
    with parts.Opened(tmp_path / "part") as found:
        again.load(found.under("optimizer"))
    assert (resident(tmp_path) or 0) < size
    assert equal(updater.state(), again.state())
    updater.update(as_they_are(spec))
    assert all(torch.equal(part.tensors[f"optimizer/{n}"], v) for n, v in again.state().items()), (
        "a cut stays as it was while training goes on"
    )


def test_a_disk_that_has_no_room_for_the_copy_costs_the_checkpoint_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    updater = Updater(spec_of("adagrad"), parameters("adagrad"), OnDisk(str(tmp_path)))
    monkeypatch.setattr(os, "posix_fallocate", full)
    part = Part()
    part.put("optimizer", updater.state())
    with pytest.raises(OSError, match=r"no room for a copy of .*No space left"):
        parts.write(part, tmp_path / "part")
    assert not (tmp_path / "part").exists()


def full(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_is_said_before_anything_is_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(os, "posix_fallocate", full)
    named = parameters("adam")
    updater = Updater(spec_of("adam"), named, OnDisk(str(tmp_path)))
    for parameter in named.values():
        parameter.grad = torch.randn_like(parameter)
    with pytest.raises(
        TrainingError, match=r"could not be offloaded to .*No space left.*leave optimizer\.offload"
    ):
        updater.update(as_they_are(spec_of("adam")))


ADAM: dict[str, Any] = {"name": "adam", "learning_rate": 0.01, "offload": True}
GROUPS = [{"match": "*", "options": {"capturable": True}}]
WORKERS: dict[str, Any] = {"cluster": {"workers": 2}}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"strategy": {"name": "fsdp"}, "optimizer": ADAM}, "under fsdp"),
        ({"strategy": {"name": "p3"}, "optimizer": {**ADAM, "options": {"capturable": True}}}, "capturable"),
        ({"strategy": {"name": "p3"}, "optimizer": {**ADAM, "groups": GROUPS}}, "capturable"),
    ],
)
def test_what_it_cannot_be_combined_with_is_refused(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError, match=r"^optimizer\.offload = True: ") as refused:
        plan_of(job(**WORKERS, **changes))
    assert says in refused.value.rule
    assert refused.value.remedy


@pytest.mark.parametrize("strategy", ["single", "p3", "ddp", "async-sgd", "parameter-averaging", "hybrid"])
def test_a_plan_says_where_the_state_is(strategy: str) -> None:
    spec = {**({} if strategy == "single" else WORKERS), "strategy": {"name": strategy}}
    assert WHERE not in plan_of(job(**spec)).warnings
    plan = plan_of(job(**spec, optimizer=ADAM))
    assert plan.warnings.count(WHERE) == 1
    nothing = plan_of(job(**spec, optimizer={"name": "sgd", "learning_rate": 0.1, "offload": True}))
    assert NOTHING.format(name="sgd") in nothing.warnings
    assert WHERE not in nothing.warnings


@pytest.mark.parametrize("strategy", ["ring-allreduce", "parameter-server", "hybrid"])
def test_what_is_offloaded_is_declared_as_no_memory(strategy: str) -> None:
    spec = job(**WORKERS, strategy={"name": strategy}, optimizer=ADAM, model={"name": "bn-cnn"})
    beside = job(
        **WORKERS, strategy={"name": strategy}, optimizer={**ADAM, "offload": False}, model={"name": "bn-cnn"}
    )
    model, plan = describe(spec), plan_of(spec)
    away = 0
    for party in parties(plan, 2):
        there, here = (held(plan, model, party, each) for each in (spec, beside))
        found = offloaded(plan, model, party, spec)
        away += found
        assert here["optimizer state"] == there["optimizer state"] + found
        assert {**here, "optimizer state": 0} == {**there, "optimizer state": 0}
        assert offloaded(plan, model, party, beside) == 0
    assert away > 0


@pytest.mark.parametrize("activations", ["keep", "swap"])
def test_a_state_that_is_offloaded_is_not_held(activations: str, tmp_path: Path) -> None:
    """By the allocator's own count: it has neither made it in this step, nor keeps it from an earlier one."""
    make, batch = MODELS["vgg-small"]
    here = OptimizerSpec(name="adam", learning_rate=0.1)
    kept = predicted(make, batch, activations, here)
    away = compared(make, batch, activations, tmp_path, replace(here, offload=True))
    state = kept.parts["optimizer state"]
    assert away.parts["optimizer state"] < 0.02 * state
    assert kept.total - away.total > 0.9 * state
