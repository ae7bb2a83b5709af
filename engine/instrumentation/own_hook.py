"""A hook that this program puts on a user's module, and that a copy of the module, or a pickle of it, does not have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class OwnHook:
    """Calls `function` with what a hook is given."""

    def __init__(self, function: Callable[..., None] | None = None) -> None:
        self._function = function

    def __call__(self, *args: Any) -> None:
        if self._function is not None:
            self._function(*args)

    def __reduce__(self) -> tuple[type[OwnHook], tuple[()]]:
        return OwnHook, ()
