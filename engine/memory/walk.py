"""Walk: all places, and all tensors, that a block's modules, the code of their classes and an object can come at.

It goes through containers, attributes of objects and classes, functions of a user's with what they name in their file
and enclose, and what methods and partial functions are bound to (`engine/instrumentation/reached.py`). Libraries' code
is not read. It goes on with what is nearest, and stops after `MOST_PLACES` or `MOST_TENSORS`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterable
from types import FunctionType, ModuleType
from typing import Any

import torch
from torch import Tensor, fx
from torch.nn.parameter import is_lazy

from engine.instrumentation.reached import PLAIN, behind, is_users, names_in
from engine.memory.places import (
    Attributes,
    Cell,
    ClassAttributes,
    StatePlace,
    attributes_of,
    has_own_attributes,
    place_of,
)

MOST_PLACES = 2_000
MOST_TENSORS = 2_000


class Walk:
    """What some roots come at, at the time when this is made."""

    def __init__(self, roots: Iterable[tuple[str, Any]], known: Container[int] = ()) -> None:
        """`roots`: with their names, for people. `known`: ids of what is not to be entered."""
        self.places: list[StatePlace] = []
        self.held: list[Any] = []
        """What each of them holds."""
        self.tensors: dict[int, tuple[str, Tensor]] = {}
        """By id, with a name for people."""
        self.seen: dict[int, Any] = {}
        """By id, whatever was entered, which is kept so that nothing else gets it."""
        self._known = known
        self._waiting = deque(roots)
        self._named: dict[int, tuple[dict[str, Any], set[str]]] = {}
        """By id of a file's names, those that functions name."""
        while self._waiting and len(self.places) < MOST_PLACES and len(self.tensors) < MOST_TENSORS:
            self._enter(*self._waiting.popleft())
        for where, names in self._named.values():
            self._add(Attributes(str(where.get("__name__", "")), where, frozenset(names)), enter=False)

    def _enter(self, name: str, value: Any) -> None:
        if isinstance(value, PLAIN) and not isinstance(value, bytearray):
            return
        if id(value) in self.seen or id(value) in self._known:
            return
        self.seen[id(value)] = value
        if isinstance(value, Tensor):
            if not is_lazy(value):
                self.tensors[id(value)] = name, value
        elif isinstance(value, FunctionType):
            self._function(value)
        elif isinstance(value, type):
            self._class(value)
        elif isinstance(value, (tuple, frozenset)):
            self._waiting += [(f"{name}[{at}]", part) for at, part in enumerate(value)]
        else:
            self._object(name, value)
        if has_own_attributes(value):
            self._waiting.append((name, type(value)))
            for place in attributes_of(name, value):
                self._add(place)

    def _class(self, kind: type) -> None:
        for each in filter(is_users, kind.__mro__):
            if each is kind or id(each) not in self.seen:
                self.seen[id(each)] = each
                self._add(ClassAttributes(each))

    def _object(self, name: str, value: Any) -> None:
        if (place := place_of(name, value)) is not None:
            self._add(place)
        parts = behind(value)
        if isinstance(value, fx.GraphModule):
            parts = tuple(node.target for node in value.graph.nodes if node.op == "call_function")
        elif isinstance(value, torch.jit.ScriptModule):
            parts = (*value.parameters(recurse=False), *value.buffers(recurse=False))
        self._waiting += [(name, part) for part in parts]

    def _add(self, place: StatePlace, *, enter: bool = True) -> None:
        held = place.read()
        self.places.append(place)
        self.held.append(held)
        if enter:
            self._waiting += place.parts(held)

    def _function(self, function: FunctionType) -> None:
        if not is_users(function):
            return
        names = names_in(function.__code__)
        self._names(function.__globals__, names)
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            if id(cell) not in self.seen:
                self.seen[id(cell)] = cell
                self._add(Cell(name, cell))
        self._add(Attributes(function.__name__, vars(function)))
        self._waiting += [
            (function.__name__, part) for part in (function.__defaults__, function.__kwdefaults__)
        ]

    def _names(self, where: dict[str, Any], names: frozenset[str]) -> None:
        """What a function names in a file, and in files that it names."""
        _, found = self._named.setdefault(id(where), (where, set()))
        for name in (names & where.keys()) - found:
            found.add(name)
            value = where[name]
            if isinstance(value, ModuleType):
                if is_users(value):
                    self._names(vars(value), names)
            else:
                self._waiting.append((name, value))
