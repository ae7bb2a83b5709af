"""Seats: which layers a worker computes, with whom it exchanges them, and in which passes it goes through a step."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from engine.placement.schedule import Action, actions
from engine.plan.cluster import device_party
from engine.plan.description import ModelDescription
from engine.plan.plan import Plan


@dataclass(frozen=True, kw_only=True)
class Seat:
    """One worker's."""

    party: int
    """The worker."""
    team: tuple[int, ...]
    """The workers that hold the same layers: its exchanges are theirs."""
    layers: tuple[str, ...]
    """In forward order."""
    samples: tuple[int, ...] = (1,)
    """Of its passes in one step; where nothing of them travels they are one."""
    passes: tuple[Action, ...] = ("forward", "backward")
    before: tuple[int, int] | None = None
    """The edge (its number, the party at its other end) that activations come by."""
    behind: tuple[int, int] | None = None
    """The edge that they leave by."""
    to_device: bool = False
    """That one leads to a device, which answers every pass, also one without samples."""

    @property
    def rank(self) -> int:
        """Its number in the team."""
        return self.team.index(self.party)


def seats_of(
    plan: Plan, model: ModelDescription, workers: int, computed: Container[str], *, edges: bool
) -> list[Seat]:
    """Of all workers. `computed`: layers that count. `edges`: whether activations travel; else each worker goes through
    its layers as if it had all that they need."""
    choices = {layer.layer: layer for layer in plan.layers}
    order = [layer.name for layer in model.layers if layer.name in computed]
    everybody = tuple(range(workers))
    if plan.pipeline is None:
        here = tuple(name for name in order if choices[name].placement != "device")
        found = [Seat(party=rank, team=everybody, layers=here) for rank in everybody]
        return [_with_device(plan, seat, workers) for seat in found] if edges and plan.edges else found
    stages = plan.pipeline.stages
    return [
        _in_row(
            plan,
            Seat(
                party=party,
                team=everybody[party % stages :: stages],
                layers=tuple(name for name in order if choices[name].place == party % stages),
            ),
            edges=edges,
        )
        for party in everybody
    ]


def _with_device(plan: Plan, seat: Seat, workers: int) -> Seat:
    assert plan.workload is not None, "resolve the plan first"
    (edge,) = plan.edges
    where = next(layer.place for layer in plan.layers if layer.layer == edge.destination)
    assert where is not None, "the layer behind the cut is on a device"
    samples = plan.workload.shares(seat.party, workers)
    return Seat(
        party=seat.party,
        team=seat.team,
        layers=seat.layers,
        samples=tuple(samples),
        passes=tuple(actions("1f1b", 0, 2, len(samples))),
        behind=(0, device_party(plan, workers, where)),
        to_device=True,
    )


def _in_row(plan: Plan, seat: Seat, *, edges: bool) -> Seat:
    if not edges:
        return seat
    assert plan.pipeline is not None
    assert plan.workload is not None, "resolve the plan first"
    stages = plan.pipeline.stages
    replica, stage = divmod(seat.party, stages)
    samples = plan.workload.shares(replica, len(seat.team))
    return Seat(
        party=seat.party,
        team=seat.team,
        layers=seat.layers,
        samples=tuple(samples),
        passes=tuple(actions(plan.pipeline.schedule, stage, stages, len(samples))),
        before=(stage - 1, seat.party - 1) if stage > 0 else None,
        behind=(stage, seat.party + 1) if stage < stages - 1 else None,
    )
