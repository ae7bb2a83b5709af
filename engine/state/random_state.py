"""The random states that a worker's steps go on from: of the generators that a model and its data may draw from,
Python's, NumPy's, torch's, and its device's where that is CUDA. A generator that a user's code has made for itself is
its own matter."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

_TORCH, _CUDA, _OTHERS = "torch", "cuda", "others"


def state(device: torch.device) -> dict[str, Tensor]:
    """Now. Raises TypeError where the user's code has put a generator in the place of NumPy's whose state is of a kind
    that nobody here knows."""
    others = {"python": random.getstate(), "numpy": _plain(np.random.get_state(legacy=False))}
    text = json.dumps(others).encode()
    found = {_TORCH: torch.get_rng_state(), _OTHERS: torch.frombuffer(bytearray(text), dtype=torch.uint8)}
    if device.type == "cuda":
        found[_CUDA] = torch.cuda.get_rng_state(device)
    return found


def load(found: Mapping[str, Tensor], device: torch.device) -> None:
    """Go on from `state()`."""
    others = json.loads(found[_OTHERS].numpy().tobytes())
    version, internal, gauss = others["python"]
    random.setstate((version, tuple(internal), gauss))
    np.random.set_state(_arrays(others["numpy"]))
    torch.set_rng_state(found[_TORCH])
    if device.type == "cuda":
        torch.cuda.set_rng_state(found[_CUDA], device)


def _plain(value: Any) -> Any:
    """NumPy's state as JSON takes it."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, np.ndarray):
        return {"array": value.tolist(), "dtype": str(value.dtype)}
    return value.item() if isinstance(value, np.generic) else value


def _arrays(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if value.keys() == {"array", "dtype"}:
        return np.array(value["array"], value["dtype"])
    return {name: _arrays(each) for name, each in value.items()}
