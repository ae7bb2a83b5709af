"""A user's models whose branches run in threads of their own, and read parameters without calling a module."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from weakref import ref

import torch
from torch import Tensor, nn
from torch.nn import functional


class Branches(nn.Module):
    """The branches read all at once what one update has to bring."""

    def __init__(self, how: str, branches: int = 4, width: int = 3000) -> None:
        super().__init__()
        self.head = nn.Linear(64, 10)
        self.parts = nn.ModuleList([nn.Linear(64, width) for _ in range(branches)])
        self.how = how
        self.pools: list[ThreadPoolExecutor] = []

    def branch(self, index: int, x: Tensor) -> Tensor:
        part: nn.Module = self.parts[index]
        if self.how == "functional":
            return x + functional.linear(x, part.weight, part.bias).mean(1, keepdim=True)
        return torch.sin(part.weight.sum(0) + part.bias[:1] + x)  # of a sum autograd saves nothing

    def forward(self, x: Tensor) -> Tensor:
        x = x.flatten(1)
        if not self.pools:
            self.pools.append(ThreadPoolExecutor(len(self.parts)))
        return self.head(sum(self.pools[0].map(lambda index: self.branch(index, x), range(len(self.parts)))))


def branches(how: str = "sum") -> nn.Module:
    return Branches(how)


def look(model: ref[nn.Module], parameters: list[nn.Parameter]) -> None:
    """As long as there is the model: a test's process has the threads of none that is gone."""
    while model() is not None and threading.main_thread().is_alive():
        for parameter in parameters:
            parameter.detach().sum()
        threading.Event().wait(0.0002)


class Monitored(nn.Module):
    """A thread reads all the time what forward reads first without entering a module, or all parameters. What many
    unused layers leave late gives it time."""

    def __init__(self, everything: bool, spare: int = 20) -> None:
        super().__init__()
        self.holder = nn.ParameterList([nn.Parameter(torch.randn(64, 64) * 0.1)])
        self.last = nn.Linear(64, 10)
        self.unused = nn.ModuleList([nn.Linear(64, 64) for _ in range(spare)])
        self.everything = everything
        self.threads: list[threading.Thread] = []

    def forward(self, x: Tensor) -> Tensor:
        if not self.threads and x.device.type != "meta":
            looked_at = list(self.parameters()) if self.everything else list(self.holder)
            self.threads.append(threading.Thread(target=look, args=(ref(self), looked_at), daemon=True))
            self.threads[0].start()
        logits: Tensor = self.last(torch.tanh(functional.linear(x.flatten(1), self.holder[0])))
        return logits


def monitored(everything: bool = False) -> nn.Module:
    return Monitored(everything)
