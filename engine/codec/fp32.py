"""fp32: tensors travel as they are, in their own type (4 bytes per element in float32). Exact; no copy.

Bytes: count x itemsize. Loses where the network binds and half the precision would do.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from engine.codec.base import pieces


class FullPrecision:
    """The identity."""

    def wire_dtype(self, dtype: torch.dtype) -> torch.dtype:
        return dtype

    def encode(self, parts: Sequence[Tensor]) -> list[Tensor]:
        return list(parts)

    def decode(self, payload: Tensor, parts: Sequence[Tensor]) -> None:
        for part, piece in pieces(payload, parts):
            part.copy_(piece)

    def decode_add(self, payload: Tensor, parts: Sequence[Tensor]) -> None:
        for part, piece in pieces(payload, parts):
            part.add_(piece)
