"""What an exchange does with one unit, and what it is given to do it with.

A new exchange is one file with a class of this shape and one row in `engine/axes/exchange.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from torch import Tensor

from engine.plan.units import Unit
from engine.protocol.messages import Message, Payload
from engine.state.capture import Capture
from engine.state.choice import Choice
from engine.state.host_memory import HostMemory
from engine.state.recording import Recording
from engine.state.versions import Versions
from engine.telemetry.collectives import Collectives
from engine.transport.endpoint import Sender
from engine.transport.message import Header


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """One worker's surroundings, shared by its exchanges."""

    rank: int
    workers: int
    choices: Mapping[int, Choice]
    """By unit index: the units of this exchange."""
    captures: Mapping[int, Capture] = field(default_factory=dict)
    """By unit index: where the factors of layers that travel by them are kept."""
    memory: HostMemory
    endpoint: Sender
    versions: Versions
    recording: Recording
    collectives: Collectives
    """What torch.distributed moves for this worker."""
    layer_of: Mapping[str, int] = field(default_factory=dict)
    """Forward position of the layer of each tensor that units have parts of (native exchange)."""
    shard_party: Callable[[int], int]
    """The party that hosts a server shard."""
    party_name: Callable[[int], str]
    """What people call a party."""
    device: str
    """The worker's torch device."""
    rendezvous: str
    """Where process groups meet (native exchange)."""
    deadline_s: float
    lockstep: bool = True
    """Whether all workers use the same version of a unit in the same step, and the latest."""
    lost: Callable[[int, int, str], None] = lambda rank, steps, reason: None
    """(rank, steps, reason): a worker was lost of which so many steps had come."""
    written: Callable[[Unit], bool] = lambda unit: False
    """Whether something has written to the unit's parameters in this step, besides the update."""


class Exchange(Protocol):
    """How the workers' contributions to some units meet, seen from one worker.

    `start` is called once per unit and step, on every worker, whether or not it has gradients. The exchange
    ends by writing parameters or summed gradients through `context.memory`, or holding what `finish` makes them of, and
    advancing the unit's version.
    """

    kinds: tuple[Message, ...]
    """The messages of the worker lane that it handles."""

    def __init__(self, context: Surroundings) -> None: ...

    def begin_step(self, step: int) -> None:
        """The forward pass of `step` begins."""
        ...

    def start(self, unit: Unit, step: int) -> None:
        """The unit's gradients of `step` are final; they must stay unchanged until its version advances."""
        ...

    def backward_ended(self) -> None:
        """In the training thread: no other unit starts in this step."""
        ...

    def finished(self, steps: int) -> None:
        """This worker has contributed `steps` steps, and contributes nothing more. Where workers drift, version
        `steps` + 1 of every unit comes when that holds for all of them."""
        ...

    def place(self, header: Header) -> list[memoryview] | None:
        """Where the payload of a message belongs, or None for a scratch buffer."""
        ...

    def handle(self, header: Header, payload: Payload) -> None:
        """A message has been received."""
        ...

    def finish(self, unit: Unit, step: int) -> None:
        """In the training thread, once all of a layer's units have the result of `step`, and before this worker updates
        it: what is still to be computed."""
        ...

    def missing(self, unit: Unit) -> str:
        """Who should have sent what a late unit waits for."""
        ...

    def close(self) -> None:
        """Release what the exchange holds; no unit is under way."""
        ...


@runtime_checkable
class Versioned(Protocol):
    """An exchange that counts the updates which what is here has seen."""

    def versions(self) -> list[int]:
        """Of every unit."""
        ...


@runtime_checkable
class Resumes(Protocol):
    """An exchange whose next step needs something of the earlier ones."""

    def state(self) -> dict[str, Tensor]:
        """That, between two steps, when this worker holds what the last one has made."""
        ...

    def load(self, state: Mapping[str, Tensor], step: int) -> None:
        """Go on with `step` from `state()` of the same worker's, before any message has come."""
        ...


@runtime_checkable
class Counts(Protocol):
    """An exchange that goes on without a worker that is lost, of which a message tells it. It knows others' steps."""

    def contributed(self) -> dict[int, int]:
        """By worker that this one has heard of: how many of its steps have come."""
        ...
