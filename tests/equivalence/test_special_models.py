"""Exact class, models that break simple engines: tied, unused, frozen, functional and mixed parameters."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from engine.inputs.build import load_dataset
from engine.inputs.sharding import global_batch_at, shard
from engine.models.build import build_model
from engine.plan.job import JobSpec
from engine.runtime.worker import seed_everything
from tests.equivalence.against_plain import USER_CODE
from tests.equivalence.user_code import changing
from tests.jobs import distance, job, reference, run, succeed

EIGHT_BY_EIGHT = {"name": "synthetic", "options": {"shape": [1, 8, 8], "samples": 80, "test_samples": 4}}
"""Inputs of either sign, so that `sometimes` uses `odd` on some ranks only, on all and on none."""
MODELS = {
    "tied": "float64",
    "sometimes": "float64",
    "frozen": "float64",
    "attention": "float64",
    "mixed": "float32",
}
"""Model -> precision; `mixed` has types of its own, which float64 would hide."""
STRATEGIES: dict[str, dict[str, Any]] = {
    "parameter-server": {"split_over": 500},
    "p3": {"slice_size": 300},
    "ring-allreduce-overlap": {"bucket_bytes": 8000},
    "tree-allreduce": {"bucket_bytes": 8000},
    "late-multiply": {"bucket_bytes": 8000, "layers": "all"},
    "native-allreduce": {"bucket_bytes": 8000},
    "ddp": {"bucket_bytes": 8000},
    "fsdp": {"group_bytes": 1000},
}


def spec_of(model: str, strategy: str, workers: int) -> JobSpec:
    return job(
        model={"name": model, "options": {"hidden": 16}},
        data=EIGHT_BY_EIGHT,
        strategy={"name": strategy, "options": STRATEGIES.get(strategy, {})},
        cluster={"workers": workers},
        optimizer={"name": "sgd", "learning_rate": 0.05, "options": {"momentum": 0.9, "weight_decay": 0.01}},
        training={"steps": 8, "global_batch": 7, "precision": MODELS[model]},
    )


@cache
def expected(model: str, workers: int) -> dict[str, Tensor]:
    return reference(spec_of(model, "single", 1), workers)


ONLY = {
    "ddp": ("tied", "sometimes"),  # our peers: the rest is PyTorch's to prove
    "fsdp": ("tied", "frozen", "attention", "mixed"),
    "tree-allreduce": ("sometimes", "mixed"),  # as the ring but for its rounds
    "late-multiply": ("tied", "sometimes", "mixed"),
}
CASES = [
    (model, 3 if model == "sometimes" else 2, strategy)
    for model in MODELS
    for strategy in STRATEGIES
    if model in ONLY.get(strategy, MODELS)
]


@pytest.mark.usefixtures("gang_lane")
@pytest.mark.parametrize(("model", "workers", "strategy"), CASES)
def test_special_models_equal_one_process(model: str, workers: int, strategy: str, tmp_path: Path) -> None:
    state = succeed(spec_of(model, strategy, workers), tmp_path).state
    assert distance(state, expected(model, workers)) <= (1e-5 if MODELS[model] == "float32" else 1e-12)
    if model == "sometimes":  # absent everywhere: not even decayed
        assert torch.equal(state["never.weight"], _initial(model)["never.weight"])
    if model == "tied":
        assert torch.equal(state["encode.weight"], state["decode.weight"])


def test_the_data_use_a_layer_on_some_ranks_only() -> None:
    """Otherwise the cases above would prove nothing about absent gradients."""
    spec = spec_of("sometimes", "p3", 3)
    train, training = load_dataset(spec.data).train, spec.training
    users = []
    for step in range(training.steps or 0):
        indices = global_batch_at(step, len(train), training.global_batch, training.seed)
        firsts = [train.batch(shard(indices, rank, 3))[0][0] for rank in range(3)]
        users.append(sum(bool(first.sum() > 0) for first in firsts))
    assert {1, 2} & set(users)
    assert 0 in users or 3 in users


def user_spec(entrypoint: str, strategy: str, workers: int = 2, **options: Any) -> JobSpec:
    return job(
        model={"entrypoint": entrypoint, "directory": str(USER_CODE)},
        strategy={"name": strategy, "options": {**STRATEGIES.get(strategy, {}), **options}},
        cluster={"workers": workers},
        training={"precision": "float64"},
    )


@pytest.mark.usefixtures("gang_lane")
def test_dedicated_servers_start_where_worker_0_does(tmp_path: Path) -> None:
    """Also where layers of one shape are not registered in forward order."""
    spec = user_spec("uses:backwards", "p3", where="dedicated", servers=1)
    state = succeed(spec, tmp_path).state
    assert distance(state, reference(user_spec("uses:backwards", "single", 1), 2)) <= 1e-12


@pytest.mark.usefixtures("gang_lane")
@pytest.mark.parametrize("strategy", ["p3", "parameter-server-deferred", "ring-allreduce-overlap"])
def test_a_parameter_used_outside_of_every_module_is_waited_for(strategy: str, tmp_path: Path) -> None:
    state = succeed(user_spec("rootless:model", strategy), tmp_path).state
    assert distance(state, reference(user_spec("rootless:model", "single", 1), 2)) <= 1e-12


@pytest.mark.usefixtures("gang_lane")
@pytest.mark.parametrize("strategy", ["p3", "ring-allreduce-overlap"])
def test_a_gradient_that_comes_in_parts_is_refused(strategy: str, tmp_path: Path) -> None:
    """Reentrant checkpointing accumulates a shared layer's gradient once per segment."""
    end = run(user_spec("uses:twice", strategy), tmp_path).end
    assert end.status == "failed"
    assert "middle" in end.reason
    assert "use_reentrant=False" in end.reason


@pytest.mark.usefixtures("gang_lane")
def test_ddp_names_the_remedy_for_a_gradient_that_comes_twice(tmp_path: Path) -> None:
    end = run(user_spec("uses:twice", "ddp"), tmp_path).end
    assert end.status == "failed"
    assert "a parameter's gradient came twice" in end.reason
    assert "use_reentrant=False" in end.reason


@pytest.mark.usefixtures("gang_lane")
@pytest.mark.parametrize("model", ["Pruned", "Wrapped"])
@pytest.mark.parametrize("strategy", ["p3", "ring-allreduce-overlap"])
def test_what_moves_while_it_trains_is_trained_on(model: str, strategy: str, tmp_path: Path) -> None:
    """As under PyTorch's own DDP, which knows parameters by themselves."""
    found, peer = (
        succeed(user_spec(f"changing:{model}", name), tmp_path / name).state for name in (strategy, "ddp")
    )
    assert found.keys() == peer.keys() == model_after(model).state_dict().keys()
    assert distance(found, peer) <= 1e-12


def model_after(name: str) -> nn.Module:
    """Changed."""
    model = getattr(changing, name)()
    model.change()
    return model


@pytest.mark.usefixtures("gang_lane")
@pytest.mark.parametrize("strategy", ["p3", "ddp", "fsdp"])
def test_what_comes_while_it_trains_is_refused(strategy: str, tmp_path: Path) -> None:
    end = run(user_spec("changing:Replaced", strategy), tmp_path).end
    assert end.status == "failed"
    assert "second.weight" in end.reason


def _initial(model: str) -> dict[str, Tensor]:
    spec = spec_of(model, "single", 1)
    seed_everything(spec.training.seed, False)
    return build_model(spec.model, spec.training.precision).state_dict()
