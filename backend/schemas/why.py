"""One exposed wait, explained."""

from __future__ import annotations

from typing import Literal

from backend.schemas.base import Schema


class Ahead(Schema):
    """A layer whose messages left while another one was queued."""

    layer: str
    layer_name: str
    """What people read as its name: `4 (Conv2d)` of a layer called `4`; empty: belongs to no layer."""
    ns: int
    """For how long they were on the wire meanwhile; messages to several peers overlap."""


class Stretch(Schema):
    """A part of a wait with one cause."""

    cause: Literal["compute", "queue", "held", "wire", "reduce", "collective", "apply", "unknown"]
    """`compute`: a worker had not computed it yet. `queue`: behind other messages of its sender. `held`: ready,
    while its sender sent little or nothing. `wire`: on the way. `reduce`: summed or updated. `collective`: in a
    native collective. `apply`: there, but not taken in yet. `unknown`: nothing was recorded of it."""
    text: str
    from_ns: int
    """On the attempt's clock."""
    to_ns: int
    party: str
    """Where; a message's sender."""
    peer: str | None
    """A message's receiver."""
    ahead: list[Ahead]
    """Of a queue: the longest first."""


class Message(Schema):
    """A send or a receive."""

    party: str
    peer: str
    layer: str
    unit: int
    queued_ns: int
    """-1: not known."""
    start_ns: int
    end_ns: int
    bytes: int


class Why(Schema):
    """Why a worker waited."""

    text: str
    """`waited 41 ms: 30 ms queued behind fc7, 11 ms on the wire`."""
    worker: str
    step: int
    layer: str
    """What it waited for."""
    layer_name: str
    """The same as people read it; empty: what belongs to no layer."""
    unit: int
    """The unit of it that came last; -1: not known."""
    start_ns: int
    end_ns: int
    stretches: list[Stretch]
    """In order of time, without gaps: they add up to the wait."""
    receive: Message | None
    """What ended the wait; null where it was no message, or was not recorded."""
    send: Message | None
    """The same message at its sender."""
    ahead: list[Message]
    """What left while a message on the way was queued: at most 400, by start."""
