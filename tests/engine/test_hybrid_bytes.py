"""AlexNet under hybrid, counted on the wire: papers 000, Table 2."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.jobs import job, succeed
from tests.traffic import counted_bytes, declared_bytes

DEDICATED = {"where": "dedicated", "reducer": "dedicated"}


def alexnet(workers: int, options: dict[str, Any], **changes: Any) -> Any:
    return job(
        model={"name": "alexnet"},
        data={"name": "synthetic", "options": {"shape": [3, 227, 227], "classes": 1000, "samples": 256}},
        strategy={"name": "hybrid", "options": options},
        cluster={"workers": workers},
        optimizer={"name": "sgd", "learning_rate": 0.001},
        training={"steps": 1, "global_batch": 256, **changes.pop("training", {})},
        **changes,
    )


@pytest.mark.parametrize(("workers", "mebibytes"), [(2, 53.6), (4, 89.2)])
def test_computed(workers: int, mebibytes: float, tmp_path: Path) -> None:
    """In micro-batches, so that it fits into the memory of a small machine: that changes no byte."""
    run = succeed(alexnet(workers, DEDICATED, training={"micro_batches": 16 // workers}), tmp_path)
    (run.launch.result / "model.pt").unlink()  # 244 MB
    counted = counted_bytes(run)
    assert counted == declared_bytes(run)
    assert round(sum(counted.values()) / 2**20, 1) == mebibytes


@pytest.mark.parametrize(("workers", "options", "mebibytes"), [(8, DEDICATED, 160.5), (4, {}, 66.9)])
def test_replayed(workers: int, options: dict[str, Any], mebibytes: float, tmp_path: Path) -> None:
    """Compute is waited for, bytes are true. Reducer and device beside workers keep their workers' shares at home."""
    run = succeed(alexnet(workers, options, fidelity="rehearse"), tmp_path)
    counted = counted_bytes(run)
    assert counted == declared_bytes(run)
    assert round(sum(counted.values()) / 2**20, 1) == mebibytes
    assert len({run.summary(rank)["parameters_crc32"] for rank in range(workers)}) == 1
