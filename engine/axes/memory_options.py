"""Options of the memory mechanisms, apart from the code that reads them: plans are made without torch."""

from __future__ import annotations

from dataclasses import dataclass

from engine.catalogue import STRICT
from engine.errors import require_within

_MOST_NEIGHBOURS = 10_000
_MOST_BYTES = 2**40


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

    def __post_init__(self) -> None:
        require_within("least_bytes", self.least_bytes, 0, _MOST_BYTES)
