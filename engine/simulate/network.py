"""Links with numbers: every host has a port with a rate for each direction, and all ports meet in one switch.

A sender's messages leave as the transport lets them (`Backlog`): by priority, in fragments, on the receiver's credit.
A fragment occupies its sender's port and its receiver's for its size over the rate, both at once (cut through); where
the receiver's is busy, it waits in the switch, in the order of arrival. Credit frames take the latency and no room.

Left out: processors, the kernel's buffers, loss, what the switch itself can carry. So it is a bound that a real
transport stays below.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, NamedTuple, Protocol, TypeAlias

from engine.simulate.clock import VirtualClock
from engine.transport.backlog import Backlog
from engine.transport.credit import ReceiverCredit, SenderCredit, Window
from engine.transport.message import HEADER_BYTES, Header

Direction: TypeAlias = Literal["out", "in"]

BACKLOG_BYTES = 8 * 2**20
"""As the transport's default."""


class Passed(NamedTuple):
    """A fragment that has crossed the network."""

    source: int
    destination: int
    header: Header
    bytes: int
    """Payload."""
    start_ns: int
    """It began to leave."""
    end_ns: int
    """It was there."""


class Network(Protocol):
    """What delivers messages between parties."""

    passed: list[Passed]

    def send(
        self, source: int, destination: int, header: Header, on_sent: Callable[[], None] | None = None
    ) -> None:
        """Queue a message. `on_sent`: called when the last of it has left."""
        ...

    def lose(self, party: int, hears: Callable[[int], None]) -> None:
        """A party is gone: what it has not sent never leaves, and what is on its way to it goes nowhere.
        `hears(other)`: the other party's link with it has ended, behind all that was on its way there. Not called where
        there was none yet since an earlier loss."""
        ...

    def meet(self, party: int, hears: Callable[[int], None]) -> None:
        """It is there again. `hears(other)`: it has a link with the other party, who has heard of its loss before."""
        ...


class Numbered:
    """A message of which only the size matters; see `backlog.Leaving`."""

    __slots__ = ("_head", "_payload_left", "fragment_left", "header", "on_sent")

    def __init__(self, header: Header, on_sent: Callable[[], None] | None) -> None:
        self.header = header
        self.on_sent = on_sent
        self._head = HEADER_BYTES
        self._payload_left = self.fragment_left = header.payload_bytes

    @property
    def left_bytes(self) -> int:
        return self._head + self._payload_left

    @property
    def start_bytes(self) -> int:
        return self._head + self.fragment_left

    @property
    def interruptible_now(self) -> bool:
        return self.fragment_left == 0 < self._payload_left

    def cut(self, fragment_bytes: int) -> None:
        self.fragment_left = min(self._payload_left, fragment_bytes)

    def go_on(self, fragment_bytes: int) -> None:
        self._head = HEADER_BYTES
        self.fragment_left = min(self._payload_left, fragment_bytes)

    def leaves(self) -> tuple[int, int]:
        """The fragment leaves: (bytes on the wire, of them payload)."""
        gone = self._head, self.fragment_left
        self._payload_left -= self.fragment_left
        self._head = self.fragment_left = 0
        return sum(gone), gone[1]


@dataclass(kw_only=True)
class _Port:
    """One direction of one host."""

    rate_bps: float
    free_ns: int = 0

    def takes_ns(self, count_bytes: int) -> int:
        return round(count_bytes * 8e9 / self.rate_bps) if self.rate_bps else 0


@dataclass(kw_only=True)
class _Way:
    """From one party to another."""

    backlog: Backlog[Numbered]
    given: ReceiverCredit
    served: int = 0
    there_ns: int = 0
    """The last of what has left is there."""
    deaf: bool = False
    """Nobody is at its end any more."""


@dataclass(kw_only=True)
class _Host:
    out: _Port
    into: _Port
    ways: dict[tuple[int, int], _Way] = field(default_factory=dict)
    """By sender and receiver: what leaves here."""
    busy: bool = False
    """A fragment leaves at the moment."""


