"""Stop: where workers drift, worker 0 alone looks at how good the model is, and tells the others when it is enough."""

from __future__ import annotations

import threading

from engine.protocol.messages import Lane, Message, Payload
from engine.transport.endpoint import Endpoint
from engine.transport.message import Header


class Stop:
    """Each worker ends its training after the step in which it hears of it."""

    kinds = (Message.STOP,)

    def __init__(self, endpoint: Endpoint, workers: int) -> None:
        self._endpoint = endpoint
        self._workers = workers
        self._told = threading.Event()

    @property
    def told(self) -> bool:
        """Whether training is to end."""
        return self._told.is_set()

    def tell(self) -> None:
        """Of worker 0: all end."""
        self._told.set()
        for rank in range(1, self._workers):
            self._send(rank)

    def tell_again(self, rank: int) -> None:
        """Of worker 0: one that was lost is there again, and may not have heard of it."""
        if self.told:
            self._send(rank)

    def _send(self, rank: int) -> None:
        self._endpoint.send(rank, Header(kind=Message.STOP, lane=Lane.WORKER, origin=self._endpoint.index))

    def place(self, header: Header) -> None:
        """It has no payload."""

    def handle(self, header: Header, payload: Payload) -> None:
        self._told.set()
