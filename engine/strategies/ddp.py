"""ddp: PyTorch's own DistributedDataParallel, run by the same trainer. A peer to compare with, not a plan.

Update rule: DDP sums gradients in buckets during backward (a hook leaves out its division by the number of
workers, because losses are scaled by the global batch). Bytes: Gloo's or NCCL's own, 2 (n-1)/n of each bucket, not
counted by our transport.
With `hook` one of PyTorch's own communication hooks compresses the buckets. `fp16` and `bf16` divide a gradient by the
number of workers, round it to 16 bits, and sum these: half the bytes of float32. `powersgd` (Vogels et al. 2019,
"PowerSGD: practical low-rank gradient compression for distributed optimization") sends r (n + m) elements for a matrix
of (n, m), in two sums one after the other, and the rest as it is; what is lost is added to the worker's next gradient.
Its first steps are not compressed. Such a job converges, and is not exact.
Hooks lose where the processor that compresses is busy, and powersgd where matrices are small. Deviation: PyTorch's
powersgd begins in step 1000 unless told otherwise, ours in step 10, because many of our jobs are shorter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from engine.errors import UserError
from engine.plan.cluster import Cluster
from engine.plan.description import ModelDescription
from engine.plan.plan import CommHook, Wrapper
from engine.strategies.base import Strategy
from engine.strategies.options import BucketOptions, at_least_one

FIRST_STEP = 10


@dataclass(frozen=True, kw_only=True)
class Options(BucketOptions):
    """DDP's buckets, and what sums them."""

    hook: Literal["none", "fp16", "bf16", "powersgd"] = "none"
    """`none`: DDP's own allreduce; else PyTorch's communication hook of that name: `fp16` and `bf16` send half the
    bytes of float32, `powersgd` a matrix's factors of low rank."""
    powersgd_rank: int | None = None
    """Rank of powersgd's factors. Null: 1."""
    powersgd_from: int | None = None
    """The first step that powersgd compresses, at least 2: DDP builds its buckets anew after the first. Null: 10."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, value in (("powersgd_rank", self.powersgd_rank), ("powersgd_from", self.powersgd_from)):
            if value is not None and self.hook != "powersgd":
                raise UserError(name, value, f"hook is {self.hook}", "Leave it out, or set hook: powersgd")
        if self.powersgd_rank is not None:
            at_least_one("powersgd_rank", self.powersgd_rank, "rank of a matrix")
        if self.powersgd_from is not None and self.powersgd_from < 2:
            raise UserError(
                "powersgd_from",
                self.powersgd_from,
                "must be at least 2: DDP builds its buckets anew after the first step",
                f"Use {FIRST_STEP}, say",
            )


def build(model: ModelDescription, cluster: Cluster, options: Options) -> Wrapper:
    """DDP with its own buckets."""
    hook = None
    if options.hook == "powersgd":
        first = FIRST_STEP if options.powersgd_from is None else options.powersgd_from
        hook = CommHook(name="powersgd", rank=options.powersgd_rank or 1, first_step=first)
    elif options.hook != "none":
        hook = CommHook(name=options.hook)
    return Wrapper(strategy="ddp", runner="ddp", bucket_bytes=options.bucket_bytes, hook=hook)


STRATEGY = Strategy(
    name="ddp",
    summary="PyTorch's own DistributedDataParallel, as the peer that today's users would pick.",
    loses_when="the network is slow and heavy layers hold up the optimizer step: nothing overlaps the next forward.",
    source="torch.nn.parallel.DistributedDataParallel",
    proof="exact",
    options=Options,
    build=build,
)
