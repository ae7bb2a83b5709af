"""How the parties find each other: addresses, agreements and barriers, over a shared file or over the network."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

from torch.distributed import FileStore

from engine.transport.board import Board, Copy, Holder
from engine.transport.errors import DeadlineMissed, DisagreementError, PeerLost
from engine.transport.mesh import Address

_FIRST_POLL_S, _POLL_S = 0.001, 0.02
"""Who is nearly there is met at once; for who takes long, the store is asked less and less often."""


class Rendezvous:
    """Party `index` of `names` at `url`: `file:///path` on one machine, `tcp://host:port` on several.

    Over TCP party 0 listens there, for who knows the attempt's `token`, and holds what all say (`board`): it must be
    the last to leave (end with a barrier, then close the endpoint). Every wait has the deadline and names who is
    missing, and over TCP it ends as soon as one of these has gone. A url serves one attempt: use a new path or port
    for the next. Raises UserError for an address or a port that party 0 cannot have.
    """

    def __init__(
        self,
        url: str,
        *,
        index: int,
        names: Sequence[str],
        deadline_s: float = 60.0,
        token: bytes | None = None,
    ) -> None:
        self.names = tuple(names)
        self.index = index
        self._deadline_s = deadline_s
        self._rounds: dict[str, int] = {}
        self._failure: BaseException | None = None
        self._lost: set[int] = set()
        self._store = _open(url, index, names, deadline_s, token)

    def fail(self, error: BaseException) -> None:
        """End every wait, now and later, with `error`: who is missing has been lost and will not come."""
        self._failure = self._failure or error

    def lose(self, party: int) -> None:
        """Wait for this party no more, now and later."""
        self._lost.add(party)

    def regain(self, party: int) -> None:
        """It is there again: wait for it as before."""
        self._lost.discard(party)

    def says(self, key: str, party: int) -> bool:
        """Whether this party has published `key`, without waiting."""
        return self._store.check([self._key(key, party)])

    def publish(self, key: str, value: str) -> None:
        """Make this party's value of `key` known."""
        self._store.set(self._key(key, self.index), value)

    def collect(self, key: str, parties: Sequence[int] | None = None) -> dict[int, str]:
        """Every party's value of `key` (or only of `parties`), once all have published it; but not of a lost one."""
        parties = range(len(self.names)) if parties is None else parties
        end = time.monotonic() + self._deadline_s
        missing, pause_s = list(parties), _FIRST_POLL_S
        while True:
            gone = self._gone([0, *missing])  # before it is looked what they had said
            missing = [party for party in missing if not self._store.check([self._key(key, party)])]
            if not missing:
                break
            if self._failure is not None:
                raise self._failure
            if self._lost.issuperset(missing):
                break
            for party in sorted(
                gone & {0, *missing}
            ):  # without party 0, which holds the board, nobody is heard
                raise PeerLost(
                    party,
                    self.names[party],
                    f"its connection with the rendezvous ended before it said {key!r}",
                )
            if time.monotonic() >= end:
                names = [self.names[party] for party in missing]
                raise DeadlineMissed(f"{self.names[self.index]} waiting for {key!r}", self._deadline_s, names)
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _POLL_S)
        there = [party for party in parties if party not in missing]
        return {party: self._store.get(self._key(key, party)).decode() for party in there}

    def exchange_addresses(self, address: Address) -> dict[int, Address]:
        """Publish the own address and learn all others, ready for `Endpoint.connect`."""
        self.publish("address", json.dumps(address))
        return self.addresses()

    def addresses(self) -> dict[int, Address]:
        """Of all parties, once they have published them."""
        collected = self.collect("address")
        return {party: (host, int(port)) for party, (host, port) in
                ((party, json.loads(value)) for party, value in collected.items())}  # fmt: skip

    def agree(self, key: str, value: str) -> None:
        """Return when all parties hold the same `value`; raises DisagreementError that names who differs."""
        self.publish(key, value)
        collected = self.collect(key)
        if len(set(collected.values())) > 1:
            raise DisagreementError(key, {self.names[party]: held for party, held in collected.items()})

    def barrier(self, name: str) -> None:
        """Return when all parties have come here; the same name may be used again."""
        self._rounds[name] = self._rounds.get(name, 0) + 1
        key = f"barrier {name} {self._rounds[name]}"
        self.publish(key, "")
        self.collect(key)

    def close(self) -> None:
        """Leave. Harmless when it has been left."""
        if isinstance(self._store, Board):
            self._store.close()

    def _gone(self, parties: Sequence[int]) -> set[int]:
        """Those of whom nothing more can be heard, as far as this rendezvous notices; a file notices nobody."""
        if not isinstance(self._store, Board):
            return set()
        return {party for party in parties if self._store.gone(party)}

    @staticmethod
    def _key(key: str, party: int) -> str:
        return f"{key}/{party}"


def checksum(parts: Sequence[str]) -> str:
    """A short digest of a list of lines, for `agree`: who differs is told, not where."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _open(
    url: str, index: int, names: Sequence[str], deadline_s: float, token: bytes | None
) -> FileStore | Board:
    parsed = urlsplit(url)
    if parsed.scheme == "file" and parsed.path and not parsed.netloc:
        Path(parsed.path).parent.mkdir(parents=True, exist_ok=True)
        store = FileStore(parsed.path, -1)
        store.set_timeout(timedelta(seconds=deadline_s))
        return store
    if parsed.scheme == "tcp" and parsed.hostname and parsed.port:
        if token is None:
            raise ValueError(
                f"rendezvous = {url!r}: over TCP parties recognise each other by the attempt's token"
            )
        address = parsed.hostname, parsed.port
        if index == 0:
            return Holder(address, parties=len(names), token=token)
        return Copy(address, index=index, names=names, token=token, deadline_s=deadline_s)
    raise ValueError(f"rendezvous = {url!r}: must be file:///absolute/path or tcp://host:port")
