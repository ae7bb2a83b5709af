"""Module calls: the runtime is told before a module's forward, or stands around it, and has no hook on the module.

Hooks are seen. A transformer of PyTorch's in evaluation mode goes a faster way where no gradient is wanted, no module
in it has a hook, and no tensor that it reads has a `__torch_function__`, as a closed parameter has. The two ways differ
in more than time: in padded positions, and in what a user puts in place of a layer's parts. Users count, list, copy and
remove hooks, TorchScript compiles them, torch.compile guards them. So the question for a `__torch_function__` waits for
the parameters that it is asked about (`unasked.py`), and a module's call is taken where PyTorch itself has what
`module.compile()` makes of it: in `_compiled_call_impl`, which this file looks up for each module, so that nothing is
put into one. A module that a user compiles so has his call, and is waited for when that is entered (`entries.py`); the
compiler finds none of ours.

A copy of a module is another module. Not told of is a module whose class has a `__call__` that passes PyTorch's by, or
whose `_compiled_call_impl` somebody sets: gates (`gate.py`) notice what is read there. FSDP's own hooks are counted, as
in plain PyTorch.

Cost: a third of a microsecond for each call of a module, of which somebody is told or not.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import nn

Around: TypeAlias = Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]
"""(what runs the module, with all that is told of it; its arguments) -> what the caller of the module gets."""


class _Call:
    """What is called in place of one module's `_call_impl`, which runs its hooks and its forward."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self.functions: list[Callable[[], None]] = []
        self.around: Around | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.around is not None:
            return self.around(self.run, args, kwargs)
        _tell(self.functions)
        return self.module._call_impl(*args, **kwargs)

    def run(self, *args: Any, **kwargs: Any) -> Any:
        _tell(self.functions)
        return self.module._call_impl(*args, **kwargs)


def _tell(functions: list[Callable[[], None]]) -> None:
    for function in functions:
        function()


class _Lookup:
    """`_compiled_call_impl` of all modules that have none of their own."""

    def __get__(self, module: nn.Module | None, owner: type) -> _Call | None:
        # The compiler looks into this, and finds none: compiled code has been entered elsewhere. Of a compilation in
        # another thread nothing shows here, because PyTorch asks twice in one call and means one answer.
        return None if module is None or torch.compiler.is_dynamo_compiling() else _CALLS.get(id(module))


_CALLS: dict[int, _Call] = {}
"""By the id of a module, which is kept so that no other one gets it."""

_FRAMES: Any = torch._C._dynamo.eval_frame
_ACTION: Any = _FRAMES._FrameAction
for _function, _below in (
    (_Lookup.__get__, _ACTION.SKIP),
    (_tell, _ACTION.SKIP),
    (_Call.__call__, _ACTION.DEFAULT),  # what it calls is the user's
    (_Call.run, _ACTION.DEFAULT),
):  # as `torch.compiler.disable` does, without its cost in every call
    _FRAMES.set_code_exec_strategy(_function.__code__, _FRAMES._FrameExecStrategy(_ACTION.SKIP, _below))


class Told:
    """That a function is called before a module's forward, until `remove()`."""

    def __init__(self, module: nn.Module, function: Callable[[], None]) -> None:
        self._key = id(module)
        self._function = function

    def remove(self) -> None:
        """Call it no more; it may be removed before. Nobody may be in a call of the module."""
        call = _CALLS.get(self._key)
        if call is not None and self._function in call.functions:
            call.functions.remove(self._function)
            _forget(call)


class Surrounded:
    """That a function stands around a module's calls, until `remove()`."""

    def __init__(self, module: nn.Module) -> None:
        self._key = id(module)

    def remove(self) -> None:
        """Let the module be called as ever; it may be removed before. Nobody may be in a call of the module."""
        call = _CALLS.get(self._key)
        if call is not None:
            call.around = None
            _forget(call)


def _forget(call: _Call) -> None:
    """A call of which nobody wants to know any more."""
    if not call.functions and call.around is None:
        del _CALLS[id(call.module)]


def before_forward(module: nn.Module, function: Callable[[], None]) -> Told:
    """Call `function()` before the module's forward and its hooks, and before what was to be called so far."""
    _look_up()
    _CALLS.setdefault(id(module), _Call(module)).functions.insert(0, function)
    return Told(module, function)


def around_forward(module: nn.Module, function: Around) -> Surrounded:
    """Let `function` answer the module's calls. One function stands around a module."""
    _look_up()
    call = _CALLS.setdefault(id(module), _Call(module))
    assert call.around is None, "one function stands around a module"
    call.around = function
    return Surrounded(module)


@functools.cache
def _look_up() -> None:
    nn.Module._compiled_call_impl = _Lookup()  # type: ignore[assignment]
