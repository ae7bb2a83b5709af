"""Exact class, options of training: accumulation, clipping, schedules, groups, optimizers, sites, evaluation.

`plain` below is an ordinary PyTorch loop that shares no code with the engine's updates.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn, optim
from torch.nn import functional
from torch.optim.lr_scheduler import CosineAnnealingLR, LRScheduler, OneCycleLR

from engine.errors import UserError
from engine.inputs.build import load_dataset
from engine.inputs.sharding import global_batch_at
from engine.models.build import build_model
from engine.plan.job import JobSpec
from engine.plan.plan import Plan
from engine.runtime.worker import seed_everything
from tests.equivalence.against_plain import USER_CODE
from tests.jobs import distance, job, plan_of, reference, run, succeed

pytestmark = pytest.mark.usefixtures("gang_lane")

SMALL: dict[str, dict[str, Any]] = {
    "parameter-server": {"split_over": 1000},
    "parameter-server-deferred": {"split_over": 1000},
    "p3": {"slice_size": 400},
    "ring-allreduce": {"bucket_bytes": 4000},
    "ring-allreduce-overlap": {"bucket_bytes": 4000},
    "tree-allreduce": {"bucket_bytes": 4000, "algorithm": "recursive-halving-doubling"},
    "late-multiply": {"bucket_bytes": 4000, "layers": "all"},
    "native-allreduce": {"bucket_bytes": 4000},
    "ddp": {"bucket_bytes": 4000},
    "fsdp": {"group_bytes": 4000},
}


def spec_of(
    strategy: str, workers: int = 2, options: dict[str, Any] | None = None, **changes: Any
) -> JobSpec:
    changes["training"] = {"precision": "float64", **changes.get("training", {})}
    return job(
        strategy={"name": strategy, "options": {**SMALL.get(strategy, {}), **(options or {})}},
        cluster={"workers": workers},
        **changes,
    )


def later(*row: Any) -> Any:
    """Trained in `soak`: others of its kind are trained in the suite."""
    return pytest.param(*row, marks=pytest.mark.soak)


def plain(
    spec: JobSpec,
    make_optimizer: Callable[[nn.Module], optim.Optimizer],
    make_scheduler: Callable[[optim.Optimizer], LRScheduler] | None = None,
) -> dict[str, Tensor]:
    """One process, the global batch at once, torch's own optimizer and scheduler, made by the test."""
    training = spec.training
    seed_everything(training.seed, False)
    train, model = load_dataset(spec.data).train, build_model(spec.model, training.precision)
    optimizer = make_optimizer(model)
    scheduler = make_scheduler(optimizer) if make_scheduler else None
    for step in range(training.steps or 0):
        inputs, targets = train.batch(global_batch_at(step, len(train), training.global_batch, training.seed))
        optimizer.zero_grad()
        functional.cross_entropy(model(inputs.double()), targets).backward()
        optimizer.step()
        if scheduler is not None:
            scheduler.step()
    return model.state_dict()


@pytest.mark.parametrize("strategy", ["p3", later("ring-allreduce-overlap"), "ddp", "fsdp"])
def test_uneven_accumulation(strategy: str, tmp_path: Path) -> None:
    spec = spec_of(strategy, training={"micro_batches": 3, "global_batch": 19})
    found = succeed(spec, tmp_path)
    assert distance(found.state, reference(spec, 2)) <= 1e-12
    assert distance(found.state, reference(spec_of("single", 1, training={"global_batch": 19}), 1)) <= 1e-12
    assert "deprecated" not in found.logs(), (
        "users read the log of their job, where nothing of ours is theirs to mend"
    )


@pytest.mark.parametrize(
    "strategy",
    [
        "parameter-server",
        "ring-allreduce-overlap",
        "late-multiply",
        later("native-allreduce"),
        later("ddp"),
        "fsdp",
    ],
)
def test_clipping_by_global_norm(strategy: str, tmp_path: Path) -> None:
    clipped = {"clip_norm": 0.3}
    spec = spec_of(strategy, training=clipped)
    expected = reference(spec_of("single", 1, training=clipped), 1)
    assert distance(succeed(spec, tmp_path).state, expected) <= 1e-12
    assert distance(expected, reference(spec_of("single", 1), 1)) > 1e-3  # it did clip
    plan = plan_of(spec)
    if strategy == "parameter-server":
        assert isinstance(plan, Plan)
        assert {layer.update for layer in plan.layers} == {"worker"}
        assert any("clip_norm" in warning for warning in plan.warnings)


@pytest.mark.parametrize("strategy", ["p3", "ring-allreduce-overlap"])
def test_one_cycle_changes_rate_and_momentum(strategy: str, tmp_path: Path) -> None:
    """On servers (p3) and on workers (ring)."""
    spec = spec_of(strategy, schedule={"name": "one-cycle", "options": {"max_lr": 0.2}})
    expected = plain(
        spec,
        lambda m: optim.SGD(m.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-3),
        lambda o: OneCycleLR(o, max_lr=0.2, total_steps=10),
    )
    assert distance(succeed(spec, tmp_path).state, expected) <= 1e-12


