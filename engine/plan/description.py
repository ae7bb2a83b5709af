"""A model's description: its layers in forward order, with parameters, FLOPs and bytes. No torch here.

A short process makes it once from the model (`python -m engine.models`); strategies, the simulator
and the service work on it and never on the model itself.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from engine.errors import UnknownNameError
from engine.plan.serde import from_plain, to_plain

DTYPE_BYTES = {
    "float64": 8,
    "float32": 4,
    "float16": 2,
    "bfloat16": 2,
    "complex64": 8,
    "complex128": 16,
}
"""Bytes of one element, by the name of the type in torch. Only these can be trained."""
_FROZEN_BYTES = DTYPE_BYTES | {
    "bool": 1, "int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "int64": 8, "uint64": 8,
    "float8_e4m3fn": 1, "float8_e4m3fnuz": 1, "float8_e5m2": 1, "float8_e5m2fnuz": 1, "complex32": 4,
}  # fmt: skip
"""The same of parameters that are frozen: they are handed out once, and kept."""


@dataclass(frozen=True, kw_only=True)
class ParameterDescription:
    """One parameter tensor."""

    name: str
    """Its first name in the model's `named_parameters`, e.g. `features.0.weight`."""
    shape: tuple[int, ...]
    """Its dimensions; () for a scalar."""
    dtype: str
    """Its type as torch names it, e.g. `float32`."""
    trainable: bool = True
    """Whether it receives gradients; frozen parameters never travel."""
    also_used_by: tuple[str, ...] = ()
    """Further names of the same tensor, if it is tied."""

    def __post_init__(self) -> None:
        known = DTYPE_BYTES if self.trainable else _FROZEN_BYTES
        if self.dtype not in known:
            raise UnknownNameError("dtype", self.dtype, f"parameter type (of {self.name})", known)

    @cached_property
    def count(self) -> int:
        """Elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self.count * _FROZEN_BYTES[self.dtype]


@dataclass(frozen=True, kw_only=True)
class Factors:
    """The sizes of a fully-connected layer's factors: inputs X (rows x inputs), error derivatives E (rows x outputs).
    The gradient of its weight is their product E^T X."""

    rows: int
    """Rows of each per sample, over all the layer's calls in one forward pass."""
    inputs: int
    """Columns of X: the layer's inputs."""
    outputs: int
    """Columns of E: the layer's outputs."""


def layer_title(name: str, kind: str) -> str:
    """What people read as the name of a layer of class `kind`: `4 (Conv2d)` of a bare number, as layers of a Sequential
    have. Requests, addresses and files have the bare name."""
    bare = all(part.isdigit() for part in name.split("."))
    return (f"{name} ({kind})" if bare and kind else name) or "(root)"


@dataclass(frozen=True, kw_only=True)
class LayerDescription:
    """A module that itself owns parameters."""

    name: str
    """Its path in the model, e.g. `features.0`; empty for parameters of the model's root."""
    kind: str
    """Its class, e.g. `Conv2d`."""
    index: int
    """Its forward position, from 0: its place in the order in which a forward pass has to wait for parameters.
    Layers that the sampled pass did not use come first, because a later pass might use them anywhere."""
    parameters: tuple[ParameterDescription, ...]
    """What it owns, in the order of registration. A tied parameter belongs to its first owner only."""
    forward_flops: int = 0
    """Floating-point operations of its forward pass, per sample (multiplication and addition are two)."""
    output_bytes: int = 0
    """Bytes of its output, per sample, over all its calls in one forward pass."""
    factors: Factors | None = None
    """Of a fully-connected layer (`nn.Linear`) whose parameters are used in its own calls and nowhere else;
    null for every other layer: its gradient is no product of what goes in and out."""
    no_factors: str = ""
    """Of a fully-connected layer without factors: why it has none."""
    waits: str = ""
    """When a forward pass waits for its parameters, and why; empty where it waits when it reads them."""

    @property
    def title(self) -> str:
        """What people read as its name."""
        return layer_title(self.name, self.kind)

    @property
    def parameter_count(self) -> int:
        """Elements of all its parameters."""
        return sum(p.count for p in self.parameters)

    @cached_property
    def trainable_count(self) -> int:
        """Elements of those that are trained: what travels."""
        return sum(p.count for p in self.parameters if p.trainable)

    @property
    def parameter_bytes(self) -> int:
        """Bytes of all its parameters."""
        return sum(p.nbytes for p in self.parameters)


@dataclass(frozen=True, kw_only=True)
class Amount:
    """Bytes of a pass of so many samples."""

    fixed: int = 0
    """Whatever the samples."""
    sample: int = 0
    """For each sample."""

    def of(self, samples: int) -> int:
        """Bytes of `samples`."""
        return self.fixed + self.sample * samples


