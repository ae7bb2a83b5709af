"""Position: how far an iterator, a Python generator or a file is. It can be seen, and not set.

Iterators of Python's own say it to `pickle`; a Python generator shows its line and its variables.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import suppress
from types import GeneratorType
from typing import Any

from engine.instrumentation.reached import PLAIN

_MOST = 8
"""Parts that are looked at."""


class Position:
    """Of an iterator, a Python generator or a file: it can be seen as far as it says so itself, and not be set."""

    settable = False

    def __init__(self, name: str, value: Any) -> None:
        self.name = name
        self._value = value

    def read(self) -> Any:
        return _position(self._value)

    def same(self, held: Any) -> bool:
        return bool(self.read() == held)

    def put(self, held: Any) -> None:
        raise AssertionError("a position is not set")

    def parts(self, held: Any) -> Iterator[tuple[str, Any]]:
        yield from ()


def _position(value: Any, depth: int = 4) -> Any:
    """What tells how far an iterator is, as far as it says so."""
    if isinstance(value, (*PLAIN, range)):  # which are made anew whenever they are asked for
        return value
    said: Any = None
    if isinstance(value, GeneratorType):
        frame = value.gi_frame
        said = (frame.f_lasti, *frame.f_locals.values()) if frame else ()
    elif isinstance(value, io.IOBase):
        with suppress(OSError, ValueError):
            said = (value.tell(),)
    elif isinstance(value, (list, tuple)):
        said = len(value), *value[:_MOST]
    elif isinstance(value, Iterator) and type(value).__reduce__ is not object.__reduce__:
        with suppress(TypeError, ValueError):
            said = value.__reduce__()
    if said is None or not depth:
        return id(value)
    return [_position(part, depth - 1) for part in said]
