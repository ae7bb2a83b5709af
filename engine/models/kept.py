"""What a user's code keeps from pass to pass outside of the model: globals, closures, attributes of objects.

A replica's model and loss are in one process and run once per pass, so that a counter counts passes, and a hook may
leave something for the loss. Of a cut model some of it is in another process, and runs for other workers' passes, too.
"""

from __future__ import annotations

import copyreg
import functools
import io
import itertools
import random
import sys
import sysconfig
from collections import deque
from collections.abc import Iterator
from types import (
    BuiltinMethodType,
    CodeType,
    FunctionType,
    GeneratorType,
    MethodType,
    ModuleType,
    SimpleNamespace,
)
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from engine.inputs.batch import Tensors
from engine.inputs.task import Task
from engine.models.cannot_cut import CannotCutError

_PLAIN = (bool, int, float, complex, str, bytes, bytearray, type(None))
_CONTAINERS = (list, tuple, set, frozenset, deque)
_CODE = (
    FunctionType, MethodType, BuiltinMethodType, ModuleType, type, functools.partial, functools._lru_cache_wrapper
)  # fmt: skip
_LIBRARIES = tuple({sysconfig.get_path(kind) for kind in ("purelib", "platlib")})
_NO_NAMES: frozenset[str] = frozenset()


def refuse_kept(model: nn.Module, inputs: Tensors, targets: Tensors, task: Task) -> None:
    """Raises CannotCutError where a pass of `model` and its loss changes what their code keeps. What only the first
    pass changes, a cache, may be kept."""
    if not _Kept(model, task).users:
        return
    for training in (True, False):
        model.train(training)
        with torch.set_grad_enabled(training):
            task(model, inputs, targets)
            before = _Kept(model, task)
            task(model, inputs, targets)
        if changed := before.changed(_Kept(model, task)):
            raise CannotCutError(
                f"its forward pass, its hooks or its loss change {changed!r} in every pass, which a cut model would do"
                " in several processes, each with one of its own (keep nothing outside of the model from pass to pass)"
            )


class _Kept:
    """What is reached from the code of a model and its loss at the time when this is made."""

    def __init__(self, model: nn.Module, task: Task) -> None:
        self.users = False
        """Whether any of the code is a user's, and not the engine's or a library's."""
        self._held: dict[str, list[Any]] = {}
        """By the name under which they are reached: what tells values from other ones."""
        self._alive: list[Any] = []
        """So that no other object gets the number of one that is compared."""
        self._seen: set[tuple[int, frozenset[str]]] = set()
        own = {id(held) for held in (*model.parameters(), *model.buffers())}
        waiting: list[tuple[str, Any, frozenset[str]]] = []
        for module in model.modules():
            hooks = (*module._forward_hooks.values(), *module._forward_pre_hooks.values())
            waiting += [("", code, _NO_NAMES) for code in (*hooks, type(module))]
            waiting += [(key, held, _NO_NAMES) for key, held in _own_attributes(module)]
        waiting += [("", part, _NO_NAMES) for part in (task, *getattr(task, "__dict__", {}).values())]
        while waiting:
            name, value, names = waiting.pop()
            if id(value) in own:
                continue
            told_apart = _told_apart(value)
            if told_apart is not None:
                self._held.setdefault(name, []).append(told_apart)
                self._alive.append(value)
                continue
            key = id(value), names if isinstance(value, ModuleType) else _NO_NAMES
            if key not in self._seen:
                self._seen.add(key)
                self.users = self.users or _is_users(value)
                waiting.extend(_parts(name, value, names))

    def changed(self, now: _Kept) -> str | None:
        """The name of something that is another one now; None where there is none."""
        nothing = object()
        return next(
            (
                name
                for name in sorted(self._held.keys() | now._held.keys())
                if self._held.get(name, nothing) != now._held.get(name, nothing)
            ),
            None,
        )


def _told_apart(value: Any) -> Any:
    """What changes when `value` does, or None where it is what its parts are."""
    if isinstance(value, Tensor):
        return id(value), 0 if value.is_inference() else value._version
    if isinstance(value, (*_PLAIN, itertools.count)):
        return type(value), repr(value)
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tobytes()
    if isinstance(value, (*_CONTAINERS, dict, *_CODE, GeneratorType)) or _has_attributes(value):
        return None
    return _drawn_from(value) or _read_from(value)


def _drawn_from(value: Any) -> Any:
    """The state of a generator of random numbers; None for all else."""
    if isinstance(value, random.Random):
        return value.getstate()
    if isinstance(value, np.random.RandomState):
        return repr(value.get_state(legacy=False))
    if isinstance(value, np.random.Generator):
        return repr(value.bit_generator.state)
    return value.get_state().numpy().tobytes() if isinstance(value, torch.Generator) else None


