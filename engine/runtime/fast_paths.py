"""Fast paths: a transformer of PyTorch's in evaluation mode goes the way that it goes in plain PyTorch.

Its layers go a faster one where no gradient is wanted, no module in them has a hook, and no tensor that they read has a
`__torch_function__`, as a closed parameter has. The two ways differ in more than time: in padded positions, and in what
a user puts in place of a layer's parts. So the question for a `__torch_function__` waits for the parameters that it is
asked about (`unasked.py`), and our hooks are left out where PyTorch, or a user, counts a module's hooks.

Counted all the same are our hooks beside one that the user had put there before training began and takes away later,
and FSDP's own, as in plain PyTorch.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from torch import nn

from engine.runtime.entries import Hook


class _Hooks(OrderedDict[int, Callable[..., Any]]):
    """A module's forward pre-hooks. Their number, and copies, are without ours; all are called."""

    def __len__(self) -> int:
        return len(self._users())

    def __bool__(self) -> bool:
        return super().__len__() > 0  # what PyTorch asks before it calls them

    def __reduce__(self) -> tuple[Any, ...]:
        return OrderedDict, (self._users(),)

    def _users(self) -> list[tuple[int, Callable[..., Any]]]:
        return [(key, hook) for key, hook in self.items() if not isinstance(hook, Hook)]


def before_forward(module: nn.Module, hook: Hook) -> None:
    """Call `hook` before the module's forward, and before the hooks that it has."""
    if not module._forward_pre_hooks:
        module._forward_pre_hooks = _Hooks()
    module.register_forward_pre_hook(hook, prepend=True)
