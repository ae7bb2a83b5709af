"""Tensors on the host as the bytes that they occupy, and bytes as tensors, without a copy."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from engine.instrumentation.raw_memory import NUMPY

_KNOWN_TO_PYTHON = {torch.float32, torch.float64, torch.float16}
"""Types whose memory is cast to bytes without an operation of PyTorch's, in each of which another thread may take the
interpreter."""


def as_bytes(part: Tensor) -> memoryview:
    """A contiguous 1-D host tensor as the bytes that it occupies, without a copy."""
    part = without_history(part)
    if part.dtype in _KNOWN_TO_PYTHON and part.numel():
        return memoryview(NUMPY(part)).cast("B")
    return memoryview(NUMPY(part.view(torch.uint8)))


def as_tensor(payload: memoryview | None, dtype: torch.dtype) -> Tensor:
    """Received bytes as a 1-D tensor of `dtype`, without a copy; None is an empty payload."""
    return torch.frombuffer(payload, dtype=dtype) if payload else torch.empty(0, dtype=dtype)


def kept(payload: memoryview | None) -> memoryview:
    """A copy of received bytes, whose own memory is used again."""
    return as_bytes(as_tensor(payload, torch.uint8).clone())


def joined(payload: Sequence[memoryview]) -> memoryview:
    """One after the other; a single one is not copied, and none is an empty payload."""
    if not payload:
        return memoryview(b"")
    if len(payload) == 1:
        return payload[0]
    return as_bytes(torch.cat([as_tensor(piece, torch.uint8) for piece in payload]))


def without_history(tensor: Tensor) -> Tensor:
    """The same memory. Each operation lets another thread have the interpreter, so what has no history is left as it
    is."""
    return tensor.detach() if tensor.requires_grad else tensor