def _read_from(value: Any) -> Any:
    """Nobody can see how far an iterator is: it is never the same. All else is the object that it is."""
    return object() if isinstance(value, Iterator) and not isinstance(value, io.IOBase) else id(value)


def _parts(name: str, value: Any, names: frozenset[str]) -> Iterator[tuple[str, Any, frozenset[str]]]:
    """What belongs to `value`, by name. `names`: what the code that has named a Python module goes on to name."""
    if isinstance(value, FunctionType):
        if _is_users(value):
            yield from _named_by(value)
    elif isinstance(value, ModuleType):
        if _is_users(value):
            yield from ((f"{name}.{key}", vars(value)[key], names) for key in names & vars(value).keys())
    elif isinstance(value, type):
        yield from ((key, held, names) for key, held in _of_class(value))
    elif isinstance(value, dict):
        yield from ((f"{name}[{key!r}]", held, names) for key, held in value.items())
    elif isinstance(value, _CONTAINERS):
        yield from ((f"{name}[{at}]", held, names) for at, held in enumerate(value))
    elif isinstance(value, GeneratorType):
        yield name, value.gi_frame and (value.gi_frame.f_lasti, dict(value.gi_frame.f_locals)), names
    else:
        yield from ((name, part, names) for part in _behind(value))
    if _has_attributes(value):
        yield name, type(value), names
        yield from ((f"{name}.{key}".lstrip("."), held, names) for key, held in _attributes(value))


def _attributes(value: Any) -> Iterator[tuple[str, Any]]:
    """By name, whether they are kept in a dictionary or in slots."""
    yield from getattr(value, "__dict__", {}).items()
    for key in copyreg._slotnames(type(value)):  # type: ignore[attr-defined]
        if hasattr(value, key):
            yield key, getattr(value, key)


def _own_attributes(module: nn.Module) -> Iterator[tuple[str, Any]]:
    """What a user's module holds beside what every module has."""
    if _is_users(type(module)):
        plain = vars(nn.Module()).keys()
        yield from ((key, held) for key, held in vars(module).items() if key not in plain)


def _of_class(kind: type) -> Iterator[tuple[str, Any]]:
    """Its methods' functions, and what it holds itself."""
    for owner in filter(_is_users, kind.__mro__):
        for key, held in vars(owner).items():
            if not (key.startswith("__") and isinstance(held, (*_PLAIN, tuple, dict))):
                part = held.fget if isinstance(held, property) else held
                yield f"{owner.__name__}.{key}", getattr(part, "__func__", part)


def _behind(value: Any) -> tuple[Any, ...]:
    """What something that is called calls, and with what."""
    if isinstance(value, (MethodType, BuiltinMethodType)):
        return value.__self__, getattr(value, "__func__", None)
    if isinstance(value, functools.partial):
        return value.func, value.args, value.keywords
    return (value.__wrapped__,) if isinstance(value, functools._lru_cache_wrapper) else ()


def _named_by(function: FunctionType) -> Iterator[tuple[str, Any, frozenset[str]]]:
    names = _names(function.__code__)
    for key in names & function.__globals__.keys():
        yield key, function.__globals__[key], names
    for key, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield key, cell.cell_contents, names
        except ValueError:  # a variable that has no value yet
            continue
    for part in (function.__defaults__, function.__kwdefaults__, vars(function)):
        yield function.__name__, part, names


def _names(code: CodeType) -> frozenset[str]:
    """What `code` and the functions in it name."""
    inner = (_names(part) for part in code.co_consts if isinstance(part, CodeType))
    return frozenset(code.co_names).union(*inner)


def _has_attributes(value: Any) -> bool:
    """Whether it is an object whose attributes are a user's. A user's list or dictionary may have some, too."""
    return not isinstance(value, type) and (
        isinstance(value, (nn.Module, SimpleNamespace))
        or (_is_users(type(value)) and (hasattr(value, "__dict__") or bool(copyreg._slotnames(type(value)))))  # type: ignore[attr-defined]
    )


def _is_users(value: Any) -> bool:
    """Whether a function, a class or a Python module comes from neither the engine nor a library."""
    if not isinstance(value, (FunctionType, type, ModuleType)):
        return False
    name = str(value.__name__ if isinstance(value, ModuleType) else value.__module__)
    if name.partition(".")[0] in {"engine", "torch", *sys.stdlib_module_names}:
        return False
    return not str(getattr(sys.modules.get(name), "__file__", "")).startswith(_LIBRARIES)