def test_cosine_with_adamw_and_groups_on_slices(tmp_path: Path) -> None:
    """No decay on biases, another rate for the last layer: each slice keeps its parameter's group."""
    groups = [
        {"match": "*.bias", "options": {"weight_decay": 0.0}},
        {"match": "6.*", "options": {"lr": 0.002, "weight_decay": 0.1}},
    ]
    spec = spec_of(
        "p3",
        3,
        {"where": "dedicated", "servers": 2},
        optimizer={
            "name": "adamw",
            "learning_rate": 0.005,
            "options": {"weight_decay": 0.3},
            "groups": groups,
        },
        schedule={"name": "cosine"},
    )

    def make(model: nn.Module) -> optim.Optimizer:
        named = dict(model.named_parameters())
        biases = [p for n, p in named.items() if n.endswith(".bias")]
        others = [p for n, p in named.items() if n in ("0.weight", "2.weight")]
        return optim.AdamW(
            [
                {"params": others, "weight_decay": 0.3},
                {"params": biases, "weight_decay": 0.0},
                {"params": [named["6.weight"]], "lr": 0.002, "weight_decay": 0.1},
            ],
            lr=0.005,
        )

    expected = plain(spec, make, lambda o: CosineAnnealingLR(o, T_max=10))
    assert distance(succeed(spec, tmp_path).state, expected) <= 1e-9


@pytest.mark.parametrize("strategy", ["ring-allreduce-overlap", "tree-allreduce", "parameter-server"])
def test_an_optimizer_may_change_gradients_in_place(strategy: str, tmp_path: Path) -> None:
    """SGD with nesterov and foreach does, and on a slow network the sums of a ring are still being sent then."""
    options = {"momentum": 0.9, "nesterov": True, "foreach": True}
    spec = spec_of(
        strategy,
        workers=3,
        options={"update": "worker"} if strategy == "parameter-server" else {},
        model={"name": "mlp", "options": {"hidden": 128}},
        network={"rate": "40Mbit"},
        optimizer={"name": "sgd", "learning_rate": 0.05, "options": options},
        training={"steps": 4},
    )
    expected = plain(spec, lambda model: optim.SGD(model.parameters(), 0.05, 0.9, nesterov=True))
    assert distance(succeed(spec, tmp_path).state, expected) <= 1e-12


def test_rmsprop_on_split_layers(tmp_path: Path) -> None:
    options = {"momentum": 0.5, "centered": True}
    optimizer = {"name": "rmsprop", "learning_rate": 0.001, "options": options}
    spec = spec_of("parameter-server", 3, optimizer=optimizer)
    expected = plain(spec, lambda m: optim.RMSprop(m.parameters(), lr=0.001, momentum=0.5, centered=True))
    assert distance(succeed(spec, tmp_path).state, expected) <= 1e-9


@pytest.mark.parametrize(
    ("strategy", "samples"),
    [
        later("parameter-server-deferred", 5),
        ("p3", 2),
        ("ring-allreduce-overlap", 5),
        later("late-multiply", 5),
        ("native-allreduce", 2),
        later("ddp", 5),
        ("fsdp", 5),
    ],
)
def test_workers_without_samples(strategy: str, samples: int, tmp_path: Path) -> None:
    """A small last batch (5 samples: 4 and 1), or an epoch smaller than the gang, from the first step on."""
    data = {"name": "synthetic", "options": {"shape": [1, 8, 8], "samples": samples, "test_samples": 4}}
    spec = spec_of(strategy, 4, data=data, training={"global_batch": 4, "steps": 5})
    assert distance(succeed(spec, tmp_path).state, reference(spec, 1)) <= 1e-12


@pytest.mark.parametrize(
    ("strategy", "workers", "options"),
    [
        ("central-reduce", 2, {"where": "dedicated"}),
        later("central-reduce", 2, {"update": "worker"}),  # as in test_synchronous_strategies.py
        ("parameter-server", 2, {"where": "dedicated", "servers": 3, "update": "worker"}),
        ("parameter-server", 3, {"servers": 2}),
        ("parameter-server", 4, {"servers": 1}),
        later("parameter-server", 2, {"where": "dedicated", "servers": 5}),
        ("parameter-server-deferred", 2, {"where": "dedicated", "servers": 1}),
        later("parameter-server-deferred", 3, {"update": "worker"}),
        ("p3", 3, {"update": "worker"}),
    ],
)
def test_servers_elsewhere_and_updates_elsewhere(
    strategy: str, workers: int, options: dict[str, Any], tmp_path: Path
) -> None:
    spec = spec_of(strategy, workers, options)
    assert distance(succeed(spec, tmp_path).state, reference(spec, 1)) <= 1e-12


