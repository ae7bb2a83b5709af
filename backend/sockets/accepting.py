"""Accepting connections while there is room. Who comes beyond that waits in the system's queue, until one has ended, or
was ended because it sends no request.

asyncio's own loop accepts until the last descriptor is gone, so that neither a database nor a supervisor can be opened
any more, and then logs a traceback for each attempt, up to thousands a second.
"""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import socket
from collections.abc import Callable, Sized

from backend.sockets.descriptors import raise_to
from backend.sockets.seldom import Seldom

FULL_S = 0.1
"""How often is looked whether one has ended, where there is no room."""
FAILED_S = 1.0
"""How long is waited after the system has refused one."""
logger = logging.getLogger(__name__)


async def accept(
    sock: socket.socket,
    connect: Callable[[], asyncio.Protocol],
    connections: Sized,
    *,
    most: int,
    wanted: int,
    make_room: Callable[[], bool],
) -> None:
    """Accept from `sock` until cancelled, while fewer than `most` of `connections` are open. `wanted` would be, but for
    this process's limit of open files. `make_room()` ends some that can be spared, and says whether there were any."""
    loop = asyncio.get_running_loop()
    full, failed = Seldom(), Seldom()
    sock.setblocking(False)
    while True:
        while len(connections) >= most:
            if full.due():
                logger.warning("%s", _full(most, wanted))
            # Those that were ended are gone when the loop has gone round once.
            await asyncio.sleep(0 if make_room() else FULL_S)
        try:
            connection, _ = await loop.sock_accept(sock)
        except ConnectionError:
            continue  # it was given up before it was accepted
        except OSError as error:
            if failed.due():
                logger.warning("%s", _failed(error, len(connections), wanted))
            await asyncio.sleep(FAILED_S)
            continue
        try:
            await loop.connect_accepted_socket(connect, connection)
        except OSError:
            connection.close()


def _full(most: int, wanted: int) -> str:
    if most == wanted:
        why, remedy = "as many as it may have", "Allow more with TRAINYARD_CONNECTIONS"
    else:
        why = f"as many as its limit of {_limit()} open files leaves room for"
        remedy = raise_to(wanted)
    return (
        f"the server has {most} connections, {why}; others wait until one ends, and those that send no request end "
        f"first. {remedy}"
    )


def _failed(error: OSError, count: int, wanted: int) -> str:
    said = os.strerror(error.errno or 0)
    return (
        f"connections wait, because the system accepts none ({said}): {count} are open, and the limit of open files is "
        f"{_limit()}. {raise_to(wanted)}"
    )


def _limit() -> int:
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
