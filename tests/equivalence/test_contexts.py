"""Exact class: what a user begins around a read (autocast, inference mode, a mode of torch's) does not reach the update
that the read waits for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.equivalence.against_plain import OPTIONS, USER_CODE
from tests.equivalence.user_code.contexts import CONTEXTS
from tests.jobs import distance, job, succeed

pytestmark = pytest.mark.usefixtures("gang_lane")
ADAFACTOR: dict[str, Any] = {"name": "adafactor", "options": {}}
"""It multiplies matrices, and autocast rounds their products."""


def trained(within: str, strategy: str, workers: int, directory: Path) -> Any:
    spec = job(
        model={"entrypoint": "contexts:model", "directory": str(USER_CODE), "options": {"within": within}},
        strategy={"name": strategy, "options": OPTIONS[strategy]},
        cluster={"workers": workers},
        optimizer=ADAFACTOR,
        training={"steps": 4},
    )
    return succeed(spec, directory).state


@pytest.mark.parametrize(
    ("strategy", "workers"), [("single", 1), ("ring-allreduce-overlap", 2), ("late-multiply", 2)]
)
def test_the_update_is_the_same_within_whatever_reads(strategy: str, workers: int, tmp_path: Path) -> None:
    outside = trained("nothing", strategy, workers, tmp_path / "nothing")
    for within in CONTEXTS.keys() - {"nothing"}:
        assert distance(trained(within, strategy, workers, tmp_path / within), outside) == 0, within