@pytest.mark.parametrize("strategy", [later("parameter-server-deferred"), "p3", later("ddp"), "fsdp"])
def test_evaluation_does_not_change_training(strategy: str, tmp_path: Path) -> None:
    """Batch statistics are averaged for an evaluation, and local again after it."""
    often = {"every_epochs": 0.05, "at_end": True}
    spec = spec_of(strategy, model={"name": "bn-cnn"}, evaluation=often, training={"global_batch": 36})
    found = succeed(spec, tmp_path)
    assert distance(found.state, reference(spec, 2)) <= 1e-12

    model = build_model(spec.model, "float64")
    model.load_state_dict(found.state, strict=True)
    model.eval()
    test = load_dataset(spec.data).test
    inputs, targets = test.batch(torch.arange(len(test)).numpy())
    with torch.no_grad():
        logits = model(inputs.double())
    assert found.summary()["test_accuracy"] == float((logits.argmax(1) == targets).double().mean())
    assert found.summary()["test_loss"] == pytest.approx(
        float(functional.cross_entropy(logits, targets)), 1e-9
    )


def test_target_accuracy_ends_the_job_on_all_workers(tmp_path: Path) -> None:
    spec = spec_of(
        "parameter-server-deferred",
        3,
        evaluation={"every_epochs": 0.25, "at_end": True},
        training={"steps": 2000, "target_accuracy": 0.5, "precision": "float32", "global_batch": 48},
    )
    found = succeed(spec, tmp_path)
    ends = {(s["steps"], s["target_step"], s["test_accuracy"]) for s in map(found.summary, range(3))}
    assert len(ends) == 1
    steps, target_step, accuracy = ends.pop()
    assert steps == target_step < 2000
    assert accuracy >= 0.5


@pytest.mark.parametrize("strategy", ["parameter-server", "ring-allreduce", later("tree-allreduce")])
def test_deterministic_jobs_repeat_bitwise(strategy: str, tmp_path: Path) -> None:
    spec = spec_of(strategy, 3, training={"precision": "float32", "deterministic": True})
    first, second = (succeed(spec, tmp_path / name).state for name in ("first", "second"))
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("strategy", ["p3", "ring-allreduce-overlap"])
def test_bf16_autocast(strategy: str, tmp_path: Path) -> None:
    """Same shards, same roundings, as long as the parameters are equal. Another order of sums in float32 moves
    some activations over a rounding boundary of bfloat16 (8 bits); at worst every gradient is rounded otherwise
    once: 2^-8 of the distance travelled."""
    spec = spec_of(strategy, training={"precision": "bf16"})
    state, expected = succeed(spec, tmp_path).state, reference(spec, 2)
    seed_everything(spec.training.seed, False)
    start = build_model(spec.model).state_dict()
    for name, right in expected.items():
        assert (state[name] - right).norm() <= 2.0**-8 * (right - start[name]).norm(), name
    whole = spec_of("single", 1, training={"precision": "float32"})
    assert distance(expected, reference(whole, 2)) > 1e-5  # autocast did round


def test_shared_and_complex_buffers_are_averaged_under_every_name(tmp_path: Path) -> None:
    spec = spec_of(
        "ring-allreduce",
        model={"entrypoint": "layouts:counting", "directory": str(USER_CODE)},
        training={"steps": 4, "global_batch": 7, "precision": "float32"},
    )
    state = succeed(spec, tmp_path).state
    assert state["seen"] == state["1.seen"] == 4 * (4 + 3) / 2
    assert state["turns"].tolist() == [0.5 + 1.0j, -2.0j]


@pytest.mark.parametrize("strategy", ["p3", "ring-allreduce-overlap", "ddp"])
def test_channels_last_parameters_and_gradients(strategy: str, tmp_path: Path) -> None:
    spec = spec_of(strategy, model={"entrypoint": "layouts:channels_last", "directory": str(USER_CODE)})
    assert distance(succeed(spec, tmp_path).state, reference(spec, 1)) <= 1e-12


def test_one_worker_keeps_the_layout_and_so_the_last_bit(tmp_path: Path) -> None:
    """Of sums over a parameter, as this optimizer takes them."""
    spec = spec_of(
        "single",
        1,
        model={"entrypoint": "layouts:channels_last", "directory": str(USER_CODE)},
        optimizer={"name": "adafactor", "learning_rate": 0.01},
    )
    state, plain = succeed(spec, tmp_path).state, reference(spec, 1)
    assert all(torch.equal(state[name], value) for name, value in plain.items())


def test_sparse_gradients_are_refused(tmp_path: Path) -> None:
    """When the plan is made, where a layer says that it has them; else when the first one is there."""

    def sparse(said: bool) -> JobSpec:
        model = {"entrypoint": "layouts:sparse", "directory": str(USER_CODE), "options": {"said": said}}
        return spec_of("p3", model=model)

    with pytest.raises(
        UserError, match=r"sparse=True\), and only dense ones are exchanged\. Build it with sparse=False"
    ):
        plan_of(sparse(True))
    end = run(sparse(False), tmp_path).end
    assert end.status == "failed"
    assert "only dense gradients are exchanged. Build the layer with sparse=False" in end.reason
