"""All-gather of small things outside the training exchange: buffers, counts, losses. Exact and in rank order."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from engine.coordination.arrivals import Arrivals
from engine.protocol.messages import Lane, Message, Payload
from engine.tensor_bytes import as_bytes, as_tensor
from engine.transport.endpoint import Sender
from engine.transport.message import Header


class Gather:
    """Every worker gives a list of tensors and gets everybody's, by rank."""

    def __init__(
        self, endpoint: Sender, rank: int, workers: int, deadline_s: float, kind: Message = Message.GATHER
    ) -> None:
        self.kinds = (kind,)
        self._endpoint = endpoint
        self._rank = rank
        self._workers = workers
        self._round = 0
        self._arrived: Arrivals[tuple[int, int], bytes] = Arrivals(deadline_s)
        """By round and rank."""
        self.fail = self._arrived.fail
        self.while_going = self._arrived.while_going

    def place(self, header: Header) -> None:
        """Parts are kept until all of a round are there."""

    def handle(self, header: Header, payload: Payload) -> None:
        self._arrived.put((header.step, header.origin), b"" if payload is None else bytes(payload))

    def run(self, tensors: Sequence[Tensor]) -> list[list[Tensor]]:
        """Everybody's `tensors` (same shapes and types on every rank, on the CPU), by rank. Collective: all
        workers call it equally often. Raises TimeoutError naming the workers that did not."""
        number, self._round = self._round, self._round + 1
        flat = [t.detach().contiguous().view(-1) for t in tensors]
        payload = b"".join(bytes(as_bytes(t)) for t in flat if t.numel())
        for rank in range(self._workers):
            if rank != self._rank:
                header = Header(
                    kind=self.kinds[0],
                    lane=Lane.WORKER,
                    origin=self._endpoint.index,
                    step=number,
                    payload_bytes=len(payload),
                )
                self._endpoint.send(rank, header, [payload])
        found = []
        for rank in range(self._workers):
            data = payload if rank == self._rank else self._wait(number, rank)
            found.append(_unpack(data, tensors))
        return found

    def sum(self, values: Sequence[float]) -> list[float]:
        """Sums over the workers, added in rank order in double precision."""
        parts = self.run([torch.tensor(list(values), dtype=torch.float64)])
        return torch.stack([p[0] for p in parts]).sum(0).tolist()

    def _wait(self, number: int, rank: int) -> bytes:
        late = f"worker {rank} did not take part within {self._arrived.deadline_s:.0f} s"
        return self._arrived.take((number, rank), late)


def _unpack(data: bytes, like: Sequence[Tensor]) -> list[Tensor]:
    view, found, start = memoryview(bytearray(data)), [], 0
    for tensor in like:
        size = tensor.numel() * tensor.element_size()
        found.append(as_tensor(view[start : start + size], tensor.dtype).view(tensor.shape))
        start += size
    return found
