"""What a message costs on this machine, for who makes plans."""

from __future__ import annotations

from engine.measured_here import Measured, told_by
from engine.plan.plan import MessageCost


def failed(why: str) -> MessageCost:
    """Where it could not be measured."""
    return MessageCost(why=why)


def measure() -> MessageCost:
    """One to three seconds of `engine/transport/message_cost.py`."""
    return told_by(
        "engine.transport.message_cost", lambda said: MessageCost(seconds=float(said) / 1e6), failed
    )


_HERE = Measured(measure, failed)


def here() -> MessageCost:
    """Of this machine. The first call takes one to three seconds; later ones answer the same, but for a failure, after
    which one tries again now and then."""
    return _HERE.get()
