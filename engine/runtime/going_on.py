"""What each party of an attempt begins with: nothing, the job's own checkpoint, or another job's."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor, nn

from engine.checkpoint import model_state
from engine.checkpoint.names import BUFFER, DONE, MODEL, OPTIMIZER, OUTER, PARAMETER, RANDOM, exchange
from engine.checkpoint.part import Opened, nested
from engine.checkpoint.start import START
from engine.errors import UserError
from engine.exchange.base import Exchange, Resumes
from engine.exchange.room import optimizer_pieces
from engine.exchange.shard import Shard
from engine.launch import Launch, shard_part, worker_part
from engine.plan.consistency import drifts, trains_alone
from engine.plan.plan import Wrapper
from engine.replica.contributions import Contributions
from engine.runtime.trainer import Done, Measured
from engine.state import random_state
from engine.state.choice import Choice
from engine.state.updates import Updater
from engine.telemetry.resumption import RESUMED


def divides(launch: Launch) -> bool:
    """Whether each worker has a part of what the optimizer keeps of each parameter."""
    return isinstance(launch.plan, Wrapper) and launch.plan.runner == "fsdp"


def own_optimizers(launch: Launch) -> bool:
    """Whether what workers' optimizers keep differs."""
    return divides(launch) or trains_alone(launch.consistency)


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


class Noting(Protocol):
    """Where a worker records what is known of a step."""

    def metric(self, name: str, step: int, value: float) -> None: ...


class Fresh:
    """A worker that begins: nothing has been saved."""

    step = version = 0
    lives = 0
    """How many workers of this rank have drawn random numbers before: each draws others."""

    def check(self, total: int) -> None:
        """Whether steps are left, of as many as the job has."""

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
    """A worker that goes on from the job's own checkpoint; see `Fresh`."""

    lives = 0

    def __init__(self, launch: Launch, rank: int) -> None:
        step = launch.resumed
        assert step is not None
        store = launch.cuts()
        self._own = Opened(store.part(step, worker_part(rank)))
        self.step: int = json.loads(self._own.texts[DONE]).get("steps", step)
        """Its own, where workers drift."""
        self.version = 0 if drifts(launch.consistency) else self.step
        """The step for which it holds parameters; where workers drift it asks for them."""
        self._common = self._own if rank == 0 else Opened(store.part(step, worker_part(0)))
        self._optimizer = self._own if own_optimizers(launch) else self._common

    def check(self, total: int) -> None:
        """There are: no checkpoint is made behind the last step."""

    def give_parameters(self, model: nn.Module) -> None:
        """To the model on the host."""
        _give_parameters(self._common, model)

    def give_buffers(self, model: nn.Module) -> None:
        """A forward pass may have replaced one by another tensor, registered it, or let it go."""
        model_state.give_buffers(model, self._own.texts[MODEL], self._own.under(BUFFER))

    def give(self, held: Held) -> None:
        """Before any message has come."""
        if held.updater is not None:
            held.updater.load(self._optimizer.under(OPTIMIZER))
        if held.contributions is not None:
            held.contributions.load(self._common.under(OUTER))
        for position, each in enumerate(held.distinct):
            each.load(self._own.under(exchange(position)), self.step)

    def begin(self, first: int, model: nn.Module, device: torch.device, recorder: Noting) -> Done:
        """The last thing before training: nothing is drawn until then, and nothing is read after it."""
        if self._own is self._common:
            recorder.metric(RESUMED, self.step, self.step)
        model_state.give_modes(model, self._own.texts[MODEL])
        random_state.load(self._own.under(RANDOM), device)
        said = json.loads(self._own.texts[DONE])
        last = said["last"]
        print(f"training goes on from the checkpoint of step {self.step}", flush=True)
        self._own.close()
        self._common.close()
        return Done(steps=self.step, samples=said["samples"], last=None if last is None else Measured(*last))


class Begun:
    """A worker that begins with another job's checkpoint (`engine/runtime/start.py`): whole tensors, of which it takes
    what it has. What codecs keep begins empty: of a residual of other slices, on another number of workers, nobody can
    say whose it is."""

    def __init__(self, launch: Launch, rank: int) -> None:
        step = launch.resumed
        assert step is not None
        self._found = Opened(launch.checkpoint_folder / START)
        self._first = rank == 0
        self.step = self.version = self.lives = step

    def check(self, total: int) -> None:
        """Raises UserError where there are none."""
        if total <= self.step:
            rule = f"the checkpoint that the job begins with was made after {self.step} steps"
            raise UserError("training.steps", total, rule, "Let it have more, or name an earlier step")

    def give_parameters(self, model: nn.Module) -> None:
        """To the model on the host."""
        _give_parameters(self._found, model)

    def give_buffers(self, model: nn.Module) -> None:
        """As `Saved` does, but the average over the other job's workers. Raises UserError where the model has other
        buffers than that job's."""
        values, said = self._found.under(BUFFER), self._found.texts[MODEL]
        model_state.check_buffers(model, said, values)
        model_state.give_buffers(model, said, values)

    def give(self, held: Held) -> None:
        """Before any message has come."""
        if held.updater is not None:
            updated = held.updater.names
            state = self._found.under(OPTIMIZER)
            held.updater.load({name: state[name] for name in state if name.rpartition("/")[0] in updated})
        for each in held.distinct:
            each.load({}, self.step)

    def begin(self, first: int, model: nn.Module, device: torch.device, recorder: Noting) -> Done:
        """The last thing before training. Random numbers are those that the worker has been given; what is frozen, and
        which modules are in evaluation mode, is as this job's builder made it."""
        if self._first:
            recorder.metric(RESUMED, self.step, self.step)
        samples = json.loads(self._found.texts[DONE])["samples"]
        print(f"training goes on from another job's checkpoint of step {self.step}", flush=True)
        self._found.close()
        return Done(steps=self.step, samples=samples)


Beginning = Fresh | Saved | Begun


def beginning(launch: Launch, rank: int) -> Beginning:
    """What worker `rank` goes on from."""
    if launch.resumed is None:
        return Fresh()
    return Begun(launch, rank) if launch.begins_with_another else Saved(launch, rank)


def load_shard(launch: Launch, index: int, choices: Mapping[int, Choice], shard: Shard) -> None:
    """Give shard `index` what it goes on from, where the attempt goes on, before any message has come."""
    step = launch.resumed
    if step is None or not choices:
        return
    if not launch.begins_with_another:
        with Opened(launch.cuts().part(step, shard_part(index))) as saved:
            shard.load(saved.tensors, step)
        return
    with Opened(launch.checkpoint_folder / START) as whole:
        units = [choice.unit for choice in choices.values() if choice.flow.answer == "parameters"]
        mine = {segment.parameter for unit in units for segment in unit.segments}
        optimizer: dict[str, dict[str, Tensor]] = defaultdict(dict)
        for full, held in whole.under(OPTIMIZER).items():  # each is read once, however many slices it has
            name, _, slot = full.rpartition("/")
            if name in mine:
                optimizer[name][slot] = held
        shard.load(nested({unit.index: optimizer_pieces(unit, optimizer) for unit in units}), step)


@torch.no_grad()
def _give_parameters(found: Opened, model: nn.Module) -> None:
    saved = found.under(PARAMETER)
    for name, parameter in model.named_parameters():
        parameter.copy_(saved[name])
