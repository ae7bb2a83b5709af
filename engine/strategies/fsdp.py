"""fsdp: PyTorch's own fully_shard (FSDP2), run by the same trainer. A peer to compare with, not a plan.

Update rule: every worker holds 1/n of each parameter, its gradient and its optimizer state. A group of modules is
gathered before its forward and again before its backward pass; its gradients are summed and scattered after (the
division by the number of workers is left out, because losses are scaled by the global batch).
Bytes: Gloo's or NCCL's own, not counted by our transport; a worker sends and receives 3 (n-1)/n |W| per step, and
each evaluation another (n-1)/n |W|. Memory: 1/n of parameters and optimizer state, and the groups at work.
Source: torch.distributed.fsdp.fully_shard; Zhao et al. 2023. Deviations: the groups are chosen by size, where users
name their blocks; a parameter that no worker uses in a step has a zero gradient, so that it is still decayed. A model
is refused whose weights have hooks, are written to, frozen or thawed in forward, or are read outside of their module,
or where a parameter's AccumulateGrad node has a hook (looked for in the first backward pass and in every hundredth).
Not seen, and so not refused: a model that asks for its parameters' own class (FSDP's are DTensors), and code that looks
at `.grad` in a pass, or writes to it there: it finds a part, or none. Use ddp for such models.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.catalogue import STRICT
from engine.plan.cluster import Cluster
from engine.plan.description import ModelDescription
from engine.plan.plan import Wrapper
from engine.strategies.base import Strategy
from engine.strategies.options import at_least_one


@dataclass(frozen=True, kw_only=True)
class Options:
    """How modules are grouped."""

    __pydantic_config__ = STRICT

    group_bytes: int = 25 * 1024 * 1024
    """A module is gathered as one when the parameters below it that are in no group yet reach this many bytes; what is
    left is gathered with the root."""

    def __post_init__(self) -> None:
        at_least_one("group_bytes", self.group_bytes, "bytes")


def build(model: ModelDescription, cluster: Cluster, options: Options) -> Wrapper:
    """fully_shard on groups of modules."""
    return Wrapper(strategy="fsdp", runner="fsdp", bucket_bytes=options.group_bytes)


STRATEGY = Strategy(
    name="fsdp",
    summary="PyTorch's own fully_shard: every worker holds 1/n of the model and gathers each part when it needs it.",
    loses_when="the model fits: it moves half as many bytes again as ddp, and forward waits for them.",
    source="torch.distributed.fsdp.fully_shard",
    proof="exact",
    options=Options,
    build=build,
)
