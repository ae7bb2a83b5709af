"""Scaling: a rehearsal's tensors, units and rates, all divided by one factor.

The plan is built for the true model and rates; then plan and description shrink together here, so that every party
cuts the same units and declares the same bytes. Times do not shrink: bytes over rate stay what they were.
"""

from __future__ import annotations

import math
from dataclasses import replace

from engine.plan.description import Factors, ModelDescription
from engine.plan.plan import LayerPlan, Plan, Wrapper


def scaled_model(model: ModelDescription, scale: float) -> ModelDescription:
    """`model` with parameters, and activations where it may be cut, of 1/scale the elements (at least 1), as
    one-dimensional tensors of the same names. FLOPs and bytes of outputs stay true. Factors keep their rows, one for
    every sample, and have 1/scale the columns (rounded, at least 1): so their bytes shrink by the one factor, as
    gradients' do."""
    if scale == 1:
        return model
    layers = tuple(
        replace(
            layer,
            parameters=tuple(
                replace(p, shape=(max(1, round(p.count / scale)) if p.count else 0,))
                for p in layer.parameters
            ),
            factors=_factors(layer.factors, scale),
        )
        for layer in model.layers
    )
    cuts = tuple(
        replace(place, shape=(max(1, round(math.prod(place.shape) / scale)),)) for place in model.cuts
    )
    return replace(model, layers=layers, cuts=cuts)


def scaled_plan(plan: Plan | Wrapper, scale: float) -> Plan | Wrapper:
    """`plan` with slices, buckets and the servers' threshold divided by `scale`. Sizes are rounded up, so that no layer
    gains a slice of leftovers."""
    if scale == 1:
        return plan
    if isinstance(plan, Wrapper):
        return replace(plan, bucket_bytes=_up(plan.bucket_bytes, scale))
    servers = plan.servers
    if servers.split_over is not None:
        servers = replace(servers, split_over=_up(servers.split_over, scale))
    return replace(plan, servers=servers, layers=tuple(_layer(layer, scale) for layer in plan.layers))


def scaled_rate(rate_bps: int, scale: float) -> int:
    """A link's rate in bits per second, divided by `scale`."""
    return max(1, round(rate_bps / scale))


def _factors(factors: Factors | None, scale: float) -> Factors | None:
    if factors is None:
        return None
    inputs, outputs = max(1, round(factors.inputs / scale)), max(1, round(factors.outputs / scale))
    return replace(factors, inputs=inputs, outputs=outputs)


def _layer(layer: LayerPlan, scale: float) -> LayerPlan:
    if layer.order.size is None:
        return layer
    return replace(layer, order=replace(layer.order, size=_up(layer.order.size, scale)))


def _up(size: int, scale: float) -> int:
    return max(1, math.ceil(size / scale))
