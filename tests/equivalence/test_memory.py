"""Memory mechanisms in real jobs: bitwise the parameters of the same job without them, in every placement."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import torch

from engine.telemetry.events import Kind
from engine.telemetry.spool import batches
from tests.jobs import Run, job, succeed

WAYS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "replicas": ({"name": "p3"}, {"micro_batches": 2}),
    "averages": ({"name": "parameter-averaging", "options": {"period": 2}}, {}),
    "a device": ({"name": "hybrid"}, {"micro_batches": 2}),
    "stages": ({"name": "model-parallel", "options": {"stages": 2}}, {"micro_batches": 2}),
    "bfloat16": ({"name": "ring-allreduce-overlap"}, {"precision": "bf16"}),
}
"""Strategy and training."""
SWAP = {"activations": "swap", "activation_options": {"least_bytes": 0}}


def trained(way: str, overrides: list[dict[str, Any]], directory: Path) -> Run:
    strategy, training = WAYS[way]
    return succeed(
        job(
            model={"name": "resnet-digits"},
            strategy=strategy,
            cluster={"workers": 2},
            training={"steps": 4, "deterministic": True, "global_batch": 16, **training},
            evaluation={"every_epochs": None, "at_end": True},
            overrides=overrides,
        ),
        directory,
    )


def kinds(run: Run) -> set[int]:
    """Of all events."""
    return {int(kind) for batch in batches(run.launch.spool) for kind in batch.table("events")["kind"]}


@pytest.mark.usefixtures("gang_lane")
@pytest.mark.parametrize(
    "way",
    [pytest.param(way, marks=[pytest.mark.soak] if way in ("averages", "a device") else []) for way in WAYS],
)
def test_a_job_trains_the_same_bits(way: str, tmp_path: Path) -> None:
    plain = trained(way, [], tmp_path / "plain")
    mixed = trained(way, [{"activations": "recompute"}, {"kind": "linear", **SWAP}], tmp_path / "mixed")
    assert plain.state.keys() == mixed.state.keys()
    assert all(torch.equal(plain.state[name], mixed.state[name]) for name in plain.state)
    assert plain.summary()["test_loss"] == mixed.summary()["test_loss"]
    told = {Kind.RECOMPUTE, Kind.SWAP_OUT, Kind.SWAP_IN, Kind.SAVED}
    assert not kinds(plain) & told
    assert kinds(mixed) >= told


@pytest.mark.usefixtures("gang_lane")
def test_a_job_within_a_budget_trains_the_same_bits(tmp_path: Path) -> None:
    """What the budget chose is what its workers do, and changes no bit."""

    def budgeted(budget: str | int | None, directory: Path) -> Run:
        return succeed(
            job(
                model={"name": "bn-cnn"},
                strategy={"name": "p3"},
                cluster={"workers": 2},
                training={"steps": 3, "deterministic": True, "global_batch": 512},
                memory={"budget": budget},
            ),
            directory,
        )

    plain = budgeted(None, tmp_path / "plain")
    assert plain.plan.memory is None
    fitted = budgeted("11MiB", tmp_path / "fitted")
    assert fitted.plan.memory is not None
    assert fitted.plan.memory.peak <= 11 * 2**20 < fitted.plan.memory.kept
    assert "recompute" in {layer.activations for layer in fitted.plan.layers}
    assert Kind.RECOMPUTE in kinds(fitted)
    assert all(torch.equal(plain.state[name], fitted.state[name]) for name in plain.state)


SAVES_NONE = "what is offloaded there saves none"
OFFLOADED: dict[str, tuple[dict[str, Any], list[dict[str, Any]], int]] = {
    "servers and workers": ({"name": "p3"}, [{"layers": "stage3*", "exchange": "ring-allreduce"}], 4),
    "averages": ({"name": "parameter-averaging", "options": {"period": 2, "optimizer_state": True}}, [], 2),
    "a device": ({"name": "hybrid"}, [], 2),
    "stages": ({"name": "model-parallel", "options": {"stages": 2}}, [], 2),
    "ddp": ({"name": "ddp"}, [], 2),
}
"""Strategy, overrides, and in how many places something is updated."""


@pytest.mark.usefixtures("gang_lane")
@pytest.mark.parametrize(
    "way",
    [
        pytest.param(way, marks=[] if way == "servers and workers" else [pytest.mark.soak])
        for way in OFFLOADED
    ],
)
def test_a_job_whose_optimizer_is_elsewhere_trains_the_same_bits(way: str, tmp_path: Path) -> None:
    """Its folder lies in memory here, which everyone who offloads anything says."""
    strategy, overrides, places = OFFLOADED[way]

    def run(offload: bool, directory: Path) -> Run:
        return succeed(
            job(
                model={"name": "resnet-digits"},
                strategy=strategy,
                overrides=overrides,
                cluster={"workers": 2},
                optimizer={"name": "adam", "learning_rate": 0.01, "offload": offload},
                training={"steps": 4, "deterministic": True, "global_batch": 16},
            ),
            directory,
        )

    plain = run(False, tmp_path)
    with TemporaryDirectory(dir="/dev/shm", prefix="trainyard-test-") as folder:
        away = run(True, Path(folder))
        assert all(torch.equal(plain.state[name], away.state[name]) for name in plain.state)
        assert away.logs().count(SAVES_NONE) == places
    assert SAVES_NONE not in plain.logs()
