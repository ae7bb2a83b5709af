"""ddp with PyTorch's communication hooks: what they lose is small, what they send is less, and sums are sums."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.telemetry.events import Kind
from engine.telemetry.spool import batches
from tests.jobs import Run, distance, job, reference, succeed

pytestmark = pytest.mark.usefixtures("gang_lane")

STEPS = 8


def spec_of(workers: int = 3, **options: Any) -> Any:
    return job(
        strategy={"name": "ddp", "options": {"bucket_bytes": 4000, **options}},
        cluster={"workers": workers},
        training={"precision": "float32", "steps": STEPS},
    )


def sent_by_step(run: Run) -> list[int]:
    """Bytes that worker 0 gave to collectives, by its own account."""
    rows = np.concatenate([b.table("events") for b in batches(run.launch.spool) if b.party == 0])
    sums = rows[rows["kind"] == Kind.REDUCE]
    return [int(sums["bytes"][sums["step"] == step].sum()) for step in range(STEPS)]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return succeed(spec_of(), tmp_path_factory.mktemp("plain"))


@pytest.mark.parametrize(("hook", "limit"), [("fp16", 2e-3), ("bf16", 2e-2)])
def test_half_precision_sends_half_and_loses_little(
    hook: str, limit: float, plain: Run, tmp_path: Path
) -> None:
    run = succeed(spec_of(hook=hook), tmp_path)
    assert 1e-7 < distance(run.state, plain.state) <= limit
    assert [2 * size for size in sent_by_step(run)] == sent_by_step(plain)


def test_powersgd_sends_less_from_its_first_step_on(plain: Run, tmp_path: Path) -> None:
    run = succeed(spec_of(hook="powersgd", powersgd_from=3), tmp_path)
    whole, found = sent_by_step(plain), sent_by_step(run)
    assert found[:3] == whole[:3]
    assert all(less < 0.5 * full for less, full in zip(found[3:], whole[3:], strict=True))
    assert 1e-7 < distance(run.state, plain.state) <= 0.2


def test_powersgd_is_exact_before_its_first_step(tmp_path: Path) -> None:
    run = succeed(spec_of(hook="powersgd", powersgd_from=STEPS), tmp_path)
    assert distance(run.state, reference(spec_of(), 3)) <= 1e-5


def test_powersgd_of_full_rank_would_lose_nothing_so_it_is_not_used(tmp_path: Path) -> None:
    """Where factors are longer than the matrix, PyTorch sends the matrix."""
    run = succeed(spec_of(hook="powersgd", powersgd_rank=1000, powersgd_from=2), tmp_path)
    assert distance(run.state, reference(spec_of(), 3)) <= 1e-5
