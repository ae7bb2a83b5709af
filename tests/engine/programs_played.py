"""Programs of `engine/budget/`, played: nothing is used that is not there, and nothing stays when all is done."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from engine.budget.instructions import Back, Hold, Instruction, Run, Save


class Player:
    """What is in memory while a program runs over `count` stages."""

    def __init__(self, count: int, *, needs_state: bool) -> None:
        """`needs_state`: a backward needs its stage's state beside what was saved of the stage."""
        self.held: set[int] = set()
        self.saved: set[int] = set()
        self.hand: int | None = None
        self.back = count - 1
        """The stage that goes backward next: its output's gradient is there."""
        self._needs_state = needs_state

    def stays(self, state: int) -> bool:
        """Whether a state is in memory, whatever is in hand."""
        return state == 0 or state in self.held or state - 1 in self.saved

    def play(self, program: Iterable[Instruction]) -> Iterator[Instruction]:
        """Each stage's run and each other instruction, while it is done: what it makes is in memory, what it lets go
        still is."""
        for step in program:
            if isinstance(step, Run):
                assert step.start < step.stop <= self.back
                for stage in range(step.start, step.stop):
                    assert self.stays(stage) or self.hand == stage
                    yield Run(stage, stage + 1)
                    self.hand = stage + 1
            elif isinstance(step, Hold):
                assert self.hand == step.state
                assert not self.stays(step.state)
                self.held.add(step.state)
                yield step
            elif isinstance(step, Save):
                assert step.stage <= self.back
                assert step.stage not in self.saved
                assert self.stays(step.stage) or (self.hand == step.stage and not self._needs_state)
                self.saved.add(step.stage)
                yield step
                self.hand = step.stage + 1
            else:
                assert isinstance(step, Back)
                assert step.stage == self.back
                assert step.stage in self.saved
                assert self.stays(step.stage) or not self._needs_state
                yield step
                self.saved.remove(step.stage)
                self.held.discard(step.stage)
                self.hand = None
                self.back -= 1
        assert self.back == -1
        assert not self.held
        assert not self.saved
