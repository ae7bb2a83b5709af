"""Plan: for every layer of a model, one choice on every axis. A strategy is a function that returns one.

The axes are chosen independently; what follows from a choice (payload, update site, barrier) is derived
in `flow.py`, and what cannot combine is refused in `rules.py` when a plan is validated against a model.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from engine.axes.codec import CODEC
from engine.axes.consistency import CONSISTENCY
from engine.axes.exchange import EXCHANGE
from engine.axes.inputs import INPUT
from engine.axes.memory import ACTIVATIONS
from engine.axes.order import DEPART, RANK, RETURNS, UNIT
from engine.axes.placement import PLACEMENT
from engine.catalogue import STRICT, Axis, Mechanism
from engine.errors import UserError
from engine.plan.budget import Fitted
from engine.plan.consistency import Consistency
from engine.plan.encoding import Encoding, encoding
from engine.plan.inputs import Input
from engine.plan.mechanism_options import options_of
from engine.plan.serde import to_plain

AXES: tuple[Axis[Mechanism], ...] = (
    PLACEMENT, EXCHANGE, CODEC, UNIT, DEPART, RANK, RETURNS, CONSISTENCY, ACTIVATIONS, INPUT,
)  # fmt: skip
"""Every axis, in the order in which a plan's table shows them."""


@dataclass(frozen=True, kw_only=True)
class Order:
    """In which units a layer travels, when, in what rank, and how a server's answer returns."""

    __pydantic_config__ = STRICT

    unit: str = "layer"
    """`layer`, `slice` or `bucket`."""
    size: int | None = None
    """Elements per slice, or bytes per bucket. Null for `layer`."""
    depart: str = "when-ready"
    """`after-backward` or `when-ready`."""
    rank: str = "fifo"
    """`fifo` or `priority` (by forward position, 0 leaves first)."""
    returns: str = "none"
    """`none`, `notify-pull`, `deferred-pull` or `push`."""

    def __post_init__(self) -> None:
        for axis, name in ((UNIT, "unit"), (DEPART, "depart"), (RANK, "rank"), (RETURNS, "returns")):
            axis.require(getattr(self, name), name)
        if self.unit == "layer" and self.size is not None:
            raise UserError("size", self.size, "whole layers have no size", "Leave size out, or use slices")
        if self.unit != "layer" and (self.size is None or self.size < 1):
            what = "elements per slice" if self.unit == "slice" else "bytes per bucket"
            raise UserError("size", self.size, f"must be at least 1 ({what})", "Give a positive size")


@dataclass(frozen=True, kw_only=True)
class LayerPlan:
    """One layer's choices."""

    __pydantic_config__ = STRICT

    layer: str
    """The layer's name: its module path in the model."""
    placement: str = "replicated"
    """Where the layer is computed."""
    place: int | None = None
    """`device`: the device's number; `stage`: the pipeline stage's. Null for replicated layers."""
    exchange: str = "none"
    """How the workers' contributions meet."""
    update: Literal["auto", "worker", "server"] = "auto"
    """Where the optimizer runs. `auto`: on the server where the exchange has one, else on the worker."""
    codec: str = "fp32"
    """What travels."""
    codec_options: dict[str, Any] = field(default_factory=dict)
    """The codec's own options. Those left out have its defaults, and stand here, too."""
    answers: str = "fp32"
    """As what updated parameters return, where a server updates. A codec that rounds encodes what they moved by."""
    answer_options: dict[str, Any] = field(default_factory=dict)
    """The own options of that codec. Those left out have its defaults, and stand here, too."""
    entropy_coding: bool = False
    """Whether messages say in Golomb-Rice code which elements they have, where that is shorter: of codecs that send
    some elements only (top-k, threshold, adacomp, dgc)."""
    order: Order = Order()
    """Units, departure, rank and return."""
    activations: str = "keep"
    """What happens to the layer's activations between forward and backward."""
    activation_options: dict[str, Any] = field(default_factory=dict)
    """The own options of what happens to them. Those left out have its defaults, and stand here, too."""
    fragment: int = 0
    """With which of the consistency's fragments it is averaged (`streaming`), 0 first."""
    overrides: tuple[int, ...] = ()
    """The job's overrides that set it, by their place in the job, in the order in which they did. Empty: none; it is as
    the strategy chose."""

    @cached_property
    def encoding(self) -> Encoding:
        """The codec with its options."""
        return encoding(self.codec, self.codec_options, entropy_coding=self.entropy_coding)

    @cached_property
    def answer_encoding(self) -> Encoding:
        """The codec of updated parameters with its options."""
        return encoding(self.answers, self.answer_options, field="answer_options")

    @property
    def answers_differences(self) -> bool:
        """Whether a server sends what parameters have moved by in place of the parameters."""
        return "lossless" not in CODEC[self.answers].traits

    @property
    def exact(self) -> bool:
        """Whether all messages of so many elements have as many bytes, both ways."""
        return self.encoding.exact and self.answer_encoding.exact

    @cached_property
    def memory(self) -> Any:
        """The own options of what happens to its activations, of the class that the row names."""
        return options_of(ACTIVATIONS[self.activations], self.activation_options, "activation_options")

    @property
    def exchanges(self) -> bool:
        """Whether anything of it travels between workers."""
        return "nothing" not in EXCHANGE[self.exchange].traits

    def __post_init__(self) -> None:
        for axis in (PLACEMENT, EXCHANGE, CODEC, ACTIVATIONS):
            axis.require(getattr(self, axis.name), axis.name)
        CODEC.require(self.answers, "answers")
        object.__setattr__(self, "codec_options", to_plain(self.encoding.options))
        object.__setattr__(self, "answer_options", to_plain(self.answer_encoding.options))
        object.__setattr__(self, "activation_options", to_plain(self.memory))
        if self.update not in ("auto", "worker", "server"):
            raise UserError("update", self.update, "no such update site", "Use auto, worker or server")
        if self.placement == "replicated" and self.place is not None:
            raise UserError("place", self.place, "a replicated layer is on every worker", "Leave place out")


