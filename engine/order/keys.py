"""Rank: the priority of a unit's messages. Smaller goes first; equal priorities go in the order they came."""

from __future__ import annotations

from engine.plan.units import Unit


def fifo(unit: Unit) -> int:
    """First come, first served: all units are equal."""
    return 0


def by_forward_position(unit: Unit) -> int:
    """What the next forward pass needs first goes first (papers 004, section 4.2)."""
    return unit.position
