"""What a worker's exchanges know of the others: which workers' steps have come, and which versions are held."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from engine.exchange.base import Counts, Exchange, Versioned
from engine.protocol.messages import Lane, Message
from engine.runtime.losses import tell
from engine.transport.endpoint import Endpoint


def tells_of_loss(exchanges: Mapping[int, Exchange], endpoint: Endpoint) -> Callable[[int, str], None] | None:
    """To be called with a worker that was lost, and why; None: no exchange here counts workers."""
    counting = [index for index, exchange in exchanges.items() if isinstance(exchange, Counts)]
    if not counting:
        return None

    def told(rank: int, reason: str) -> None:
        meta = reason.encode()
        tell(endpoint, Lane.WORKER, Message.LOST, rank, unit=counting[0], meta=meta)

    return told


def heard(exchanges: Iterable[Exchange], rank: int, steps: int) -> dict[int, int]:
    """By rank, where an exchange here counts workers: how many steps of each have come. `steps`: those of `rank`, which
    is this worker."""
    counting = [exchange for exchange in exchanges if isinstance(exchange, Counts)]
    return {rank: steps} | counting[0].contributed() if counting else {}


def held_versions(exchanges: Iterable[Exchange]) -> tuple[int, int]:
    """Where workers drift: the least and the most updates that a unit of the model here has seen."""
    counting = [each for each in dict.fromkeys(exchanges) if isinstance(each, Versioned)]
    found = [version for exchange in counting for version in exchange.versions()]
    return min(found), max(found)
