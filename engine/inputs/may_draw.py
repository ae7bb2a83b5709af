"""Whether a user's data may draw random numbers in any sample, from the generators that all of a process shares.

That the first batch draws none says nothing of samples that come later (of a class that is augmented, say). So the code
of the data is read, with what it names and holds (`engine/instrumentation/reached.py`): a function counts that names a
module which draws, and a name under which one does. Who makes a generator, or gives one, draws from his own, which
nobody else comes at. What a class does once, when an object is made, does not count. Nothing of a user's runs.

Not found: what a library's code draws, unless it does so for the first batch (`drawn.py`).
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator
from itertools import islice
from types import CodeType, FunctionType
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
        return None
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
