"""Exact class: models that decide themselves what PyTorch's functions do with tensors, or whom they ask."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.equivalence.against_plain import holds, spec_of
from tests.equivalence.user_code.names import DISPATCHING
from tests.jobs import describe

pytestmark = pytest.mark.usefixtures("gang_lane")


@pytest.mark.parametrize("how", DISPATCHING)
@pytest.mark.parametrize(("strategy", "workers"), [("p3", 2), ("ring-allreduce-overlap", 3)])
def test_they_read_what_plain_pytorch_reads(how: str, strategy: str, workers: int, tmp_path: Path) -> None:
    holds("dispatching:model", strategy, workers, tmp_path, how=how)


@pytest.mark.parametrize(
    ("strategy", "workers"), [("p3", 1), ("p3", 2), ("ring-allreduce-overlap", 3), ("late-multiply", 2)]
)
def test_typed_constructors_read_what_plain_pytorch_reads(
    strategy: str, workers: int, tmp_path: Path
) -> None:
    holds("typed:model", strategy, workers, tmp_path)


def test_the_description_says_that_all_layers_wait_for_a_typed_constructor() -> None:
    described = describe(spec_of("typed:model", "p3", 2))
    for layer in described.layers:
        why = r"before forward, because typed\.py, line \d+, may give a parameter to DoubleTensor"
        assert re.fullmatch(why, layer.waits or "")


def test_the_description_says_that_all_layers_wait_and_why() -> None:
    described = describe(spec_of("dispatching:model", "p3", 2, how="nested"))
    assert len(described.layers) == 3
    for layer in described.layers:
        why = r"before forward, because dispatching\.py, line \d+, has its own __torch_function__.*"
        assert re.fullmatch(why, layer.waits or "")
