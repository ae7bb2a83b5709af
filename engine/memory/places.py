"""Places: where a block's code and modules keep something, each of which is read, compared and filled again.

A place is a container, the attributes of an object, a module or a class, what functions name in a file, a closure's
variable, an array, or a generator of random numbers. What it holds is compared by identity, so that no code of a user's
runs: what is equal and another object counts as changed. How far an iterator, a Python generator or a file is, can be
seen, and not set.

Cost: a third of a microsecond to compare a place. A container of more than `MOST` entries is told by their number, and
nothing is found through it; an array of more than `MOST_BYTES` is not looked at.
"""

from __future__ import annotations

import array
import copyreg
import io
import operator
import random
import sys
import threading
from collections import UserDict, UserList
from collections.abc import Iterator, Mapping
from contextlib import suppress
from types import CellType, SimpleNamespace
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import nn

from engine.instrumentation.containers import CONTAINERS, contents, refill, size
from engine.instrumentation.reached import CODE, PLAIN, is_foreign
from engine.memory.position import Position

MOST = 10_000
MOST_BYTES = 2**24
NOTHING: Any = object()
"""In place of what is not there."""

_HOOKS = (
    "_forward_hooks", "_forward_hooks_with_kwargs", "_forward_hooks_always_called", "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs", "_backward_hooks", "_backward_pre_hooks",
)  # fmt: skip
_INNER = ("_buffers", "_modules", "_parameters", *_HOOKS)
_OTHER = frozenset(vars(nn.Module())) - {"training"}
"""Attributes that PyTorch itself gives every module."""


class StatePlace(Protocol):
    """Where something is kept."""

    name: str
    """For people."""
    settable: bool

    def read(self) -> Any:
        """What it holds now."""
        ...

    def same(self, held: Any) -> bool:
        """Whether it holds what it held when it answered `held`."""
        ...

    def put(self, held: Any) -> None:
        """Let it hold that again."""
        ...

    def parts(self, held: Any) -> Iterator[tuple[str, Any]]:
        """What may be a place itself, or a tensor, with its name."""
        ...


class _Settable:
    settable = True

    def __init__(self, name: str) -> None:
        self.name = name


class Container(_Settable):
    """A list, a dictionary, a set or a deque."""

    def __init__(self, name: str, container: Any) -> None:
        super().__init__(name)
        self._container = container

    def read(self) -> Any:
        return contents(self._container)

    def same(self, held: Any) -> bool:
        entries = len(held) // 2 if isinstance(self._container, dict) else len(held)
        if size(self._container) != entries:
            return False
        return entries > MOST or not entries or _are(contents(self._container), held)

    def put(self, held: Any) -> None:
        refill(self._container, held)

    def parts(self, held: Any) -> Iterator[tuple[str, Any]]:
        half = len(held) // 2 if isinstance(self._container, dict) else 0
        if len(held) - half <= MOST:
            for at, value in enumerate(held[half:]):
                yield f"{self.name}[{held[at] if half else at!r}]", value


class Attributes(_Settable):
    """Of an object, by name, in a dictionary."""

    def __init__(self, name: str, attributes: dict[str, Any], names: frozenset[str] | None = None) -> None:
        """`names`: those that are meant; None: all."""
        super().__init__(name)
        self._attributes = attributes
        self._names = names

    def read(self) -> Any:
        if self._names is None:
            return dict(self._attributes)
        return {name: self._attributes.get(name, NOTHING) for name in self._names}

    def same(self, held: Any) -> bool:
        if self._names is None:
            return _alike(self._attributes, held)
        get = self._attributes.get
        return all(get(name, NOTHING) is value for name, value in held.items())

    def put(self, held: Any) -> None:
        put_names(self._attributes, held, complete=self._names is None)

    def parts(self, held: Any) -> Iterator[tuple[str, Any]]:
        for name, value in held.items():
            yield f"{self.name}.{name}".lstrip("."), value


class _Module(NamedTuple):
    """What a module held."""

    own: dict[str, Any]
    filled: list[tuple[str, dict[Any, Any], dict[Any, Any]]]
    """Of its buffers, submodules, parameters and hooks those that there were: their name, where, and what."""
    empty: list[dict[Any, Any]]


