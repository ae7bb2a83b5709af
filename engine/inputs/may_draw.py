"""Whether a user's data may draw random numbers in any sample, from the generators that all of a process shares.

That the first batch draws none says nothing of samples that come later (of a class that is augmented, say). So the code
of the data is read, with what it names and holds (`engine/instrumentation/reached.py`): a function counts that names a
module which draws, and a name under which one does. Where it makes a generator, or gives one, each of its calls is
looked at: one that is given a generator, or is a generator's own, draws from what nobody else comes at. What a class
does once, when an object is made, does not count. Nothing of a user's runs.

Not found: what a library's code draws, unless it does so for the first batch (`drawn.py`).
"""

from __future__ import annotations

import random
import sys
from collections import deque
from collections.abc import Iterator, Mapping
from dis import Instruction, get_instructions, stack_effect
from itertools import islice
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np
import torch

from engine.instrumentation.reached import NO_NAMES, PLAIN, is_users, names_in, parts

_MODULES = (random, np, np.random, torch, torch.nn.functional)
_IMPORTS = frozenset({"random", "numpy", "torch"})
"""What a function may import for itself."""
_METHODS = frozenset(
    {
        "bernoulli",
        "bernoulli_",
        "cauchy_",
        "exponential_",
        "geometric_",
        "log_normal_",
        "multinomial",
        "normal_",
        "random_",
        "uniform_",
    }
)
"""Of tensors."""
_DRAW = frozenset(
    {
        "bernoulli", "betavariate", "binomial", "choice", "choices", "dropout", "gauss", "getrandbits", "integers",
        "multinomial", "multivariate_normal", "normal", "normalvariate", "permutation", "poisson", "rand", "rand_like",
        "randbytes", "randint", "randint_like", "randn", "randn_like", "random", "random_sample", "randperm",
        "randrange", "sample", "shuffle", "standard_normal", "triangular", "uniform",
    }
)  # fmt: skip
_OWN = frozenset({"Generator", "Random", "RandomState", "SystemRandom", "default_rng"})
_ONCE = ("__init__", "__new__", "__post_init__")
_NO_VALUE = frozenset({"CACHE", "EXTENDED_ARG", "NOP"})
_HOLD = ("engine.", "torch.utils.data.")
"""Whose data sets hold others, a user's among them."""
_MOST, _MOST_PARTS = 20_000, 200
"""Objects that are looked at, some 5 µs each; parts of one of them: samples in a list are alike."""


def may_draw(source: object) -> str | None:
    """What says so, e.g. "Augmented.__getitem__ names randn"; None where nothing does."""
    waiting = deque([(source, NO_NAMES)])
    seen: dict[int, Any] = {}
    while waiting:
        value, names = waiting.popleft()
        if isinstance(value, PLAIN) or id(value) in seen:
            continue
        if len(seen) == _MOST:
            return f"they have more than {_MOST:,} parts, and not all are looked at"
        seen[id(value)] = value
        if isinstance(value, FunctionType) and is_users(value) and (found := _draws(value)):
            return f"{value.__qualname__} names {found}"
        waiting += islice(_within(value, names), _MOST_PARTS)
    return None


def _within(value: Any, names: frozenset[str]) -> Iterator[tuple[Any, frozenset[str]]]:
    if str(type(value).__module__).startswith(_HOLD):
        yield from ((held, NO_NAMES) for held in getattr(value, "__dict__", {}).values())
    for name, part, further in parts("", value, names):
        if not name.endswith(_ONCE):
            yield part, further


def _draws(function: FunctionType) -> str | None:
    """Under which name; None where it does not."""
    names, where = names_in(function.__code__), function.__globals__
    if names & _OWN or _gives_generator(function.__code__):
        return min(_shared(function.__code__, where, {}), default=None)
    found = names & _METHODS
    for name in names:
        held = where.get(name)
        imported = name.partition(".")[0] in _IMPORTS and name not in where
        if imported or any(held is module for module in _MODULES):
            found |= names & _DRAW
        elif getattr(held, "__name__", None) in _DRAW and callable(held) and not is_users(held):
            found |= {name}
    return min(found, default=None)


def _gives_generator(code: CodeType) -> bool:
    """Names of keyword arguments are constants of the code that gives them."""
    return any(
        (isinstance(each, tuple) and "generator" in each)
        or (isinstance(each, CodeType) and _gives_generator(each))
        for each in code.co_consts
    )


def _shared(code: CodeType, where: Mapping[str, Any], around: Mapping[str, Any]) -> Iterator[str]:
    """The names under which `code`, and the functions in it, draw from what all share, call by call. `where`, `around`:
    what global names stand for, and those of the function around it."""
    own = dict(around)
    found = list(_instructions(code))
    value: object = None
    """What the instruction before has found, where it is a module or a function."""
    imported: object = None
    for at, each in enumerate(found):
        name = each.argval
        match each.opname:
            case "IMPORT_NAME" if found[at - 1].argval is None:  # import a.b: it finds a
                value = imported = sys.modules.get(name.partition(".")[0])
            case "IMPORT_NAME":
                value = imported = sys.modules.get(name)
            case "IMPORT_FROM":
                value = getattr(imported, name, None)
                imported = value if isinstance(value, ModuleType) else imported
            case "STORE_FAST" | "STORE_DEREF" | "STORE_NAME":
                own[name] = value
            case "LOAD_GLOBAL" | "LOAD_NAME" | "LOAD_FAST" | "LOAD_DEREF":
                value = where.get(name) if each.opname == "LOAD_GLOBAL" else own.get(name)
                known = getattr(value, "__name__", None) in _DRAW and not is_users(value)
                if known and callable(value) and not _is_given(found[at:]):
                    yield name
            case "LOAD_ATTR" | "LOAD_METHOD":
                draws = name in (_DRAW if any(value is module for module in _MODULES) else _METHODS)
                value = getattr(value, name, None) if isinstance(value, ModuleType) else None
                if draws and not isinstance(value, ModuleType) and not _is_given(found[at:]):
                    yield name
            case _:
                value = None
    for part in code.co_consts:
        if isinstance(part, CodeType):
            yield from _shared(part, where, own)


def _instructions(code: CodeType) -> Iterator[Instruction]:
    """Those that compute something; the names of keyword arguments as values, which Python 3.11 shows by number."""
    for each in get_instructions(code):
        if each.opname == "KW_NAMES":
            yield each._replace(argval=code.co_consts[each.arg or 0])
        elif each.opname not in _NO_VALUE:
            yield each


def _is_given(found: list[Instruction]) -> bool:
    """Whether what the first instruction finds is called with a generator: its call is the one that leaves one value
    less than lay there before its arguments. Where they lie otherwise, as after a condition, it counts as without."""
    height = 0
    for at, each in enumerate(found[1:], 1):
        height += stack_effect(each.opcode, each.arg, jump=False)
        if height < 0:
            given = (before.argval for before in found[max(0, at - 2) : at])
            names = any(isinstance(names, tuple) and "generator" in names for names in given)
            return height == -1 and each.opname.startswith("CALL") and names
    return False
