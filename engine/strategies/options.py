"""Options that several strategies share, each explained once and validated where it is given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from engine.codec import CODEC
from engine.errors import UserError
from engine.plan.cluster import Cluster
from engine.plan.plan import Servers

_STRICT = {"use_attribute_docstrings": True, "extra": "forbid"}


def at_least_one(name: str, value: int, unit: str) -> None:
    """Refuse an option below 1. Raises UserError naming the option."""
    if value < 1:
        raise UserError(name, value, f"must be at least 1 ({unit})", "Give a positive number")


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

    def __post_init__(self) -> None:
        CODEC.require(self.codec, "codec")


@dataclass(frozen=True, kw_only=True)
class ServerOptions(CodecOptions):
    """Where the server shards are and what they do."""

    servers: int | None = None
    """Number of shards. Null: one beside every worker."""
    where: Literal["beside", "dedicated"] = "beside"
    """`beside`: in the workers' processes; `dedicated`: processes of their own."""
    update: Literal["auto", "worker", "server"] = "auto"
    """Where the optimizer runs. `auto`: on the servers unless something needs all gradients at once."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.servers is not None:
            at_least_one("servers", self.servers, "shards")

    def shards(self, cluster: Cluster, split_over: int | None = None) -> Servers:
        """The plan's servers."""
        count = cluster.workers if self.servers is None else self.servers
        return Servers(count=count, where=self.where, split_over=split_over)


@dataclass(frozen=True, kw_only=True)
class BucketOptions:
    """How PyTorch's own collectives group what they sum."""

    __pydantic_config__ = _STRICT

    bucket_bytes: int = 25 * 1024 * 1024
    """Neighbouring layers are joined until a bucket holds this many bytes (DDP's default)."""

    def __post_init__(self) -> None:
        at_least_one("bucket_bytes", self.bucket_bytes, "bytes")
