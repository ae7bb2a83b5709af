"""A row of the table that people read a plan as: `engine/preview.py` makes them. By itself, so that who only reads
plans, as the terminal does, loads nothing of what counts their bytes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Row:
    """One layer of a resolved plan."""

    position: int
    """Forward position."""
    layer: str
    kind: str
    """The module's class."""
    parameters: int
    """Trainable elements."""
    placement: str
    exchange: str
    codec: str
    """With those of its options that are not its defaults; and of a server's answers, where these have another one."""
    activations: str
    """What happens to them, with those of its options that are not its defaults; empty where they stay."""
    activations_why: str
    """Why a budget of memory chose that; empty where it did not."""
    order: str
    """Unit, departure, rank and return in one phrase."""
    units: int
    """Number of units that carry parts of this layer."""
    payload: str
    answer: str
    update: str
    barrier: str
    waits: str
    """When a forward pass waits for its parameters, and why; empty where it waits when it reads them, or never."""
    wire_exact: bool
    """Whether every message has the bytes that are declared; else they are the most that it has."""
    wire_bytes: int
    """Payload over all links of a step that exchanges: of every step, or where workers average of one in a period."""
