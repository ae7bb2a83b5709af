"""What real workers hold at the most, beside what is predicted of them: with DDP's buckets, and averages' copies."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engine.benchmarks.harness.jobs import bench_job
from engine.liveness.request import answer
from engine.plan.peak import Peak
from engine.plan.serde import from_plain
from engine.plan.worker_memory import request_for, worker_memory
from tests.counted_worker import counted_peaks
from tests.jobs import describe, plan_of


@pytest.mark.soak
@pytest.mark.usefixtures("gang_lane")
@pytest.mark.parametrize(
    ("strategy", "options"),
    [
        ("ring-allreduce-overlap", {}),
        ("ddp", {}),
        ("model-average", {"period": 2}),
        ("diloco", {"period": 2}),
        ("streaming-diloco", {"period": 2, "fragments": 2, "delay": 1}),
    ],
)
def test_a_worker_holds_what_is_predicted(strategy: str, options: dict[str, Any]) -> None:
    spec = bench_job("vgg-small", strategy, workers=2, batch=16, steps=9, options=options)
    plan, model = plan_of(spec), describe(spec)
    request = json.loads(json.dumps(request_for(spec, plan, model)))
    found = worker_memory(spec, plan, model, from_plain(Peak, answer(request)["peak"]))
    predicted = found.total - found.declared["sums and other tensors"]  # a server's thread has these
    measured = counted_peaks(spec)[1]
    print(f"measured {measured:,}, predicted {predicted:,}: {100 * (predicted / measured - 1):+.2f} %")
    assert abs(predicted - measured) <= 0.03 * measured
