"""What is frozen when the model is built is in no plan, so that who trains it later is told so, in the step in which
that would begin, under every strategy. What forward freezes from the beginning trains as in plain PyTorch."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from engine.plan.job import JobSpec
from tests import plain
from tests.equivalence.against_plain import USER_CODE
from tests.equivalence.test_every_strategy import ALONE, STRATEGIES
from tests.jobs import distance, job, run, succeed

pytestmark = pytest.mark.usefixtures("gang_lane")
MOMENTUM = {"name": "sgd", "learning_rate": 0.05, "options": {"momentum": 0.9, "weight_decay": 0.01}}
BEHIND_A_CUT: dict[str, dict[str, Any]] = {
    "hybrid": {"cut": "3"},
    "model-parallel": {"stages": 2},
}
HERE = ("p3", "ddp", "hybrid", "late-multiply")
"""One for each kind of who looks; the others stand in `soak`."""


def rows(names: Iterable[str]) -> list[Any]:
    return [pytest.param(name, marks=[] if name in HERE else [pytest.mark.soak]) for name in names]


def spec_of(strategy: str, entrypoint: str, workers: int, **options: Any) -> JobSpec:
    of_strategy = {**STRATEGIES, **BEHIND_A_CUT}[strategy]
    return job(
        model={"entrypoint": f"thawed:{entrypoint}", "directory": str(USER_CODE), "options": options},
        strategy={"name": strategy, "options": of_strategy},
        cluster={"workers": workers},
        training={"steps": 5, "precision": "float64"},
        optimizer=MOMENTUM,
    )


@pytest.mark.parametrize("strategy", rows(name for name in STRATEGIES if name not in ("fsdp", *BEHIND_A_CUT)))
def test_who_thaws_what_came_frozen_is_told_when_it_would_be_trained(strategy: str, tmp_path: Path) -> None:
    end = run(spec_of(strategy, "model", 1 if strategy in ALONE else 2), tmp_path).end
    assert end.status == "failed"
    assert "middle.weight was frozen when the model was built, and is to be trained in step 2" in end.reason
    assert "Build the model with it trainable, and freeze it in forward" in end.reason


def test_fsdp_says_what_both_of_its_remedies_take(tmp_path: Path) -> None:
    end = run(spec_of("fsdp", "model", 2), tmp_path).end
    assert end.status == "failed"
    assert "middle.weight was thawed in forward" in end.reason
    assert "Choose ddp, or another strategy, and build the model with it trainable" in end.reason


@pytest.mark.parametrize("strategy", rows(BEHIND_A_CUT))
def test_so_is_who_does_so_behind_a_cut(strategy: str, tmp_path: Path) -> None:
    """By a hook: on the device nobody looked, and the layer was not trained, without a word."""
    end = run(spec_of(strategy, "by_hook", 2), tmp_path).end
    assert end.status == "failed"
    assert "5.weight was frozen when the model was built, and is to be trained in step 0" in end.reason


@pytest.mark.parametrize("strategy", rows(["p3", "late-multiply", "ring-allreduce-overlap", "single"]))
def test_the_remedy_trains_as_a_plain_loop_that_thaws(strategy: str, tmp_path: Path) -> None:
    """Of a model that is built frozen: no decay and no momentum until then, in either."""
    workers = 1 if strategy in ALONE else 2
    state = succeed(spec_of(strategy, "model", workers, built=False), tmp_path).state
    assert distance(state, plain.train(spec_of("single", "model", 1, built=True), workers)) <= 1e-11
