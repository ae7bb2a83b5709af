"""What the budget is told of a model, and what it answers: blocks with their bytes and times, and a choice for each."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from engine.errors import UserError


class Action(Enum):
    """What happens between forward and backward to what a block saves."""

    KEEP = "keep"
    SWAP = "swap"
    RECOMPUTE = "recompute"


@dataclass(frozen=True, kw_only=True)
class BlockCosts:
    """One block of a model, which calls its blocks one after the other."""

    name: str
    saved_bytes: int
    """What is saved for backward in it and not there in any case; its input with it, where that is saved."""
    input_bytes: int
    """What has to stay so that it can be computed again: its input."""
    forward_ns: int
    backward_ns: int
    working_bytes: int = 0
    """What it holds beside that while it computes, forward or backward, whichever is more: gradients, its output where
    nobody saves it, memory that its operations need meanwhile."""
    saved_input_bytes: int = 0
    """Of `input_bytes`, what is in `saved_bytes`, too."""
    shared_bytes: int = 0
    """Of `input_bytes`, what is in the `saved_bytes` of the block before it, too: the output of that, where it saves
    it. Where both stay, it is there once."""
    swapped_bytes: int | None = None
    """Of `saved_bytes`, what leaves where the block is swapped; null: all of it."""
    recomputable: bool = True
    """Whether it may be computed again."""
    joins: bool = False
    """Whether it may be computed again together with the block before it, from the input of that: what it takes is
    that block's output, and nothing else."""

    def __post_init__(self) -> None:
        for name in ("saved_bytes", "input_bytes", "forward_ns", "backward_ns", "working_bytes"):
            self._require(name, getattr(self, name), None)
        self._require("saved_input_bytes", self.saved_input_bytes, min(self.saved_bytes, self.input_bytes))
        self._require("shared_bytes", self.shared_bytes, self.input_bytes)
        self._require("swapped_bytes", self.swapped_bytes or 0, self.saved_bytes)

    def _require(self, field: str, value: int, most: int | None) -> None:
        if value < 0 or (most is not None and value > most):
            rule = "must not be negative" if value < 0 else f"is a part of {most:,} bytes"
            raise UserError(f"{self.name}.{field}", value, rule, "Measure the block again")

    @property
    def leaving_bytes(self) -> int:
        """What leaves where the block is swapped."""
        return self.saved_bytes if self.swapped_bytes is None else self.swapped_bytes

    @property
    def twice_bytes(self) -> int:
        """What both this block and the one before it save, where both are kept."""
        return min(self.shared_bytes, self.saved_input_bytes)


@dataclass(frozen=True, slots=True)
class Chosen:
    """What is chosen for one block."""

    action: Action
    joined: bool = False
    """It is computed again together with the block before it."""
    late: bool = False
    """It is swapped, and comes back when it is wanted, not before."""
