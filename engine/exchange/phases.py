"""Phases: what one worker's exchange does with units whose contributions all workers sum in phases (`Unit.phases`).

A unit's numbers of all phases lie one after the other in one tensor, and are summed in place there; the exchange hands
on parts of it, as it does of gradients. What belongs to the codec is on the timeline as encoding and decoding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import torch
from torch import Tensor

from engine.codec.base import SummedCodec
from engine.state.choice import Choice
from engine.state.recording import Recording
from engine.telemetry.events import Kind


class Phases:
    """The units of one exchange that have any, one step of each at a time."""

    def __init__(self, choices: Mapping[int, Choice], recording: Recording) -> None:
        """`choices`: by unit, those without phases as well."""
        self._recording = recording
        self.codecs: dict[int, SummedCodec] = {
            index: choice.summed() for index, choice in choices.items() if choice.unit.phases
        }
        self._numbers: dict[int, Tensor] = {}

    def begin(self, choice: Choice, step: int, gradients: Sequence[Tensor]) -> None:
        """This worker's gradients of a whole unit are there: make what is summed first."""
        unit = choice.unit
        with self._recording.coding(Kind.ENCODE, choice, step):
            given = self.codecs[unit.index].begin(gradients)
            numbers = torch.empty(sum(unit.phases), dtype=given.dtype)
            numbers[: len(given)] = given
        self._numbers[unit.index] = numbers

    def go_on(self, choice: Choice, step: int, phase: int) -> None:
        """The sums of `phase` are there: make what is summed next."""
        sums = self._sums(choice)
        with self._recording.coding(Kind.ENCODE, choice, step):
            sums[phase + 1].copy_(self.codecs[choice.unit.index].go_on(sums[phase]))

    def end(self, choice: Choice, step: int, gradients: Sequence[Tensor], there: Sequence[bool]) -> None:
        """All sums are there: write what they stand for over the unit's gradients. `there`: of which any worker has
        one."""
        with self._recording.coding(Kind.DECODE, choice, step):
            self.codecs[choice.unit.index].end(self._sums(choice), gradients, there)
        del self._numbers[choice.unit.index]

    def numbers(self, choice: Choice, start: int, stop: int) -> Tensor:
        """What lies at [start, stop)."""
        return self._numbers[choice.unit.index][start:stop]

    def _sums(self, choice: Choice) -> list[Tensor]:
        phases = choice.unit.phases
        ends = [sum(phases[:number]) for number in range(len(phases) + 1)]
        return [self.numbers(choice, *span) for span in pairwise(ends)]
