"""softsync: servers update for every s contributions, whoever sent them.

Update rule: w <- update(w, sum of s gradients) (`engine/consistency/softsync.py`). s = 1 is async-sgd, s = n
synchronous SGD. Bytes as async-sgd.
Source: papers 001, after Gupta et al. 2016. Deviation: contributions are summed, each with its share of the global
batch.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.consistency.softsync import SoftsyncSettings
from engine.plan.cluster import Cluster
from engine.plan.description import ModelDescription
from engine.plan.plan import Plan
from engine.strategies.base import Strategy
from engine.strategies.drifting import AsynchronousOptions


@dataclass(frozen=True, kw_only=True)
class Options(AsynchronousOptions):
    """How many contributions make an update, and how they travel."""

    contributions: int | None = None
    """s: 1 is asynchronous, the number of workers is synchronous. Null: half of the workers."""
    own_writes: bool | None = None
    """Whether a worker waits, before a step, until its last contribution is in what it reads. Null: where s is 1 or all
    workers. With another s workers could wait for one another for ever, and true is refused."""


def build(model: ModelDescription, cluster: Cluster, options: Options) -> Plan:
    """Slices by priority, summed over s contributions."""
    half = max(1, cluster.workers // 2)
    chosen = half if options.contributions is None else options.contributions
    consistency = SoftsyncSettings(contributions=chosen, own_writes=options.own_writes)
    return options.drifting("softsync", model, cluster, consistency)


STRATEGY = Strategy(
    name="softsync",
    summary="Servers update for every s contributions, whoever sent them: between asynchronous and synchronous.",
    loses_when="all workers are equally fast: waiting for all costs nothing then.",
    source="papers 001 (softsync)",
    proof="convergent",
    options=Options,
    build=build,
)
