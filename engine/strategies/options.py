"""Options that several strategies share, each explained once and validated where it is given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

from engine.axes.codec import CODEC
from engine.catalogue import STRICT
from engine.errors import UserError
from engine.plan.cluster import Cluster
from engine.plan.description import LayerDescription, ModelDescription
from engine.plan.encoding import Encoding, encoding
from engine.plan.plan import LayerPlan, Order, Plan, Servers
from engine.plan.serde import to_plain
from engine.plan.sizing import USUAL_SIZE, slice_elements
from engine.plan.sizing import bucket_bytes as sized_buckets
from engine.strategies.base import plan_every_layer, trainable_layers


def at_least_one(name: str, value: int, unit: str) -> None:
    """Refuse an option below 1. Raises UserError naming the option."""
    if value < 1:
        raise UserError(name, value, f"must be at least 1 ({unit})", "Give a positive number")


def slice_size(
    asked: int | Literal["auto"], model: ModelDescription, cluster: Cluster, shards: int, way: Encoding
) -> tuple[int, tuple[str, ...]]:
    """Elements of a slice, and why, where that is left to us."""
    if isinstance(asked, int):
        return asked, ()
    found = slice_elements(tuple(trainable_layers(model)), cluster, shards, way)
    return found.size, (found.why,)


@dataclass(frozen=True, kw_only=True)
class CodecOptions:
    """What every exchange of ours may choose."""

    __pydantic_config__ = STRICT

    codec: str = "fp32"
    """What travels: `fp32` (exact), `fp16` (half the bytes) or `bf16` (as many, with the range of float32); with a
    residual, which makes up for what is lost: `int8` or `fp8` (a quarter), `int4` (an eighth), `one-bit` (a 28th),
    `two-bit` (a 16th), `threshold` and `adacomp` (a 16th at most), `top-k` (a 67th: the largest elements), `random-k`
    (a 100th: any elements), `powersgd` (a 100th of a weight of 1000 x 256, and less of larger ones: two thin factors);
    rounded at random, and right in the mean: `qsgd` (an eighth with its 4 bits), `terngrad` (a 19th). `dgc` (a 660th)
    has the optimizer's momentum, and goes with servers that update; `signsgd` (a 32nd: signs, and their majority) with
    those that do not.
    Where servers update, parameters return as the option `answers` says, whatever codec gradients have."""
    codec_options: dict[str, Any] = field(default_factory=dict)
    """The codec's own options, e.g. `block` of `int8`. Those left out have its defaults."""
    entropy_coding: bool = False
    """Whether messages say in Golomb-Rice code which elements they have, where that is shorter: of `top-k`,
    `threshold`, `adacomp` and `dgc`. Fewer bytes, as many as values happen to need, and more time."""

    CODED_WHERE_IT_CAN_BE: ClassVar[bool] = False
    """Whether that has no effect on a codec that sends every element; else it is refused."""
    USUAL: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """By codec: options in place of its own defaults."""

    def __post_init__(self) -> None:
        CODEC.require(self.codec, "codec")
        self._way()

    @property
    def way(self) -> Encoding:
        """The codec with its options."""
        return self._way()

    def _way(self) -> Encoding:
        coded = self.entropy_coding
        if self.CODED_WHERE_IT_CAN_BE and "sparse" not in CODEC[self.codec].traits:
            coded = False
        given = {**self.USUAL.get(self.codec, {}), **self.codec_options}
        return encoding(self.codec, given, entropy_coding=coded)

    @property
    def travels(self) -> dict[str, Any]:
        """What a layer's plan says of it."""
        way = self.way
        return {
            "codec": way.codec,
            "codec_options": to_plain(way.options),
            "entropy_coding": way.entropy_coding,
        }


@dataclass(frozen=True, kw_only=True)
class AnswerOptions(CodecOptions):
    """What servers answer."""

    answers: str = "fp32"
    """As what updated parameters return, where servers update: `fp32`, as they are, or what another codec makes of what
    they have moved by since the last answer: `fp16` or `bf16` (half the bytes), `int8`, `fp8`, `int4`, `one-bit`,
    `top-k` and the others, but for `dgc` and what is right in the mean only. Workers then compute on parameters that
    are near the servers'."""
    answer_options: dict[str, Any] = field(default_factory=dict)
    """That codec's own options. Those left out have its defaults."""

    def __post_init__(self) -> None:
        super().__post_init__()
        CODEC.require(self.answers, "answers")
        encoding(self.answers, self.answer_options, field="answer_options")

    @property
    def travels(self) -> dict[str, Any]:
        return {**super().travels, "answers": self.answers, "answer_options": self.answer_options}


