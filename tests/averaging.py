"""One-process reference of workers that train alone and average: plain PyTorch, one worker after another.

Shares no code with the engine's averaging: ordinary torch optimizers, one per worker, means written out, and
torch.optim.SGD as the outer optimizer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn, optim
from torch.nn import functional

from engine.inputs.build import load_dataset
from engine.inputs.sharding import global_batch_at, micro_batches, shard
from engine.models.build import build_model
from engine.plan.job import JobSpec
from engine.runtime.worker import seed_everything

Make = Callable[[Iterable[nn.Parameter]], optim.Optimizer]


def one_after_another(
    spec: JobSpec,
    make: Make,
    *,
    period: int,
    state: bool = False,
    outer: dict[str, Any] | None = None,
    rate: Callable[[int], float] | None = None,
    steps: int | None = None,
) -> dict[str, Tensor]:
    """The state_dict after `steps` (the job's) steps, the last of which is followed by an average.

    `state`: the optimizers' state is averaged, too. `outer`: arguments of torch.optim.SGD, which takes the averaged
    step. `rate(step)`: the learning rate of each step.
    """
    training, workers = spec.training, spec.cluster.workers
    seed_everything(training.seed, False)
    train, first = load_dataset(spec.data).train, build_model(spec.model, training.precision)
    common = [nn.Parameter(p.detach().clone()) for p in first.parameters()]
    leader = optim.SGD(common, **(outer or {"lr": 1.0}))
    models = [deepcopy(first) for _ in range(workers)]
    optimizers = [make(model.parameters()) for model in models]
    seen = [0] * workers
    total = steps or training.steps or 0
    for step in range(total):
        indices = global_batch_at(step, len(train), training.global_batch, training.seed)
        for rank, (model, optimizer) in enumerate(zip(models, optimizers, strict=True)):
            mine = shard(indices, rank, workers)
            seen[rank] += len(mine)
            optimizer.zero_grad()
            for piece in micro_batches(mine, training.micro_batches):
                if len(piece):
                    inputs, targets = train.batch(piece)
                    loss = functional.cross_entropy(
                        model(inputs.to(common[0].dtype)), targets, reduction="sum"
                    )
                    (loss / len(mine)).backward()
            if training.clip_norm is not None:
                nn.utils.clip_grad_norm_(model.parameters(), training.clip_norm)
            for group in optimizer.param_groups:
                group["lr"] = rate(step) if rate else group["lr"]
            optimizer.step()
        if (step + 1) % period == 0 or step + 1 == total:
            shares = [count / sum(seen) for count in seen]
            _average(models, common, leader, shares)
            if state:
                _average_state(models, optimizers, shares)
            seen = [0] * workers
    found = {name: value.detach().clone() for name, value in models[0].state_dict().items()}
    for name, _ in models[0].named_buffers():
        every = torch.stack([model.state_dict()[name] for model in models])
        found[name] = every.mean(0) if every.is_floating_point() else every.amax(0)
    return found


def _average(
    models: list[nn.Module], common: list[nn.Parameter], leader: optim.Optimizer, shares: list[float]
) -> None:
    """Every model continues from the common parameters after the outer step."""
    for parameter, *theirs in zip(common, *(model.parameters() for model in models), strict=True):
        mean = sum(share * p.detach() for share, p in zip(shares, theirs, strict=True))
        parameter.grad = parameter.detach() - mean
    leader.step()
    with torch.no_grad():
        for parameter, *theirs in zip(common, *(model.parameters() for model in models), strict=True):
            for p in theirs:
                p.copy_(parameter)


def _average_state(models: list[nn.Module], optimizers: list[optim.Optimizer], shares: list[float]) -> None:
    """What an optimizer does not keep of a parameter that it has never updated counts as zero."""
    for theirs in zip(*(model.parameters() for model in models), strict=True):
        kept = [optimizer.state[p] for optimizer, p in zip(optimizers, theirs, strict=True)]
        for slot in dict.fromkeys(slot for values in kept for slot in values):
            mean = sum(
                share * values[slot] for share, values in zip(shares, kept, strict=True) if slot in values
            )
            assert isinstance(mean, torch.Tensor)
            for values in kept:
                values[slot] = (mean.round() if slot == "step" else mean).clone()
