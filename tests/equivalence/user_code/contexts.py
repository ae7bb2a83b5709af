"""A user's model that reads its parameters first within something that changes how torch computes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils.flop_counter import FlopCounterMode


class Passing(TorchFunctionMode):
    """Calls every function as it is."""

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return function(*args, **(kwargs or {}))


CONTEXTS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "nothing": nullcontext,
    "autocast": partial(torch.autocast, "cpu", dtype=torch.bfloat16),
    "inference": torch.inference_mode,
    "device": partial(torch.device, "meta"),
    "functions": Passing,
    "counted": partial(FlopCounterMode, display=False),
}


class Reading(nn.Module):
    """What is read does not count, only where."""

    def __init__(self, within: str) -> None:
        super().__init__()
        self.first = nn.Linear(64, 24)
        self.last = nn.Linear(24, 10)
        self.within = within

    def forward(self, x: Tensor) -> Tensor:
        with CONTEXTS[self.within]():
            for parameter in self.parameters():
                parameter.detach().abs().sum()
        logits: Tensor = self.last(torch.tanh(self.first(x.flatten(1))))
        return logits


def model(within: str) -> nn.Module:
    return Reading(within)
