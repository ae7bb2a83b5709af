"""fp32: tensors travel as they are, in their own type (4 bytes per element in float32). Exact; no copy.

Bytes: count x itemsize. Loses where the network binds and half the precision would do.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from engine.codec.elementwise import Elementwise


class FullPrecision(Elementwise):
    """The identity."""

    def encode(self, parts: Sequence[Tensor], at: Sequence[int]) -> list[Tensor]:
        return list(parts)
