"""Exact class: a model that asks which class its parameters are gets the answer of plain PyTorch."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests import plain
from tests.equivalence.against_plain import OPTIONS, USER_CODE, holds, spec_of
from tests.jobs import describe, distance, job, succeed

pytestmark = pytest.mark.usefixtures("gang_lane")


@pytest.mark.parametrize(
    ("strategy", "workers", "how"),
    [
        pytest.param(*here, how, marks=[] if place in (0, 1 + turn % 2) else [pytest.mark.soak])
        for turn, how in enumerate(("identity", "equality", "membership", "key"))
        for place, here in enumerate([("p3", 2), ("ring-allreduce-overlap", 3), ("single", 1)])
    ],
)
def test_the_class_is_what_it_is_in_plain_pytorch(
    how: str, strategy: str, workers: int, tmp_path: Path
) -> None:
    holds("classes:asking", strategy, workers, tmp_path, how=how)


@pytest.mark.parametrize("how", ["keys", "helper"])
@pytest.mark.parametrize(("strategy", "workers"), [("p3", 2), ("parameter-server", 1)])
def test_wherever_the_class_goes(how: str, strategy: str, workers: int, tmp_path: Path) -> None:
    holds("grouped:model", strategy, workers, tmp_path, how=how)


@pytest.mark.parametrize("how", ["identity", "equality"])
def test_between_two_micro_batches_too(how: str, tmp_path: Path) -> None:
    spec = job(
        model={"entrypoint": "classes:asking", "directory": str(USER_CODE), "options": {"how": how}},
        strategy={"name": "late-multiply", "options": OPTIONS["late-multiply"]},
        cluster={"workers": 2},
        training={"steps": 6, "global_batch": 12, "precision": "float64", "micro_batches": 2},
    )
    assert distance(succeed(spec, tmp_path).state, plain.train(spec, 2)) <= 1e-11


def test_the_description_says_which_layers_wait_and_where_the_class_is_asked_for() -> None:
    described = describe(spec_of("classes:asking", "p3", 2, how="identity"))
    waits = {layer.name: layer.waits for layer in described.layers}
    assert set(waits) == {"layers.0", "layers.2", "layers.4"}
    for why in waits.values():
        assert re.fullmatch(
            r"before forward, because classes\.py, line \d+, compares the class of its parameters by identity",
            why,
        )
