"""A job that begins with another job's checkpoint, on other workers and servers, goes on as that one would."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from engine import launch as launches
from engine.checkpoint.model_state import check_buffers, described
from engine.checkpoint.part import Part, write
from engine.checkpoint.start import START, Start, begun_step, say
from engine.checkpoint.store import DamagedError
from engine.errors import UserError
from engine.gang.beginning import StoppedError, begin
from engine.launch import Launch
from engine.plan.checkpoint import CheckpointSpec
from engine.plan.checkpoint_rules import check_fits
from engine.plan.job import JobSpec
from engine.runtime.start import put_together
from tests.jobs import RESIDENTS, Run, describe, job, plan_of

Way = tuple[str, dict[str, Any]]
HALF, STEPS = 4, 8
ADAM = {"name": "adamw", "learning_rate": 0.01, "options": {"weight_decay": 0.01}}
MOMENTUM = {"name": "sgd", "learning_rate": 0.05, "options": {"momentum": 0.9}}
RING: Way = ("ring-allreduce", {})
SERVERS: Way = ("p3", {"slice_size": 300})
OTHER_SERVERS: Way = ("p3", {"servers": 3, "where": "dedicated", "slice_size": 70})


def spec_of(
    way: Way,
    workers: int,
    optimizer: dict[str, Any] = MOMENTUM,
    steps: int = STEPS,
    *,
    deterministic: bool = True,
    **more: Any,
) -> JobSpec:
    """The same samples in each step, whoever computes them."""
    name, options = way
    return job(
        strategy={"name": name, "options": options},
        cluster={"workers": workers},
        optimizer=optimizer,
        schedule={"name": "step", "options": {"step_size": 3}},
        **more,
        training={"steps": steps, "precision": "float64", "deterministic": deterministic},
    )


def prepared(spec: JobSpec, directory: Path, start: Start | None) -> Launch:
    launch = launches.prepare(
        spec,
        plan_of(spec),
        describe(spec),
        directory,
        start=start,
        checkpoints=directory.parent / "checkpoints",
    )
    launch.write()
    return launch


def attempt(spec: JobSpec, directory: Path, start: Start | None = None) -> Run:
    launch = prepared(spec, directory, start)
    gang = RESIDENTS.gang(launch)
    try:
        gang.start()
        end = gang.wait(120)
    finally:
        gang.stop()
    assert end is not None
    return Run(launch=launch, end=end)


def succeeded(run: Run) -> dict[str, Tensor]:
    assert run.end.status == "succeeded", f"{run.end.reason}\n{run.logs()}"
    return run.state


def goes_on(
    before: Way, after: Way, workers: tuple[int, int], optimizer: dict[str, Any], place: Path
) -> None:
    """Half under the one strategy, half under the other: as all under the latter. The first job is gone before a second
    attempt at the other one begins again."""
    first = spec_of(before, workers[0], optimizer, steps=HALF + 1, checkpoint={"every_steps": HALF})
    second = spec_of(after, workers[1], optimizer, checkpoint={"start": {"job": "first"}})
    succeeded(attempt(first, place / "first" / "1"))
    start = Start(job="first", directory=place / "first" / "1", step=None)
    run = attempt(second, place / "second" / "1", start)
    found = succeeded(run)
    assert run.launch.resumed == HALF
    assert run.summary()["steps"] == STEPS
    undisturbed = succeeded(attempt(replace(second, checkpoint=CheckpointSpec()), place / "alone" / "1"))
    for name, tensor in undisturbed.items():
        torch.testing.assert_close(found[name], tensor, rtol=1e-9, atol=1e-12)
    shutil.rmtree(place / "first")
    again = succeeded(attempt(second, place / "second" / "2", start))
    assert all(torch.equal(again[name], tensor) for name, tensor in found.items())


@pytest.mark.usefixtures("gang_lane")
def test_other_workers_servers_and_slices_go_on_where_it_was(tmp_path: Path) -> None:
    goes_on(SERVERS, OTHER_SERVERS, (2, 3), ADAM, tmp_path)


@pytest.mark.soak
@pytest.mark.usefixtures("gang_lane")
@pytest.mark.parametrize("optimizer", [MOMENTUM, ADAM], ids=["momentum", "adamw"])
@pytest.mark.parametrize(
    ("before", "after", "workers"),
    [
        (SERVERS, RING, (3, 2)),
        (RING, SERVERS, (2, 3)),
        (RING, ("ddp", {}), (1, 2)),
        (("ddp", {}), ("parameter-server", {"update": "worker"}), (2, 1)),
        (("late-multiply", {}), ("native-allreduce", {}), (2, 2)),
        (OTHER_SERVERS, ("tree-allreduce", {}), (2, 4)),
        (SERVERS, ("fsdp", {}), (2, 3)),
        (("fsdp", {"group_bytes": 2000}), ("fsdp", {}), (3, 2)),
        (("fsdp", {}), RING, (3, 2)),
    ],
    ids=[
        "servers to ring",
        "ring to servers",
        "ring to ddp",
        "ddp to servers",
        "factors to native",
        "to a tree",
        "to fsdp",
        "fsdp to fsdp",
        "fsdp to ring",
    ],
)
def test_other_strategies_go_on_where_it_was(
    before: Way, after: Way, workers: tuple[int, int], optimizer: dict[str, Any], tmp_path: Path
) -> None:
    goes_on(before, after, workers, optimizer, tmp_path)


@pytest.mark.usefixtures("gang_lane")
def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    """Nothing is left, and nobody trains."""
    first = spec_of(RING, 1, steps=HALF + 1, checkpoint={"every_steps": HALF, "keep": 1})
    succeeded(attempt(first, tmp_path / "first" / "1"))
    place = tmp_path / "first" / "1"
    asked = {"start": {"job": "first"}}
    for spec, start, field in [
        (
            spec_of(RING, 1, checkpoint=asked),
            Start(job="first", directory=place, step=HALF - 1),
            "checkpoint.start.step",
        ),
        (
            spec_of(RING, 1, checkpoint=asked),
            Start(job="first", directory=tmp_path / "no", step=None),
            "checkpoint.start.job",
        ),
        (
            spec_of(RING, 1, checkpoint=asked),
            Start(job="gone", directory=None, step=None),
            "checkpoint.start.job",
        ),
        (
            spec_of(RING, 1, ADAM, checkpoint=asked),
            Start(job="first", directory=place, step=None),
            "optimizer.name",
        ),
        (
            spec_of(RING, 1, checkpoint=asked, model={"name": "mlp"}),
            Start(job="first", directory=place, step=None),
            "checkpoint.start.job",
        ),
    ]:
        launch = prepared(spec, tmp_path / "second" / "1", start)
        with pytest.raises(UserError) as refusal:
            put_together(launch)
        assert refusal.value.field == field
        assert not (launch.checkpoint_folder / START).exists()
        shutil.rmtree(tmp_path / "second")
    short = attempt(spec_of(RING, 1, checkpoint=asked, steps=HALF), tmp_path / "second" / "1", start)
    assert "training.steps" in short.end.reason
    assert "Let it have more" in short.end.reason


def test_what_was_put_together_is_what_is_read(tmp_path: Path) -> None:
    """And where the disk has changed it, it is none."""
    assert begun_step(tmp_path) is None
    written = write(Part(tensors={"parameter/weight": torch.ones(3)}), tmp_path / START)
    assert begun_step(tmp_path) is None, "its sum is not on the disk yet"
    say(tmp_path, HALF, written)
    assert begun_step(tmp_path) == HALF
    with (tmp_path / START).open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"x")
    with pytest.raises(DamagedError, match="is not what was written"):
        begun_step(tmp_path)
    (tmp_path / START).unlink()
    with pytest.raises(DamagedError, match="cannot be read"):
        begun_step(tmp_path)
    (tmp_path / "start.json").write_text("[]")
    with pytest.raises(DamagedError, match="makes no sense"):
        begun_step(tmp_path)


def test_an_attempt_is_stopped_while_that_is_put_together(tmp_path: Path) -> None:
    """Nobody waits until it is done."""
    spec = spec_of(RING, 1, checkpoint={"start": {"job": "first"}})
    launch = prepared(spec, tmp_path / "1", Start(job="first", directory=tmp_path, step=None))
    with pytest.raises(StoppedError):
        begin(launch, lambda: True)
    assert not list(tmp_path.glob(f"**/{START}"))


def test_an_optimizer_that_keeps_more_is_refused() -> None:
    theirs, ours = spec_of(RING, 1, ADAM), spec_of(RING, 1, {**ADAM, "options": {"amsgrad": True}})
    with pytest.raises(UserError, match=r"keeps max_exp_avg_sq of .* here, and did not there"):
        check_fits((theirs, describe(theirs)), (ours, describe(ours)))
    check_fits((ours, describe(ours)), (theirs, describe(theirs)))


def test_a_model_with_other_buffers_is_refused() -> None:
    def masked(size: int, *, name: str = "mask") -> nn.Module:
        model = nn.Linear(2, 2)
        model.register_buffer(name, torch.ones(size))
        return model

    there = masked(4)
    said, values = described(there), dict(there.named_buffers())
    check_buffers(masked(4), said, values)
    check_buffers(nn.Linear(2, 2), said, values)  # forward registers it
    for here in (masked(5), masked(4, name="other")):
        with pytest.raises(UserError, match=r"the buffer (mask|other) is .* there and float32 \[[45]\] here"):
            check_buffers(here, said, values)


@pytest.mark.parametrize(
    ("strategy", "more", "word"),
    [
        ("async-sgd", {}, "in common"),
        ("model-average", {}, "in common"),
        ("ring-allreduce", {"fidelity": "rehearse"}, "rehearsal"),
    ],
)
def test_a_plan_that_cannot_begin_so_is_refused(strategy: str, more: dict[str, Any], word: str) -> None:
    start = {"start": {"job": "first"}}
    spec = spec_of((strategy, {}), 2, checkpoint=start, deterministic=False, **more)
    with pytest.raises(UserError, match=word) as refusal:
        plan_of(spec)
    assert refusal.value.field == "checkpoint.start.job"
