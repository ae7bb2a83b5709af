"""Workers that are lost while the job goes on (`cluster.worker_loss`). Servers count without them and write down who
was lost when; the gang, which sees processes end, looks there."""

from __future__ import annotations

from collections.abc import Callable

from engine.launch import Launch, write_json
from engine.runtime.party import PartyBase


def may_lose_workers(base: PartyBase, told: Callable[[int, str], None] | None = None) -> None:
    """From now on, when every process is ready, this one goes on without a worker that is lost, if the job does.
    `told(rank, reason)` is called in the I/O thread."""
    launch = base.launch

    def lost(party: int, reason: str) -> None:
        print(f"{base.names[party]} was lost, and the job goes on without it: {reason}", flush=True)
        base.rendezvous.lose(party)
        if told is not None:
            told(party, reason)

    expendable = [party.index for party in launch.parties if launch.may_lose(party)]
    if expendable:
        base.endpoint.may_lose(expendable, lost)


def record_loss(launch: Launch, shard: int, rank: int, steps: int, reason: str) -> None:
    """Write down that worker `rank` was lost after it had contributed `steps` steps to `shard`, which goes on."""
    party = launch.parties[rank]
    write_json(launch.lost(party, shard), {"party": party.name, "steps": steps, "reason": reason})