class ModuleAttributes(_Settable):
    """A module's attributes, buffers, parameters, submodules and hooks."""

    def __init__(self, name: str, module: nn.Module) -> None:
        super().__init__(name)
        self._own = vars(module)

    def read(self) -> Any:
        own = self._own
        inner = [
            (name, own[name]) for name in _INNER if isinstance(own.get(name), dict)
        ]  # TorchScript's are none
        filled = [(name, where, dict(where)) for name, where in inner if where]
        return _Module(dict(own), filled, [where for _, where in inner if not where])

    def same(self, held: Any) -> bool:
        own, filled, empty = held
        if any(empty) or not _alike(self._own, own):
            return False
        return all(_alike(where, what) for _, where, what in filled)

    def put(self, held: Any) -> None:
        put_names(self._own, held.own)
        for _, where, what in held.filled:
            if not _alike(where, what):  # hooks have an order
                where.clear()
                where.update(what)
        for where in held.empty:
            where.clear()

    def parts(self, held: Any) -> Iterator[tuple[str, Any]]:
        for name, value in held.own.items():
            if name not in _OTHER:
                yield f"{self.name}.{name}", value
        for inner, _, what in held.filled:
            for name, value in what.items():
                yield self.name if inner in _HOOKS else f"{self.name}.{name}", value


class ClassAttributes(_Settable):
    """What a class holds."""

    def __init__(self, kind: type) -> None:
        super().__init__(kind.__name__)
        self._kind = kind

    def read(self) -> Any:
        return dict(vars(self._kind))

    def same(self, held: Any) -> bool:
        return _alike(vars(self._kind), held)

    def put(self, held: Any) -> None:
        for name, value in list(vars(self._kind).items()):
            if name not in held:
                type.__delattr__(self._kind, name)
            elif held[name] is not value:
                type.__setattr__(self._kind, name, held[name])
        for name in held.keys() - vars(self._kind).keys():
            type.__setattr__(self._kind, name, held[name])

    def parts(self, held: Any) -> Iterator[tuple[str, Any]]:
        for name, value in held.items():
            if not (name.startswith("__") and isinstance(value, (*PLAIN, tuple, dict))):
                part = value.fget if isinstance(value, property) else value
                yield f"{self.name}.{name}", getattr(part, "__func__", part)


class Slots(_Settable):
    """The attributes of an object that has no dictionary for them."""

    def __init__(self, name: str, value: Any) -> None:
        super().__init__(name)
        self._value = value
        self._slots = copyreg._slotnames(type(value))  # type: ignore[attr-defined]

    def read(self) -> Any:
        return {name: self._get(name) for name in self._slots}

    def same(self, held: Any) -> bool:
        return all(self._get(name) is value for name, value in held.items())

    def put(self, held: Any) -> None:
        for name, value in held.items():
            if value is not NOTHING:
                object.__setattr__(self._value, name, value)
            elif self._get(name) is not NOTHING:
                object.__delattr__(self._value, name)

    def parts(self, held: Any) -> Iterator[tuple[str, Any]]:
        for name, value in held.items():
            yield f"{self.name}.{name}", value

    def _get(self, name: str) -> Any:
        try:
            return object.__getattribute__(self._value, name)
        except AttributeError:
            return NOTHING


class Cell(_Settable):
    """A variable of a closure."""

    def __init__(self, name: str, cell: CellType) -> None:
        super().__init__(name)
        self._cell = cell

    def read(self) -> Any:
        try:
            return self._cell.cell_contents
        except ValueError:  # it has no value yet
            return NOTHING

    def same(self, held: Any) -> bool:
        return self.read() is held

    def put(self, held: Any) -> None:
        if held is not NOTHING:
            self._cell.cell_contents = held
        elif self.read() is not NOTHING:
            del self._cell.cell_contents

    def parts(self, held: Any) -> Iterator[tuple[str, Any]]:
        yield self.name, held


