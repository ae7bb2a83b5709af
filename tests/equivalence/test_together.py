"""What has come is updated in one go: by the end of backward where nothing is awaited, and then it is what it would be
one by one (all other tests of this folder say so)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engine.telemetry.events import NONE, Kind
from engine.telemetry.spool import batches
from tests.jobs import job, succeed

pytestmark = pytest.mark.usefixtures("gang_lane")
STEPS = 4


@pytest.mark.parametrize("clip_norm", [None, 0.5])
def test_a_single_worker_updates_all_layers_at_once_and_in_its_step(
    clip_norm: float | None, tmp_path: Path
) -> None:
    spec = job(
        strategy={"name": "single"},
        cluster={"workers": 1},
        training={"steps": STEPS, "clip_norm": clip_norm},
        telemetry={"detail": "all"},
    )
    run = succeed(spec, tmp_path)
    found = list(batches(run.launch.spool))
    events = np.concatenate([batch.table("events") for batch in found])
    rows = {int(row["step"]): row for batch in found for row in batch.table("steps")}
    updates = events[events["kind"] == Kind.UPDATE]
    assert updates["step"].tolist() == list(range(STEPS))
    assert set(updates["layer"]) == {NONE}
    for update in updates:
        row = rows[int(update["step"])]
        assert row["start"] <= update["start"] <= update["end"] <= row["end"]
    assert not (events["kind"] == Kind.WAIT).any()
