"""The software rate limit, on a virtual clock and on real sockets."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.transport import Header, Pacer
from engine.transport.pacing import CATCH_UP_NS
from tests.engine.transport_parties import connected

pytestmark = pytest.mark.usefixtures("data_plane")
RATE_BPS = 80_000_000


def test_a_link_is_serial_and_full_duplex(tmp_path: Path) -> None:
    """80 Mbit/s: 10 kB take 1 ms; two processes of one host wait for each other, directions do not."""
    first, second = (Pacer(tmp_path / "pacer", RATE_BPS) for _ in range(2))
    egress, ingress = first.link("a", "egress"), first.link("a", "ingress")
    now = 10**12
    assert egress.acquire(10_000, now) == 0
    assert second.link("a", "egress").acquire(1, now) == now + 1_000_000
    assert ingress.acquire(10_000, now) == 0
    assert second.link("b", "egress").acquire(10_000, now) == 0
    egress.refund(5_000)
    assert egress.acquire(1, now) == now + 500_000


def test_only_time_lost_by_being_late_is_caught_up(tmp_path: Path) -> None:
    link = Pacer(tmp_path / "pacer", RATE_BPS).link("a", "egress")
    now = 10**12
    assert link.acquire(10_000, now) == 0
    # Idle until 5 ms later: the next chunk starts then.
    now += 5_000_000
    assert link.acquire(10_000, now) == 0
    assert link.acquire(10_000, now) == now + 1_000_000
    # It comes back 3 ms late: three chunks make up for it, and a fourth starts now.
    now += 4_000_000
    assert [link.acquire(10_000, now) for _ in range(5)] == [0, 0, 0, 0, now + 1_000_000]
    # Minutes late: no more than the limit is made up for.
    now += 10**12
    passed = 0
    while link.acquire(10_000, now) == 0:
        passed += 1
    assert passed == CATCH_UP_NS // 1_000_000 + 1


def test_one_file_has_one_rate(tmp_path: Path) -> None:
    Pacer(tmp_path / "pacer", RATE_BPS)
    with pytest.raises(ValueError, match="paces at 80000000 bit/s, not at 1000000"):
        Pacer(tmp_path / "pacer", 1_000_000)
    with pytest.raises(ValueError, match="1 to 48 bytes"):
        Pacer(tmp_path / "pacer", RATE_BPS).link("h" * 49, "egress")


@pytest.mark.parametrize("incast", [False, True], ids=["egress", "ingress"])
def test_nothing_passes_before_its_time(tmp_path: Path, incast: bool) -> None:
    """One sender to two receivers shares its egress; two senders to one receiver share its ingress.

    The bound holds however late the threads run: lateness only delays.
    """
    size, count = 20_000, 25
    routes = [(1, 0), (2, 0)] if incast else [(0, 1), (0, 2)]
    names = ("worker 0", "worker 1", "worker 2")
    with connected(names, pacer=lambda: Pacer(tmp_path / "pacer", RATE_BPS), credit_bytes=size) as parties:
        start_ns = parties.endpoints[0].clock.now_ns()
        for unit in range(count):
            for origin, destination in routes:
                header = Header(kind=1, origin=origin, unit=unit, payload_bytes=size)
                parties.endpoints[origin].send(destination, header, [bytes(size)])
        for destination in {destination for _, destination in routes}:
            record = parties.records[destination]
            expected = 2 * count if incast else count
            record.wait(lambda record=record, expected=expected: len(record.handled) == expected)
        chunk_bytes = Pacer(tmp_path / "pacer", RATE_BPS).chunk_bytes
    ends_ns = parties.records[0].received_ends if incast else parties.records[0].sent_ends
    assert len(ends_ns) == 2 * count
    for number, end_ns in enumerate(ends_ns, start=1):
        assert number * size <= RATE_BPS * (end_ns - start_ns + CATCH_UP_NS) / 8e9 + chunk_bytes


def test_messages_inside_a_host_are_not_paced(tmp_path: Path) -> None:
    """10 MB at 10 kbit/s would take hours."""
    with connected(
        ("worker 0", "server 0"), hosts=("a", "a"), pacer=lambda: Pacer(tmp_path / "pacer", 10_000)
    ) as parties:
        header = Header(kind=1, origin=0, payload_bytes=10_000_000)
        parties.endpoints[0].send(1, header, [bytes(10_000_000)])
        record = parties.records[1]
        record.wait(lambda: bool(record.handled))


@pytest.mark.parametrize("incast", [False, True], ids=["egress", "ingress"])
def test_long_messages_let_urgent_ones_in_between(tmp_path: Path, incast: bool) -> None:
    """A small urgent message to, or from, another peer passes while a huge one is on its way, which takes a second."""
    names = ("worker 0", "worker 1", "worker 2")
    huge, small = 2_000_000, 100_000
    routes = [(1, 0), (2, 0)] if incast else [(0, 1), (0, 2)]
    with connected(names, pacer=lambda: Pacer(tmp_path / "pacer", RATE_BPS // 5)) as parties:
        for (origin, destination), size, priority in zip(routes, (huge, small), (5, 1), strict=True):
            header = Header(kind=1, origin=origin, unit=size, priority=priority, payload_bytes=size)
            parties.endpoints[origin].send(destination, header, [bytes(size)])
        for _, destination in routes:
            record = parties.records[destination]
            record.wait(lambda record=record: len(record.handled) == (2 if incast else 1))
    shared = parties.records[0].received_units if incast else parties.records[0].sent_units
    assert shared == [small, huge]
