"""The exact class on CUDA: needs a device; skipped, and said so, where there is none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.runtime.gang import Gang
from tests.jobs import Run, distance, job, prepare, reference

pytestmark = [
    pytest.mark.usefixtures("gang_lane"),
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]


@pytest.mark.parametrize(
    ("strategy", "options"),
    [
        ("single", {}),
        ("parameter-server", {}),
        ("p3", {}),
        ("ring-allreduce-overlap", {}),
        ("late-multiply", {"layers": "all"}),
        ("parameter-averaging", {"period": 1, "optimizer_state": True}),
    ],
)
def test_equals_one_process_on_the_cpu(strategy: str, options: dict[str, Any], tmp_path: Path) -> None:
    """Workers may share one device: the transport never leaves the host. SGD is linear in its momentum, so to average
    both in every step is synchronous, too."""
    workers = 1 if strategy == "single" else 2
    spec = job(
        strategy={"name": strategy, "options": options},
        cluster={"workers": workers},
        training={"precision": "float64"},
    )
    launch = replace(prepare(spec, tmp_path), devices=("cuda:0",) * workers)
    launch.write()
    gang = Gang(launch)
    gang.start()
    end = gang.wait(120)
    gang.stop()
    assert end is not None
    assert end.status == "succeeded", end.reason
    assert distance(Run(launch=launch, end=end).state, reference(spec, workers)) <= 1e-9