@dataclass(frozen=True, kw_only=True)
class ShardOptions(AnswerOptions):
    """Where the server shards are, and how much each serves."""

    servers: int | None = None
    """Number of shards. Null: one beside every worker."""
    where: Literal["beside", "dedicated"] = "beside"
    """`beside`: in the workers' processes; `dedicated`: processes of their own."""
    shares: Literal["by-link", "equal"] = "by-link"
    """How much each shard serves. `by-link`: where hosts' rates differ, so much that the longest port is busy for as
    short as can be; `equal`: equal parts."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.servers is not None:
            at_least_one("servers", self.servers, "shards")

    def shards(self, cluster: Cluster, split_over: int | None = None) -> Servers:
        """The plan's servers."""
        count = cluster.workers if self.servers is None else self.servers
        equal = (1.0,) * count if self.shares == "equal" else ()
        return Servers(count=count, where=self.where, split_over=split_over, shares=equal)


@dataclass(frozen=True, kw_only=True)
class ServerOptions(ShardOptions):
    """And what they do."""

    update: Literal["auto", "worker", "server"] = "auto"
    """Where the optimizer runs. `auto`: on the servers, unless something needs all gradients at once
    or the codec's sums (of `powersgd`) take all workers in where these update."""


@dataclass(frozen=True, kw_only=True)
class RoundsOptions(CodecOptions):
    """What the allreduces in rounds share: many small tensors cost rounds, one large one holds up the links."""

    bucket_bytes: int | Literal["auto"] = USUAL_SIZE["bucket"]
    """Neighbouring layers are joined until a bucket holds this many bytes; larger ones are cut into slices of it.
    `auto`: from what a message costs on this machine and the rate of the link, and the plan says why."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.bucket_bytes, int):
            at_least_one("bucket_bytes", self.bucket_bytes, "bytes")

    def plan(
        self,
        strategy: str,
        model: ModelDescription,
        cluster: Cluster,
        *,
        exchange: str,
        depart: str,
        rank: str = "fifo",
    ) -> Plan:
        """Buckets and slices through `exchange`, departing in that rank as told."""
        reasons: tuple[str, ...] = ()
        if isinstance(self.bucket_bytes, int):
            most = self.bucket_bytes
        else:
            found = sized_buckets(tuple(trainable_layers(model)), cluster, self.way)
            most, reasons = found.size, (found.why,)

        def choose(layer: LayerDescription) -> LayerPlan:
            unit, size = "bucket", most
            if layer.parameter_bytes > most:
                unit, size = "slice", max(1, most * layer.parameter_count // layer.parameter_bytes)
            return LayerPlan(
                layer=layer.name,
                exchange=exchange,
                **self.travels,
                order=Order(unit=unit, size=size, depart=depart, rank=rank),
            )

        return replace(plan_every_layer(strategy, model, choose), reasons=reasons)


@dataclass(frozen=True, kw_only=True)
class GradientRoundsOptions(RoundsOptions):
    """What they share where every step's gradients go through them."""

    rank: Literal["fifo", "priority"] = "fifo"
    """`fifo`: first come, first served; `priority`: what the next forward pass needs first goes first, as in p3."""


@dataclass(frozen=True, kw_only=True)
class EdgeOptions:
    """What travels where a model is cut."""

    __pydantic_config__ = STRICT

    edge_codec: str = "fp32"
    """As what activations, and their gradients on the way back, travel: `fp32` (exact), `fp16` or `bf16` (half the
    bytes), `int8` or `fp8` (a quarter). What a message loses is lost."""
    edge_codec_options: dict[str, Any] = field(default_factory=dict)
    """That codec's own options. Those left out have its defaults."""

    def __post_init__(self) -> None:
        CODEC.require(self.edge_codec, "edge_codec")
        encoding(self.edge_codec, self.edge_codec_options, field="edge_codec_options")

    @property
    def crosses(self) -> dict[str, Any]:
        """What the plan says of an edge."""
        return {"codec": self.edge_codec, "codec_options": self.edge_codec_options}


@dataclass(frozen=True, kw_only=True)
class BucketOptions:
    """How PyTorch's own collectives group what they sum."""

    __pydantic_config__ = STRICT

    bucket_bytes: int = 25 * 1024 * 1024
    """Neighbouring layers are joined until a bucket holds this many bytes (DDP's default)."""

    def __post_init__(self) -> None:
        at_least_one("bucket_bytes", self.bucket_bytes, "bytes")