@dataclass(frozen=True, kw_only=True)
class Edge:
    """Activations, and their gradients on the way back, that travel between layers placed differently."""

    __pydantic_config__ = STRICT

    source: str
    """The last layer in front of the cut, in the order in which a forward pass uses them."""
    destination: str
    """The layer in front of which the model is cut."""
    codec: str = "fp32"
    """What travels."""
    codec_options: dict[str, Any] = field(default_factory=dict)
    """The codec's own options. Those left out have its defaults, and stand here, too."""
    order: Order = Order()
    """Units, departure and rank of this edge."""

    @cached_property
    def encoding(self) -> Encoding:
        """The codec with its options."""
        return encoding(self.codec, self.codec_options)

    def __post_init__(self) -> None:
        CODEC.require(self.codec, "codec")
        object.__setattr__(self, "codec_options", to_plain(self.encoding.options))


@dataclass(frozen=True, kw_only=True)
class Servers:
    """The server shards of a plan's `central-reducer` and `parameter-server` layers."""

    __pydantic_config__ = STRICT

    count: int = 0
    """Number of shards. 0: the plan has no server."""
    where: Literal["beside", "dedicated"] = "beside"
    """`beside`: shard j lives in worker j's process, and their bytes do not cross the network; `dedicated`: each
    shard is a process of its own."""
    split_over: int | None = None
    """Layers with more elements than this are split over all shards, by their shares. Null: layers are never split."""
    shares: tuple[float, ...] = ()
    """Of what is served, how much each shard serves, as parts of their sum. Empty: equal parts."""

    def __post_init__(self) -> None:
        if self.count < 0:
            raise UserError("count", self.count, "must not be negative", "Use 0 for no server")
        if self.where not in ("beside", "dedicated"):
            raise UserError("where", self.where, "no such place", "Use beside or dedicated")
        if self.split_over is not None and self.split_over < 1:
            raise UserError(
                "split_over", self.split_over, "must be at least 1", "Leave it out to never split"
            )
        if self.shares and len(self.shares) != self.count:
            rule = f"{len(self.shares)} shares for {self.count} shards"
            raise UserError("shares", self.shares, rule, "Give one for each shard, or leave them out")
        if self.shares and not (
            all(0 <= share < math.inf for share in self.shares) and 0 < sum(self.shares) < math.inf
        ):
            rule = "a share must be a number from 0 on, and not all may be 0"
            raise UserError("shares", self.shares, rule, "Give parts of a whole, as 0, 1, 1, 1")


@dataclass(frozen=True, kw_only=True)
class DeviceParty:
    """The party that computes some layers for all workers (placement `device`): layers say its number as `place`."""

    __pydantic_config__ = STRICT

    beside: int | None = None
    """The worker in whose process, and on whose device, it computes: their bytes do not cross the network. Null:
    dedicated, a process of its own."""

    def __post_init__(self) -> None:
        if self.beside is not None and self.beside < 0:
            raise UserError(
                "beside", self.beside, "workers are numbered from 0", "Leave it out for a process of its own"
            )


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """The stages of a model whose layers are in a row on several workers (placement `stage`). Worker r x stages + k
    computes stage k of replica r, so that a replica's stages are neighbours, inside one machine where it has as many
    devices."""

    __pydantic_config__ = STRICT

    stages: int
    """How many workers share one model. Layers say their stage's number as `place`."""
    schedule: Literal["1f1b", "gpipe"] = "1f1b"
    """In which order a stage goes forward and backward with the micro-batches of a step. `gpipe`: all forward, then all
    backward; `1f1b`: backward as soon as there is something, so that at most as many are in flight as there are stages
    from this one on."""

    def __post_init__(self) -> None:
        if self.stages < 2:
            raise UserError("stages", self.stages, "a pipeline has at least 2 stages", "Use another strategy")
        if self.schedule not in ("1f1b", "gpipe"):
            raise UserError("schedule", self.schedule, "no such schedule", "Use 1f1b or gpipe")


