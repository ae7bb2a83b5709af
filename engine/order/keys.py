"""Rank: the priority of a unit's messages in a step. Smaller goes first; equal ones go in the order they came."""

from __future__ import annotations

from engine.plan.units import Unit

_POSITIONS = 1 << 15
_STEPS = 1 << 16
"""Together they fill the header's 31 bits. Where the count of steps wraps, one step's messages are out of order,
which costs a little time once in 65,536 steps and changes nothing else."""


def fifo(unit: Unit, step: int) -> int:
    """First come, first served: all units are equal."""
    return 0


def fifo_beside_priorities(first: int, unit: Unit, step: int) -> int:
    """First come, first served, in a plan whose other layers have priorities: all of a step are as urgent as the most
    urgent of them, at forward position `first`.

    Who stands in a queue holds up who stands behind: what `first` waits for is as urgent as `first` is. Were all of
    them 0, as where nothing has a priority, a heavy last layer would go before every priority; were all of them last,
    every priority would go before a queued first layer.
    """
    return step % _STEPS * _POSITIONS + min(first, _POSITIONS - 1)


def by_forward_position(unit: Unit, step: int) -> int:
    """What the next forward pass needs first goes first (papers 004, section 4.2), and an older step before a newer.

    Workers are up to a step apart. Without the step, the gradients of the worker that is ahead would overtake the
    parameters that the other one still waits for, and hold up both.
    """
    return step % _STEPS * _POSITIONS + min(unit.position, _POSITIONS - 1)


def rank_in_step(priority: int) -> int:
    """A message's priority without its step: the forward position, which is what people read."""
    return priority % _POSITIONS
