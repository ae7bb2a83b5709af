"""Options of the memory mechanisms, apart from the code that reads them: plans are made without torch."""

from __future__ import annotations

from dataclasses import dataclass

from engine.catalogue import STRICT
from engine.errors import require_within

_MOST_NEIGHBOURS = 10_000
_MOST_BYTES = 2**40
MOST_AHEAD = 16
_MOST_STEPS = 20_000


@dataclass(frozen=True, kw_only=True)
class RecomputeOptions:
    """Of layers whose activations are dropped and computed again."""

    __pydantic_config__ = STRICT

    neighbours: int | None = None
    """How many layers or blocks that follow one another in an nn.Sequential are dropped, and computed again, together.
    Null: the square root of their number, rounded."""

    def __post_init__(self) -> None:
        if self.neighbours is not None:
            require_within("neighbours", self.neighbours, 1, _MOST_NEIGHBOURS)


@dataclass(frozen=True, kw_only=True)
class SwapOptions:
    """Of layers whose activations are swapped."""

    __pydantic_config__ = STRICT

    least_bytes: int = 65536
    """Tensors of fewer bytes stay where they are: to move them takes longer than it is worth."""
    ahead: int = 2
    """A tensor is on its way back while so many that are wanted before it are used: it then takes memory, and its copy
    is hidden behind computation. 0: it comes when it is wanted, and is waited for."""

    def __post_init__(self) -> None:
        require_within("least_bytes", self.least_bytes, 0, _MOST_BYTES)
        require_within("ahead", self.ahead, 0, MOST_AHEAD)


@dataclass(frozen=True, kw_only=True)
class ThroughTimeOptions:
    """Of recurrent layers that run piece by piece."""

    __pydantic_config__ = STRICT

    piece_steps: int = 1
    """How many steps of the sequence are one piece."""
    slots: int = 8
    """Memory for what is stored between pieces, in states of the layer."""
    piece_slots: int | None = None
    """How many of these all takes that backward of one piece needs. Null: such is never stored, but computed again."""

    def __post_init__(self) -> None:
        require_within("piece_steps", self.piece_steps, 1, _MOST_STEPS)
        require_within("slots", self.slots, 0, _MOST_STEPS)
        if self.piece_slots is not None:
            require_within("piece_slots", self.piece_slots, 1, _MOST_STEPS)
