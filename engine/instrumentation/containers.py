"""Containers that a user's code fills and writes to: what they hold, and to let them hold it again.

They are read and written with the methods of the class that is Python's: a subclass may refuse its own (a frozen
dictionary), or mean something else.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Any

CONTAINERS: tuple[type[Any], ...] = (OrderedDict, dict, list, set, deque)


def contents(container: Any) -> list[Any]:
    """What it holds, in order: of a dictionary first its keys, then their values."""
    base = _base(container)
    if issubclass(base, dict):
        return [*base.keys(container), *base.values(container)]
    return [*base.__iter__(container)]


def size(container: Any) -> int:
    """How many entries it has."""
    return int(_base(container).__len__(container))


def refill(container: Any, content: list[Any]) -> None:
    """Let it hold what `content` said, the very objects, in that order."""
    base = _base(container)
    base.clear(container)
    if issubclass(base, dict):
        half = len(content) // 2
        for key, value in zip(content[:half], content[half:], strict=True):
            base.__setitem__(container, key, value)
    else:
        for part in content:
            (base.add if base is set else base.append)(container, part)


def _base(container: Any) -> type[Any]:
    return next(kind for kind in CONTAINERS if isinstance(container, kind))
