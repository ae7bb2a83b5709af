"""A budget of memory: what a job says of it, and what was chosen for it, layer by layer. No torch here.

`engine/liveness/fitting.py` chooses, in a process of its own, on tensors without values. What a user's overrides say of
a layer's activations stays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from engine.catalogue import STRICT
from engine.errors import UserError, require_file
from engine.plan.units_of_measure import format_bytes, format_enough, format_time, parse_bytes


@dataclass(frozen=True, kw_only=True)
class MemorySpec:
    """A limit of memory, and what the choices for it rest on."""

    __pydantic_config__ = STRICT

    budget: str | int | None = None
    """The most that a worker may hold, as `6GiB`, `600MB` or a number of bytes: each layer then keeps its activations,
    swaps them or computes them again, so that the predicted peak is within it and the predicted time is least. Null:
    no limit, and layers keep them. Overrides that say what happens to a layer's activations go before it."""
    profile: str | None = None
    """A measured profile's file, as `trainyard profile` writes it, on the server's machine: its times take the place of
    those from FLOPs and bytes, by which the choice is made. Without effect where there is no budget."""

    def __post_init__(self) -> None:
        if self.budget is not None:
            parse_bytes(self.budget, "budget")
        require_file("profile", self.profile)

    @property
    def budget_bytes(self) -> int | None:
        """The budget in bytes."""
        return None if self.budget is None else parse_bytes(self.budget, "budget")


@dataclass(frozen=True, kw_only=True)
class LayerChoice:
    """What was chosen for one layer."""

    __pydantic_config__ = STRICT

    layer: str
    """Its name: its module path in the model."""
    activations: str
    """As the axis calls it."""
    options: dict[str, Any]
    """Its own options."""
    why: str
    """In one phrase."""


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """What was chosen for a budget, and what is predicted of it for worker 0."""

    __pydantic_config__ = STRICT

    budget: int
    """In bytes."""
    peak: int
    """The predicted peak of its steps, with what the plan declares beside them, in bytes; of the first two steps, in
    which mechanisms learn what their blocks do, where these hold more."""
    kept: int
    """The same if all layers that were left to the budget kept their activations."""
    pass_ns: int
    """Nanoseconds of one pass forward and backward through the blocks that were left to the budget, predicted, if they
    kept everything."""
    extra_ns: int
    """What is computed again and waited for beside that."""
    rates: str
    """What the times are made from."""
    left_out: str = ""
    """What was not chosen from, and why."""
    layers: tuple[LayerChoice, ...] = ()
    """Of the layers that were left to the budget."""

    @property
    def why(self) -> str:
        """All of it in one sentence."""
        found = f"memory.budget: {format_bytes(self.budget)}; predicted peak {format_bytes(self.peak)}"
        if self.peak == self.kept and not self.extra_ns:
            return f"{found} with everything kept: it fits, and nothing is swapped or computed again."
        share = f", {100 * self.extra_ns / self.pass_ns:.0f} % more" if self.pass_ns else ""
        left_out = f"; {self.left_out}" if self.left_out else ""
        return (
            f"{found} ({format_bytes(self.kept)} with everything kept); predicted time of a pass"
            f" {format_time(self.pass_ns + self.extra_ns)}{share} ({self.rates}){left_out}."
        )


def impossible(budget: int, least: int) -> UserError:
    """Where nothing that can be chosen is within a budget; both with all that a worker holds."""
    return UserError(
        "memory.budget",
        format_bytes(budget),
        f"no choice for the layers' activations has a predicted peak below {format_enough(least)} ({least} bytes)",
        f"Give {-(-least // 2**10)}KiB or more, smaller batches, or more micro-batches",  # rounded up: enough
    )
