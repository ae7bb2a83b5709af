"""What bounded staleness and softsync promise, held against what servers did in a thousand real steps in which workers
were slowed, paused and jittered: judged from the record of updates alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.jobs import Run, job, succeed

pytestmark = [pytest.mark.soak, pytest.mark.usefixtures("gang_lane")]
STEPS, WORKERS = 1_000, 4
STRAGGLERS = [
    {"worker": 1, "factor": 3.0, "jitter": 0.8},
    {"worker": 2, "factor": 1.0, "pause_every_steps": 97, "pause_s": 0.2},
]


@pytest.mark.parametrize(
    ("bound", "options"),
    [
        (0, {}),
        (1, {"where": "dedicated", "servers": 2}),
        (3, {"slice_size": 1_000}),
        (3, {"apply": "clock"}),
    ],
)
def test_no_worker_reads_what_lacks_more_than_the_bound_allows(
    bound: int, options: dict[str, Any], tmp_path: Path
) -> None:
    run = trained("bounded-staleness", {"bound": bound, **options}, tmp_path)
    ahead = [most_ahead(rows) for rows in by_unit(run)]
    assert max(ahead) <= bound
    assert max(ahead) == bound, "nobody came so far that the bound mattered"


@pytest.mark.parametrize("contributions", [1, 2, 3, 4])
def test_every_update_has_exactly_its_contributions(contributions: int, tmp_path: Path) -> None:
    run = trained("softsync", {"contributions": contributions, "slice_size": 1_000}, tmp_path)
    for rows in by_unit(run):
        sizes = np.unique(rows["version"], return_counts=True)[1]
        assert set(sizes[:-1]) == {contributions}
        assert 1 <= sizes[-1] <= contributions, "the last is made of what is left when all have ended"


def trained(strategy: str, options: dict[str, Any], folder: Path) -> Run:
    return succeed(
        job(
            model={"name": "mlp", "options": {"hidden": 16}},
            strategy={"name": strategy, "options": options},
            cluster={"workers": WORKERS},
            training={"steps": STEPS, "global_batch": 16},
            telemetry={"updates": True},
            faults={"stragglers": STRAGGLERS},
        ),
        folder / "run",
    )


def by_unit(run: Run) -> list[np.ndarray]:
    """Every unit's rows; each worker's every step is in them exactly once."""
    rows = run.updates()
    units = [rows[rows["unit"] == unit.index] for unit in run.units]
    for found in units:
        places = found["worker"].astype(int) * STEPS + found["step"]
        assert sorted(places) == list(range(WORKERS * STEPS))
        assert (np.diff(found["version"].astype(int)) >= 0).all()
    return units


def most_ahead(rows: np.ndarray) -> int:
    """By how many steps the version that somebody read lacked those before the reader's own, at most.

    A contribution of step c was computed on version v. In v are the slowest worker's contributions of steps before
    some a: the reader was c - a steps ahead of it.
    """
    behind = []
    for worker in range(WORKERS):
        versions = np.sort(rows["version"][rows["worker"] == worker])
        contained = np.searchsorted(versions, rows["read"], side="right")
        behind.append(rows["step"].astype(int) - contained)
    return int(np.max(behind))
