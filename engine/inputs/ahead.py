"""ahead: batches that a thread takes from an iterator before they are asked for, a bounded number of them."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import TypeVar

T = TypeVar("T")
_END = StopIteration()


def ahead(batches: Iterator[T], depth: int) -> Iterator[T]:
    """Prepare up to `depth` batches in a thread while the last one is used; 0: none, and there is no thread."""
    return _ahead(batches, depth) if depth else batches


def _ahead(batches: Iterator[T], depth: int) -> Iterator[T]:
    ready: queue.Queue[T | BaseException] = queue.Queue(depth)
    ended = threading.Event()

    def prepare() -> None:
        try:
            for batch in batches:
                if not _offer(batch):
                    return
            _offer(_END)
        except BaseException as error:  # raised again where the batch is asked for
            _offer(error)

    def _offer(item: T | BaseException) -> bool:
        while not ended.is_set():
            try:
                ready.put(item, timeout=0.5)
            except queue.Full:
                continue
            return True
        return False

    threading.Thread(target=prepare, name="input", daemon=True).start()
    try:
        while True:
            item = ready.get()
            if item is _END:
                return
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        ended.set()
