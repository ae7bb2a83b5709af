"""Reached: what code and objects of a user's come at: attributes, containers, what functions name, closures.

A walk goes on from `parts` to `parts`. Code of the engine, of PyTorch, of Python and of installed packages is not read:
what a user's function names may be its argument, but what it does there is its own. Nothing of a user's runs: no
property is asked, and attributes are read where they are kept.
"""

from __future__ import annotations

import copyreg
import functools
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

from torch import nn

PLAIN = (bool, int, float, complex, str, bytes, bytearray, type(None))
"""What has no parts."""
CONTAINERS = (list, tuple, set, frozenset, deque)
"""Beside dictionaries."""
CODE = (
    FunctionType, MethodType, BuiltinMethodType, ModuleType, type, functools.partial, functools._lru_cache_wrapper
)  # fmt: skip
_KNOWN = frozenset({"engine", "torch", *sys.stdlib_module_names})
NO_NAMES: frozenset[str] = frozenset()
_LIBRARIES = tuple({sysconfig.get_path(kind) for kind in ("purelib", "platlib")})


def parts(name: str, value: Any, names: frozenset[str]) -> Iterator[tuple[str, Any, frozenset[str]]]:
    """What belongs to `value`, by name. `names`: what the code that has named a Python module goes on to name."""
    if isinstance(value, FunctionType):
        if is_users(value):
            yield from _named_by(value)
    elif isinstance(value, ModuleType):
        if is_users(value):
            yield from ((f"{name}.{key}", vars(value)[key], names) for key in names & vars(value).keys())
    elif isinstance(value, type):
        yield from ((key, held, names) for key, held in _of_class(value))
    elif isinstance(value, dict):
        yield from ((f"{name}[{key!r}]", held, names) for key, held in value.items())
    elif isinstance(value, CONTAINERS):
        yield from ((f"{name}[{at}]", held, names) for at, held in enumerate(value))
    elif isinstance(value, GeneratorType):
        yield name, value.gi_frame and (value.gi_frame.f_lasti, dict(value.gi_frame.f_locals)), names
    else:
        yield from ((name, part, names) for part in behind(value))
    if has_attributes(value):
        yield name, type(value), names
        yield from ((f"{name}.{key}".lstrip("."), held, names) for key, held in _attributes(value))


def _attributes(value: Any) -> Iterator[tuple[str, Any]]:
    """By name, whether they are kept in a dictionary or in slots."""
    yield from getattr(value, "__dict__", {}).items()
    for key in copyreg._slotnames(type(value)):  # type: ignore[attr-defined]
        if hasattr(value, key):
            yield key, getattr(value, key)


def _of_class(kind: type) -> Iterator[tuple[str, Any]]:
    """Its methods' functions, and what it holds itself."""
    for owner in filter(is_users, kind.__mro__):
        for key, held in vars(owner).items():
            if not (key.startswith("__") and isinstance(held, (*PLAIN, tuple, dict))):
                part = held.fget if isinstance(held, property) else held
                yield f"{owner.__name__}.{key}", getattr(part, "__func__", part)


def behind(value: Any) -> tuple[Any, ...]:
    """What something that is called calls, and with what."""
    if isinstance(value, (MethodType, BuiltinMethodType)):
        return value.__self__, getattr(value, "__func__", None)
    if isinstance(value, functools.partial):
        return value.func, value.args, value.keywords
    return (value.__wrapped__,) if isinstance(value, functools._lru_cache_wrapper) else ()


def _named_by(function: FunctionType) -> Iterator[tuple[str, Any, frozenset[str]]]:
    names = names_in(function.__code__)
    for key in names & function.__globals__.keys():
        yield key, function.__globals__[key], names
    for key, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield key, cell.cell_contents, names
        except ValueError:  # a variable that has no value yet
            continue
    for part in (function.__defaults__, function.__kwdefaults__, vars(function)):
        yield function.__name__, part, names


def names_in(code: CodeType) -> frozenset[str]:
    """What `code` and the functions in it name."""
    inner = (names_in(part) for part in code.co_consts if isinstance(part, CodeType))
    return frozenset(code.co_names).union(*inner)


def has_attributes(value: Any) -> bool:
    """Whether it is an object whose attributes are a user's. A user's list or dictionary may have some, too."""
    return not isinstance(value, type) and (
        isinstance(value, (nn.Module, SimpleNamespace))
        or (is_users(type(value)) and (hasattr(value, "__dict__") or bool(copyreg._slotnames(type(value)))))  # type: ignore[attr-defined]
    )


def is_users(value: Any) -> bool:
    """Whether a function, a class or a Python module comes from neither the engine nor a library."""
    if not isinstance(value, (FunctionType, type, ModuleType)):
        return False
    name = str(value.__name__ if isinstance(value, ModuleType) else value.__module__)
    return is_foreign(value) and not str(getattr(sys.modules.get(name), "__file__", "")).startswith(
        _LIBRARIES
    )


def is_foreign(value: FunctionType | type | ModuleType) -> bool:
    """Whether it is neither the engine's nor PyTorch's nor Python's."""
    name = str(value.__name__ if isinstance(value, ModuleType) else value.__module__)
    return name.partition(".")[0] not in _KNOWN
