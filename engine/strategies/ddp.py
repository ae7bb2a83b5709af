"""ddp: PyTorch's own DistributedDataParallel, run by the same trainer. A peer to compare with, not a plan.

Update rule: DDP sums gradients in buckets during backward (a hook leaves out its division by the number of
workers, because losses are scaled by the global batch). Bytes: Gloo's or NCCL's own, not counted by our transport.
"""

from __future__ import annotations

from engine.plan.cluster import Cluster
from engine.plan.description import ModelDescription
from engine.plan.plan import Wrapper
from engine.strategies.base import Strategy
from engine.strategies.options import BucketOptions


def build(model: ModelDescription, cluster: Cluster, options: BucketOptions) -> Wrapper:
    """DDP with its own buckets."""
    return Wrapper(strategy="ddp", runner="ddp", bucket_bytes=options.bucket_bytes)


STRATEGY = Strategy(
    name="ddp",
    summary="PyTorch's own DistributedDataParallel, as the peer that today's users would pick.",
    loses_when="the network is slow and heavy layers hold up the optimizer step: nothing overlaps the next forward.",
    source="torch.nn.parallel.DistributedDataParallel",
    proof="exact",
    options=BucketOptions,
    build=build,
)