class Values(_Settable):
    """A bytearray, an array of Python's, or one of NumPy's: their values are copied."""

    def __init__(self, name: str, values: Any) -> None:
        super().__init__(name)
        self._values = values

    def read(self) -> Any:
        return self._values.copy() if isinstance(self._values, np.ndarray) else self._values[:]

    def same(self, held: Any) -> bool:
        if isinstance(held, np.ndarray):
            return held.shape == self._values.shape and held.tobytes() == self._values.tobytes()
        return bool(held == self._values)

    def put(self, held: Any) -> None:
        if isinstance(held, np.ndarray):
            if self._values.shape != held.shape:
                self._values.resize(held.shape, refcheck=False)
            self._values[...] = held
        else:
            self._values[:] = held

    def parts(self, held: Any) -> Iterator[tuple[str, Any]]:
        if isinstance(held, np.ndarray) and held.dtype == object and held.size <= MOST:
            for at, value in enumerate(held.flat):
                yield f"{self.name}[{at}]", value


class Dice(_Settable):
    """A generator of random numbers."""

    def __init__(self, name: str, dice: Any) -> None:
        super().__init__(name)
        self._dice = dice

    def read(self) -> Any:
        dice = self._dice
        if isinstance(dice, random.Random):
            return dice.getstate()
        if isinstance(dice, np.random.RandomState):
            return dice.get_state(legacy=False)
        return dice.bit_generator.state if isinstance(dice, np.random.Generator) else dice.get_state()

    def same(self, held: Any) -> bool:
        return _same_state(self.read(), held)

    def put(self, held: Any) -> None:
        dice = self._dice
        if isinstance(dice, random.Random):
            dice.setstate(held)
        elif isinstance(dice, np.random.Generator):
            dice.bit_generator.state = held
        else:
            dice.set_state(held)

    def parts(self, held: Any) -> Iterator[tuple[str, Any]]:
        yield from ()


def place_of(name: str, value: Any) -> StatePlace | None:
    """The place that a value is by what it holds itself; None where it is none. Its attributes are others."""
    if isinstance(value, CONTAINERS):
        return Container(name, value)
    if isinstance(value, (bytearray, array.array)):
        return Values(name, value)
    if isinstance(value, np.ndarray):
        looked_at = value.flags.writeable and value.nbytes <= MOST_BYTES
        return Values(name, value) if looked_at else None
    if isinstance(value, (random.Random, np.random.Generator, np.random.RandomState, torch.Generator)):
        return Dice(name, value)
    said = value in (sys.stdout, sys.stderr) if isinstance(value, io.IOBase) else has_own_attributes(value)
    return Position(name, value) if isinstance(value, (Iterator, io.IOBase)) and not said else None


def has_own_attributes(value: Any) -> bool:
    """Whether it is an object whose attributes are looked at: one of any class but Python's, PyTorch's and the
    engine's, or a module."""
    if isinstance(value, (nn.Module, SimpleNamespace, UserDict, UserList, threading.local)):
        return True
    return not isinstance(value, (torch.Tensor, *CODE)) and is_foreign(type(value))


def attributes_of(name: str, value: Any) -> Iterator[StatePlace]:
    """Where an object has its attributes."""
    if isinstance(value, nn.Module):
        yield ModuleAttributes(name, value)
        return
    with suppress(AttributeError):
        local = isinstance(value, threading.local)  # a thread's own
        own = value.__dict__ if local else object.__getattribute__(value, "__dict__")
        if isinstance(own, dict):
            yield Attributes(name, own)
    if copyreg._slotnames(type(value)):  # type: ignore[attr-defined]
        yield Slots(name, value)


def put_names(where: dict[str, Any], held: dict[str, Any], *, complete: bool = True) -> None:
    """Let `where` have the values of `held`, and nothing else if that is `complete`."""
    if complete:
        for name in where.keys() - held.keys():
            del where[name]
    for name, value in held.items():
        if value is NOTHING:
            where.pop(name, None)
        elif where.get(name, NOTHING) is not value:
            where[name] = value


def _are(some: Any, others: Any) -> bool:
    """Whether they are the same objects, one by one, as far as both go."""
    return all(map(operator.is_, some, others))


def _alike(now: Mapping[str, Any], held: Mapping[str, Any]) -> bool:
    """Whether attributes are the same objects, under the same names in the same order."""
    return [*now] == [*held] and _are(now.values(), held.values())


def _same_state(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return all(_same_state(one[key], other[key]) for key in one)
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    return np.array_equal(one, other) if isinstance(one, np.ndarray) else bool(one == other)
