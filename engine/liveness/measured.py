"""Measured: the peak of real steps on the host, by the count of PyTorch's allocator, beside what `peak.py` predicts.

The profiler sees what this thread allocates, so that swapped bytes are moved in this thread: a step takes longer than a
worker's, and nothing waits in memory until it is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from engine.inputs.batch import count
from engine.liveness.training import Training
from engine.memory.activations import Activations
from engine.memory.blocks import Asked
from engine.memory.disk import Disk
from engine.memory.mechanism import Passes, Site
from engine.memory.offload import away, in_memory
from engine.memory.swap import Swap
from engine.plan.updates import OptimizerSpec
from engine.state.computation import Computation
from engine.state.told import Untold
from engine.state.updates import Updater, as_they_are

STEPS = 4


def peak_bytes(run: Callable[[], object]) -> int:
    """How many bytes more than before the allocator of the host held at the most while `run` ran, by its own count."""
    with counting() as profiler:
        run()
    return counted(profiler)


def counting() -> profile:
    """Counts what the thread that enters it allocates and gives back."""
    return profile(activities=[ProfilerActivity.CPU], profile_memory=True)


def counted(profiler: profile, since_ns: int = 0) -> int:
    """How many bytes more than when it was entered there were at the most, at `since_ns` (of the epoch) or later."""
    assert profiler.profiler is not None
    results: Any = profiler.profiler.kineto_results
    events = [event for event in results.events() if event.name() == "[memory]"]
    held = peak = 0
    for event in sorted(events, key=lambda each: each.start_ns()):
        held += event.nbytes()
        peak = max(peak, held) if event.start_ns() >= since_ns else 0
    return peak


def at_once(function: Callable[..., Any], *arguments: Any) -> Future[Any]:
    """In place of the thread that moves swapped bytes."""
    done: Future[Any] = Future()
    done.set_result(function(*arguments))
    return done


def _move_in_this_thread(tier: Any) -> None:
    tier.later = at_once


class RealSteps:
    """Steps of a model and a batch with values, as a worker's, with what they hold before a step begins."""

    def __init__(
        self,
        training: Training,
        optimizer: OptimizerSpec,
        choices: Mapping[str, Asked],
        *,
        scratch: str,
        micro_batches: int = 1,
        counted: bool = True,
    ) -> None:
        """`scratch`: a folder on a disk. `counted`: swapped bytes are moved by the thread that computes."""
        self._training = training
        model = training.model
        self._micro_batches = micro_batches
        site = Site(
            part=model,
            device=torch.device("cpu"),
            passes=Passes(),
            recording=Untold(),
            repeats=True,
            scratch=scratch,
        )
        memory = Activations(site, training.described, choices)
        for mechanism in memory._mechanisms.values() if counted else ():
            tier: Any = mechanism._tier if isinstance(mechanism, Swap) else None
            if isinstance(tier, Disk):
                _move_in_this_thread(tier)
        self._computation = Computation(memory=memory)
        self._trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
        self._optimizer = optimizer
        self._updater = Updater(optimizer, self._trained, away(optimizer, scratch, site.device))

    def step(self) -> None:
        """One step."""
        training = self._training
        for _ in range(self._micro_batches):
            with self._computation.training(training.inputs):
                loss = training.loss()
            scaled = loss.total * (1.0 / count(training.targets))
            float(scaled.detach())
            with self._computation.backward():
                scaled.backward()
        self._updater.update(as_they_are(self._optimizer))
        for parameter in self._trained.values():
            parameter.grad = None

    def close(self) -> None:
        """No step follows."""
        self._computation.close()

    @property
    def held(self) -> int:
        """Bytes that are there between two steps."""
        state = in_memory(self._updater.state(), self._optimizer)
        training = self._training
        model = training.model
        return stored([*model.parameters(), *model.buffers(), *training.batch, *state])


def stored(values: Iterable[Any]) -> int:
    """Bytes of the memories behind the tensors among these."""
    there = (value for value in values if isinstance(value, torch.Tensor))
    storages = {tensor.untyped_storage()._cdata: tensor.untyped_storage().nbytes() for tensor in there}
    return sum(storages.values())


def measured_peak(steps: RealSteps) -> int:
    """What `peak_of` predicts as the total, of steps that have values and have not begun. No step follows."""
    try:
        for _ in range(STEPS - 1):
            steps.step()
        return peak_bytes(steps.step) + steps.held
    finally:
        steps.close()
