"""Bytes of what travels: of a layer's factors, and of a step where not every one exchanges."""

from __future__ import annotations

from engine.axes.matrices import rows_of
from engine.plan.description import LayerDescription
from engine.plan.encoding import Encoding
from engine.plan.plan import Plan, Workload, Wrapper


def factor_type(layer: LayerDescription, workload: Workload) -> str:
    """The type in which a layer computes, and its factors travel."""
    dtype = layer.parameters[0].dtype
    return "bfloat16" if workload.autocast and dtype == "float32" else dtype


def factor_bytes(layer: LayerDescription, workload: Workload, encoding: Encoding, samples: int) -> int:
    """Bytes of a fully-connected layer's factors of `samples` samples: what a worker with so many sends to each
    other."""
    assert layer.factors is not None, f"{layer.name} has no factors"
    rows, dtype = samples * layer.factors.rows, factor_type(layer, workload)
    return sum(encoding.bytes(dtype, rows * n) for n in (layer.factors.inputs, layer.factors.outputs))


def factors_against_gradient(layer: LayerDescription, workload: Workload, encoding: Encoding) -> float:
    """What a fully-connected layer moves by factors as a multiple of what its gradient moves: less than 1 where
    late-multiply pays. n workers send (n-1) rows (N+K) over all links; as a gradient, by any allreduce in rounds or
    servers beside workers, it is 2 (n-1) |W|, and so the number of workers does not matter."""
    gradient = sum(
        encoding.bytes(p.dtype, p.count, [rows_of(p.shape, 0, p.count)])
        for p in layer.parameters
        if p.trainable
    )
    return factor_bytes(layer, workload, encoding, workload.samples) / (2 * gradient)


def spread_over_period(plan: Plan | Wrapper, step_bytes: int) -> int:
    """`step_bytes` of a step that exchanges, shared out over all steps."""
    return round(step_bytes / (plan.consistency.exchange_period if isinstance(plan, Plan) else 1))
