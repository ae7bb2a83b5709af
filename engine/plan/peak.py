"""Peaks: what a worker's step holds in memory at its highest moment, as `engine/liveness/` predicts it. By itself, so
that who only reads it loads nothing of what plans are made of."""

from __future__ import annotations

from dataclasses import dataclass

PARTS = (
    "parameters",
    "buffers",
    "inputs",
    "gradients",
    "optimizer state",
    "activations",
    "derivatives",
    "kernels",
)
"""Activations: made in forward, or in a second forward. Derivatives: of activations, in backward, and what comes back
from a second tier of memory. Kernels: what one holds while it runs."""


@dataclass(frozen=True, kw_only=True)
class Peak:
    """Bytes at the moment at which a step holds the most."""

    total: int
    """All of it."""
    parts: dict[str, int]
    """Parameters, buffers, inputs (with batches that are read ahead), gradients, optimizer state, activations (made in
    forward), derivatives (of activations; and what comes back from a second tier of memory) and kernels (what one holds
    while it runs)."""
    saved: dict[str, int]
    """By layer: what was made in its forward, and in what follows it up to the next layer, and is there when
    backward begins."""
    when: str
    """The part of the step: `forward`, `backward`, `again` (a second forward) or `update`."""
    layer: str | None
    """The layer at work then, where it is known."""
    first: int
    """The total in the first two steps, in which mechanisms hold more: they learn what their blocks do."""
    stage: int = 0
    """The stage of a pipeline that this is of, the one that holds the most; 0 where the model is not cut."""


@dataclass(frozen=True, kw_only=True)
class LayerMemory:
    """One layer's memory on a worker."""

    layer: str
    kind: str
    """The module's class."""
    activations: str
    """What happens to them, with those of its options that are not its defaults."""
    declared: int
    """Bytes of its parameters and their gradients."""
    saved: int
    """Bytes that are there for its backward when that begins."""


@dataclass(frozen=True, kw_only=True)
class WorkerMemory:
    """What a worker holds: worker 0, or the one of the first replica's stages that holds the most."""

    samples: int
    """Of one of its passes."""
    total: int
    """The peak, with what the plan declares beside it."""
    peak: Peak
    """The model's step, predicted."""
    declared: dict[str, int]
    """What the plan declares, for as long as training lasts, what messages are made in, and the copy that is made for a
    checkpoint."""
    beside: int
    """What it declares beside the model's step: of its server shard, if it has one, of its codecs, what messages are
    made in, and the copy that is made for a checkpoint."""
    checkpoint: int
    """Of that, the copy for a checkpoint, which is there until the checkpoint is on the disk; 0: the job has none."""
    offloaded: int
    """Of the optimizer's state, what is on a disk and not in memory."""
    layers: list[LayerMemory]
    """Those that it has, in forward order."""
    text: str
    """The same as a table in plain text."""

    @property
    def first(self) -> int:
        """The total in the first two steps, in which mechanisms hold more."""
        return self.peak.first + self.beside
