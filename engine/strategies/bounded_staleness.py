"""bounded-staleness: as async-sgd, but the fastest worker is never more than s steps ahead of the slowest.

Update rule: `engine/consistency/bounded_staleness.py`. Bytes as async-sgd.
Source: papers 001, after Ho et al. 2013 (stale synchronous parallel). Deviation: the bound holds for each unit by
itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from engine.consistency.bounded_staleness import BoundedStalenessSettings
from engine.plan.cluster import Cluster
from engine.plan.description import ModelDescription
from engine.plan.plan import Plan
from engine.strategies.base import Strategy
from engine.strategies.drifting import AsynchronousOptions


@dataclass(frozen=True, kw_only=True)
class Options(AsynchronousOptions):
    """How far workers may drift, and how contributions travel."""

    bound: int = 3
    """s: steps that the fastest worker may be ahead of the slowest. 0: nobody is."""
    apply: Literal["arrival", "clock"] = "arrival"
    """Whether a contribution is applied on `arrival`, or all of one step as one update (`clock`)."""
    own_writes: bool | None = None
    """Whether a worker's own contributions are in what it reads: by `clock` with a bound above 0 they are not,
    elsewhere they are. Null: as it is. The other answer is refused, with the reason."""


def build(model: ModelDescription, cluster: Cluster, options: Options) -> Plan:
    """Slices by priority; reads wait for who is too far behind."""
    consistency = BoundedStalenessSettings(
        bound=options.bound, apply=options.apply, own_writes=options.own_writes
    )
    return options.drifting("bounded-staleness", model, cluster, consistency)


STRATEGY = Strategy(
    name="bounded-staleness",
    summary="Nobody waits for another worker unless it would be more than s steps ahead of it (SSP).",
    loses_when="one worker is always slower: the others wait for it all the same, s steps later.",
    source="papers 001 (bounded staleness)",
    proof="convergent",
    options=Options,
    build=build,
)
