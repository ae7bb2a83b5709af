"""A job that goes on from a checkpoint ends as one that nobody has disturbed, to the bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from engine import launch as launches
from engine.gang.gang import GangEnd
from engine.plan.job import JobSpec
from tests.jobs import RESIDENTS, Run, describe, job, plan_of

USER_CODE = Path(__file__).parent / "user_code"
STEPS, EVERY = 12, 4


def spec_of(
    strategy: str,
    options: dict[str, Any],
    marks: Path,
    *,
    workers: int = 2,
    every: int | None = EVERY,
    **more: Any,
) -> JobSpec:
    return job(
        model={"entrypoint": "mortal:build", "directory": str(USER_CODE), "options": {"marks": str(marks)}},
        strategy={"name": strategy, "options": options},
        cluster={"workers": workers},
        training={"steps": STEPS, "deterministic": True},
        schedule={"name": "cosine"},
        checkpoint={"every_steps": every, "keep": 10},
        **more,
    )


def attempt(spec: JobSpec, directory: Path, checkpoints: Path) -> Run:
    """One attempt at a job, whose checkpoints outlive it."""
    launch = launches.prepare(spec, plan_of(spec), describe(spec), directory, checkpoints=checkpoints)
    launch.write()
    gang = RESIDENTS.gang(launch)
    gang.start()
    try:
        end: GangEnd | None = gang.wait(120)
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


def damage(folder: Path, step: int, name: str = "worker-0") -> None:
    """A bit of a part is another."""
    path = folder / f"step-{step:010d}" / f"{name}.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "p3": ("p3", {"slice_size": 300}, {}),
    "ring": ("ring-allreduce", {}, {}),
    "dgc": ("p3", {"servers": 1, "where": "dedicated", "codec": "dgc"}, {}),
    "one-bit": ("parameter-server", {"codec": "one-bit"}, {}),
}


@pytest.mark.usefixtures("gang_lane")
@pytest.mark.parametrize("case", CASES)
def test_going_on_from_a_checkpoint_changes_no_bit(case: str, tmp_path: Path) -> None:
    """Of the older one, where the newer one is damaged; it takes that one's place."""
    strategy, options, more = CASES[case]
    spec, folder = spec_of(strategy, options, tmp_path, **more), tmp_path / "checkpoints"
    expected = succeeded(attempt(spec, tmp_path / "1", folder))
    assert sorted(path.name for path in folder.iterdir()) == ["step-0000000004", "step-0000000008"]
    damage(folder, 8)
    again = attempt(spec, tmp_path / "2", folder)
    equal(succeeded(again), expected)
    assert again.launch.resumed == 4
    assert again.summary()["steps"] == STEPS
    assert attempt(spec, tmp_path / "3", folder).launch.resumed == 8
