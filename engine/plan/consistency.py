"""Consistency of a plan: how far workers may drift, with each mode's own settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from engine.consistency import CONSISTENCY
from engine.errors import UserError

_BELONGS: dict[str, tuple[str, ...]] = {
    "period": ("average",),
    "optimizer_state": ("average",),
    "learning_rate_rule": ("average",),
    "outer_learning_rate": ("average",),
    "outer_momentum": ("average",),
    "scaling": ("asynchronous",),
    "contributions": ("softsync",),
    "bound": ("bounded-staleness",),
}
"""Which modes read which setting."""


@dataclass(frozen=True, kw_only=True)
class Consistency:
    """How far workers may drift. Chosen for the job; other axes may differ from layer to layer."""

    __pydantic_config__ = {"use_attribute_docstrings": True, "extra": "forbid"}

    mode: str = "every-step"
    """A value of the axis `consistency`."""
    period: int | None = None
    """`average`: steps between two averages."""
    optimizer_state: bool | None = None
    """`average`: whether the optimizer's state is averaged with the parameters."""
    learning_rate_rule: Literal["constant", "linear"] | None = None
    """`average`: `linear` multiplies the learning rate by the number of workers (papers 002)."""
    outer_learning_rate: float | None = None
    """`average`: learning rate of the outer optimizer that takes the averaged step; 1 is plain averaging."""
    outer_momentum: float | None = None
    """`average`: momentum of the outer optimizer."""
    scaling: Literal["constant", "staleness"] | None = None
    """`asynchronous`: `staleness` divides a contribution's step by its staleness (papers 001)."""
    contributions: int | None = None
    """`softsync`: contributions that make one update."""
    bound: int | None = None
    """`bounded-staleness`: steps that the fastest worker may be ahead of the slowest."""

    def __post_init__(self) -> None:
        CONSISTENCY.require(self.mode, "mode")
        for name, modes in _BELONGS.items():
            if getattr(self, name) is not None and self.mode not in modes:
                raise UserError(
                    name,
                    getattr(self, name),
                    f"means nothing for {self.mode}",
                    f"Leave it out; it belongs to {', '.join(modes)}",
                )
