"""What PyTorch's allocator counts of a CUDA device."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch

from engine.telemetry.memory import ALLOCATED, ALLOCATED_PEAK, DEVICE


def sampled(device: torch.device) -> Callable[[], dict[str, int]] | None:
    """Reads the measures of a device for `MemorySampler`, and lets its peak begin anew; None for one whose allocator
    does not count."""
    return partial(_sample, device) if device.type == "cuda" else None


def allocated(device: torch.device) -> Callable[[], int] | None:
    """Reads what tensors on it hold now, in some microseconds; None likewise."""
    return partial(_allocated, device) if device.type == "cuda" else None


def _sample(device: torch.device) -> dict[str, int]:
    if not torch.cuda.is_initialized():  # the allocator has given out nothing
        return {DEVICE: 0, ALLOCATED: 0, ALLOCATED_PEAK: 0}
    counts = torch.cuda.memory_stats(device)
    torch.cuda.reset_peak_memory_stats(device)
    return {
        DEVICE: counts.get("reserved_bytes.all.current", 0),
        ALLOCATED: counts.get("allocated_bytes.all.current", 0),
        ALLOCATED_PEAK: counts.get("allocated_bytes.all.peak", 0),
    }


def _allocated(device: torch.device) -> int:
    found: int = torch.cuda.memory_stats_as_nested_dict(device)["allocated_bytes"]["all"]["current"]
    return found
