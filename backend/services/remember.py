"""Values made once for everybody who asks at the same time, and kept while there is room."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Generic, TypeVar

T = TypeVar("T")


class Remembered(Generic[T]):
    """A cache for many threads: least recently used values go first, errors are not kept."""

    def __init__(self, *, room: int, size: Callable[[T], int] = lambda _: 1) -> None:
        """`room` bounds the sum of `size(value)` over all values: their number, unless `size` is given."""
        self._room = room
        self._size = size
        self._used = 0
        self._values: OrderedDict[Hashable, T] = OrderedDict()
        self._making: dict[Hashable, Future[T]] = {}
        self._lock = threading.Lock()  # never held while a value is made

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """The value of `key`, from `make()` where it is not there. Whoever asks meanwhile waits for the
        same one, and gets the same error where `make` raises."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
            future = self._making.get(key)
            if future is None:
                mine = self._making[key] = Future()
        if future is not None:
            return future.result()
        try:
            value = make()
        except BaseException as error:
            with self._lock:
                del self._making[key]
            mine.set_exception(error)
            raise
        self._keep(key, value)
        mine.set_result(value)
        return value

    def peek(self, key: Hashable) -> T | None:
        """The value of `key` where it is there; never waits."""
        with self._lock:
            return self._values.get(key)

    def _keep(self, key: Hashable, value: T) -> None:
        with self._lock:
            del self._making[key]
            self._values[key] = value
            self._used += self._size(value)
            while self._used > self._room and len(self._values) > 1:
                self._used -= self._size(self._values.popitem(last=False)[1])
