"""Profiles: what each layer of a model costs on a device of this machine."""

from __future__ import annotations

from typing import Literal

from backend.schemas.base import Schema


class ProfiledLayer(Schema):
    """One layer's times in a pass of the profile's batch."""

    layer: str
    layer_name: str
    """The same as people read it: `4 (Conv2d)` of a layer called `4`."""
    forward_ms: float
    backward_ms: float


class ProfileView(Schema):
    """A profile that was measured, and where it is."""

    path: str
    """Its file: what a rehearsal names in `rehearsal.profile`."""
    device: Literal["cpu", "cuda"]
    """What it was measured on: what `cluster.device` of the job means on this machine."""
    hardware: str
    """Which one: processor or device, threads, PyTorch."""
    beside: list[str]
    """Names of the jobs that ran meanwhile: the layers had to share the machine with them, and may take less alone."""
    batch: int
    """Samples of one pass."""
    forward_ms: float
    """Of a whole pass; with what no layer is to blame for."""
    backward_ms: float
    layers: list[ProfiledLayer]
    """In forward order."""
