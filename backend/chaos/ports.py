"""A port that stays one's own while the servers on it come and go.

Between two lives of a server its port is free, and the kernel gives it to whoever asks for any: then the second life
cannot listen. A socket that is bound with SO_REUSEADDR and never listens keeps the port from that, and lets through
who names the port and sets the option, as servers do.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager


def reserve() -> socket.socket:
    """A socket that reserves a port of 127.0.0.1 until it is closed; `getsockname()[1]` is the port."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("127.0.0.1", 0))
    return sock


@contextmanager
def reserved() -> Iterator[int]:
    """The port, while the block runs."""
    with reserve() as sock:
        yield int(sock.getsockname()[1])
