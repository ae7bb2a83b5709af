"""What messages bring in one thread and another one waits for, by key, until a deadline."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class Arrivals(Generic[Key, Value]):
    """Any thread may put; each key is put once and taken once."""

    def __init__(self, deadline_s: float) -> None:
        self.deadline_s = deadline_s
        """How long `take` waits, beside the patience that it is given."""
        self._arrived: dict[Key, Value] = {}
        self._changed = threading.Condition()
        self._failure: BaseException | None = None
        self._going_s: Callable[[], float] = lambda: 0.0

    def while_going(self, last_s: Callable[[], float]) -> None:
        """`take` waits for as long as somebody makes progress: the deadline counts from `last_s()`, when that was last
        heard, on the monotonic clock."""
        self._going_s = last_s

    def put(self, key: Key, value: Value) -> None:
        """It has come."""
        with self._changed:
            self._arrived[key] = value
            self._changed.notify_all()

    def fail(self, error: BaseException) -> None:
        """Wake who waits: nothing more will come."""
        with self._changed:
            self._failure = self._failure or error
            self._changed.notify_all()

    def notify(self) -> None:
        """Something has changed that `wait` looks at."""
        with self._changed:
            self._changed.notify_all()

    def wait(self, there: Callable[[], bool], most_s: float) -> bool:
        """Block until `there()`, or for `most_s` seconds: answers whether it is. Raises the failure."""
        with self._changed:
            end = time.monotonic() + most_s
            while not there():
                if self._failure is not None:
                    raise self._failure
                if (left := end - time.monotonic()) <= 0:
                    return False
                self._changed.wait(left)
            return True

    def __contains__(self, key: Key) -> bool:
        return key in self._arrived

    def take(self, key: Key, late: str, patience_s: float = 0.0) -> Value:
        """Block until it has come. Raises the failure, or TimeoutError with `late`, which names who is missing;
        `patience_s` later than the deadline, where others know better who that is and are to speak first."""
        began_s = time.monotonic()
        with self._changed:
            while key not in self._arrived:
                if self._failure is not None:
                    raise self._failure
                left = max(began_s, self._going_s()) + self.deadline_s + patience_s - time.monotonic()
                if left <= 0:
                    raise TimeoutError(late)
                self._changed.wait(left)
            return self._arrived.pop(key)
