"""Served: a worker's side of the units that have homes on servers.

A unit's gradient is pushed when it is ready. The answer comes by itself (`push`), is asked for when all of a layer's
units have been notified (`notify-pull`: papers 004, section 4.1), or when the next step begins (`deferred-pull`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from engine.protocol.home import Returns
from engine.protocol.instructions import Advance, Content, GoOn, Instruction, Put, Send
from engine.protocol.messages import Message


class ServedUnit(NamedTuple):
    """What the machine knows of a unit."""

    layer: str
    """The first of its layers."""
    phases: tuple[int, ...]
    """How many numbers all workers sum in each phase (`Unit.summed`); they are counted through."""
    home: int
    """The party that its shard is on."""
    returns: Returns


class Served:
    """One worker's. Every method answers what the driver has to do, in order."""

    def __init__(self, units: Mapping[int, ServedUnit]) -> None:
        """`units` by index."""
        self._units = units
        self._of_layer: dict[str, list[int]] = defaultdict(list)
        for index, unit in units.items():
            self._of_layer[unit.layer].append(index)
        self._read = dict.fromkeys(units, 0)
        """By unit: the home's version of what is here."""
        self._notified: dict[str, dict[int, int]] = defaultdict(dict)
        """By layer: its units that have been updated -> the step of the notification."""
        self._pulled = 0

    def step_began(self, step: int) -> list[Instruction]:
        """The forward pass of `step` is about to need what the steps before it have made."""
        if step <= self._pulled:  # nothing to pull yet, or an evaluation has pulled it already
            return []
        self._pulled = step
        return [
            self._pull(index, step - 1)
            for index, unit in self._units.items()
            if unit.returns == "deferred-pull"
        ]

    def begin_at(self, step: int) -> None:
        """This worker holds what so many steps have made, and begins with that step."""
        self._pulled = step
        self._read = dict.fromkeys(self._units, step)

    def joins(self, clock: int) -> list[Instruction]:
        """This worker was lost, and contributes again from step `clock` on, for which its homes answer by
        themselves."""
        self._pulled = clock
        return [Send((unit.home,), Message.JOIN, index, clock) for index, unit in self._units.items()]

    def ready(self, index: int, step: int) -> list[Instruction]:
        """The unit's gradient of `step` is final."""
        return [self._push(index, step, 0)]

    def finished(self, clock: int) -> list[Instruction]:
        """This worker has contributed `clock` steps, and contributes nothing more."""
        return [Send((unit.home,), Message.FINISH, index, clock - 1) for index, unit in self._units.items()]

    def notified(self, index: int, step: int) -> list[Instruction]:
        """The unit's home has an answer for the worker's `step`. A layer is asked for as a whole."""
        layer = self._units[index].layer
        notified = self._notified[layer]
        notified[index] = step
        if len(notified) < len(self._of_layer[layer]):
            return []
        self._notified[layer] = {}
        return [self._pull(each, notified[each]) for each in self._of_layer[layer]]

    def answered(self, index: int, step: int, phase: int = 0) -> list[Instruction]:
        """The unit has come as the home has it for who has contributed `step`, or a phase of it."""
        unit = self._units[index]
        start, stop = self.span(index, phase)
        put = Put(index, unit.home, step, phase, start, stop)
        if phase + 1 < len(unit.phases):
            return [put, GoOn(index, step, phase), self._push(index, step, phase + 1)]
        return [put, Advance(index, step + 1)]

    def installed(self, index: int, version: int) -> None:
        """The worker's next pass computes on this version of the unit."""
        self._read[index] = version

    def versions(self) -> list[int]:
        """The homes' versions of what is here, a unit each."""
        return list(self._read.values())

    def _push(self, index: int, step: int, phase: int) -> Send:
        home, (start, stop) = self._units[index].home, self.span(index, phase)
        return Send(
            (home,),
            Message.PUSH,
            index,
            step,
            Content.GRADIENT,
            start,
            stop,
            phase,
            version=self._read[index],
        )

    def span(self, index: int, phase: int) -> tuple[int, int]:
        """Which of the unit's numbers a phase sums."""
        phases = self._units[index].phases
        start = sum(phases[:phase])
        return start, start + phases[phase]

    def _pull(self, index: int, step: int) -> Send:
        return Send((self._units[index].home,), Message.PULL, index, step)
