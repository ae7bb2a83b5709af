"""What a model writes to parameters that fully_shard has gathered for a pass, and gives up after it: that would be
lost, so it ends the job.

A group's parameters are looked at before and after each pass of it: how often autograd has seen them change, and, in
the first `Turns.FIRST` steps and for each group once in `Turns.PERIOD`, their checksum.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from engine.errors import TrainingError
from engine.instrumentation.checksum import Turns, checksum


class GatheredWrites:
    """Watches the groups of one model. Methods and hooks raise TrainingError for a write."""

    def __init__(self, model: nn.Module, groups: Sequence[nn.Module]) -> None:
        self._model = model
        self._step = 0
        self._before: dict[nn.Module, dict[str, tuple[int, int | None]]] = {}
        self._after: dict[str, int] = {}
        """By parameter: what autograd had counted when its group's pass ended."""
        self._names = {module: name for name, module in model.named_modules()}
        for number, group in enumerate(groups):
            # Where a group is a part of what is compiled, the compiler leaves these calls to Python.
            group.register_forward_pre_hook(torch.compiler.disable(self._begin(number)))
            group.register_forward_hook(torch.compiler.disable(self._end), prepend=True)

    def begin_step(self, step: int) -> None:
        self._step = step

    def end_forward(self) -> None:
        """The loss is computed: what is still gathered is as its group left it."""
        for name, parameter in self._model.named_parameters():
            if name in self._after and not isinstance(parameter, DTensor):
                self._compare(name, self._after[name], parameter._version)
        self._after.clear()

    def _begin(self, number: int) -> Any:
        def hook(group: nn.Module, inputs: object) -> None:
            due = self._step < Turns.FIRST or self._step % Turns.PERIOD == number % Turns.PERIOD
            self._before[group] = self._look(group, due)

        return hook

    def _end(self, group: nn.Module, inputs: object, output: object) -> None:
        before = self._before.pop(group, {})
        after = self._look(group, any(sum_ is not None for _, sum_ in before.values()))
        for name, was in before.items():
            if name in after:
                self._compare(name, was, after[name])
                self._after[name] = after[name][0]

    def _look(self, group: nn.Module, due: bool) -> dict[str, tuple[int, int | None]]:
        def sum_of(parameter: Tensor) -> int:
            copy = parameter.detach().reshape(-1).clone()  # NumPy would not let go of what FSDP resizes
            return int(checksum(copy))

        prefix = f"{self._names[group]}." if self._names[group] else ""
        return {
            prefix + name: (p._version, sum_of(p) if due else None)
            for name, p in group.named_parameters()
            if not isinstance(p, DTensor)
        }

    @staticmethod
    def _compare(name: str, before: object, after: object) -> None:
        if before != after:
            raise TrainingError(
                f"{name} was written to while `fsdp` had gathered it for a pass, and its shards do not get to know."
                " Choose ddp, or another strategy"
            )
