"""RehearsalSpec: what a rehearsal replays, and how much smaller everything is."""

from __future__ import annotations

import math
from dataclasses import dataclass

from engine.catalogue import STRICT
from engine.errors import UserError, require_file
from engine.plan.devices import device


@dataclass(frozen=True, kw_only=True)
class RehearsalSpec:
    """How a rehearsal computes: by waiting as long as a device would take."""

    __pydantic_config__ = STRICT

    device: str = "p4000"
    """The device whose compute times are derived from FLOPs: k40m, m40, p4000, p100, v100, a100 or h100."""
    profile: str | None = None
    """A measured profile's file, as `trainyard profile` writes it, on the workers' machines. Replaces `device`."""
    efficiency: float = 0.6
    """The share of the device's peak (0 to 1) that a derived profile assumes."""
    scale: float = 1.0
    """Tensors, slices, buckets and link rates are divided by this; times are not. The job says the true sizes."""

    def __post_init__(self) -> None:
        device(self.device)
        require_file("profile", self.profile)
        if not 0 < self.efficiency <= 1:
            raise UserError("efficiency", self.efficiency, "is a share from 0 to 1", "60 % is 0.6")
        if not 1 <= self.scale < math.inf:
            raise UserError("scale", self.scale, "must be at least 1", "Use 1 for the true sizes")

    @property
    def text(self) -> str:
        """`rehearsed: compute of P4000 derived from FLOPs at 60 %, sizes and rates 1/15`: what stands beside every
        figure that rests on it."""
        compute = f"compute of {device(self.device).title} derived from FLOPs at {100 * self.efficiency:g} %"
        if self.profile is not None:
            compute = f"compute of the profile {self.profile}"
        return f"rehearsed: {compute}" + (f", sizes and rates 1/{self.scale:g}" if self.scale != 1 else "")
