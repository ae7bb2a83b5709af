"""Entries: the parameters that compiled code reads are waited for when it is entered.

Compiled code looks at the classes of its parameters, and reads them, without asking a gate. So every parameter of a
compiled module is open before that is entered. What a compiled function reads is not known: every parameter is open
before one is entered. A closed one that is met inside all the same (of a module that is kept in a list, say) is not
compiled: the compiler leaves what is done with it to Python, which asks the gate. Before CUDA graphs run, every
parameter is open, because they overwrite the gradients that their last run left.

The compiler looks at nothing of the runtime's own: nobody is told of a module's call in compiled code, and the runtime
runs as it is where compiled code falls back to Python (`module_calls.py`).
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from functools import cache, partial
from typing import Any, TypeAlias

from torch import nn

from engine.instrumentation.compiled import (
    callback_of,
    compiled_call,
    compiler,
    compiles_forward,
    is_replayed,
)
from engine.instrumentation.module_calls import Told, before_forward

Parameters: TypeAlias = frozenset[int]
"""Ids of parameters."""


class Entries:
    """Tells whenever compiled code is about to be entered."""

    def __init__(self, model: nn.Module, enter: Callable[[Parameters | None], None]) -> None:
        """`enter(parameters)`: it may read these; None: any."""
        self._model = model
        self._enter = enter
        self._known: dict[int, tuple[Any, Parameters | None]] = {}
        """By the id of a module's callback: itself, and the parameters that are read by what it compiles. None: any, or
        what it compiles overwrites their gradients."""
        self._told: list[Told] = []
        self._thread = 0
        """The one that trains."""
        self.watching = False

    def watch(self) -> bool:
        """Begin, if anything may be compiled by now; whether it has begun just now."""
        if self.watching or compiler() is None:
            return False
        self.watching = True
        self._thread = threading.get_ident()
        for module in self._model.modules():
            below = frozenset(map(id, module.parameters()))
            call = compiled_call(module)
            if call is not None:
                self._know(call, below)
            elif compiles_forward(module):  # one function, perhaps, for all modules of a class
                self._told.append(before_forward(module, partial(self._enter, below)))
                self._know(module.forward, frozenset())
        _ENTRIES.add(self)
        _tell_entries()
        return True

    def close(self) -> None:
        """Tell nothing any more."""
        _ENTRIES.discard(self)
        for told in self._told:
            told.remove()

    def _know(self, function: Any, parameters: Parameters) -> None:
        callback = callback_of(function)
        any_one = is_replayed(function) and any(p.is_cuda for p in self._model.parameters())
        self._known[id(callback)] = callback, None if any_one else parameters

    def entering(self, callback: Any) -> None:
        """What `callback` compiles is about to run. In a thread that prepares data, say, a function reads parameters
        more rarely than it waits for them in vain."""
        known = self._known.get(id(callback))
        if known is not None:
            self._enter(known[1])
        elif threading.get_ident() == self._thread:
            self._enter(None)


_ENTRIES: weakref.WeakSet[Entries] = weakref.WeakSet()


@cache
def _tell_entries() -> None:
    """Let all know when compiled code is entered: the compiler asks there what it shall do, with what has been set for
    all of it (`torch.compiler.set_stance`)."""
    dynamo = compiler()
    ask = dynamo._callback_from_stance

    def ask_after_telling(callback: Any) -> Any:
        if callback:  # otherwise, what is about to run is not compiled
            for entries in list(_ENTRIES):
                entries.entering(callback)
        return ask(callback)

    dynamo._callback_from_stance = ask_after_telling
