"""Measured: the peak of real steps on the host, by the count of PyTorch's allocator, beside what `peak.py` predicts.

The profiler sees what this thread allocates, so that swapped bytes are moved in this thread: a step takes longer than a
worker's, and nothing waits in memory until it is written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile
from torch.utils._pytree import tree_leaves

from engine.inputs.batch import Tensors, count
from engine.inputs.task import Task
from engine.memory.activations import Activations
from engine.memory.blocks import Asked
from engine.memory.disk import Disk
from engine.memory.mechanism import Passes, Site
from engine.memory.swap import Swap
from engine.plan.description import ModelDescription
from engine.plan.updates import OptimizerSpec
from engine.state.computation import Computation
from engine.state.told import Untold
from engine.state.updates import build_optimizer

STEPS = 4


def peak_bytes(run: Callable[[], object]) -> int:
    """How many bytes more than before the allocator of the host held at the most while `run` ran, by its own count."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        run()
    assert profiler.profiler is not None
    results: Any = profiler.profiler.kineto_results
    events = [event for event in results.events() if event.name() == "[memory]"]
    held = peak = 0
    for event in sorted(events, key=lambda each: each.start_ns()):
        held += event.nbytes()
        peak = max(peak, held)
    return peak


def at_once(function: Callable[..., Any], *arguments: Any) -> Future[Any]:
    """In place of the thread that moves swapped bytes."""
    done: Future[Any] = Future()
    done.set_result(function(*arguments))
    return done


def _move_in_this_thread(tier: Any) -> None:
    tier.later = at_once


def measured_peak(
    model: nn.Module,
    described: ModelDescription,
    inputs: Tensors,
    targets: Tensors,
    task: Task,
    optimizer: OptimizerSpec,
    choices: Mapping[str, Asked],
    *,
    scratch: str,
    micro_batches: int = 1,
) -> int:
    """What `peak_of` predicts as the total, of a model and a batch with values. `scratch`: a folder on a disk."""
    site = Site(
        part=model,
        device=torch.device("cpu"),
        passes=Passes(),
        recording=Untold(),
        repeats=True,
        scratch=scratch,
    )
    memory = Activations(site, described, choices)
    for mechanism in memory._mechanisms.values():
        tier: Any = mechanism._tier if isinstance(mechanism, Swap) else None
        if isinstance(tier, Disk):
            _move_in_this_thread(tier)
    computation = Computation(memory=memory)
    updates = build_optimizer(optimizer, [(n, p) for n, p in model.named_parameters() if p.requires_grad])

    def step() -> None:
        for _ in range(micro_batches):
            with computation.training(inputs):
                loss = task(model, inputs, targets)
            scaled = loss.total * (1.0 / count(targets))
            float(scaled.detach())
            with computation.backward():
                scaled.backward()
        updates.step()
        updates.zero_grad(set_to_none=True)

    try:
        for _ in range(STEPS - 1):
            step()
        peak = peak_bytes(step)
    finally:
        computation.close()
    state = [v for values in updates.state.values() for v in values.values() if isinstance(v, torch.Tensor)]
    there = [*model.parameters(), *model.buffers(), *tree_leaves([inputs, targets]), *state]
    storages = {tensor.untyped_storage()._cdata: tensor.untyped_storage().nbytes() for tensor in there}
    return peak + sum(storages.values())
