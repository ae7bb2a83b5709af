"""Rounds: one worker's side of the allreduces that are written out as programs (`engine/plan/rounds.py`).

Messages are tagged (unit, step, round), so ranks may start units in different orders, and what comes before its turn is
kept until then. A unit is complete when its program has ended and all that it has handed on has left: until then the
parts may not change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, partial

from engine.plan.rounds import (
    Algorithm,
    NextPhase,
    Program,
    ReceiveChunk,
    SendChunk,
    Span,
    completed_in_phases,
    encoded_apart,
    in_phases,
)
from engine.protocol.errors import OutOfStepError
from engine.protocol.instructions import Add, Advance, Content, GoOn, Instruction, Keep, Put, Send, Summed
from engine.protocol.messages import Message


@dataclass(kw_only=True)
class _Turn:
    """One unit in one step."""

    program: Program
    at: int = -1
    """Where in the program it is; -1 before this rank's own gradients are there."""
    early: set[int] = field(default_factory=set)
    """Rounds of which the message came before its turn."""
    open: int = 1
    """What the unit waits for: the program's end, and each part that has not left."""

    def expected(self, part: int, origin: int) -> ReceiveChunk | None:
        """The step that a message belongs to, if it is still to come."""
        for step in self.program[max(self.at, 0) :]:
            if isinstance(step, ReceiveChunk) and (step.round, step.peer) == (part, origin):
                return step
        return None

    @property
    def awaited(self) -> ReceiveChunk | None:
        """The message without which it cannot go on."""
        step = self.program[self.at] if 0 <= self.at < len(self.program) else None
        return step if isinstance(step, ReceiveChunk) else None


class Rounds:
    """One worker's. Every method answers what the driver has to do, in order."""

    def __init__(
        self, algorithm: Algorithm, *, rank: int, workers: int, counts: Mapping[int, tuple[int, ...]]
    ) -> None:
        """`counts`: how many numbers of each unit are summed, in each of its phases (`Unit.summed`)."""
        self._program = cache(partial(in_phases, algorithm, rank, workers))
        self._completed = cache(partial(completed_in_phases, algorithm, workers))
        self._counts = counts
        self._turns: dict[tuple[int, int], _Turn] = {}
        """By unit and step: who is ahead may already send a part of the next step."""

    def ready(self, unit: int, step: int) -> list[Instruction]:
        """The unit's gradient of `step` is final on this rank."""
        return self._go_on(unit, step, self._turn(unit, step))

    def arrived(self, unit: int, step: int, part: int, origin: int) -> list[Instruction]:
        """A part has come. Raises OutOfStepError for one that nobody awaits."""
        turn = self._turn(unit, step)
        awaited = turn.awaited
        if awaited is not None and (part, origin) == (awaited.round, awaited.peer):
            return [self._take(unit, step, awaited, kept=False), *self._go_on(unit, step, turn)]
        if part in turn.early or turn.expected(part, origin) is None:
            raise OutOfStepError(
                f"worker {origin} sent round {part} of step {step} of unit {unit}, which nobody here awaits"
            )
        turn.early.add(part)
        return [Keep(unit, origin, step, part)]

    def sent(self, unit: int, step: int) -> list[Instruction]:
        """A part has left."""
        return self._settle(unit, step, self._turns[unit, step])

    def summed(self, unit: int, step: int) -> list[Instruction]:
        """The driver has carried out the program's last instruction."""
        return self._settle(unit, step, self._turns[unit, step])

    def place(self, unit: int, step: int, part: int, origin: int) -> tuple[int, int] | None:
        """Where finished sums may be received, also before their turn: they hold this rank's part, so it has been sent,
        and nothing here reads or adds to these elements any more. None for what is to be added."""
        turn = self._turns.get((unit, step))
        if turn is None or turn.at < 0:
            return None
        found = turn.expected(part, origin)
        return None if found is None or found.adds else (found.start, found.stop)

    def awaits(self, unit: int) -> ReceiveChunk | None:
        """The message without which a unit cannot go on; None where it waits for none."""
        turns = [turn for (index, _), turn in list(self._turns.items()) if index == unit]
        return turns[0].awaited if turns else None

    def _turn(self, unit: int, step: int) -> _Turn:
        turn = self._turns.get((unit, step))
        if turn is None:
            turn = self._turns[unit, step] = _Turn(program=self._program(self._counts[unit]))
        return turn

    def _go_on(self, unit: int, step: int, turn: _Turn) -> list[Instruction]:
        """What comes next, up to a message that is not there yet."""
        found: list[Instruction] = []
        while turn.at + 1 < len(turn.program):
            turn.at += 1
            now = turn.program[turn.at]
            if isinstance(now, NextPhase):
                found.append(GoOn(unit, step, now.phase))
            elif isinstance(now, SendChunk):
                turn.open += 1
                found.append(self._hand(unit, step, now))
            elif now.round in turn.early:
                turn.early.remove(now.round)
                found.append(self._take(unit, step, now, kept=True))
            else:
                return found
        return [*found, Summed(unit, step)]

    def _settle(self, unit: int, step: int, turn: _Turn) -> list[Instruction]:
        turn.open -= 1
        if turn.open:
            return []
        del self._turns[unit, step]
        return [Advance(unit, step + 1)]

    def _take(self, unit: int, step: int, awaited: ReceiveChunk, *, kept: bool) -> Add | Put:
        part = awaited.peer, step, awaited.round, awaited.start, awaited.stop
        if awaited.adds:
            return Add(unit, *part, kept=kept)
        return Put(unit, *part, kept=kept, apart=self._apart(unit, awaited, finished=True))

    def _hand(self, unit: int, step: int, now: SendChunk) -> Send:
        return Send(
            (now.peer,), Message.ROUND, unit, step, Content.GRADIENT, now.start, now.stop, part=now.round,
            apart=self._apart(unit, now, finished=now.finished), finished=now.finished, owned=now.owned,
        )  # fmt: skip

    def _apart(self, unit: int, now: SendChunk | ReceiveChunk, *, finished: bool) -> tuple[Span, ...]:
        return encoded_apart(self._completed(self._counts[unit]), now.start, now.stop, finished=finished)
