"""Workers that are lost while the job goes on (`cluster.worker_loss`). Servers count without them and write down who
was lost when; the gang, which sees processes end, looks there."""

from __future__ import annotations

from collections.abc import Callable

from engine.launch import Launch, write_json
from engine.runtime.party import PartyBase


def may_lose_workers(
    base: PartyBase,
    told: Callable[[int, str], None] | None = None,
    returned: Callable[[int, int], None] | None = None,
) -> None:
    """From now on, when every process is ready, this one goes on without a worker that is lost, if the job does.
    `told(rank, reason)` is called in the I/O thread; so is `returned(rank, incarnation)` where such a worker calls
    again, as it does at the servers and at worker 0."""
    launch = base.launch

    def lost(party: int, reason: str) -> None:
        print(f"{base.names[party]} was lost, and the job goes on without it: {reason}", flush=True)
        base.rendezvous.lose(party)
        if told is not None:
            told(party, reason)

    def there_again(party: int, incarnation: int) -> None:
        print(f"{base.names[party]} is there again (incarnation {incarnation})", flush=True)
        base.rendezvous.regain(party)
        assert returned is not None
        returned(party, incarnation)

    expendable = [party.index for party in launch.parties if launch.may_lose(party)]
    if expendable:
        base.endpoint.may_lose(expendable, lost)
    if launch.restarts and returned is not None:
        base.endpoint.keep_door(expendable, there_again)


def record_loss(launch: Launch, shard: int, rank: int, incarnation: int, steps: int, reason: str) -> None:
    """Write down that worker `rank` was lost after it had contributed `steps` steps to `shard`, which goes on."""
    party = launch.parties[rank]
    found = {"party": party.name, "incarnation": incarnation, "steps": steps, "reason": reason}
    write_json(launch.lost(party, shard), found)
