"""Who asks for something that takes long: whether they are still there, and what they were refused already.

A model's code may hang as long as it is allowed to. Nobody should wait for that once for every cell of a race, and
nobody at all once who asked has left.
"""

from __future__ import annotations

import os

from backend.services.errors import Left
from engine.errors import UserError


class Asker:
    """Of one request. `fileno()` becomes readable when they leave. Close it, as with `closing`."""

    def __init__(self) -> None:
        self._event = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self.left = False
        self.refused: dict[str, UserError] = {}
        """By what was described: the same request finds the same failure again."""

    def fileno(self) -> int:
        return self._event

    def leave(self) -> None:
        """They are gone. Call it on the thread that closes this."""
        self.left = True
        os.eventfd_write(self._event, 1)

    def check(self) -> None:
        """Raises Left where they are gone."""
        if self.left:
            raise Left("who asked has left")

    def close(self) -> None:
        os.close(self._event)
