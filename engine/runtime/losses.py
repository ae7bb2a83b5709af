"""Workers that are lost while the job goes on (`cluster.worker_loss`). Servers, or where there are none the other
workers, count without them and write down who was lost when; the gang, which sees processes end, looks there."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

from engine.exchange.shard import Shard
from engine.inputs.loader import Loader
from engine.launch import write_json
from engine.protocol.messages import Lane, Message
from engine.runtime.party import PartyBase
from engine.telemetry import absence
from engine.transport.endpoint import Endpoint
from engine.transport.message import Header

_CONTRIBUTED = "contributed"
_AFTER_ALL_ELSE = 2**30
"""Priority of the word that a worker was lost, or is there again: what had arrived from it is applied first, and what
was sent to it has left before it is told that it may join."""


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


def tell(
    endpoint: Endpoint,
    lane: Lane,
    kind: Message,
    rank: int,
    *,
    unit: int = 0,
    step: int = 0,
    meta: bytes = b"",
) -> None:
    """This process's own lane, that a worker was lost or is there again: after what the worker has sent and before what
    nobody waits for."""
    word = Header(
        kind=kind,
        lane=lane,
        origin=endpoint.index,
        step=step,
        unit=unit,
        part=rank,
        priority=_AFTER_ALL_ELSE,
        meta=meta,
    )
    endpoint.send(endpoint.index, word)


def say_contributed(base: PartyBase, shard: Shard) -> None:
    """Of a server, when nobody contributes any more: tell the workers who has contributed what."""
    base.rendezvous.publish(_CONTRIBUTED, json.dumps(shard.contributed()))


def samples_contributed(base: PartyBase, loader: Loader, heard: Mapping[int, int]) -> int:
    """Samples of all contributions that any server has taken, once all servers have said it, and of those of which this
    worker has `heard` itself: by rank, how many steps."""
    by_rank: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for rank, steps in heard.items():
        by_rank[rank].append((0, steps))
    for said in base.rendezvous.collect(_CONTRIBUTED, base.servers).values():
        for rank, spans in json.loads(said).items():
            by_rank[int(rank)] += [(first, end) for first, end in spans]
    return sum(
        loader.samples_of(rank, first, end)
        for rank, spans in by_rank.items()
        for first, end in joined_up(spans)
    )


def joined_up(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same steps (first, end) in order, each once: servers have seen as much of one as had come."""
    found: list[tuple[int, int]] = []
    for first, end in sorted(span for span in spans if span[0] < span[1]):
        if found and first <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((first, end))
    return found


def record_loss(base: PartyBase, teller: int, rank: int, incarnation: int, steps: int, reason: str) -> None:
    """Write down that worker `rank` was lost after it had contributed `steps` steps to `teller`, a shard or, where
    there is none, a worker, which goes on."""
    launch, party = base.launch, base.launch.parties[rank]
    base.recorder.metric(absence.lost(rank), incarnation, steps)
    found = {"party": party.name, "incarnation": incarnation, "steps": steps, "reason": reason}
    write_json(launch.lost(party, teller), found)
