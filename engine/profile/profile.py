"""Profile: what every layer of one model costs on one device. Written as JSON, read by rehearsals."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from engine.errors import UserError
from engine.plan.description import ModelDescription
from engine.plan.documents import load_file
from engine.plan.limits import PROFILE
from engine.plan.serde import to_plain


@dataclass(frozen=True, kw_only=True)
class LayerTime:
    """One layer's compute time, per sample."""

    layer: str
    """Its name in the model's description."""
    forward_s: float
    """Seconds of its forward pass per sample."""
    backward_s: float
    """Seconds of its backward pass per sample, its gradients included."""

    def __post_init__(self) -> None:
        for field in ("forward_s", "backward_s"):
            _duration(field, getattr(self, field))

    @property
    def product_s(self) -> float:
        """Seconds per sample of the product that is the gradient of a fully-connected layer's weight: as many FLOPs as
        the forward pass, so as long, and at most the whole backward pass."""
        return min(self.forward_s, self.backward_s)


@dataclass(frozen=True, kw_only=True)
class Profile:
    """Compute times of one model on one device, at one batch."""

    model: str
    """The model's name."""
    checksum: str
    """Of the model's description, so that another model with equal layer names is noticed."""
    source: Literal["measured", "derived"]
    """`measured`: medians of real steps; `derived`: from FLOPs and bytes."""
    device: str
    """The device, as people call it."""
    hardware: str = ""
    """Where it was measured: processor, threads, PyTorch. Or the source of a derived profile's rates."""
    efficiency: float | None = None
    """The share of the device's peak that a derived profile assumes. Null where it was measured."""
    batch: int
    """Samples of one pass that the times were taken at, or derived for."""
    layers: tuple[LayerTime, ...]
    """Every layer of the description, in forward order."""
    before_s: float = 0.0
    """Seconds per sample of a forward pass before the first layer with parameters."""
    after_s: float = 0.0
    """Seconds per sample of a backward pass after the last gradient. What lies between layers with parameters
    (activations, pooling, the loss) is booked on them, as telemetry books it."""

    def __post_init__(self) -> None:
        for field in ("before_s", "after_s"):
            _duration(field, getattr(self, field))
        if self.batch < 1:
            raise UserError("batch", self.batch, "a pass has at least one sample", "Use 1 or more")
        if len({time.layer for time in self.layers}) != len(self.layers):
            raise UserError("layers", self.model, "a layer is listed twice", "Give every layer one entry")

    @property
    def forward_s(self) -> float:
        """Seconds of a whole forward pass, per sample."""
        return self.before_s + sum(time.forward_s for time in self.layers)

    @property
    def backward_s(self) -> float:
        """Seconds of a whole backward pass, per sample."""
        return self.after_s + sum(time.backward_s for time in self.layers)

    def check(self, model: ModelDescription) -> None:
        """Raises UserError where this is no profile of `model`."""
        mine, theirs = {time.layer for time in self.layers}, {layer.name for layer in model.layers}
        if mine != theirs:
            shown = ", ".join(sorted(mine ^ theirs)[:5])
            raise UserError(
                "",
                self.model,
                f"the profile and {model.name} differ in their layers ({shown})",
                "Measure this model with `trainyard profile`",
            )
        if self.checksum != model.checksum:
            raise UserError(
                "",
                self.model,
                f"the profile was made for other parameters than those of {model.name}",
                "Measure this model, with the same options, with `trainyard profile`",
            )


def read(path: Path) -> Profile:
    """Read a profile. Raises UserError for a file that cannot be read or is no profile."""
    return load_file(Profile, path, PROFILE)


def plain(profile: Profile) -> dict[str, object]:
    """Plain data for JSON; `engine.plan.serde.from_plain` is the inverse."""
    found: dict[str, object] = to_plain(profile)
    return found


def _duration(field: str, value: float) -> None:
    if not 0 <= value < math.inf:
        raise UserError(field, value, "is no duration in seconds", "Give a number that is not negative")
