"""Gathered: one worker's side of an exchange in which everybody gets everybody's part: late-multiply's factors."""

from __future__ import annotations

from engine.protocol.errors import OutOfStepError
from engine.protocol.instructions import Advance, Content, Instruction, Keep, Send
from engine.protocol.messages import Message


class Gathered:
    """One worker's. Every method answers what the driver has to do, in order."""

    def __init__(self, *, rank: int, workers: int) -> None:
        self._rank = rank
        self._workers = workers
        self._there: dict[tuple[int, int], set[int]] = {}
        """By unit and step: whose parts are there."""

    def ready(self, unit: int, step: int) -> list[Instruction]:
        """This rank's part is there. Each begins with another peer, so that they do not all meet at one."""
        peers = tuple((self._rank + distance) % self._workers for distance in range(1, self._workers))
        sends = [Send(peers, Message.FACTORS, unit, step, Content.FACTORS)] if peers else []
        return [*sends, *self._add(unit, step, self._rank)]

    def arrived(self, unit: int, step: int, origin: int) -> list[Instruction]:
        """A part has come. Raises OutOfStepError for one that has come before."""
        return [Keep(unit, origin, step), *self._add(unit, step, origin)]

    def _add(self, unit: int, step: int, rank: int) -> list[Instruction]:
        there = self._there.setdefault((unit, step), set())
        if rank in there:
            raise OutOfStepError(f"worker {rank} sent its part of step {step} of unit {unit} twice")
        there.add(rank)
        if len(there) < self._workers:
            return []
        del self._there[unit, step]
        return [Advance(unit, step + 1)]
