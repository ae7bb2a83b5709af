"""How far two results of training are from each other, and how far they may be."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

TOLERANCES = {"float64": 1e-11, "float32": 1e-4, "bf16": 5e-2}
"""By precision: the norm of a difference over the tensor's norm. float32 has 24 bits and bfloat16 8, and a training of
some steps multiplies their roundings."""
ADAPTIVE_TOLERANCE = 1e-9
"""In float64, of optimizers that divide by a gradient's own size."""
ROUNDING = ("fp16", "bf16")
"""DDP's hooks that round every gradient to 16 bits."""
LEAST = 1e-3
"""A tensor whose elements are smaller than this is measured as if they were as large."""


def tolerance(job: dict[str, Any], state: dict[str, Tensor]) -> float:
    """The largest distance that counts as the same. `state`: what was trained; some of it may be of a shorter type."""
    precision = job["training"]["precision"]
    if job["strategy"].get("options", {}).get("hook") in ROUNDING:
        return TOLERANCES["bf16"]
    if any(tensor.dtype == torch.bfloat16 for tensor in state.values()):
        return TOLERANCES["bf16"]
    if precision == "float64" and job["optimizer"]["name"] != "sgd":
        return ADAPTIVE_TOLERANCE
    return TOLERANCES[precision]


def distances(
    state: dict[str, Tensor], expected: dict[str, Tensor], start: dict[str, Tensor]
) -> list[tuple[str, float]]:
    """Of every tensor, by name: the norm of the difference over that of the tensor, of what it was at the `start`, or
    of LEAST, whichever is largest. Another shape or type: infinite."""
    found = []
    for name, right in expected.items():
        left = state[name]
        if left.shape != right.shape or left.dtype != right.dtype:
            found.append((name, float("inf")))
            continue
        size = max(_norm(right), _norm(start[name]), LEAST * right.numel() ** 0.5)
        far = _norm(_wide(left) - _wide(right))
        found.append((name, far / size if size else far))
    return found


def _wide(value: Tensor) -> Tensor:
    return value if value.is_complex() else value.double()


def _norm(value: Tensor) -> float:
    return float((value.abs() if value.is_complex() else value).double().norm())
