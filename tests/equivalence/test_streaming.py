"""Convergent class: fragments that are averaged in turn while training goes on, against one process that does the same
with every worker's model in turn. At its trivial settings streaming is diloco, bit for bit. Every run also counts the
bytes that its plan declares."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from engine.plan.job import JobSpec
from tests.equivalence.test_averaging import ADAM, MOMENTUM, ran, spec_of
from tests.jobs import distance
from tests.streaming import in_turn

pytestmark = pytest.mark.usefixtures("gang_lane")


def spec(workers: int, options: dict[str, Any], **changes: Any) -> JobSpec:
    training = {"steps": 14, "global_batch": 25, **changes.pop("training", {})}
    return spec_of(
        "streaming-diloco", workers, {"bucket_bytes": 4000, **options}, training=training, **changes
    )


@pytest.mark.parametrize(
    ("workers", "options", "changes"),
    [
        (2, {"fragments": 2, "delay": 2, "mixing": 0.5}, {"optimizer": ADAM}),
        (3, {"fragments": 3, "delay": 1, "mixing": 0.25, "exchange": "parameter-server"}, {}),
        (2, {"fragments": 2, "delay": 0, "mixing": 0.5, "pattern": "sequential"}, {}),
        (2, {"fragments": 1, "delay": 3, "mixing": 0.0, "exchange": "native"}, {}),
        (3, {"fragments": 2, "delay": 1, "exchange": "tree-allreduce"}, {"training": {"clip_norm": 0.3}}),
        (
            2,
            {"fragments": 4, "delay": 2, "exchange": "recursive-halving-doubling"},
            {"evaluation": {"every_epochs": 0.07, "at_end": True}, "training": {"micro_batches": 2}},
        ),
    ],
)
def test_it_trains_as_one_process_does(
    workers: int, options: dict[str, Any], changes: dict[str, Any], tmp_path: Path
) -> None:
    """A period of 4 in 14 steps: fragments whose average would come too late are left out, and all meet at the end."""
    job = spec(workers, {"period": 4, **options}, **{"optimizer": MOMENTUM, **changes})
    run = ran(job, tmp_path)
    expected = in_turn(job, run.launch.plan)
    assert distance(run.state, expected) <= 1e-9


@pytest.mark.parametrize("exchange", ["central-reducer", "ring-allreduce"])
def test_one_fragment_without_delay_is_diloco_bit_for_bit(exchange: str, tmp_path: Path) -> None:
    alike: dict[str, Any] = {"period": 3, "exchange": exchange}
    changes: dict[str, Any] = {
        "optimizer": MOMENTUM,
        "training": {"precision": "float32", "deterministic": True},
    }
    trivial = {"fragments": 1, "delay": 0, "mixing": 0.0}
    streamed = ran(spec_of("streaming-diloco", 3, alike | trivial, **changes), tmp_path / "streamed").state
    plain = ran(spec_of("diloco", 3, alike, **changes), tmp_path / "plain").state
    assert all(torch.equal(streamed[name], plain[name]) for name in plain)
