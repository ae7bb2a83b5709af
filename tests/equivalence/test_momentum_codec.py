"""A codec that has the momentum of a worker's own gradients, trained against plain PyTorch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.plan.encoding import encoding
from engine.plan.job import JobSpec
from engine.plan.updates import OptimizerSpec
from tests.equivalence.test_error_feedback import expected, server, spec_of
from tests.jobs import distance, reference, succeed
from tests.traffic import assert_declared

pytestmark = pytest.mark.usefixtures("gang_lane")

PLAIN = OptimizerSpec(learning_rate=0.05, options={"weight_decay": 1e-3})


def dgc(workers: int, strategy: str, codec_options: dict[str, Any], **options: Any) -> JobSpec:
    spec = spec_of(workers, strategy, codec="dgc", codec_options=codec_options, **options)
    return replace(spec, optimizer=PLAIN)


@pytest.mark.parametrize("nesterov", [False, True])
def test_where_all_is_sent_it_is_momentum_sgd(nesterov: bool, tmp_path: Path) -> None:
    """Of the gradients' sum, because momentum is linear. Weights decay outside of it, so here they do not."""
    options = {"ratio": 1.0, "masking": False, "nesterov": nesterov}
    spec = replace(dgc(3, "p3", options, slice_size=1024), optimizer=OptimizerSpec(learning_rate=0.05))
    run = succeed(spec, tmp_path)
    assert_declared(run)
    moved = {"momentum": 0.9, "nesterov": nesterov}
    alone = replace(spec_of(1, "single"), optimizer=OptimizerSpec(learning_rate=0.05, options=moved))
    assert distance(run.state, reference(alone, 3)) <= 1e-6


@pytest.mark.parametrize(
    ("strategy", "workers", "options"),
    [("parameter-server", 2, {}), ("p3", 3, {"slice_size": 1024, "where": "dedicated", "servers": 2})],
)
def test_servers_sum_what_workers_momenta_send(
    strategy: str, workers: int, options: dict[str, Any], tmp_path: Path
) -> None:
    chosen = {"ratio": 0.05, "warmup": 2, "value_bits": 16, "clip_norm": 0.05}
    run = succeed(dgc(workers, strategy, chosen, **options), tmp_path)
    assert_declared(run)
    way = encoding("dgc", chosen)
    wanted = expected(run, workers, lambda unit: server(way, unit, workers, False))
    assert distance(run.state, wanted) <= 1e-12


def test_asynchronous_workers_send_their_momenta(tmp_path: Path) -> None:
    run = succeed(replace(dgc(1, "async-sgd", {"ratio": 0.05}, where="dedicated"), optimizer=PLAIN), tmp_path)
    wanted = expected(run, 1, lambda unit: server(encoding("dgc", {"ratio": 0.05}), unit, 1, False))
    assert distance(run.state, wanted) <= 1e-12