class VirtualNetwork:
    """Delivers messages between parties."""

    def __init__(
        self,
        clock: VirtualClock,
        hosts: Mapping[int, str],
        deliver: Callable[[int, Header], None],
        *,
        rate_bps: float = 0,
        rates_bps: Mapping[tuple[str, Direction], float] | None = None,
        latency_ns: int = 0,
        credit_bytes: int | None = None,
    ) -> None:
        """`hosts`: of each party. `deliver(party, header)`: a message has come whole. `rate_bps`: of each port and
        direction, 0 for no limit; `rates_bps`: of single ones. `credit_bytes`: as the transport's."""
        self._clock = clock
        self._of = hosts
        self._deliver = deliver
        self._latency_ns = latency_ns
        self._window = Window(credit_bytes)
        self._turn = 0
        own = rates_bps or {}
        self._hosts = {
            host: _Host(
                out=_Port(rate_bps=own.get((host, "out"), rate_bps)),
                into=_Port(rate_bps=own.get((host, "in"), rate_bps)),
            )
            for host in sorted(set(hosts.values()))
        }
        self.passed: list[Passed] = []
        self._down: set[tuple[int, int]] = set()
        """(sender, receiver) that have no link: one was lost, and has no new one yet."""
        self._ended_ns: dict[tuple[int, int], int] = {}
        """By a party that was lost and another one: when that one hears of it. Not once they have a new link."""
        self._losses: Counter[int] = Counter()

    def send(
        self, source: int, destination: int, header: Header, on_sent: Callable[[], None] | None = None
    ) -> None:
        """Queue a message. Between parties of one host it is there at once."""
        if (source, destination) in self._down:
            return
        if self._of[source] == self._of[destination]:
            self._clock.at(self._clock.now_ns, lambda: self._local(destination, header, on_sent))
            return
        host = self._hosts[self._of[source]]
        way = host.ways.get((source, destination))
        if way is None:
            way = host.ways[source, destination] = _Way(
                backlog=Backlog(SenderCredit(), lambda message: None), given=ReceiverCredit(BACKLOG_BYTES)
            )
            self._grant(way)
        way.backlog.put(Numbered(header, on_sent))
        self._clock.at(self._clock.now_ns, lambda: self._leave(host))

    def lose(self, party: int, hears: Callable[[int], None]) -> None:
        """See Network."""
        self._losses[party] += 1
        for other in self._of:
            if other == party or (party, other) in self._ended_ns:  # no link that could end
                continue
            self._down |= {(party, other), (other, party)}
            out = self._hosts[self._of[party]].ways.pop((party, other), None)
            into = self._hosts[self._of[other]].ways.pop((other, party), None)
            if out is not None:
                out.backlog.drop()
            if into is not None:
                into.backlog.drop()
                into.deaf = True
            ends_ns = max(self._clock.now_ns, out.there_ns if out is not None else 0)
            self._ended_ns[party, other] = ends_ns = ends_ns + self._apart_ns(party, other)
            self._clock.at(ends_ns, partial(hears, other))

    def meet(self, party: int, hears: Callable[[int], None]) -> None:
        """See Network."""
        for other in self._of:
            if other != party:
                linked_ns = max(
                    self._clock.now_ns + self._apart_ns(party, other), self._ended_ns[party, other]
                )
                self._clock.at(linked_ns, partial(self._linked, self._losses[party], party, other, hears))

    def _linked(self, life: int, party: int, other: int, hears: Callable[[int], None]) -> None:
        if life != self._losses[party]:  # it was lost again meanwhile
            return
        del self._ended_ns[party, other]
        self._down -= {(party, other), (other, party)}
        hears(other)

    def _apart_ns(self, one: int, other: int) -> int:
        return 0 if self._of[one] == self._of[other] else self._latency_ns

    def _local(self, destination: int, header: Header, on_sent: Callable[[], None] | None) -> None:
        self._deliver(destination, header)
        if on_sent is not None:
            on_sent()

    def _leave(self, host: _Host) -> None:
        """Give the port what is most urgent; among equals, whose turn was longest ago."""
        if host.busy:
            return
        able = [
            (urgency, way.served, key)
            for key, way in host.ways.items()
            if (urgency := way.backlog.urgency()) is not None
        ]
        if not able:
            return
        source, destination = min(able)[2]
        way = host.ways[source, destination]
        message = way.backlog.choose()
        assert message is not None
        self._turn += 1
        way.served = self._turn
        header = message.header
        size, payload = message.leaves()
        whole = message.left_bytes == 0
        if whole:
            way.backlog.ended()
        host.busy = True
        start_ns = self._clock.now_ns
        left_ns = start_ns + host.out.takes_ns(size)
        way.given.announce(size)
        into = self._hosts[self._of[destination]].into
        there_ns = max(left_ns, max(into.free_ns, start_ns) + into.takes_ns(size)) + self._latency_ns
        into.free_ns = there_ns - self._latency_ns
        way.there_ns = there_ns
        if payload:
            self.passed.append(Passed(source, destination, header, payload, start_ns, there_ns))

        def left() -> None:
            host.busy = False
            if whole and message.on_sent is not None:
                message.on_sent()
            self._leave(host)

        def arrived() -> None:
            way.given.arrived += size
            if whole:
                if not way.deaf:
                    self._deliver(destination, header)
                way.given.handled = way.given.arrived
                way.given.unfinished = 0
            else:
                way.given.unfinished += size
            self._window.passed(size, self._clock.now_ns, amid=True)
            self._grant(way, host)

        self._clock.at(left_ns, left)
        self._clock.at(there_ns, arrived)

    def _grant(self, way: _Way, host: _Host | None = None) -> None:
        count = way.given.take_grant(self._window.share(1), alone=True)
        if not count:
            return
        if host is None:  # before anything was sent
            way.backlog.credit.granted(count)
            return

        def granted() -> None:
            way.backlog.credit.granted(count)
            self._leave(host)

        self._clock.at(self._clock.now_ns + self._latency_ns, granted)
