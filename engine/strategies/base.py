"""What a strategy is: a name, what it is good for, its options, and a function that builds the plan."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from engine.plan.cluster import Cluster
from engine.plan.description import LayerDescription, ModelDescription
from engine.plan.plan import LayerPlan, Plan, Servers, Wrapper


class Builder(Protocol):
    """`(model description, cluster, options) -> Plan`: pure, fast, and without torch."""

    def __call__(self, model: ModelDescription, cluster: Cluster, options: Any) -> Plan | Wrapper: ...


@dataclass(frozen=True, kw_only=True)
class Strategy:
    """One entry of the catalogue."""

    name: str
    """As users and papers name it."""
    summary: str
    """What it does, in one sentence."""
    loses_when: str
    """When another strategy is the better choice."""
    source: str
    """Paper and section, or the system whose behaviour it follows."""
    proof: Literal["exact", "bounded", "convergent"]
    """The class of proof that its tests hold it to (CONTRIBUTING explains the three)."""
    options: type
    """A frozen dataclass with its options."""
    build: Builder
    """The plan builder."""


def plan_every_layer(
    strategy: str,
    model: ModelDescription,
    choose: Callable[[LayerDescription], LayerPlan],
    servers: Servers | None = None,
) -> Plan:
    """A plan from one function of a layer, applied to every layer with trainable parameters."""
    return Plan(
        strategy=strategy,
        layers=tuple(choose(layer) for layer in trainable_layers(model)),
        servers=servers or Servers(),
    )


def uniform(
    strategy: str, model: ModelDescription, *, servers: Servers | None = None, **choices: Any
) -> Plan:
    """A plan that makes the same choices for every layer."""
    return plan_every_layer(strategy, model, lambda layer: LayerPlan(layer=layer.name, **choices), servers)


def trainable_layers(model: ModelDescription) -> Iterable[LayerDescription]:
    """The layers that a plan must speak of."""
    return (layer for layer in model.layers if any(p.trainable for p in layer.parameters))
