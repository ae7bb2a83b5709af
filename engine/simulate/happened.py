"""What a simulated job is given, and what happened in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from engine.consistency.policy import Policy
from engine.errors import UserError
from engine.plan.consistency import unwaited
from engine.plan.plan import Plan
from engine.protocol.instructions import Part
from engine.simulate.network import Passed


class Exchanges(Protocol):
    """In which steps a fragment of the model leaves, and after which step left what is needed after one
    (`engine/consistency/average.py`)."""

    def leaves(self, fragment: int, step: int) -> bool: ...
    def arrives(self, fragment: int, step: int) -> int | None: ...


class InEveryStep:
    """All of it leaves, and is needed for the next."""

    def leaves(self, fragment: int, step: int) -> bool:
        return True

    def arrives(self, fragment: int, step: int) -> int | None:
        return step


class Compute(NamedTuple):
    """How long one worker computes a layer in one step; a device, for one worker."""

    forward_ns: int
    backward_ns: int


class WorkerLoss(NamedTuple):
    """A worker dies."""

    rank: int
    at_ns: int
    returns_ns: int | None = None
    """When it is there again, started anew; None: never."""


class Waited(NamedTuple):
    """A worker could not go on: a layer's version had not come, or what another stage or a device sends."""

    rank: int
    step: int
    layer: int
    start_ns: int
    end_ns: int


class Updated(NamedTuple):
    """A server has updated a unit."""

    unit: int
    version: int
    at_ns: int
    parts: tuple[Part, ...]
    """As `Update.parts`: none in lockstep."""


class DroppedContribution(NamedTuple):
    """A contribution was applied never."""

    unit: int
    rank: int
    step: int
    reason: str


class Joined(NamedTuple):
    """A worker that was lost contributes again."""

    rank: int
    incarnation: int
    step: int | None
    """From which on; None where nobody contributed any more, so that it does not, either."""
    at_ns: int
    """All servers had welcomed it."""


@dataclass(kw_only=True)
class Simulated:
    """What happened."""

    begun_ns: dict[tuple[int, int], int] = field(default_factory=dict)
    """By worker and step: when its forward pass began. The one behind the last step: when all had come."""
    waited: list[Waited] = field(default_factory=list)
    passed: list[Passed] = field(default_factory=list)
    """What crossed the network."""
    moved: Counter[tuple[int, int, int]] = field(default_factory=Counter)
    """(sender, receiver, unit): payload bytes of all messages, those within a host as well."""
    encoded: Counter[int] = field(default_factory=Counter)
    """By party: elements that a codec which is not lossless encodes, of what is exchanged; what crosses edges left
    out."""
    decoded: Counter[int] = field(default_factory=Counter)
    """By party: elements that it decodes."""
    applied: Counter[tuple[int, int, int]] = field(default_factory=Counter)
    """(unit, worker, staleness): contributions that were applied, where workers drift."""
    updated: list[Updated] = field(default_factory=list)
    dropped: list[DroppedContribution] = field(default_factory=list)
    joined: list[Joined] = field(default_factory=list)


def check_losses(losses: Sequence[WorkerLoss], plan: Plan, workers: int, policy: Policy) -> None:
    """Raises UserError where a job would not go on without the workers that are lost, or nobody could be."""
    there_ns: dict[int, int | None] = {}
    for loss in sorted(losses, key=lambda each: each.at_ns):
        rule = remedy = ""
        since_ns = there_ns.get(loss.rank, 0)
        if not 0 < loss.rank < workers:
            rule = f"the job has workers 0 to {workers - 1}, and ends with worker 0, who evaluates and saves"
            remedy = "Lose another worker"
        elif policy.lockstep:
            rule, remedy = "every worker waits for all others", "Simulate a mode in which workers drift"
        elif plan.servers.count and plan.servers.where != "dedicated":
            rule = "a shard's parameters are lost with the worker that it stands beside"
            remedy = "Use servers of their own (where: dedicated)"
        elif loss.returns_ns is not None and unwaited(plan.consistency):
            rule, remedy = (
                "nobody hands over what it has missed where there are no servers",
                "Let it stay away",
            )
        elif since_ns is None or not since_ns <= loss.at_ns < (loss.returns_ns or loss.at_ns + 1):
            rule = "a worker is lost while it is there, and returns after that"
            remedy = "Put its losses and returns in order"
        if rule:
            raise UserError("losses", list(loss), rule, remedy)
        there_ns[loss.rank] = loss.returns_ns
