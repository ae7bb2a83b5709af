"""fp32: tensors travel as they are, in their own type (4 bytes per element in float32). Exact; no copy.

Bytes: count x itemsize. Loses where the network binds and half the precision would do.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from engine.codec.base import Elementwise


class FullPrecision(Elementwise):
    """The identity."""

    def wire_dtype(self, dtype: torch.dtype) -> torch.dtype:
        return dtype

    def encode(self, parts: Sequence[Tensor]) -> list[Tensor]:
        return list(parts)
