"""The lab itself: hosts that reach each other, links that limit, names that go away with their owner."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from engine.lab import Lab, LabError, Link, namespace, permission, sweep
from tests.labs import Guest, interfaces, needs_lab

PORT = 7000
WINDOW_S = 1.0
CALLS = 50
"""So many that a busy machine does not delay each of them."""


def serve(pipe: Connection, address: str) -> None:
    """Accept one connection, let it begin, and answer who it is and how many bytes per second arrived from then on, in
    WINDOW_S at least: where this process was kept waiting, what came meanwhile had more time, too."""
    with socket.create_server((address, PORT)) as listener:
        pipe.send("ready")
        connection, (caller, _) = listener.accept()
    with connection:
        count, begun = 0, time.monotonic()
        connection.sendall(b"!")
        while time.monotonic() < begun + WINDOW_S and (size := len(connection.recv(2**20))):
            count += size
        pipe.send((caller, count / (time.monotonic() - begun)))


def pour(pipe: Connection, address: str) -> None:
    """Send, once the other side says so, until it has enough."""
    with socket.create_connection((address, PORT)) as connection, contextlib.suppress(OSError):
        connection.recv(1)
        while True:
            connection.sendall(bytes(2**16))


def poured(lab: Lab, source: int, destination: int) -> tuple[str, float]:
    """(the caller's address, bytes per second that arrived)."""
    server = Guest(lab, destination, serve, lab.address(destination))
    assert server.pipe.recv() == "ready"
    client = Guest(lab, source, pour, lab.address(destination))
    found: tuple[str, float] = server.pipe.recv()
    server.end()
    client.end()
    return found


def at_most(rate_bps: int) -> float:
    """Bytes per second at this rate, and a fifth more: for the bursts that the token buckets let pass."""
    return 1.2 * rate_bps / 8


def echo(pipe: Connection, address: str) -> None:
    """Accept one connection and send back what comes, until it closes."""
    with socket.create_server((address, PORT)) as listener:
        pipe.send("ready")
        connection, _ = listener.accept()
    with connection:
        while said := connection.recv(1):
            connection.sendall(said)


def call(pipe: Connection, address: str) -> None:
    """How long, in s, each of CALLS bytes takes there and back."""
    took = []
    with socket.create_connection((address, PORT)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(CALLS):
            began = time.monotonic()
            connection.sendall(b"?")
            assert connection.recv(1) == b"?"
            took.append(time.monotonic() - began)
    pipe.send(took)


def round_trips(lab: Lab, source: int, destination: int) -> list[float]:
    """Times in s of CALLS round trips over one connection."""
    server = Guest(lab, destination, echo, lab.address(destination))
    assert server.pipe.recv() == "ready"
    client = Guest(lab, source, call, lab.address(destination))
    found: list[float] = client.pipe.recv()
    client.end()
    server.end()
    return found


def of_lab(lab: Lab) -> list[str]:
    return [name for name in namespace.names() if name.startswith(lab.stem)]


def test_hosts_reach_each_other_at_their_addresses_and_nothing_is_left() -> None:
    needs_lab()
    before = [Path(f"/proc/self/ns/{name}").readlink() for name in ("net", "mnt")]
    with Lab.create("reach", [Link(), Link(), Link()]) as lab:
        assert len(of_lab(lab)) == 4
        assert interfaces(lab, 2) == ["lo", "eth0"]
        caller, rate = poured(lab, 0, 2)
        assert (caller, rate > 0) == (lab.address(0), True)
    assert of_lab(lab) == []
    assert before == [Path(f"/proc/self/ns/{name}").readlink() for name in ("net", "mnt")]


@pytest.mark.parametrize(("source", "destination", "rate"), [(0, 1, 20), (1, 0, 20), (1, 2, 80), (2, 1, 80)])
def test_each_direction_of_each_host_keeps_its_rate(source: int, destination: int, rate: int) -> None:
    """The slower of the two ends limits: hosts of 20, 80 and 200 Mbit/s."""
    needs_lab()
    with Lab.create("rates", [Link(rate_bps=r * 10**6) for r in (20, 80, 200)]) as lab:
        _, found = poured(lab, source, destination)
    assert 0 < found <= at_most(rate * 10**6)


def test_every_port_delays_what_it_shapes_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    """What `tc` is told of two hosts, wherever this runs: what leaves for a host waits in its port of the switch, the
    token bucket below; what leaves a host is not delayed, or a way would have the latency twice."""
    told: dict[str | None, list[str]] = {}

    def batch(tool: str, lines: Iterable[str], name: str | None = None) -> None:
        if tool == "tc":
            told[name] = list(lines)

    monkeypatch.setattr(namespace, "batch", batch)
    monkeypatch.setattr(namespace, "set_parameters", lambda *_: None)
    slow, fast = Link(rate_bps=10**8, latency_ns=5_000_000), Link(latency_ns=250)
    Lab("told", [slow, fast])._build()
    assert told == {
        "told-sw": [
            "qdisc add dev p0 root handle 1: netem delay 5000us limit 100000",
            "qdisc add dev p0 parent 1:1 tbf rate 100000000bit burst 15500 limit 125000",
            "qdisc add dev p1 root handle 1: netem delay 0.25us limit 100000",
        ],
        "told-h0": ["qdisc add dev eth0 root tbf rate 100000000bit burst 15500 limit 4194304"],
        "told-h1": [],
    }


@pytest.mark.parametrize("latency_ns", [1_000, 5_000_000, 1_234_567_000, 10**10])
def test_tc_understands_every_latency(latency_ns: int) -> None:
    """Where the kernel cannot delay, it is the kernel that refuses, not `tc`."""
    needs_lab()
    refused = ""
    try:
        Lab.create("understood", [Link(rate_bps=10**8, latency_ns=latency_ns)]).close()
    except LabError as error:
        refused = str(error)
    assert not re.search('What is "|Illegal "', refused), refused


@pytest.mark.parametrize("rate_bps", [None, 10**8])
def test_a_round_trip_has_the_latency_of_both_ways(rate_bps: int | None) -> None:
    needs_lab(latency=True)
    with Lab.create("late", [Link(rate_bps=rate_bps, latency_ns=5_000_000)] * 2) as lab:
        took = round_trips(lab, 0, 1)
    assert 0.010 <= min(took) < 0.020, "each way has it once"


def test_a_round_trip_without_latency_is_short() -> None:
    """The clock that the test above reads."""
    needs_lab()
    with Lab.create("early", [Link(rate_bps=10**8)] * 2) as lab:
        assert min(round_trips(lab, 0, 1)) < 0.010


def test_two_labs_at_once_do_not_see_each_other() -> None:
    needs_lab()
    with Lab.create("one", [Link()] * 2) as one, Lab.create("two", [Link(rate_bps=10**7)] * 2) as two:
        assert one.address(0) == two.address(0)
        slow, fast = poured(two, 0, 1)[1], poured(one, 0, 1)[1]
        assert slow <= at_most(10**7) < fast
        one.close()
        assert len(of_lab(two)) == 3


def test_a_second_lab_of_the_same_name_is_refused_and_the_first_stays() -> None:
    needs_lab()
    with Lab.create("twice", [Link()]) as lab:
        with pytest.raises(LabError, match="Close it first"):
            Lab.create("twice", [Link()])
        assert len(of_lab(lab)) == 2


def test_a_lab_that_cannot_be_built_leaves_nothing() -> None:
    needs_lab()
    with pytest.raises(LabError, match="tc at `qdisc add"):
        Lab.create("half", [Link(), Link(rate_bps=-1)])
    assert not [name for name in namespace.names() if f"half-{os.getpid()}." in name]
    with pytest.raises(LabError, match="1 to 64 hosts"):
        Lab.create("none", [])


OWNER = """
import sys, time
from engine.lab import Lab, Link
print(Lab.create("orphan", [Link(), Link()]).stem, flush=True)
time.sleep(600)
"""


def test_what_a_killed_owner_left_is_removed_by_the_next_lab() -> None:
    needs_lab()
    owner = subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    orphan = Lab(owner.stdout.readline().strip(), [Link(), Link()])
    sweep()
    assert len(of_lab(orphan)) == 3, "its owner lives"
    apart = ["unshare", "--pid", "--fork", "--mount-proc"]
    subprocess.run([*apart, sys.executable, "-c", "from engine.lab import sweep; sweep()"], check=True)
    assert len(of_lab(orphan)) == 3, "who does not see its owner does not know that it lives"
    guest = Guest(orphan, 0, stay)
    assert guest.pipe.recv() == "here"
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    assert sweep() == []
    assert len(of_lab(orphan)) == 3, "a process lives in it"
    guest.pipe.send("go")
    guest.end()
    with Lab.create("next", [Link()]):
        assert of_lab(orphan) == []


def stay(pipe: Connection) -> None:
    pipe.send("here")
    pipe.recv()


def test_a_missing_tool_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert permission.permitted() == "ip and tc not found: install iproute2"


def test_a_missing_permission_is_told_in_one_sentence() -> None:
    """As another user than root, in a process of its own."""
    needs_lab()
    program = "import os; from engine.lab import permitted\nos.setuid(65534)\nprint(permitted())"
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert "root, or CAP_SYS_ADMIN and CAP_NET_ADMIN" in said
    assert said.count("\n") == 1


def test_a_host_that_is_gone_cannot_be_entered() -> None:
    with pytest.raises(LabError, match="cannot be opened"):
        Lab("trainyard-nobody-1.1", [Link()]).enter(0)
