"""Waker: makes the I/O thread look around when it sleeps in epoll.

To write into an eventfd takes less than a microsecond and never blocks. Python's own function lets go of the
interpreter lock meanwhile, and the thread that wakes takes it: the waker, a hook between two kernels of backward, then
waits until that thread has handled what there is. Here the waker keeps the lock until it lets go by itself, which it
does at its next kernel, and the two run side by side.
"""

from __future__ import annotations

import ctypes
import os
import threading

_write = ctypes.PyDLL(None).eventfd_write
_write.argtypes = (ctypes.c_int, ctypes.c_uint64)


class Waker:
    """What any thread wakes the I/O thread with."""

    def __init__(self) -> None:
        self._fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._lock = threading.Lock()

    def fileno(self) -> int:
        """What epoll has to watch."""
        return self._fd

    def wake(self) -> None:
        """Any thread. Nothing happens once it is closed."""
        with self._lock:
            if self._fd >= 0:
                _write(self._fd, 1)

    def clear(self) -> None:
        """The I/O thread, once it is awake."""
        os.eventfd_read(self._fd)

    def close(self) -> None:
        """Nobody is woken any more."""
        with self._lock:
            os.close(self._fd)
            self._fd = -1
