"""native-allreduce: the backend's own allreduce (Gloo on CPU, NCCL on CUDA) inside our runtime.

Update rule as ring-allreduce. All ranks issue the buckets in one agreed order, as these collectives require.
Its bytes do not pass our transport: they are declared by the ring's formula and not counted.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.plan.cluster import Cluster
from engine.plan.description import ModelDescription
from engine.plan.plan import Order, Plan
from engine.strategies.base import Strategy, uniform


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of the native allreduce."""

    __pydantic_config__ = {"use_attribute_docstrings": True, "extra": "forbid"}

    bucket_bytes: int = 25 * 1024 * 1024
    """Neighbouring layers are joined until a bucket holds this many bytes (DDP's default)."""


def build(model: ModelDescription, cluster: Cluster, options: Options) -> Plan:
    """Buckets through the native allreduce, when ready, in one agreed order."""
    return uniform(
        "native-allreduce",
        model,
        exchange="native",
        order=Order(unit="bucket", size=options.bucket_bytes, depart="when-ready", rank="fifo"),
    )


STRATEGY = Strategy(
    name="native-allreduce",
    summary="The backend's own allreduce (NCCL, Gloo) on buckets; forward waits only for its own bucket.",
    loses_when="the order of what travels matters: native collectives cannot be reordered or paced.",
    source="torch.distributed; compare papers 003",
    proof="exact",
    options=Options,
    build=build,
)
