"""A model that writes down from within which surroundings it is computed, and refuses to be computed without any."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

from engine.state import computation

INSIDE: list[str] = []


def _noting(name: str) -> Any:
    plain = getattr(computation.Computation, name)

    @contextmanager
    def noted(self: Any, *arguments: Any, **options: Any) -> Any:
        INSIDE.append(name)
        try:
            with plain(self, *arguments, **options):
                yield
        finally:
            INSIDE.pop()

    return noted


for each in ("training", "backward", "measuring"):
    setattr(computation.Computation, each, _noting(each))


def build(marks: str) -> nn.Module:
    """(n, 1, 8, 8) -> (n, 10)."""

    def mark() -> None:
        if not INSIDE:
            raise RuntimeError("the model is computed without surroundings")
        (Path(marks) / f"{os.getpid()} {INSIDE[-1]}").touch()

    def entered(module: nn.Module, inputs: tuple[Any, ...]) -> None:
        if inputs[0].device.type == "cpu" and type(inputs[0]) is torch.Tensor:
            mark()

    def gone_back(gradient: torch.Tensor) -> None:
        mark()

    model = nn.Sequential(
        nn.Flatten(), nn.Linear(64, 12), nn.Tanh(), nn.Linear(12, 12), nn.Tanh(), nn.Linear(12, 10)
    )
    for module in model:
        if isinstance(module, nn.Linear):
            module.register_forward_pre_hook(entered)
            module.weight.register_hook(gone_back)
    return model
