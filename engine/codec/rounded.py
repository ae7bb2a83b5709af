"""What codecs share that round each element to a shorter floating-point type, and sum in the tensor's own."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from engine.codec.base import Elementwise


class Rounded(Elementwise):
    """A subclass says to which type."""

    short: torch.dtype

    def wire_dtype(self, dtype: torch.dtype) -> torch.dtype:
        return self.short

    def encode(self, parts: Sequence[Tensor]) -> list[Tensor]:
        return [part.to(self.short) for part in parts]
