"""A worker's layers, as its replica knows them."""

from __future__ import annotations

from collections.abc import Mapping

from torch.nn import Parameter

from engine.plan.description import ModelDescription
from engine.plan.updates import OptimizerSpec
from engine.replica.layer import Layer
from engine.state.choice import Choice
from engine.state.updates import Away, Updater


def layers_of(
    model: ModelDescription,
    choices: Mapping[int, Choice],
    trainable: Mapping[str, Parameter],
    optimizer: OptimizerSpec,
    *,
    away: Away | None,
    version: int,
) -> list[Layer]:
    """Those of the model that have one of the `trainable` parameters, in forward order, with this worker's optimizer
    where it updates them. `choices`: of each unit. `away`: see Updater. `version`: the one that their parameters
    have."""
    updates = {c.layer.layer: c.flow.update for c in choices.values()}
    for choice in choices.values():
        for name in choice.unit.layers:
            updates.setdefault(name, choice.flow.update)
    mine = {
        layer.name: {p.name: trainable[p.name] for p in layer.parameters if p.name in trainable}
        for layer in model.layers
    }
    here = {n: p for name, own in mine.items() if own and updates[name] == "worker" for n, p in own.items()}
    updater = Updater(optimizer, here, away) if here else None
    layers = []
    for described in model.layers:
        own = mine[described.name]
        if not own:
            continue
        updated_here = updates[described.name] == "worker"
        layer = Layer(described.index, described.name, own, updater if updated_here else None)
        layer.version = version
        layer.units = [c.unit for c in choices.values() if described.name in c.unit.layers]
        layers.append(layer)
    return layers
