"""native-allreduce: the backend's own allreduce (Gloo on CPU, NCCL on CUDA) inside our runtime.

Update rule as ring-allreduce (papers 003). All ranks issue the buckets in one agreed order, as these collectives
require. Bytes do not pass our transport: they are declared by the ring's formula, and the kernel counts them.
"""

from __future__ import annotations

from engine.plan.cluster import Cluster
from engine.plan.description import ModelDescription
from engine.plan.plan import Order, Plan
from engine.strategies.base import Strategy, uniform
from engine.strategies.options import BucketOptions


def build(model: ModelDescription, cluster: Cluster, options: BucketOptions) -> Plan:
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
    options=BucketOptions,
    build=build,
)
