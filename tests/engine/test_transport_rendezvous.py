"""Finding each other over a store; who is missing and who differs is named."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from backend.chaos.ports import reserved
from engine.transport import AttemptClock, DeadlineMissed, DisagreementError, PeerLost
from engine.transport.rendezvous import Rendezvous, checksum
from tests.engine.transport_parties import TOKEN, WAIT_S, connected, in_threads

pytestmark = pytest.mark.usefixtures("data_plane")
NAMES = ("worker 0", "worker 1", "server 0")


Join = Callable[..., list[Rendezvous]]


@pytest.fixture(params=["file", "tcp"])
def join(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Join]:
    with ExitStack() as stack:
        url = f"file://{tmp_path}/rendezvous"
        if request.param == "tcp":
            url = f"tcp://127.0.0.1:{stack.enter_context(reserved())}"

        def members(parties: int = 3) -> list[Rendezvous]:
            found = [
                Rendezvous(url, index=index, names=NAMES, deadline_s=WAIT_S, token=TOKEN)
                for index in range(parties)
            ]
            for member in found:
                stack.enter_context(closing(member))
            return found

        yield members


def test_addresses_agreement_and_barrier(join: Join) -> None:
    members = join()
    learned: dict[int, dict[int, tuple[str, int]]] = {}

    def run(member: Rendezvous) -> None:
        learned[member.index] = member.exchange_addresses(("10.0.0.1", 1000 + member.index))
        member.agree("model", checksum(["conv1", "fc6"]))
        for _ in range(2):
            member.barrier("ready")

    in_threads([lambda member=member: run(member) for member in members])
    addresses = {index: ("10.0.0.1", 1000 + index) for index in range(3)}
    assert learned == dict.fromkeys(range(3), addresses)


def test_who_is_missing_is_named(join: Join) -> None:
    first, _ = join(parties=2)
    first._deadline_s = 0.2  # not from the begin: on a loaded machine the two do not meet so soon
    missing = r"worker 0 waiting for 'barrier ready 1'.*missing: worker 1, server 0"
    with pytest.raises(DeadlineMissed, match=missing):
        first.barrier("ready")


def test_who_differs_is_named(join: Join) -> None:
    members = join()
    values = ["same", "same", "other"]
    errors: list[str] = []

    def run(member: Rendezvous) -> None:
        with pytest.raises(DisagreementError) as caught:
            member.agree("key order", values[member.index])
        errors.append(str(caught.value))

    in_threads([lambda member=member: run(member) for member in members])
    assert len(set(errors)) == 1
    assert "disagree on key order: worker 0, worker 1: 'same'; server 0: 'other'" in errors[0]


def test_over_the_network_who_leaves_is_waited_for_no_more() -> None:
    """Others hear it from party 0, and keep what it had said; where party 0 leaves, nobody hears anything any more."""
    with reserved() as port:
        url = f"tcp://127.0.0.1:{port}"
        members = [
            Rendezvous(url, index=index, names=NAMES, deadline_s=WAIT_S * 10, token=TOKEN)
            for index in range(3)
        ]
        members[1].publish("address", "here")
        members[1].close()
        for member in (members[0], members[2]):
            assert member.collect("address", [1]) == {1: "here"}
            ended = "lost worker 1: its connection with the rendezvous ended before it said 'barrier ready 1'"
            with pytest.raises(PeerLost, match=ended):
                member.collect("barrier ready 1", [1])
        members[0].close()
        with pytest.raises(PeerLost, match="lost worker 0"):
            members[2].barrier("ready")
        members[2].close()


def test_over_the_network_who_does_not_know_the_token_is_told_nothing() -> None:
    with reserved() as port:
        url = f"tcp://127.0.0.1:{port}"
        with closing(Rendezvous(url, index=0, names=NAMES, token=TOKEN)) as holder:
            with pytest.raises(DeadlineMissed, match=r"worker 1 calling worker 0 at .*missing: worker 0"):
                Rendezvous(url, index=1, names=NAMES, deadline_s=0.3, token=b"another attempt's token")
            assert not holder.says("address", 1)
        with pytest.raises(ValueError, match="recognise each other by the attempt's token"):
            Rendezvous(url, index=0, names=NAMES)


def test_bad_urls_are_refused() -> None:
    for bad in ("http://host:1", "file://relative", "tcp://host"):
        with pytest.raises(ValueError, match="must be file:///absolute/path or tcp://host:port"):
            Rendezvous(bad, index=0, names=NAMES)


def test_clocks_are_aligned_with_party_0() -> None:
    """A clock that is a second off is moved onto the reference, to within the residual it reports."""
    reference = AttemptClock()
    other = AttemptClock(reference.epoch_ns - 10**9)
    with connected(("worker 0", "worker 1"), clocks=[reference, other]) as parties:
        alignment = parties.endpoints[1].align_clock()
        assert abs(alignment.offset_ns + 10**9) <= alignment.residual_ns
        assert abs(other.epoch_ns - reference.epoch_ns) <= alignment.residual_ns


def test_the_fastest_ping_decides() -> None:
    clock = AttemptClock(0)
    alignment = clock.align([(0, 5_000, 4_000), (10_000, 10_600, 10_200), (20_000, 99_000, 29_000)])
    assert (alignment.offset_ns, alignment.residual_ns) == (500, 100)
    assert clock.epoch_ns == -500
    assert clock.align([(0, 60, 100)]).offset_ns == 0
