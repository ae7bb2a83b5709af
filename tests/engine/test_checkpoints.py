"""A job that goes on from a checkpoint ends as one that nobody has disturbed, to the bit."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from engine import launch as launches
from engine.checkpoint import preemption
from engine.checkpoint.store import MANIFEST
from engine.gang.gang import Gang
from engine.plan.job import JobSpec
from tests.jobs import RESIDENTS, Run, describe, job, plan_of

USER_CODE = Path(__file__).parent / "user_code"
OTHERS = Path(__file__).parents[1] / "equivalence" / "user_code"
STEPS, EVERY = 12, 4
SGD = {"name": "sgd", "learning_rate": 0.05}
DEDICATED = {"servers": 1, "where": "dedicated"}
KILLS = 17
"""In the soak, of each case."""
Case = tuple[str, dict[str, Any], dict[str, Any]]
CASES: dict[str, Case] = {
    "p3, one-bit": ("p3", {**DEDICATED, "slice_size": 300, "codec": "one-bit"}, {}),
    "ring, one-bit": ("ring-allreduce", {"codec": "one-bit"}, {}),
    "p3, dgc": ("p3", {**DEDICATED, "slice_size": 300, "codec": "dgc"}, {"optimizer": SGD}),
}
MORE: dict[str, Case] = {
    "p3": ("p3", {"slice_size": 300}, {}),
    "one worker": ("single", {}, {"cluster": {"workers": 1}}),
    "ring": ("ring-allreduce", {}, {}),
    "tree, qsgd": ("tree-allreduce", {"codec": "qsgd"}, {}),
    "ring, powersgd": ("ring-allreduce", {"codec": "powersgd"}, {}),
    "servers, powersgd": ("parameter-server", {"update": "worker", "codec": "powersgd"}, {}),
    "servers, one-bit": ("parameter-server", {"codec": "one-bit"}, {}),
    "servers, deferred": ("parameter-server-deferred", {**DEDICATED, "codec": "top-k"}, {}),
    "servers, workers update": ("p3", {"update": "worker", "codec": "top-k"}, {}),
    "servers, differences": ("p3", {"answers": "int8", "slice_size": 300}, {}),
    "servers, adamw": ("parameter-server", {}, {"optimizer": {"name": "adamw", "learning_rate": 0.01}}),
    "late-multiply": ("late-multiply", {"codec": "bf16"}, {}),
    "native": ("native-allreduce", {}, {}),
    "ddp": ("ddp", {}, {}),
    "ddp, bf16, three workers": ("ddp", {"hook": "bf16"}, {"cluster": {"workers": 3}}),
    "fsdp": ("fsdp", {"group_bytes": 2000}, {"cluster": {"workers": 3}, "model": {"name": "resnet-digits"}}),
    "averages": ("model-average", {"period": 2}, {}),
    "diloco": ("diloco", {"period": 4}, {}),
    "accumulation, clipping": ("ring-allreduce", {}, {"training": {"micro_batches": 2, "clip_norm": 0.5}}),
    "three workers": ("p3", {**DEDICATED, "codec": "top-k"}, {"cluster": {"workers": 3}}),
}


def spec_of(case: Case, marks: Path, *, steps: int = STEPS, every: int | None = EVERY) -> JobSpec:
    strategy, options, more = case
    return job(
        **{
            "model": {
                "entrypoint": "mortal:build",
                "directory": str(USER_CODE),
                "options": {"marks": str(marks)},
            },
            "strategy": {"name": strategy, "options": options},
            "cluster": {"workers": 2},
            "schedule": {"name": "cosine"},
            "checkpoint": {"every_steps": every, "keep": 3},
            **more,
            "training": {"steps": steps, "deterministic": True, **more.get("training", {})},
        }
    )


def attempt(
    spec: JobSpec, directory: Path, checkpoints: Path, meanwhile: Callable[[Gang], None] = lambda gang: None
) -> Run:
    """One attempt at a job, whose checkpoints outlive it."""
    launch = launches.prepare(spec, plan_of(spec), describe(spec), directory, checkpoints=checkpoints)
    launch.write()
    gang = RESIDENTS.gang(launch)
    gang.start()
    try:
        meanwhile(gang)
        end = gang.wait(120)
    finally:
        gang.stop()
    assert end is not None
    return Run(launch=launch, end=end)


def succeeded(run: Run) -> dict[str, Tensor]:
    assert run.end.status == "succeeded", f"{run.end.reason}\n{run.logs()}"
    return run.state


def equal(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert torch.equal(found[name], tensor), name


def places(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.exists() else []


def goes_on(case: Case, tmp_path: Path, steps: Sequence[int] = (4, 8)) -> None:
    """From the last checkpoint but one, where a bit of the last one is another; the attempt makes that one again.
    `steps`: those that are kept."""
    spec, folder = spec_of(case, tmp_path), tmp_path / "checkpoints"
    expected = succeeded(attempt(spec, tmp_path / "1", folder))
    assert [path.name for path in places(folder)] == [f"step-{step:010d}" for step in steps]
    path = next(places(folder)[-1].glob("worker-*.safetensors"))
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    again = attempt(spec, tmp_path / "2", folder)
    equal(succeeded(again), expected)
    assert again.launch.resumed == steps[-2]
    assert again.summary()["steps"] == STEPS
    assert f"goes on from the checkpoint of step {steps[-2]}" in again.logs()
    assert (places(folder)[-1] / MANIFEST).exists()


def by_the_clock(case: Case) -> Case:
    """Whose seconds are over with every step."""
    strategy, options, more = case
    return strategy, options, {**more, "checkpoint": {"every_seconds": 1e-9, "keep": 3}}


@pytest.mark.usefixtures("gang_lane")
def test_going_on_from_a_checkpoint_changes_no_bit(tmp_path: Path) -> None:
    goes_on(CASES["ring, one-bit"], tmp_path)


def makes_room(case: Case, tmp_path: Path) -> None:
    """Asked from the beginning, it ends with a checkpoint where workers first meet."""
    folder = tmp_path / "checkpoints"
    spec = spec_of(case, tmp_path, every=STEPS)
    expected = succeeded(attempt(spec, tmp_path / "1", tmp_path / "others"))
    preempted = attempt(spec, tmp_path / "2", folder, lambda gang: preemption.ask(tmp_path / "2"))
    assert preempted.end.status == "succeeded", f"{preempted.end.reason}\n{preempted.logs()}"
    step = case[1].get("period", 1)
    assert preemption.preempted_step(tmp_path / "2") == step
    assert not (preempted.launch.result / "model.pt").exists()
    again = attempt(spec, tmp_path / "3", folder)
    equal(succeeded(again), expected)
    assert again.launch.resumed == step
    assert preemption.preempted_step(tmp_path / "3") is None


@pytest.mark.usefixtures("gang_lane")
def test_a_preempted_job_goes_on_and_ends_as_an_undisturbed_one(tmp_path: Path) -> None:
    makes_room(CASES["p3, one-bit"], tmp_path)


@pytest.mark.soak
@pytest.mark.usefixtures("gang_lane")
@pytest.mark.parametrize("case", MORE)
def test_a_preempted_job_goes_on_whatever_the_strategy(case: str, tmp_path: Path) -> None:
    makes_room(MORE[case], tmp_path)


@pytest.mark.soak
@pytest.mark.usefixtures("gang_lane")
@pytest.mark.parametrize("case", [*CASES, *MORE])
def test_cuts_by_the_clock_change_no_bit_whatever_the_strategy(case: str, tmp_path: Path) -> None:
    one = {**CASES, **MORE}[case]
    period = one[1].get("period", 1)
    goes_on(by_the_clock(one), tmp_path, [*range(period, STEPS, period)][-3:])


@pytest.mark.soak
@pytest.mark.usefixtures("gang_lane")
@pytest.mark.parametrize("case", [*CASES, *MORE])
def test_going_on_changes_no_bit_whatever_the_strategy(case: str, tmp_path: Path) -> None:
    goes_on({**CASES, **MORE}[case], tmp_path)


@pytest.mark.usefixtures("gang_lane")
def test_a_killed_job_goes_on_and_ends_as_one_without_checkpoints(tmp_path: Path) -> None:
    """A worker is killed in the pass of step 9. The checkpoint of step 8 may be whole by then, or not."""
    case, folder = CASES["p3, one-bit"], tmp_path / "checkpoints"
    expected = succeeded(attempt(spec_of(case, tmp_path, every=None), tmp_path / "1", folder))
    assert places(folder) == []
    spec = spec_of(case, tmp_path)
    (tmp_path / "kill").write_text("worker 1/9")
    killed = attempt(spec, tmp_path / "2", folder)
    assert "killed by SIGKILL" in killed.end.reason
    again = attempt(spec, tmp_path / "3", folder)
    equal(succeeded(again), expected)
    assert again.launch.resumed in {4, 8}


@pytest.mark.usefixtures("gang_lane")
def test_nobody_writes_down_what_a_model_that_is_built_anew_has_no_place_for(tmp_path: Path) -> None:
    model = {"entrypoint": "changing:Pruned", "directory": str(OTHERS)}
    end = attempt(
        spec_of(("p3", {}, {"model": model}), tmp_path), tmp_path / "1", tmp_path / "checkpoints"
    ).end
    assert end.status == "failed"
    assert "after step 4 the model has last.weight_orig, which it had not when it was built" in end.reason
    assert places(tmp_path / "checkpoints") == []


@pytest.mark.soak
@pytest.mark.usefixtures("gang_lane")
@pytest.mark.parametrize("case", CASES)
def test_kills_at_random_moments_change_no_bit(case: str, tmp_path: Path) -> None:
    """Of any process, also while checkpoints are written: each job is killed once or several times."""
    steps, seed = 60, random.Random(case)
    folder = tmp_path / "checkpoints"
    spec = spec_of(CASES[case], tmp_path, steps=steps, every=3)
    begun = time.monotonic()
    expected = succeeded(attempt(spec, tmp_path / "0", folder))
    takes_s, kills, resumed = time.monotonic() - begun, 0, 0
    number = 0
    while kills < KILLS:
        for path in places(folder):
            for each in path.iterdir():
                each.unlink()
            path.rmdir()
        while True:
            number += 1

            def kill(gang: Gang) -> None:
                time.sleep(seed.uniform(0.1, 1.0) * takes_s)
                party = seed.choice(sorted(gang.pids))
                if gang.poll() is None:
                    os.kill(gang.pids[party], signal.SIGKILL)

            run = attempt(spec, tmp_path / str(number), folder, kill)
            resumed += run.launch.resumed is not None
            if run.end.status == "succeeded":
                break
            assert "killed by SIGKILL" in run.end.reason, run.end.reason
            kills += 1
        equal(run.state, expected)
    assert resumed, "no attempt went on from a checkpoint"
