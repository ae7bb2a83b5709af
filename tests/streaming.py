"""One-process reference of workers whose fragments are averaged in turn: plain PyTorch, one worker after another.

Shares no code with the engine's averaging: when what leaves and comes is written out here by the definition of
Streaming DiLoCo, with ordinary torch optimizers, and torch.optim.SGD as the outer one.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn, optim
from torch.nn import functional

from engine.inputs.build import load_dataset
from engine.inputs.sharding import global_batch_at, micro_batches, shard
from engine.models.build import build_model
from engine.plan.job import JobSpec
from engine.plan.optimizers import OPTIMIZERS
from engine.plan.plan import Plan, Wrapper
from engine.runtime.worker import seed_everything


def in_turn(spec: JobSpec, plan: Plan | Wrapper) -> dict[str, Tensor]:
    """The state_dict of worker 0 after all steps, with buffers averaged. The plan says which fragment a layer is in."""
    options: dict[str, Any] = dict(spec.strategy.options)
    period, delay, mixing = options["period"], options.get("delay", 1), options.get("mixing", 0.5)
    assert isinstance(plan, Plan)
    fragments = 1 + max(layer.fragment for layer in plan.layers)
    training, workers = spec.training, spec.cluster.workers
    seed_everything(training.seed, False)
    train, first = load_dataset(spec.data).train, build_model(spec.model, training.precision)
    fragment = {
        name: next(layer.fragment for layer in plan.layers if name.startswith(f"{layer.layer}."))
        for name, _ in first.named_parameters()
    }
    common = {name: nn.Parameter(p.detach().clone()) for name, p in first.named_parameters()}
    leaders = {
        name: optim.SGD([parameter], lr=0.7, momentum=0.9, nesterov=True)
        for name, parameter in common.items()
    }
    models = [deepcopy(first) for _ in range(workers)]
    kind = getattr(optim, OPTIMIZERS[spec.optimizer.name][0])
    rate = spec.optimizer.learning_rate
    optimizers = [kind(model.parameters(), lr=rate, **spec.optimizer.options) for model in models]
    seen = [[0] * workers for _ in range(fragments)]
    under_way: dict[tuple[int, int], dict[str, Tensor]] = {}
    total = training.steps or 0
    for step in range(total):
        indices = global_batch_at(step, len(train), training.global_batch, training.seed)
        for rank, (model, optimizer) in enumerate(zip(models, optimizers, strict=True)):
            mine = shard(indices, rank, workers)
            for counts in seen:
                counts[rank] += len(mine)
            optimizer.zero_grad()
            for piece in micro_batches(mine, training.micro_batches):
                if len(piece):
                    inputs, targets = train.batch(piece)
                    outputs = model(inputs.to(next(model.parameters()).dtype))
                    (functional.cross_entropy(outputs, targets, reduction="sum") / len(mine)).backward()
            if training.clip_norm is not None:
                nn.utils.clip_grad_norm_(model.parameters(), training.clip_norm)
            optimizer.step()
        last = step == total - 1
        locals_ = [dict(model.named_parameters()) for model in models]
        for f in range(fragments):
            due = (step + 1 + f * period // fragments) % period == 0 and step + delay < total - 1
            if last or due:
                shares = [count / sum(seen[f]) for count in seen[f]]
                seen[f] = [0] * workers
                under_way[f, step if last else step + delay] = {
                    name: common[name].detach()
                    - sum(
                        share * theirs[name].detach() for share, theirs in zip(shares, locals_, strict=True)
                    )
                    for name in common
                    if fragment[name] == f
                }
            for name, gradient in under_way.pop((f, step), {}).items():
                common[name].grad = gradient
                leaders[name].step()
                kept = 0.0 if last else mixing
                with torch.no_grad():
                    for theirs in locals_:
                        theirs[name].copy_(kept * theirs[name] + (1 - kept) * common[name])
    found = {name: value.detach().clone() for name, value in models[0].state_dict().items()}
    for name, _ in models[0].named_buffers():
        every = torch.stack([model.state_dict()[name] for model in models])
        found[name] = every.mean(0) if every.is_floating_point() else every.amax(0)
    return found
