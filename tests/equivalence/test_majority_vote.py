"""signSGD with majority vote, trained against a plain loop: signs, their majority, and steps of one size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.plan.encoding import encoding
from engine.plan.job import JobSpec
from engine.plan.plan import Plan
from engine.plan.units import Unit
from engine.plan.updates import OptimizerSpec
from tests.equivalence import test_composition as composition
from tests.equivalence.test_error_feedback import Meet, expected, server, spec_of
from tests.jobs import Run, distance, succeed
from tests.pairs import kind_of
from tests.traffic import assert_declared

pytestmark = pytest.mark.usefixtures("gang_lane")

SIGNS = OptimizerSpec(learning_rate=0.002, options={"weight_decay": 0.01})
VOTE = encoding("signsgd")


def by_codec(workers: int) -> Callable[[Unit], Meet]:
    return lambda unit: server(VOTE, unit, workers, True)


def voting(workers: int, strategy: str, **options: Any) -> JobSpec:
    spec = spec_of(workers, strategy, codec="signsgd", **options)
    return replace(spec, optimizer=SIGNS)


def assert_voted(run: Run, workers: int) -> None:
    assert_declared(run)
    assert isinstance(run.launch.plan, Plan)
    assert {layer.update for layer in run.launch.plan.layers} == {"worker"}
    assert distance(run.state, expected(run, workers, by_codec(workers))) <= 1e-12


@pytest.mark.parametrize(
    ("strategy", "workers", "options"),
    [
        ("p3", 3, {"slice_size": 1024, "where": "dedicated", "servers": 2}),
        pytest.param("parameter-server", 2, {}, marks=pytest.mark.soak),
        pytest.param("central-reduce", 4, {}, marks=pytest.mark.soak),
        pytest.param("p3", 1, {"slice_size": 300}, marks=pytest.mark.soak),
    ],
)
def test_workers_step_by_the_majority(
    strategy: str, workers: int, options: dict[str, Any], tmp_path: Path
) -> None:
    run = succeed(voting(workers, strategy, **options), tmp_path)
    assert_voted(run, workers)


def test_every_pair_with_votes_trains_in_one_job(tmp_path: Path) -> None:
    """Beside layers of every other exchange, which are exact; steps of the layers that vote have one size."""
    overrides = composition.by_layer(composition.rounding_rows("voting"))
    spec = composition.spec_of(2, len(overrides), overrides, name="p3", options={"servers": 1})
    spec = replace(spec, optimizer=SIGNS, training=replace(spec.training, seed=11))
    run = succeed(spec, tmp_path)
    assert isinstance(run.launch.plan, Plan)
    composition.assert_bytes(run, run.launch.plan)
    votes = {override["layers"] for override in overrides if kind_of(override) == "voting"}
    assert votes

    def meet_of(unit: Unit) -> Meet:
        mine = unit.layers[0] in votes
        return server(VOTE, unit, 2, True) if mine else lambda gradients: torch.stack(list(gradients)).sum(0)

    assert distance(run.state, expected(run, 2, meet_of)) <= 1e-12
