"""Processes that take launch after launch compute what fresh ones compute, and who fails is replaced."""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import replace
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.gang.gang import GangEnd
from engine.plan.job import JobSpec
from tests.jobs import job, prepare, run_fresh
from tests.modules import forget_modules
from tests.resident import Residents

pytestmark = pytest.mark.usefixtures("gang_lane")

TROUBLE = Path(__file__).parent / "user_code"


def spec_of(strategy: str, workers: int = 2, **changes: Any) -> JobSpec:
    return job(strategy={"name": strategy}, cluster={"workers": workers}, **changes)


def finished(residents: Residents, spec: JobSpec, directory: Path, timeout_s: float = 60.0) -> GangEnd | None:
    gang = residents.gang(prepare(spec, directory))
    gang.start()
    try:
        return gang.wait(timeout_s)
    finally:
        gang.stop()


def state(directory: Path) -> dict[str, Tensor]:
    found: dict[str, Tensor] = torch.load(directory / "result" / "model.pt", weights_only=True)
    return found


def equal(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(value, other[name]) for name, value in one.items())


@pytest.mark.parametrize("strategy", ["p3", "ddp"])
def test_after_other_launches_the_result_is_that_of_fresh_processes(strategy: str, tmp_path: Path) -> None:
    """Bitwise: other seeds, precisions, wrappers, process groups, and what must not repeat, leave nothing behind."""
    repeatable = spec_of(strategy, model={"name": "bn-cnn"}, training={"deterministic": True, "steps": 6})
    run_fresh(repeatable, tmp_path / "fresh")
    residents = Residents()
    others = (
        spec_of("fsdp", training={"precision": "float64", "steps": 2}),
        repeatable,
        spec_of("ring-allreduce-overlap", training={"precision": "bf16", "seed": 8, "steps": 2}),
        spec_of("ddp", training={"steps": 2}),
    )
    for number, spec in enumerate(others):
        end = finished(residents, spec, tmp_path / f"other-{number}")
        assert end is not None
        assert end.status == "succeeded", end.reason
    end = finished(residents, repeatable, tmp_path / "after")
    assert end is not None
    assert end.status == "succeeded", end.reason
    residents.close()
    assert residents.forked == 2
    for again in ("other-1", "after"):
        assert equal(state(tmp_path / again), state(tmp_path / "fresh"))


def test_who_has_ended_is_waited_for_like_any_process(tmp_path: Path) -> None:
    """Also two at once, of whom it is known already."""
    residents = Residents()
    gang = residents.gang(prepare(spec_of("p3", training={"steps": 1}), tmp_path))
    gang.start()
    both = [process for _, process in gang._processes]
    for process in both:
        process.join(60)
        assert process.exitcode == 0
    assert len(wait([process.sentinel for process in both], 0)) == 2
    assert gang.wait(60) is not None
    residents.close()


def test_only_deterministic_jobs_may_not_use_what_does_not_repeat(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "tells.py").write_text(
        "import torch\n"
        "def build():\n"
        "    print('deterministic', torch.are_deterministic_algorithms_enabled())\n"
        "    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))\n"
    )
    model = {"entrypoint": "tells:build", "directory": str(tmp_path / "code")}
    residents = Residents()
    for number, wanted in enumerate((True, False)):
        spec = spec_of("single", 1, model=model, training={"deterministic": wanted, "steps": 1})
        assert finished(residents, spec, tmp_path / str(number)) is not None
        assert f"deterministic {wanted}" in (tmp_path / str(number) / "logs" / "worker-0.log").read_text()
    residents.close()
    assert residents.forked == 1


