"""Which machines a plan makes of its units: for every worker and every home. The same on every party."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import cast

from engine.axes.exchange import EXCHANGE
from engine.catalogue import found
from engine.consistency.policy import Policy
from engine.plan.cluster import shard_party
from engine.plan.plan import LayerPlan, Plan
from engine.plan.rounds import Algorithm
from engine.plan.units import Unit
from engine.protocol.gathered import Gathered
from engine.protocol.home import Home, Returns
from engine.protocol.peers import Peers
from engine.protocol.rounds import Rounds
from engine.protocol.served import Served, ServedUnit


@dataclass(kw_only=True)
class WorkerMachines:
    """One worker's, by unit."""

    served: dict[int, Served] = field(default_factory=dict)
    rounds: dict[int, Rounds] = field(default_factory=dict)
    gathered: dict[int, Gathered] = field(default_factory=dict)
    peers: dict[int, Peers] = field(default_factory=dict)
    alone: set[int] = field(default_factory=set)
    """Units of which nothing travels."""


def worker_machines(plan: Plan, units: Sequence[Unit], *, rank: int, workers: int) -> WorkerMachines:
    """What worker `rank` runs."""
    choices = {layer.layer: layer for layer in plan.layers}
    machines = WorkerMachines()
    served: dict[int, ServedUnit] = {}
    rounds: dict[str, dict[int, tuple[int, ...]]] = defaultdict(dict)
    unwaited: dict[int, int] = {}
    gathered = Gathered(rank=rank, workers=workers)
    for unit in units:
        layer = choices[unit.layers[0]]
        if unit.shard is not None:
            home = shard_party(plan, workers, unit.shard)
            served[unit.index] = ServedUnit(unit.layers[0], unit.summed, home, returns_of(layer))
        elif EXCHANGE[layer.exchange].rounds is not None and workers > 1:
            rounds[layer.exchange][unit.index] = unit.summed
        elif "gathered" in EXCHANGE[layer.exchange].traits:
            machines.gathered[unit.index] = gathered
        elif "unwaited" in EXCHANGE[layer.exchange].traits:
            unwaited[unit.index] = unit.count
        else:
            machines.alone.add(unit.index)
    if served:
        machines.served = dict.fromkeys(served, Served(served))
    if unwaited:
        machines.peers = dict.fromkeys(unwaited, Peers(rank=rank, workers=workers, counts=unwaited))
    for name, counts in rounds.items():
        machine = Rounds(algorithm_of(name), rank=rank, workers=workers, counts=counts)
        machines.rounds |= dict.fromkeys(counts, machine)
    return machines


def algorithm_of(exchange: str) -> Algorithm:
    """What workers follow in an exchange that has rounds."""
    name = EXCHANGE[exchange].rounds
    assert name is not None, f"{exchange} has no rounds"
    return cast(Algorithm, found(name))


def homes(
    plan: Plan,
    units: Sequence[Unit],
    *,
    shard: int,
    workers: int,
    policy: Callable[[], Policy],
    rank_order: bool,
) -> dict[int, list[Home]]:
    """What server shard `shard` runs: by unit, one for each of its phases."""
    choices = {layer.layer: layer for layer in plan.layers}
    return {
        unit.index: homes_of(
            unit, choices[unit.layers[0]], workers=workers, policy=policy, rank_order=rank_order
        )
        for unit in units
        if unit.shard == shard
    }


def homes_of(
    unit: Unit, layer: LayerPlan, *, workers: int, policy: Callable[[], Policy], rank_order: bool
) -> list[Home]:
    """One for each of the unit's phases. All but the last one answer by themselves: workers go on from what they say
    to the same step's next phase."""
    last = len(unit.summed) - 1
    return [
        Home(
            unit.index,
            count,
            workers=workers,
            policy=policy(),
            returns=returns_of(layer) if phase == last else "push",
            rank_order=rank_order,
            phase=phase,
        )
        for phase, count in enumerate(unit.summed)
    ]


def returns_of(layer: LayerPlan) -> Returns:
    """How a served layer's answers return."""
    assert layer.order.returns != "none", "resolve the plan first"
    return cast(Returns, layer.order.returns)
