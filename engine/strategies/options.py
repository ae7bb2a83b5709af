"""Options that several strategies share, each explained once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from engine.errors import UserError
from engine.plan.cluster import Cluster
from engine.plan.plan import Servers

_STRICT = {"use_attribute_docstrings": True, "extra": "forbid"}


@dataclass(frozen=True, kw_only=True)
class NoOptions:
    """This strategy has no options."""

    __pydantic_config__ = _STRICT


@dataclass(frozen=True, kw_only=True)
class CodecOptions:
    """What every exchange of ours may choose."""

    __pydantic_config__ = _STRICT

    codec: str = "fp32"
    """What travels: `fp32` (exact) or `fp16` (half the bytes)."""


@dataclass(frozen=True, kw_only=True)
class ServerOptions(CodecOptions):
    """Where the server shards are and what they do."""

    servers: int | None = None
    """Number of shards. Null: one beside every worker."""
    where: Literal["beside", "dedicated"] = "beside"
    """`beside`: in the workers' processes; `dedicated`: processes of their own."""
    update: Literal["auto", "worker", "server"] = "auto"
    """Where the optimizer runs. `auto`: on the servers unless something needs all gradients at once."""

    def shards(self, cluster: Cluster, split_over: int | None = None) -> Servers:
        """The plan's servers."""
        count = cluster.workers if self.servers is None else self.servers
        if count < 1:
            raise UserError(
                "strategy.options.servers", count, "at least one shard is needed", "Use 1 or more"
            )
        return Servers(count=count, where=self.where, split_over=split_over)
