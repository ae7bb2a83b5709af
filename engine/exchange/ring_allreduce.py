"""ring-allreduce: scatter-reduce, then allgather, written out (papers 003).

Each unit is split into n chunks. In round k of n-1, rank r sends chunk (r-k) mod n to its right neighbour and adds
chunk (r-1-k) mod n from its left one; then rank r holds the sum of chunk (r+1) mod n, and n-1 further rounds hand
the sums around. Every worker sends and receives 2 (n-1)/n of the bytes. Sums run around the ring: the order is fixed
for each chunk, and so the result repeats bitwise.
"""

from __future__ import annotations

from engine.exchange.rounds import RoundsAllreduce
from engine.plan.rounds import RING, ReceiveChunk


class RingAllreduce(RoundsAllreduce):
    """Around the ring, chunk by chunk."""

    algorithm = RING

    def late(self, awaited: ReceiveChunk) -> str:
        """Each round brings what began one rank further to the left."""
        text, workers = super().late(awaited), self._context.workers
        if 0 < awaited.round < workers - 1:
            origin = self._context.party_name((self._context.rank - 1 - awaited.round) % workers)
            text += f", which itself waits for {origin}: that one has not begun"
        return text
