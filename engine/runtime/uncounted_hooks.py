"""Uncounted hooks: what the runtime has called before a module's forward changes nothing for who looks at its hooks.

A transformer of PyTorch's in evaluation mode goes a faster way where no gradient is wanted, no module in it has a hook,
and no tensor that it reads has a `__torch_function__`, as a closed parameter has. The two ways differ in more than
time: in padded positions, and in what a user puts in place of a layer's parts. So the question for a
`__torch_function__` waits for the parameters that it is asked about (`unasked.py`), and our hooks are left out where
PyTorch, or a user, counts or lists a module's hooks, copies the module, or gives it to TorchScript.

Seen all the same: that there are hooks (`if module._forward_pre_hooks`) and their `items()`, because PyTorch asks so
before it calls them; and FSDP's own hooks, as in plain PyTorch.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

_AnyHook: TypeAlias = Callable[..., Any]


class Hook:
    """A module's forward pre-hook that calls `function()`. It does nothing in compiled code, which has been entered
    elsewhere, nor in a copy of the module, which nobody trains."""

    def __init__(self, function: Callable[[], None] | None = None) -> None:
        self._function = function

    def __call__(self, module: nn.Module, inputs: object) -> None:
        if not torch.compiler.is_compiling() and self._function is not None:
            self._function()

    def __reduce__(self) -> tuple[type[Hook], tuple[()]]:
        return Hook, ()


_FRAMES: Any = torch._C._dynamo.eval_frame
_FRAMES.set_code_exec_strategy(  # what `torch.compiler.disable` does, without its cost in every call
    Hook.__call__.__code__, _FRAMES._FrameExecStrategy(_FRAMES._FrameAction.SKIP, _FRAMES._FrameAction.SKIP)
)


class _Hooks(OrderedDict[int, _AnyHook]):
    """A module's forward pre-hooks: all of them in `items()`, the user's in all else."""

    def __init__(self, before: OrderedDict[int, _AnyHook]) -> None:
        """`before`: those that the module had. The handles of these remove them from there."""
        super().__init__(before)
        self._before = before
        self._then = frozenset(before)

    def items(self) -> Any:
        return [(key, hook) for key, hook in super().items() if key not in self._then or key in self._before]

    def __bool__(self) -> bool:
        return bool(self.items())

    def __len__(self) -> int:
        return len(self._users())

    def __iter__(self) -> Iterator[int]:
        return iter(self._users())

    def keys(self) -> Any:
        return self._users().keys()

    def values(self) -> Any:
        return self._users().values()

    def copy(self) -> Any:
        return self._users()

    def __reduce__(self) -> tuple[Any, ...]:
        # One after another, so that a hook of the user's that has its own handle has the copy's in a copy.
        return OrderedDict, (), None, None, iter(self._users().items())

    def _users(self) -> OrderedDict[int, _AnyHook]:
        return OrderedDict((key, hook) for key, hook in self.items() if not isinstance(hook, Hook))


def before_forward(module: nn.Module, function: Callable[[], None]) -> RemovableHandle:
    """Call `function()` before the module's forward, and before the hooks that it has."""
    if not isinstance(module._forward_pre_hooks, _Hooks):
        module._forward_pre_hooks = _Hooks(module._forward_pre_hooks)  # type: ignore[arg-type]
    return module.register_forward_pre_hook(Hook(function), prepend=True)