@dataclass(frozen=True, kw_only=True)
class BlockDescription:
    """What a memory mechanism can treat as one at the least, in one forward pass: the calls of a module, or of a module
    in an nn.Sequential with those behind it that have no layers. As on the host, where nothing is moved or dropped."""

    layers: tuple[str, ...]
    """In forward order. Empty: all that is in no block."""
    calls: int = 1
    """In one forward pass."""
    inputs: Amount = Amount()
    """Of the tensors that it is given; of every call."""
    outputs: Amount = Amount()
    """Of the tensors that it answers with; of every call."""
    saved: Amount = Amount()
    """What its forward saves for backward, each memory once, without parameters, buffers and the pass's inputs."""
    saved_inputs: Amount = Amount()
    """The part of `saved` that it was given."""
    saved_outputs: Amount = Amount()
    """The part of `saved` that it answers with."""
    by_layer: tuple[Amount, ...] = ()
    """`saved` of each of its layers, where the first that saves a memory has it."""
    forward_peak: Amount = Amount()
    """The most that one call's forward holds at a time, beside what was there when it began."""
    forward_flops: int = 0
    """Floating-point operations of its forward, per sample (multiplication and addition are two)."""
    backward_flops: int = 0
    """The same of its backward."""

    @property
    def inner(self) -> Amount:
        """The part of `saved` that it was not given: what is dropped, or moved, with the block, be its input kept."""
        return Amount(
            fixed=self.saved.fixed - self.saved_inputs.fixed,
            sample=self.saved.sample - self.saved_inputs.sample,
        )


@dataclass(frozen=True, kw_only=True)
class CutDescription:
    """A place where the model could fall into a front and a back: in front of a layer."""

    layer: str
    """The first layer of the back."""
    shape: tuple[int, ...] = ()
    """What crosses there, per sample: the activation's dimensions without that of the samples."""
    dtype: str = "float32"
    """Its type as torch names it."""
    refused: str = ""
    """Why the model cannot be cut here; empty where it can."""

    @property
    def activation_bytes(self) -> int:
        """Bytes that cross per sample, in one direction."""
        return math.prod(self.shape) * DTYPE_BYTES[self.dtype]


@dataclass(frozen=True, kw_only=True)
class ModelDescription:
    """A model as strategies see it."""

    name: str
    """The catalogue's name, or the entry point."""
    layers: tuple[LayerDescription, ...]
    """In the order of first use in forward; `layers[i].index == i`."""
    buffer_bytes: int = 0
    """Bytes of its buffers (batch statistics and the like), which stay local."""
    samples: int | None = None
    """Training samples of the data that it was described with; None where it was described without."""
    staged: bool | None = None
    """Whether these data are made in two stages, of which a device can do the second (`engine/inputs/source.py`); None
    where that is not known."""
    cuts: tuple[CutDescription, ...] = ()
    """One for each layer, in the order in which a forward pass first uses them: where the model can be cut in two, the
    layers from there on belong to the back. Empty where it can be cut nowhere."""
    uncut: str = ""
    """Why it can be cut nowhere."""
    blocks: tuple[BlockDescription, ...] = ()
    """What memory mechanisms can treat as one, in forward order, and last what is in no block. Empty where nobody has
    asked for it: to find it takes passes of its own (`engine/liveness/blocks.py`)."""
    mean_loss: bool = False
    """Whether the user's own loss was seen to be the mean over its batch, where the sum is asked for. False where it is
    not, or where nobody could tell."""
    defaults: dict[str, dict[str, Any]] = field(default_factory=dict, hash=False)
    """What a user's own functions take for options that are left out: of the `model` and of the `data`. Empty for those
    of the catalogue, which says it itself."""

    def __post_init__(self) -> None:
        if [layer.index for layer in self.layers] != list(range(len(self.layers))):
            raise ValueError(f"the layers of {self.name} are not listed in forward order")

    @cached_property
    def parameters(self) -> tuple[ParameterDescription, ...]:
        """Every parameter once, in forward order of the layers."""
        return tuple(p for layer in self.layers for p in layer.parameters)

    @property
    def parameter_count(self) -> int:
        """Elements of all parameters, frozen ones included."""
        return sum(layer.parameter_count for layer in self.layers)

    @property
    def parameter_bytes(self) -> int:
        """Bytes of all parameters, frozen ones included."""
        return sum(layer.parameter_bytes for layer in self.layers)

    @property
    def forward_flops(self) -> int:
        """Floating-point operations of one sample's forward pass."""
        return sum(layer.forward_flops for layer in self.layers)

    @property
    def checksum(self) -> str:
        """Hexadecimal SHA-256 of layer and parameter names, shapes, types and their order.

        Parties that would exchange different units disagree here first.
        """
        keys = [
            [layer.name, [[p.name, list(p.shape), p.dtype, p.trainable] for p in layer.parameters]]
            for layer in self.layers
        ]
        return hashlib.sha256(json.dumps(keys, separators=(",", ":")).encode()).hexdigest()

    def layer(self, name: str) -> LayerDescription:
        """The layer called `name`; raises UnknownNameError listing the known ones."""
        try:
            return self._by_name[name]
        except KeyError:
            names = (layer.name for layer in self.layers)
            raise UnknownNameError("layer", name, f"layer of {self.name}", names) from None

    @cached_property
    def _by_name(self) -> dict[str, LayerDescription]:
        return {layer.name: layer for layer in reversed(self.layers)}

    def cut(self, layer: str) -> CutDescription | None:
        """Where to cut in front of `layer`; None where nothing is known of such a place."""
        return next((cut for cut in self.cuts if cut.layer == layer), None)

    def layers_from(self, layer: str) -> frozenset[str]:
        """The layers of the back, where the model is cut in front of `layer`."""
        order = [cut.layer for cut in self.cuts]
        return frozenset(order[order.index(layer) :])

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        plain: dict[str, Any] = to_plain(self)
        return plain

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> ModelDescription:
        """The inverse of `to_dict`. Raises UserError naming the field that is wrong."""
        return from_plain(cls, data, "model")
