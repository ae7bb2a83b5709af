"""The largest batch whose step fits, found on tensors without values, and how much longer its passes take.

A slow-down is of the blocks' times as `fitting.py` has them for so many samples: what is computed again takes each
block's forward once more, and what is swapped waits where its copies take longer than the block beside it computes. It
is said where all layers that keep nothing do the same and are blocks; else it is not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch import nn

from engine.budget.blocks import Action
from engine.budget.largest import largest
from engine.budget.prediction import predict
from engine.inputs.batch import Tensors
from engine.inputs.task import Task
from engine.liveness.fitting import DISK, Blocks, Wanted, rates_of
from engine.memory.blocks import Asked
from engine.plan.description import ModelDescription
from engine.plan.largest import Found
from engine.plan.peak import Peak

Batch = Callable[[int], tuple[Tensors, Tensors]]
"""Inputs and targets of so many samples, on `meta`."""


@dataclass(frozen=True, kw_only=True)
class Room:
    """What is asked for."""

    room: int
    """Bytes that the model's step may hold."""
    most: int
    """Samples of a pass that are counted."""
    swap_bytes_per_second: int = DISK
    """To the second tier, each way."""


def find(
    model: nn.Module,
    described: ModelDescription,
    batch: Batch,
    task: Task,
    choices: Mapping[str, Asked],
    look: Callable[[int], Peak],
    asked: Room,
    wanted: Wanted,
) -> Found:
    """The largest batch under `choices`, which are those of the layers that do not keep their activations. `look`: the
    peak of so many samples. `wanted`: by which times passes are compared."""
    looked: dict[int, Peak] = {}

    def held(samples: int) -> int:
        looked[samples] = peak = look(samples)
        return max(peak.total, peak.first)

    samples = largest(held, asked.room, most=asked.most)
    over = samples + 1
    if not samples and over not in looked:
        held(over)
    at, beyond = looked[max(samples, 1)], looked.get(over)
    first = beyond is not None and beyond.total <= asked.room
    return Found(
        samples=samples,
        peak=max(at.total, at.first),
        over=None if beyond is None else max(beyond.total, beyond.first),
        when="" if beyond is None else "first" if first else beyond.when,
        layer=None if beyond is None or first else beyond.layer,
        slow_down=_slow_down(model, described, batch(samples), task, choices, asked, wanted)
        if samples
        else None,
        rates=rates_of(wanted),
    )


_ACTIONS = {action.value: action for action in Action}


def _slow_down(
    model: nn.Module,
    described: ModelDescription,
    batch: tuple[Tensors, Tensors],
    task: Task,
    choices: Mapping[str, Asked],
    asked: Room,
    wanted: Wanted,
) -> float | None:
    if not choices:
        return 0.0
    actions = {_ACTIONS.get(choice.activations) for choice in choices.values()}
    action = actions.pop()
    if actions or action is None or set(choices) != set(wanted.free):
        return None
    blocks = Blocks(model, described, *batch, task, {}, wanted)
    times = [
        predict(blocks.costs, blocks.alike(each), swap_bytes_per_second=asked.swap_bytes_per_second).time_ns
        for each in (Action.KEEP, action)
    ]
    return times[1] / times[0] - 1 if times[0] else None
