"""Rehearsals in real processes: compute is waited for, everything else is real."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.plan.job import JobSpec
from tests.jobs import job, succeed

STRATEGIES: dict[str, dict[str, Any]] = {
    "parameter-server": {},
    "p3": {"slice_size": 5000},
    "ring-allreduce-overlap": {"bucket_bytes": 100_000},
    "native-allreduce": {},
    "ddp": {"bucket_bytes": 100_000},
}


def rehearsal(strategy: str, workers: int = 2, **changes: Any) -> JobSpec:
    options = STRATEGIES.get(strategy, {})
    return job(
        fidelity="rehearse",
        strategy={"name": strategy, "options": options},
        cluster={"workers": workers},
        **{"rehearsal": {"scale": 3.0}, "training": {"steps": 6}, **changes},
    )


@pytest.fixture(scope="module")
def checksums() -> dict[str, int]:
    return {}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy_ends_with_the_same_parameters_and_sends_what_it_declares(
    strategy: str, tmp_path: Path, checksums: dict[str, int]
) -> None:
    run = succeed(rehearsal(strategy), tmp_path)
    assert run.launch.devices == ("replay", "replay")
    summaries = [run.summary(rank) for rank in range(2)]
    assert {s["rehearsed"] for s in summaries} == {
        "rehearsed: compute of P4000 derived from FLOPs at 60 %, sizes and rates 1/3"
    }
    assert {s["test_accuracy"] for s in summaries} == {None}
    assert not (run.launch.result / "model.pt").exists()
    for rank, summary in enumerate(summaries):
        checksums[f"{strategy} {rank}"] = summary["parameters_crc32"]
    assert len(set(checksums.values())) == 1, checksums
