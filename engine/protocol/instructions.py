"""What a machine tells its driver to do, in order. Each names a unit; which tensors those are is the driver's to know.

`Send` and `Advance` are for any party. `Add`, `Keep` and `Put` say what becomes of the message that has just arrived,
or of one that was kept. `Update` and `Drop` are a home's.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple, TypeAlias

from engine.plan.rounds import Span
from engine.protocol.messages import Message


class Content(Enum):
    """What of a unit travels."""

    NOTHING = "nothing"
    GRADIENT = "gradient"
    """The worker's own gradient, or what it has been summed up to so far."""
    PARAMETERS = "parameters"
    """The home's, or the sums where workers update."""
    FACTORS = "factors"


class Send(NamedTuple):
    """Hand elements [start, stop) of a unit's content to each of the peers. The content is encoded once for all."""

    peers: tuple[int, ...]
    kind: Message
    unit: int
    step: int
    content: Content = Content.NOTHING
    start: int = 0
    stop: int = 0
    part: int = 0
    """Round of an allreduce; of a push and its answer, the phase."""
    version: int = 0
    """Of a push: what its gradient was computed on. Of an answer: the home's."""
    snapshot: bool = False
    """The content may change before it has left: send a copy."""
    apart: tuple[Span, ...] = ()
    """In which parts the content is encoded, one after the other; empty: as one."""
    finished: bool = False
    """These are sums of all ranks' parts."""
    owned: bool = False
    """They were completed here: what a lossy codec makes of them is kept here, too, and handed on by the others as it
    is."""


class Add(NamedTuple):
    """Add a contribution to the unit's sum: the message that has just arrived, or `kept` ones of (origin, step, part).
    The first one of a sum replaces what an earlier sum left there."""

    unit: int
    origin: int
    step: int
    part: int = 0
    start: int = 0
    stop: int = 0
    first: bool = False
    kept: bool = False


class Put(NamedTuple):
    """Let the message be elements [start, stop) of the unit: parameters, or finished sums."""

    unit: int
    origin: int
    step: int
    part: int = 0
    start: int = 0
    stop: int = 0
    kept: bool = False
    apart: tuple[Span, ...] = ()
    """As `Send.apart`."""


class Keep(NamedTuple):
    """Keep the message that has just arrived: its turn comes later."""

    unit: int
    origin: int
    step: int
    part: int = 0


class Drop(NamedTuple):
    """A contribution is applied never."""

    unit: int
    origin: int
    step: int
    reason: str
    kept: bool = False


class Part(NamedTuple):
    """A contribution that an update consists of."""

    rank: int
    step: int
    staleness: int
    """Updates that the unit has seen between the version which it was computed on and this update."""
    incarnation: int = 0
    """How often the worker had been started anew."""


class Update(NamedTuple):
    """The optimizer takes one step with the unit's sum; the unit is then at `version`."""

    unit: int
    version: int
    step: int
    """Which step's hyper-parameters hold."""
    parts: tuple[Part, ...] = ()
    """The contributions in it, where workers drift. In lockstep nobody's is stale, and none is named."""
    rate: float = 1.0
    """What the learning rate is multiplied by."""


class GoOn(NamedTuple):
    """All sums of the unit's `phase` are in their places, and what the worker gives to the next one is made of them."""

    unit: int
    step: int
    phase: int = 0


class Summed(NamedTuple):
    """All of the unit's sums are in their places. The driver tells the machine when it has carried this out: until then
    a part that leaves meanwhile must not complete the unit."""

    unit: int
    step: int


class Advance(NamedTuple):
    """The worker's unit holds the result of all steps before `clock`."""

    unit: int
    clock: int


Instruction: TypeAlias = Send | Add | Put | Keep | Drop | Update | GoOn | Summed | Advance
