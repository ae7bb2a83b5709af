"""Given: the arguments of a call as they were before it, for a second one.

The call itself has its caller's own. What containers of Python's own hold is copied, however deep they lie in one
another, so that a second call finds in them what the first one found, and what it puts there is nobody's; an object is
handed on as it is, and put back to what it was by others (`rewind.py`).
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Container
from typing import Any

import numpy as np
from torch import Tensor

from engine.instrumentation.reached import PLAIN
from engine.memory.places import MOST_BYTES

_COPIED = (list, dict, set, deque, OrderedDict, defaultdict, bytearray)


class Given:
    """The arguments of one call."""

    def __init__(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        known: Container[int],
        held: Callable[[int, Tensor], Tensor],
    ) -> None:
        """`known`: ids of containers that others put back. `held(number, tensor)`: what is
        kept of a tensor."""
        self.objects: list[Any] = []
        """What is handed on as it is, and may change."""
        self.tensors: list[Tensor] = []
        """Those in containers, each once."""
        self._known = known
        self._arguments = self._copied((args, kwargs), self._noting(held), {})

    def again(self, given: Callable[[int, Tensor], Tensor]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments for a second call; `given(number, held)`: what that gets of a tensor."""
        count = 0

        def numbered(value: Any) -> Any:
            nonlocal count
            if not isinstance(value, Tensor):
                return value
            count += 1
            return given(count - 1, value)

        args, kwargs = self._copied(self._arguments, numbered, {})
        return args, kwargs

    def _noting(self, held: Callable[[int, Tensor], Tensor]) -> Callable[[Any], Any]:
        def noting(value: Any) -> Any:
            if isinstance(value, Tensor):
                self.tensors.append(value)
                return held(len(self.tensors) - 1, value)
            self.objects.append(value)
            return value

        return noting

    def _copied(self, value: Any, leaf: Callable[[Any], Any], memo: dict[int, tuple[Any, Any]]) -> Any:
        """What is one object in several places is one in the copy, too."""
        if isinstance(value, PLAIN) and not isinstance(value, bytearray):
            return value
        if id(value) in memo:
            return memo[id(value)][1]
        kind = type(value)
        if id(value) in self._known and not isinstance(value, tuple):
            result = value
        elif kind in _COPIED:
            result = value.copy()
            memo[id(value)] = value, result
            if isinstance(value, dict):
                for key, part in value.items():
                    result[key] = self._copied(part, leaf, memo)
            elif isinstance(value, (list, deque)):
                for at, part in enumerate(value):
                    result[at] = self._copied(part, leaf, memo)
        elif isinstance(value, tuple):
            parts = [self._copied(part, leaf, memo) for part in value]
            same = all(one is other for one, other in zip(parts, value, strict=True))
            result = value if same else tuple.__new__(kind, parts)
        elif kind is np.ndarray and value.nbytes <= MOST_BYTES:
            result = value.copy()
        else:
            result = leaf(value)
        memo[id(value)] = value, result
        return result
