"""Turns: how many requests may do at one time what takes long, and how many may wait for it.

Who waits holds a thread that other requests need, so few may, and who has left meanwhile waits no longer: clients that
ask and hang up would take every place as long as one model hangs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from backend.services.asker import Asker
from backend.services.errors import Busy

_LOOK_S = 0.2
"""How long it may take until who has left is noticed."""


class Turns:
    """Safe for use by many threads."""

    def __init__(self, *, waiting: int, busy: str, retry_after_s: float, at_once: int = 1) -> None:
        """`busy`: what is said to those for whom there is no place, with how many there are as `{places}`."""
        self._busy = busy.format(places=at_once + waiting)
        self._retry_after_s = retry_after_s
        self._places = threading.BoundedSemaphore(at_once + waiting)
        self._slots = threading.BoundedSemaphore(at_once)

    @contextmanager
    def turn(
        self, asker: Asker | None = None, *, meanwhile: Callable[[], None] = lambda: None
    ) -> Iterator[None]:
        """The block runs when it is the asker's turn; `meanwhile` is called again and again until then. Raises Busy
        where too many wait, and Left where they are gone."""
        if not self._places.acquire(blocking=False):
            raise Busy(
                f"{self._busy}. Ask again in {self._retry_after_s:g} s", retry_after_s=self._retry_after_s
            )
        try:
            while not self._slots.acquire(timeout=_LOOK_S):
                meanwhile()
                if asker is not None:
                    asker.check()
            try:
                if asker is not None:
                    asker.check()
                yield
            finally:
                self._slots.release()
        finally:
            self._places.release()