@dataclass(frozen=True, kw_only=True)
class MessageCost:
    """What a message costs on a machine."""

    __pydantic_config__ = STRICT

    seconds: float | None = None
    """Of a processor, for its two ends together. Null where it could not be measured."""
    why: str = ""
    """Why not."""


@dataclass(frozen=True, kw_only=True)
class Workload:
    """What the job computes in a step, as far as bytes depend on it: of factors and activations there are rows for each
    sample."""

    __pydantic_config__ = STRICT

    samples: int
    """Samples of one step over all workers; the last step of an epoch may have fewer."""
    autocast: bool = False
    """Whether layers compute in bfloat16, so that factors travel in it, too."""
    micro_batches: int = 1
    """In how many parts a worker's samples pass, each of which sends its activations by itself."""

    def shares(self, rank: int, ranks: int) -> list[int]:
        """How many of `rank`'s samples are in each of its micro-batches."""
        share, rest = divmod(self.share(rank, ranks), self.micro_batches)
        return [share + (part < rest) for part in range(self.micro_batches)]

    def share(self, rank: int, ranks: int) -> int:
        """How many of the samples `rank` gets, as `engine/inputs/sharding.py` deals them."""
        share, rest = divmod(self.samples, ranks)
        return share + (rank < rest)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What every layer of one model does, in forward order."""

    __pydantic_config__ = STRICT

    strategy: str
    """The strategy that built it."""
    layers: tuple[LayerPlan, ...]
    """One entry for every layer with trainable parameters."""
    servers: Servers = Servers()
    """The server shards, where any layer's exchange has them."""
    devices: tuple[DeviceParty, ...] = ()
    """The devices of layers that are placed on one."""
    pipeline: Pipeline | None = None
    """The stages of layers that are placed in one."""
    edges: tuple[Edge, ...] = ()
    """What travels between layers that are placed differently."""
    consistency: Consistency = Consistency()
    """How far workers may drift."""
    input: Input = Input()
    """Where the data are prepared."""
    workload: Workload | None = None
    """What sizes factors and activations; the job says it when the plan is validated. Null where neither travels."""
    message: MessageCost | None = None
    """What sizes that were left to us (`auto`) were made from. Null where none were, or the model is too small."""
    memory: Fitted | None = None
    """What was chosen for a budget of memory. Null where the job has none."""
    reasons: tuple[str, ...] = ()
    """Why what was left to us (`auto`) was chosen so: a sentence each."""
    warnings: tuple[str, ...] = ()
    """What a person should know: settings that changed something, or cost something."""

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for layer in self.layers:
            if layer.layer in seen:
                raise UserError("layers", layer.layer, "listed twice", "Give every layer one entry")
            seen.add(layer.layer)
        if self.edges and all(layer.placement == "replicated" for layer in self.layers):
            raise UserError(
                "edges",
                len(self.edges),
                "every layer is replicated: no activation travels",
                "Leave edges out",
            )


@dataclass(frozen=True, kw_only=True)
class CommHook:
    """A communication hook of PyTorch's own, which compresses a bucket of DDP's."""

    __pydantic_config__ = STRICT

    name: Literal["fp16", "bf16", "powersgd"]
    """`fp16` and `bf16` send two bytes for each element; `powersgd` sends low-rank factors of each matrix."""
    rank: int = 1
    """Of powersgd's factors."""
    first_step: int = 2
    """The first step that powersgd compresses."""


@dataclass(frozen=True, kw_only=True)
class Wrapper:
    """A system that the same trainer runs instead of a plan, for comparison: PyTorch's own wrappers."""

    __pydantic_config__ = STRICT

    strategy: str
    """The strategy that built it."""
    runner: Literal["ddp", "fsdp"]
    """`ddp`: torch.nn.parallel.DistributedDataParallel; `fsdp`: torch.distributed.fsdp.fully_shard."""
    bucket_bytes: int = 25 * 1024 * 1024
    """Bytes that it exchanges as one: DDP's buckets (its own default is 25 MiB), FSDP's smallest groups of modules."""
    hook: CommHook | None = None
    """What sums DDP's buckets in place of its own allreduce."""
    warnings: tuple[str, ...] = ()
    """What a person should know."""
    layers: tuple[LayerPlan, ...] = field(default=(), init=False)
    """Always empty: the wrapper decides by itself what travels when."""

    def __post_init__(self) -> None:
        if self.bucket_bytes < 1:
            raise UserError(
                "bucket_bytes", self.bucket_bytes, "must be at least 1", "DDP's default is 26214400"
            )


def replicas(plan: Plan | Wrapper, workers: int) -> int:
    """How many replicas of the model share a batch: the workers, or as many as there are of all stages."""
    stages = plan.pipeline.stages if isinstance(plan, Plan) and plan.pipeline is not None else 1
    return max(workers // stages, 1)
