"""Checkpoints in the processes of a job: what each party captures at a cut, and what it goes on from.

A cut is made after every so many steps, the same on all parties, and stops nobody for longer than its own copy takes:
workers wait until they hold what the step has made, as before an evaluation, and copy what they have; shards copy each
unit before the first contribution behind the cut (`engine/checkpoint/shard_cuts.py`). What is written:

    worker 0      parameters, the optimizer where workers update, the outer optimizer of averages: all hold the same,
                  but for the optimizer where they train alone, which is each worker's own
    every worker  buffers, what is frozen and which modules are in evaluation mode, what its codecs remember, random
                  states, and how far it has come
    every shard   the optimizer where servers update, what its codecs remember, and where workers are told differences
                  the parameters from which these are
Schedules and data are where the step says. Not captured: what a model, a data set or a loss keeps in attributes of
Python, and generators that they have made themselves.
Memory: one more copy of what is captured until it is on the disk.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor, nn

from engine.checkpoint import model_state
from engine.checkpoint import part as parts
from engine.checkpoint.part import Part
from engine.checkpoint.shard_cuts import ShardCuts
from engine.checkpoint.writer import Writer
from engine.errors import UserError
from engine.exchange.base import Exchange, Resumes
from engine.launch import Launch
from engine.plan.consistency import trains_alone
from engine.replica.contributions import Contributions
from engine.runtime.party import load_choices
from engine.runtime.trainer import Done, Measured
from engine.state import random_state
from engine.state.updates import Updater
from engine.telemetry.resumption import RESUMED

_PARAMETER, _BUFFER, _OPTIMIZER, _OUTER, _RANDOM = "parameter", "buffer", "optimizer", "outer", "random"
_DONE, _MODEL = "done", "model"


@dataclass(kw_only=True)
class Held:
    """What of a worker is saved besides its model."""

    updater: Updater | None = None
    """None: nothing is updated here."""
    contributions: Contributions | None = None
    exchanges: Mapping[int, Exchange] = field(default_factory=dict)
    """By unit."""

    @property
    def distinct(self) -> list[Resumes]:
        """The exchanges that remember something, in an order that the plan gives them."""
        return [each for each in dict.fromkeys(self.exchanges.values()) if isinstance(each, Resumes)]


def worker_part(rank: int) -> str:
    return f"worker-{rank}"


def shard_part(index: int) -> str:
    return f"shard-{index}"


def all_parts(launch: Launch) -> list[str]:
    """Of one checkpoint."""
    shards = {c.unit.shard for c in load_choices(launch).values() if c.unit.shard is not None}
    workers = [worker_part(rank) for rank in range(launch.job.cluster.workers)]
    return workers + [shard_part(shard) for shard in sorted(shards)]


def shard_cuts(launch: Launch, index: int, units: Mapping[int, object]) -> ShardCuts | None:
    """Of server shard `index` with these units."""
    if launch.cut_every is None or not units:
        return None
    writer = Writer(launch.cuts(), shard_part(index))
    return ShardCuts(writer, every=launch.cut_every, units=units.keys(), first=launch.resumed or 0)


def saved_shard(launch: Launch, index: int) -> dict[str, Tensor]:
    """What a shard goes on from, where the attempt goes on."""
    assert launch.resumed is not None
    return parts.read(launch.cuts().part(launch.resumed, shard_part(index))).tensors


class Noting(Protocol):
    """Where a worker records what is known of a step."""

    def metric(self, name: str, step: int, value: float) -> None: ...


class Fresh:
    """A worker that begins: nothing has been saved."""

    step = 0

    def give_parameters(self, model: nn.Module) -> None:
        """They stay."""

    def give_buffers(self, model: nn.Module) -> None:
        """They stay."""

    def give(self, held: Held) -> None:
        """There is nothing."""

    def begin(self, first: int, model: nn.Module, device: torch.device, recorder: Noting) -> Done:
        """With step `first`, which is another than 0 where the worker has joined others again."""
        return Done(steps=first)


class Saved:
    """What a worker goes on from; see `Fresh`."""

    def __init__(self, launch: Launch, rank: int) -> None:
        step = launch.resumed
        assert step is not None
        store = launch.cuts()
        self.step = step
        self._own = parts.read(store.part(step, worker_part(rank)))
        self._common = self._own if rank == 0 else parts.read(store.part(step, worker_part(0)))
        self._optimizer = self._own if trains_alone(launch.consistency) else self._common

    @torch.no_grad()
    def give_parameters(self, model: nn.Module) -> None:
        """To the model on the host."""
        saved = self._common.under(_PARAMETER)
        for name, parameter in model.named_parameters():
            parameter.copy_(saved[name])

    def give_buffers(self, model: nn.Module) -> None:
        """A forward pass may have replaced one by another tensor, registered it, or let it go."""
        model_state.give_buffers(model, self._own.texts[_MODEL], self._own.under(_BUFFER))

    def give(self, held: Held) -> None:
        """Before any message has come."""
        if held.updater is not None:
            held.updater.load(self._optimizer.under(_OPTIMIZER))
        if held.contributions is not None:
            held.contributions.load(self._common.under(_OUTER))
        for position, exchange in enumerate(held.distinct):
            exchange.load(self._own.under(f"exchange-{position}"), self.step)

    def begin(self, first: int, model: nn.Module, device: torch.device, recorder: Noting) -> Done:
        """The last thing before training: nothing is drawn until then. Lets go of what has been read."""
        if self._own is self._common:
            recorder.metric(RESUMED, self.step, self.step)
        model_state.give_modes(model, self._own.texts[_MODEL])
        random_state.load(self._own.under(_RANDOM), device)
        said = json.loads(self._own.texts[_DONE])
        last = said["last"]
        print(f"training goes on from the checkpoint of step {self.step}", flush=True)
        self._own = self._common = self._optimizer = Part()
        return Done(steps=self.step, samples=said["samples"], last=None if last is None else Measured(*last))


def saved(launch: Launch, rank: int) -> Fresh | Saved:
    """What worker `rank` goes on from."""
    return Fresh() if launch.resumed is None else Saved(launch, rank)


class NoCuts:
    """The job has no checkpoints."""

    def due(self, steps: int) -> bool:
        """Never."""
        return False

    def take(self, done: Done) -> None:
        raise AssertionError(f"no cut is due after {done.steps} steps")

    def close(self) -> None:
        """Nothing is written."""


class WorkerCuts:
    """One worker's side of the job's checkpoints."""

    def __init__(
        self, launch: Launch, rank: int, model: nn.Module, held: Held, device: torch.device, total_steps: int
    ) -> None:
        """Raises UserError for a model that keeps what no checkpoint holds."""
        assert launch.cut_every is not None
        _check(launch.cut_every, model)
        self._every = launch.cut_every
        self._total = total_steps
        self._model = model
        self._built = model_state.Built(model)
        self._held = held
        self._device = device
        self._first = rank == 0
        self._own_optimizer = self._first or trains_alone(launch.consistency)
        self._writer = Writer(
            launch.cuts(), worker_part(rank), all_names=all_parts(launch) if self._first else ()
        )

    def due(self, steps: int) -> bool:
        """Whether there is a cut after so many steps; none after the last."""
        return steps % self._every == 0 and steps < self._total

    def take(self, done: Done) -> None:
        """Capture, and begin to write; this worker holds what the last step has made. Raises TrainingError for a model
        that has changed so that nobody could go on with it."""
        self._built.check(self._model, done.steps)
        self._writer.wait()
        held, part = self._held, Part()
        last = done.last
        part.texts[_DONE] = json.dumps(
            {"samples": done.samples, "last": None if last is None else list(last)}
        )
        part.texts[_MODEL] = model_state.described(self._model)
        part.put(_RANDOM, random_state.state(self._device))
        part.put(_BUFFER, dict(self._model.named_buffers()))
        if self._first:
            part.put(_PARAMETER, dict(self._model.named_parameters()))
            if held.contributions is not None:
                part.put(_OUTER, held.contributions.state())
        if held.updater is not None and self._own_optimizer:
            part.put(_OPTIMIZER, held.updater.state())
        for position, exchange in enumerate(held.distinct):
            part.put(f"exchange-{position}", exchange.state())
        self._writer.write(done.steps, part)

    def close(self) -> None:
        """Training is over."""
        self._writer.close()


def worker_cuts(
    launch: Launch, rank: int, model: nn.Module, held: Held, device: torch.device, total_steps: int
) -> NoCuts | WorkerCuts:
    """See `WorkerCuts`."""
    if launch.cut_every is None:
        return NoCuts()
    return WorkerCuts(launch, rank, model, held, device, total_steps)


def _check(every: int, model: nn.Module) -> None:
    """Raises UserError where a module has a state of its own, which may be anything."""
    for name, module in model.named_modules():
        if type(module).get_extra_state is not nn.Module.get_extra_state:
            raise UserError(
                "checkpoint.every_steps",
                every,
                f"{name or 'the model'} has a state of its own (get_extra_state), which is not captured yet",
                "Keep it in buffers, or leave checkpoint.every_steps out",
            )
