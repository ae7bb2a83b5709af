"""Nowhere: the second tier of tensors without values, on which it is found out what a mechanism holds in memory
(`engine/liveness/peak.py`): what leaves is gone at once, and what is wanted soon is there at once."""

from __future__ import annotations

import torch
from torch import Tensor

from engine.state.told import Told


class Stored:
    """Bytes that have left."""

    def __init__(self, values: Tensor) -> None:
        self._count = values.numel()
        self._device = values.device
        self._here: Tensor | None = None

    def prefetch(self) -> None:
        """They are wanted soon."""
        if self._here is None:
            self._here = torch.empty(self._count, dtype=torch.uint8, device=self._device)

    def bring(self) -> Tensor:
        """A new flat tensor of as many."""
        self.prefetch()
        assert self._here is not None
        return self._here

    def release(self) -> None:
        """Nobody wants them any more."""
        self._here = None


class Nowhere:
    """Of one part of a model."""

    def __init__(self, folder: str, device: torch.device, told: Told) -> None: ...

    def out(self, values: Tensor) -> Stored:
        """Let flat bytes leave."""
        return Stored(values)

    def close(self) -> None:
        """Nothing is wanted any more."""
