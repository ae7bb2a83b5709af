"""What a message costs on this machine: processor time of its two ends, on the data plane that jobs take here.

    python -m engine.transport.message_cost     # microseconds

Two endpoints of one process send each other a short message in turn over loopback: each finds its receiver asleep, as
on a link that is slower than the processors. Where a backlog arrives faster than it is handled, several messages share
a wake and each costs less. What the network's own driver does is not in it, nor what a server does with the payload.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable

from engine.transport.endpoint import Endpoint
from engine.transport.message import Header

_BYTES = 4096
_MESSAGES = 200
"""In each direction, of each portion."""
_PORTIONS = 5
_DEADLINE_S = 60.0


class _End:
    """One of the two: sends a message on when one has come, so that each finds its receiver asleep."""

    def __init__(self, index: int, token: bytes) -> None:
        self._index = index
        self._payload = bytes(_BYTES)
        self._came = 0
        self._done = threading.Event()
        memory = memoryview(bytearray(_BYTES))
        names = ["one", "other"]
        self.endpoint = Endpoint(index=index, names=names, hosts=names, token=token, deadline_s=_DEADLINE_S)
        self.endpoint.register(0, place=lambda header: [memory], handle=self._handle)
        self.address = self.endpoint.listen()

    def send(self) -> None:
        header = Header(kind=1, origin=self._index, payload_bytes=_BYTES)
        self.endpoint.send(1 - self._index, header, [self._payload])

    def wait(self) -> None:
        if not self._done.wait(_DEADLINE_S):
            raise TimeoutError(f"{self._came} of {_MESSAGES} messages came in {_DEADLINE_S:g} s")
        self._done.clear()

    def _handle(self, header: Header, _payload: memoryview | None) -> None:
        self._came += 1
        if self._came % _MESSAGES:
            self.send()
        else:
            self._done.set()


def measure() -> float:
    """Seconds of a processor for each message: the least of several portions, for what others do at the same time only
    adds to it."""
    token = secrets.token_bytes(32)
    ends = [_End(index, token) for index in range(2)]
    addresses = {index: end.address for index, end in enumerate(ends)}
    _both(lambda end: end.endpoint.connect(addresses), ends)
    found = []
    for _ in range(_PORTIONS):
        before = time.process_time()
        ends[0].send()
        ends[1].wait()
        found.append((time.process_time() - before) / (2 * _MESSAGES - 1))
        ends[1].send()  # the last word of the portion: the other one has had one less
        ends[0].wait()
    _both(lambda end: end.endpoint.close(), ends)
    return min(found)


def _both(do: Callable[[_End], None], ends: list[_End]) -> None:
    """What each does that waits for the other."""
    threads = [threading.Thread(target=do, args=(end,)) for end in ends]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    print(f"{measure() * 1e6:.1f}")
