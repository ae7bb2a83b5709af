"""Several real endpoints, over real sockets, in the threads of one test."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from engine.transport import AttemptClock, Endpoint, Header, Pacer

WAIT_S = 90.0
TOKEN = b"parties of a test"


@dataclass
class Record:
    """An observer, and what the handlers saw, of one party."""

    changed: threading.Condition = field(default_factory=threading.Condition)
    sent_units: list[int] = field(default_factory=list)
    sent_ends: list[int] = field(default_factory=list)
    received_ends: list[int] = field(default_factory=list)
    received_units: list[int] = field(default_factory=list)
    handled_units: list[int] = field(default_factory=list)
    handled: list[tuple[Header, bytes | None]] = field(default_factory=list)
    wires: list[bool] = field(default_factory=list)
    sent_runs: list[tuple[int, int, int, int]] = field(default_factory=list)
    """(unit, bytes of payload, start, end)."""
    received_runs: list[tuple[int, int, int, int]] = field(default_factory=list)

    def sent(
        self, header: Header, peer: int, queued_ns: int, start_ns: int, end_ns: int, *, wire: bool
    ) -> None:
        with self.changed:
            self.sent_units.append(header.unit)
            self.sent_ends.append(end_ns)
            self.sent_runs.append((header.unit, header.payload_bytes, start_ns, end_ns))
            self.wires.append(wire)
            self.changed.notify_all()

    def received(self, header: Header, peer: int, start_ns: int, end_ns: int, *, wire: bool) -> None:
        with self.changed:
            self.received_units.append(header.unit)
            self.received_ends.append(end_ns)
            self.received_runs.append((header.unit, header.payload_bytes, start_ns, end_ns))
            self.changed.notify_all()

    def handle(self, header: Header, payload: memoryview | None) -> None:
        with self.changed:
            self.handled_units.append(header.unit)
            self.handled.append((header, None if payload is None else bytes(payload)))
            self.changed.notify_all()

    def wait(self, condition: Callable[[], bool]) -> None:
        with self.changed:
            assert self.changed.wait_for(condition, WAIT_S), "what the test waits for did not happen"


@dataclass
class Parties:
    """Connected endpoints and what each of them saw."""

    endpoints: list[Endpoint]
    records: list[Record]

    def close(self) -> None:
        """All at once, as processes would."""
        in_threads([endpoint.close for endpoint in self.endpoints])


def in_threads(calls: Sequence[Callable[[], object]]) -> None:
    """Run all at the same time; the first error is raised."""
    errors: list[BaseException] = []

    def run(call: Callable[[], object]) -> None:
        try:
            call()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(call,), daemon=True) for call in calls]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 2 * WAIT_S  # who waits for a peer says so before
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    if errors:
        raise errors[0]
    assert not any(thread.is_alive() for thread in threads), f"not all ended within {2 * WAIT_S:g} s"


WEIGHTS: dict[str, Callable[[Header], int] | None] = {
    "own thread": None,
    "I/O thread": lambda header: 0,
    "either": lambda header: header.payload_bytes,
}
"""Where a lane's messages are handled."""


@contextmanager
def connected(
    names: Sequence[str],
    *,
    lanes: Sequence[int] = (0, 1),
    handle: Callable[[int, Header, memoryview | None], None] | None = None,
    place: Callable[[int, Header], Sequence[memoryview] | None] | None = None,
    pacer: Callable[[], Pacer] | None = None,
    hosts: Sequence[str] | None = None,
    clocks: Sequence[AttemptClock] | None = None,
    weigh: Callable[[Header], int] | None = None,
    **options: object,
) -> Iterator[Parties]:
    """Fully connected parties; `handle(party, header, payload)` runs before the record's own. See WEIGHTS."""
    clocks = clocks or [AttemptClock()] * len(names)
    records = [Record() for _ in names]
    endpoints = [
        Endpoint(
            index=index, names=names, hosts=hosts or names, clock=clocks[index],
            observer=records[index], pacer=pacer() if pacer else None,
            **{"deadline_s": WAIT_S, "token": TOKEN, **options},
        )
        for index in range(len(names))
    ]  # fmt: skip
    addresses = {index: endpoint.listen() for index, endpoint in enumerate(endpoints)}

    def handler(index: int) -> Callable[[Header, memoryview | None], None]:
        def run(header: Header, payload: memoryview | None) -> None:
            if handle is not None:
                handle(index, header, payload)
            records[index].handle(header, payload)

        return run

    def placer(index: int) -> Callable[[Header], Sequence[memoryview] | None]:
        return lambda header: place(index, header) if place else None

    for index, endpoint in enumerate(endpoints):
        for lane in lanes:
            endpoint.register(lane, place=placer(index), handle=handler(index), weigh=weigh)
    in_threads([lambda endpoint=endpoint: endpoint.connect(addresses) for endpoint in endpoints])
    parties = Parties(endpoints, records)
    try:
        yield parties
        if all(endpoint.failure is None for endpoint in endpoints):
            parties.close()
    finally:
        for endpoint in endpoints:
            endpoint.close(orderly=False)
