"""Whoever computes a part of the model does so in the one composed context: in training, backward and an evaluation."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests.equivalence.against_plain import USER_CODE
from tests.jobs import job, succeed

WAYS: dict[str, tuple[dict[str, Any], int, int]] = {
    "whole": ({"name": "p3"}, 2, 2),
    "wrapped": ({"name": "ddp"}, 2, 2),
    "beside a worker": ({"name": "hybrid", "options": {"cut": "5"}}, 2, 2),
    "on a device": ({"name": "hybrid", "options": {"cut": "5", "where": "dedicated"}}, 2, 3),
    "in stages": ({"name": "model-parallel", "options": {"stages": 2}}, 2, 2),
}
"""Strategy, workers, and the processes that compute."""


@pytest.mark.usefixtures("gang_lane")
@pytest.mark.parametrize("way", WAYS)
def test_every_computation_has_the_one_context(way: str, tmp_path: Path) -> None:
    strategy, workers, processes = WAYS[way]
    marks = tmp_path / "marks"
    marks.mkdir()
    model = {"entrypoint": "surrounded:build", "directory": str(USER_CODE), "options": {"marks": str(marks)}}
    succeed(
        job(
            model=model,
            strategy=strategy,
            cluster={"workers": workers},
            training={"steps": 2},
            evaluation={"every_epochs": None, "at_end": True},
        ),
        tmp_path / "job",
    )
    seen = defaultdict(set)
    for mark in marks.iterdir():
        process, what = mark.name.split()
        seen[process].add(what)
    assert list(seen.values()) == [{"training", "backward", "measuring"}] * processes
