"""A worker that dies and comes back joins again: in real processes, which are killed."""

from __future__ import annotations

import json
import os
import re
import signal
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.errors import UserError
from engine.gang import losses
from engine.gang.gang import Gang, GangEnd
from engine.launch import Launch
from engine.plan.job import LEAST_SILENCE_S, ClusterSpec, JobSpec
from engine.plan.restarts import LONGEST_S, MOST, pause_before
from engine.state.update_record import read
from tests.engine.test_runtime_failures import USER_CODE, gone, started, wait_until
from tests.jobs import job, plan_of

SERVERS, STEPS = 2, 100
DEDICATED = {"servers": SERVERS, "where": "dedicated"}
STRATEGIES: list[tuple[str, dict[str, Any]]] = [
    ("async-sgd", {}),
    ("bounded-staleness", {"bound": 1}),
    ("softsync", {"contributions": 2}),
]


def spec_of(strategy: str, marks: Path, *, steps: int = STEPS, model: dict[str, Any] | None = None, **options: Any) -> JobSpec:
    """Each process of a worker leaves a file in `marks` when it comes to its own step 3. Worker 0 waits in its step 8
    until another process of worker 2 has come to its step 3, so that training is not over before that."""
    trouble = {"marks": str(marks), "awaits": 1, **(model or {})}
    return job(
        model={"entrypoint": "returning:build", "directory": str(USER_CODE), "options": trouble},
        strategy={"name": strategy, "options": {**DEDICATED, **options}},
        cluster={"workers": 3, "worker_loss": "rejoin", "restart_pause_s": 0.1},
        training={"steps": steps},
        evaluation={"every_epochs": None, "at_end": True},
        telemetry={"updates": True},
    )


def kill(gang: Gang, marks: Path, life: int = 0, how: signal.Signals = signal.SIGKILL) -> None:
    """Worker 2, in its step 3 of this life."""
    gang_goes_on_until(gang, lambda: (marks / f"worker 2.{life}").exists(), f"step 3 of life {life}")
    os.kill(gang.pids["worker 2"], how)


def gang_goes_on_until(gang: Gang, condition: Any, what: str) -> None:
    """Somebody has to look after its processes meanwhile."""
    wait_until(lambda: gang.wait(0.01) is not None or condition(), what)


def ended(gang: Gang) -> GangEnd:
    end = gang.wait(60.0)
    assert end is not None, "the job has not ended"
    assert gone(gang.pids.values())
    return end


def records(launch: Launch) -> np.ndarray:
    return np.concatenate([read(launch.updates(shard)) for shard in range(SERVERS)])


@pytest.mark.usefixtures("gang_lane")
@pytest.mark.parametrize(("strategy", "options"), STRATEGIES)
def test_a_killed_worker_joins_again(strategy: str, options: dict[str, Any], tmp_path: Path) -> None:
    with started(spec_of(strategy, tmp_path, **options), tmp_path) as gang:
        kill(gang, tmp_path)
        end = ended(gang)
        launch = gang._launch
    assert end.status == "succeeded", end.reason
    print(end)