def test_the_next_launch_may_bring_another_module_of_the_same_name(tmp_path: Path) -> None:
    residents = Residents()
    for width in (5, 7):
        folder = tmp_path / f"code-{width}"
        folder.mkdir()
        (folder / "mine.py").write_text(
            "import torch\n"
            f"def build():\n"
            f"    wide = torch.nn.Linear(64, {width}), torch.nn.Linear({width}, 10)\n"
            f"    return torch.nn.Sequential(torch.nn.Flatten(), *wide)\n"
        )
        spec = spec_of("single", 1, model={"entrypoint": "mine:build", "directory": str(folder)})
        paths = list(sys.path)
        launch = prepare(spec, tmp_path / f"attempt-{width}")
        gang = residents.gang(launch)
        gang.start()  # a process that begins now takes over the folder, in which the model was described here
        forget_modules(paths)
        end = gang.wait(60)
        gang.stop()
        assert end is not None
        assert end.status == "succeeded", end.reason
        assert state(launch.directory)["1.weight"].shape == (width, 64)
    residents.close()
    assert residents.forked == 1


@pytest.mark.parametrize(("strategy", "options"), [("p3", {}), ("ddp", {}), ("hybrid", {"cut": "2"})])
def test_after_a_launch_nobody_is_told_of_calls(
    strategy: str, options: dict[str, Any], tmp_path: Path
) -> None:
    """Who is told keeps his replica, with the model and all of its gradients."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "counts.py").write_text(
        "import torch\n"
        "from engine.instrumentation import module_calls\n"
        "def build():\n"
        "    print('told of', len(module_calls._CALLS), 'modules')\n"
        "    layers = torch.nn.Flatten(), torch.nn.Linear(64, 10), torch.nn.Linear(10, 10)\n"
        "    return torch.nn.Sequential(*layers)\n"
    )
    model = {"entrypoint": "counts:build", "directory": str(tmp_path / "code")}
    residents = Residents()
    for number in range(2):
        spec = job(strategy={"name": strategy, "options": options}, model=model, training={"steps": 1})
        end = finished(residents, spec, tmp_path / str(number))
        assert end is not None
        assert end.status == "succeeded", end.reason
        for log in (tmp_path / str(number) / "logs").glob("*.log"):
            assert "told of 0 modules" in log.read_text()
    residents.close()


def test_who_gets_another_rank_has_its_share(tmp_path: Path) -> None:
    """Four workers have three, three, three and one of ten rows; from launch to launch processes change their ranks."""
    residents = Residents()
    spec = spec_of("fsdp", 4, training={"deterministic": True, "steps": 2})
    run_fresh(spec, tmp_path / "fresh")
    for name in ("one", "other", "third"):
        end = finished(residents, spec, tmp_path / name)
        assert end is not None
        assert end.status == "succeeded", end.reason
        assert equal(state(tmp_path / name), state(tmp_path / "fresh"))
    residents.close()


def test_who_fails_is_replaced(tmp_path: Path) -> None:
    residents = Residents()
    model = {
        "entrypoint": "trouble:build",
        "directory": str(TROUBLE),
        "options": {"trouble": "raise", "marks": str(tmp_path)},
    }
    end = finished(residents, spec_of("p3", model=model), tmp_path / "fails")
    assert end is not None
    assert (end.status, end.party, end.exit_code) == ("failed", "worker 1", 1)
    assert "this model dislikes Mondays" in end.reason
    end = finished(residents, spec_of("p3"), tmp_path / "next")
    assert end is not None
    assert end.status == "succeeded", end.reason
    residents.close()


def test_who_hangs_or_is_killed_is_replaced(tmp_path: Path) -> None:
    residents = Residents()
    endless = spec_of("p3", training={"steps": 1_000_000})
    gang = residents.gang(prepare(endless, tmp_path / "endless"))
    gang.start()
    assert gang.wait(0.5) is None
    assert gang.stop().status == "stopped"
    gang = residents.gang(prepare(replace(endless, name="killed"), tmp_path / "killed"))
    gang.start()
    os.kill(gang.pids["worker 1"], signal.SIGKILL)
    end = gang.wait(60)
    assert end is not None
    assert (end.status, end.party, end.exit_code) == ("failed", "worker 1", -signal.SIGKILL)
    end = finished(residents, spec_of("p3"), tmp_path / "next")
    assert end is not None
    assert end.status == "succeeded", end.reason
    residents.close()
    assert residents.forked == 6
