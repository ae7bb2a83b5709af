"""Instructions: a backward pass over a chain of which not everything is held, as a program.

The chain's stages are numbered from 0; state k is the input of stage k, so stage k makes state k+1 of state k. State 0
is the caller's and always there. A pass walks with one state *in hand*, which costs nothing to put down.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Run:
    """Take state `start` in hand, which is held (or comes with what was saved of the stage before it), and run stages
    [start, stop) from it. Nothing of them stays but state `stop`, in hand."""

    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Hold:
    """The state in hand is held until its stage went backward."""

    state: int


@dataclass(frozen=True, slots=True)
class Save:
    """Run `stage`, from its state in hand or held, with all that its backward needs, which is held until then. The next
    state is a part of that."""

    stage: int


@dataclass(frozen=True, slots=True)
class Back:
    """Go backward through `stage`, the last that has not yet, by what was saved of it. That is let go, and so is its
    state where it is held; state 0 stays."""

    stage: int


Instruction: TypeAlias = Run | Hold | Save | Back


def forwards(program: Iterable[Instruction]) -> int:
    """How many times a stage is run."""
    return sum(
        step.stop - step.start if isinstance(step, Run) else isinstance(step, Save) for step in program
    )
