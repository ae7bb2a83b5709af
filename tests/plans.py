"""Descriptions, jobs and plans for tests: of the catalogue's models on meta tensors, and of layers made up."""

from __future__ import annotations

import json
from collections import defaultdict
from functools import cache
from typing import Any

import torch

from engine.liveness.request import answer
from engine.models.describe import describe
from engine.models.registry import model
from engine.plan.budget import Fitted
from engine.plan.cluster import cluster_of
from engine.plan.consistency import Consistency
from engine.plan.description import LayerDescription, ModelDescription, ParameterDescription
from engine.plan.job import JobSpec
from engine.plan.plan import LayerPlan, Order, Plan, Servers, Wrapper
from engine.plan.rules import resolve
from engine.plan.serde import from_plain
from engine.plan.units import Unit
from engine.strategies import STRATEGIES, build_plan

WORKERS = (1, 2, 4)
PLANNED = [entry.name for entry in STRATEGIES if entry.name not in ("single", "ddp", "fsdp")]
"""The strategies that give several workers a plan of ours: all but the baseline and the peers."""
SERVED = [
    name for name in PLANNED if name.startswith(("parameter-s", "p3", "model-average")) and "+" not in name
]
"""Those of them with servers that hold all of the model."""


@cache
def described(name: str) -> ModelDescription:
    """The description of a model of the catalogue."""
    entry = model(name)
    with torch.device("meta"):
        inputs = torch.empty(2, *entry.input_shape, dtype=getattr(torch, entry.input_dtype))
        return describe(entry.build(), inputs, torch.empty(2, *entry.target_shape, dtype=torch.int64), name)


def choose(job: JobSpec, request: dict[str, Any]) -> Fitted:
    """What a budget of memory asks, answered in this process."""
    return from_plain(Fitted, answer(json.loads(json.dumps(request)))["fitted"])


def made_up(*layers: tuple[int | tuple[int, str] | tuple[int, str, bool], ...]) -> ModelDescription:
    """Layers l0, l1, ... in forward order. A parameter is its count, with its type, with whether it is trainable."""
    found = []
    for index, parameters in enumerate(layers):
        parts = [(p, "float32", True) if isinstance(p, int) else (*p, True)[:3] for p in parameters]
        found.append(
            LayerDescription(
                name=f"l{index}",
                kind="Linear",
                index=index,
                parameters=tuple(
                    ParameterDescription(
                        name=f"l{index}.p{i}", shape=(count,), dtype=dtype, trainable=trainable
                    )
                    for i, (count, dtype, trainable) in enumerate(parts)
                ),
            )
        )
    return ModelDescription(name="made up", layers=tuple(found))


def job(
    strategy: str = "single", workers: int = 1, options: dict[str, Any] | None = None, **changes: Any
) -> JobSpec:
    """A valid job; `changes` replace top-level fields."""
    plain = {
        "name": "test",
        "model": {"name": "cnn"},
        "data": {"name": "digits"},
        "strategy": {"name": strategy, "options": options or {}},
        "cluster": {"workers": workers},
        "training": {"steps": 10, "global_batch": 64},
        **changes,
    }
    return from_plain(JobSpec, plain)


def built(strategy: str, description: ModelDescription | str, workers: int, **options: Any) -> Plan | Wrapper:
    """The resolved plan of a strategy."""
    model_ = described(description) if isinstance(description, str) else description
    return build_plan(job(strategy, workers, options), model_)


def planned(strategy: str, description: ModelDescription | str, workers: int, **options: Any) -> Plan:
    """As `built`, for strategies that give a plan of ours."""
    plan = built(strategy, description, workers, **options)
    assert isinstance(plan, Plan)
    return plan


def resolved(
    description: ModelDescription,
    *layers: LayerPlan,
    workers: int = 2,
    servers: Servers | None = None,
    consistency: Consistency | None = None,
    **changes: Any,
) -> Plan:
    """A plan written by hand, resolved for a job; `changes` go to the job."""
    spec = job(workers=workers, **changes) if changes else _usual(workers)
    plan = Plan(
        strategy="by hand",
        layers=layers,
        servers=servers or Servers(),
        consistency=consistency or Consistency(),
    )
    found = resolve(plan, description, cluster_of(spec), spec)
    assert isinstance(found, Plan)
    return found


@cache
def _usual(workers: int) -> JobSpec:
    """Thousands of plans by hand are of the same few jobs."""
    return job(workers=workers)


def ring(layer: str, **changes: Any) -> LayerPlan:
    """A layer that goes around the ring whole."""
    return LayerPlan(**{"layer": layer, "exchange": "ring-allreduce"} | changes)


def served(layer: str, *, unit: str = "layer", size: int | None = None, **changes: Any) -> LayerPlan:
    """A layer on the parameter servers, pushed back."""
    order = Order(unit=unit, size=size, rank="priority", returns="push")
    return LayerPlan(**{"layer": layer, "exchange": "parameter-server", "order": order} | changes)


def trainable_bytes(description: ModelDescription) -> int:
    """|W|: bytes of all that is trained."""
    return sum(p.nbytes for p in description.parameters if p.trainable)


def assert_every_element_once(
    units: tuple[Unit, ...], model: ModelDescription, alone: frozenset[str] = frozenset()
) -> None:
    """No gap, no overlap, one type per unit, indices in sequence, positions true. Layers that are computed `alone`, in
    one place, have nothing to exchange."""
    spans: dict[str, list[tuple[int, int]]] = defaultdict(list)
    dtypes = {p.name: p.dtype for p in model.parameters}
    owner = {p.name: layer for layer in model.layers for p in layer.parameters}
    for index, unit in enumerate(units):
        assert unit.index == index
        assert {dtypes[s.parameter] for s in unit.segments} == {unit.dtype}
        assert {owner[s.parameter].name for s in unit.segments} == set(unit.layers)
        assert unit.position == min(owner[s.parameter].index for s in unit.segments)
        assert [model.layer(name).index for name in unit.layers] == sorted(
            model.layer(name).index for name in unit.layers
        )
        for segment in unit.segments:
            spans[segment.parameter].append((segment.start, segment.stop))
    for parameter in model.parameters:
        stop = 0
        for start, end in sorted(spans.pop(parameter.name, [])):
            assert start == stop < end
            stop = end
        travels = parameter.trainable and owner[parameter.name].name not in alone
        assert stop == (parameter.count if travels else 0), parameter.name
    assert not spans
