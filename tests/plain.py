"""Plain PyTorch: what workers that train one model together come to, in a loop that anybody would write.

Each worker has a model and an optimizer of its own; gradients are added up by hand. The data, and who gets which of
them, are the job's; nothing else is taken from the engine.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from engine.inputs.build import load_dataset
from engine.inputs.sharding import global_batch_at, micro_batches, shard
from engine.plan.job import JobSpec

Loss = Callable[[nn.Module, Tensor, Tensor], tuple[Tensor, Any]]


def cross_entropy(model: nn.Module, inputs: Tensor, targets: Tensor) -> tuple[Tensor, None]:
    return functional.cross_entropy(model(inputs), targets, reduction="sum"), None


def train(spec: JobSpec, workers: int) -> dict[str, Tensor]:
    """The state_dict after the job's steps, of its user's model in float64 with plain SGD options."""
    assert spec.model.entrypoint is not None
    assert spec.model.directory is not None
    assert spec.training.precision == "float64"
    if spec.model.directory not in sys.path:
        sys.path.insert(0, spec.model.directory)
    module_name, _, function = spec.model.entrypoint.partition(":")
    module = importlib.import_module(module_name)
    loss: Loss = getattr(module, "loss", cross_entropy)
    models = []
    for _ in range(workers):
        torch.manual_seed(spec.training.seed)
        models.append(getattr(module, function)(**spec.model.options).double())
    make = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[spec.optimizer.name]
    optimizers = [
        make(model.parameters(), lr=spec.optimizer.learning_rate, **spec.optimizer.options)
        for model in models
    ]
    data, training = load_dataset(spec.data).train, spec.training
    assert training.steps is not None
    for step in range(training.steps):
        indices = global_batch_at(step, len(data), training.global_batch, training.seed)
        for rank, model in enumerate(models):
            for piece in micro_batches(shard(indices, rank, workers), training.micro_batches):
                if len(piece):
                    inputs, targets = data.batch(piece)
                    total, _ = loss(model, inputs.double(), targets)
                    (total / len(indices)).backward()
        _add_up(models)
        if training.clip_norm is not None:
            for model in models:
                nn.utils.clip_grad_norm_(model.parameters(), training.clip_norm)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
    states = [model.state_dict() for model in models]
    together = {name: _together([state[name] for state in states]) for name in states[0]}
    return {
        name.replace("_orig_mod.", ""): value for name, value in together.items()
    }  # so torch.compile names them


def _add_up(models: list[nn.Module]) -> None:
    """Every worker gets the sum of all workers' gradients; a parameter that nobody used has none."""
    for alike in zip(*(model.parameters() for model in models), strict=True):
        there = [p.grad for p in alike if p.grad is not None]
        for parameter in alike:
            parameter.grad = torch.stack(there).sum(0) if there else None


def _together(values: list[Tensor]) -> Tensor:
    """Of all workers: parameters are alike; buffers are averaged, counts are the largest."""
    stacked = torch.stack(values)
    return stacked.mean(0) if stacked.is_floating_point() else stacked.amax(0)
