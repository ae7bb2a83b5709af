"""AlexNet under hybrid, counted on the wire: papers 000, Table 2."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.simulate.declared import declared
from tests.jobs import describe, job, plan_of, succeed
from tests.traffic import counted_bytes, declared_bytes

pytestmark = pytest.mark.usefixtures("gang_lane")

DEDICATED = {"where": "dedicated", "reducer": "dedicated"}


def alexnet(workers: int, options: dict[str, Any], *, samples: int = 256, **changes: Any) -> Any:
    """One step over so many samples."""
    return job(
        model={"name": "alexnet"},
        data={"name": "synthetic", "options": {"shape": [3, 227, 227], "classes": 1000, "samples": samples}},
        strategy={"name": "hybrid", "options": options},
        cluster={"workers": workers},
        optimizer={"name": "sgd", "learning_rate": 0.001},
        training={"steps": 1, "global_batch": samples},
        **changes,
    )


def test_computed(tmp_path: Path) -> None:
    """The true model, with few samples: the activations of 256 cross in the tests below."""
    run = succeed(alexnet(2, {**DEDICATED, "cut": "fc6"}, samples=4), tmp_path)
    (run.launch.result / "model.pt").unlink()  # 244 MB
    counted = counted_bytes(run)
    assert counted == declared_bytes(run)
    assert sum(counted.values()) == 2 * 2 * 2_334_080 * 4 + 2 * 4 * 9216 * 4


PAPERS = [(2, DEDICATED, 53.6), (4, DEDICATED, 89.2), (8, DEDICATED, 160.5), (4, {}, 66.9)]


@pytest.mark.parametrize(("workers", "options", "mebibytes"), PAPERS)
def test_what_the_paper_counts_is_declared(workers: int, options: dict[str, Any], mebibytes: float) -> None:
    spec = alexnet(workers, options)
    moved = declared(plan_of(spec), describe(spec), workers, spec.network.hosts)
    assert round(sum(transfer.bytes for transfer in moved if transfer.wire) / 2**20, 1) == mebibytes


@pytest.mark.parametrize(
    ("workers", "options", "mebibytes"),
    [pytest.param(*row, marks=[] if row == PAPERS[-1] else pytest.mark.soak) for row in PAPERS],
)
def test_replayed(workers: int, options: dict[str, Any], mebibytes: float, tmp_path: Path) -> None:
    """Compute is waited for, bytes are true. Reducer and device beside workers keep their workers' shares at home."""
    run = succeed(alexnet(workers, options, fidelity="rehearse"), tmp_path)
    counted = counted_bytes(run)
    assert counted == declared_bytes(run)
    assert round(sum(counted.values()) / 2**20, 1) == mebibytes
    assert len({run.summary(rank)["parameters_crc32"] for rank in range(workers)}) == 1
