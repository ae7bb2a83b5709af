"""The sampler: real counters of a real interface, and the transport's own."""

from __future__ import annotations

import mmap
import socket
import threading

import numpy as np
import pytest

from engine.telemetry.batch import decode
from engine.telemetry.memory import DEVICE, RESIDENT, RESIDENT_PEAK, TRANSIT, MemorySampler, series
from engine.telemetry.recorder import Recorder
from engine.telemetry.sampler import Sampler, interface_counters, interface_rate_bps, interfaces


def test_bytes_through_the_loopback_interface_are_counted() -> None:
    counters = interface_counters("lo")
    recorder = Recorder(0, "w", lambda: 0, None)
    sampler = Sampler(recorder, {"lo": counters})
    payload = 3_000_000
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as client,
    ):
        receiver, _ = server.accept()
        with receiver:
            receiver.settimeout(60)
            sender = threading.Thread(target=client.sendall, args=(bytes(payload),), daemon=True)
            sender.start()
            left = payload
            while left:
                left -= len(receiver.recv(1 << 20))
            sender.join(60)
    sampler.close()
    recorder.close()
    samples = np.concatenate([decode(body).table("samples") for body in recorder.memory])
    assert samples["tx_bytes"][-1] - samples["tx_bytes"][0] >= payload
    assert samples["rx_bytes"][-1] - samples["rx_bytes"][0] >= payload


def test_any_counters_can_be_sampled() -> None:
    taken = threading.Event()
    counted = iter(range(10**6))

    def counters() -> tuple[int, int]:
        value = next(counted)
        if value >= 3:
            taken.set()
        return value * 100, value

    recorder = Recorder(0, "w", lambda: 0, None)
    sampler = Sampler(recorder, {"transport": counters}, period_s=0.001)
    assert taken.wait(30)
    sampler.close()
    recorder.close()
    batches = [decode(body) for body in recorder.memory]
    samples = np.concatenate([batch.table("samples") for batch in batches])
    assert len(samples) >= 4
    assert samples["tx_bytes"].tolist() == [100 * i for i in range(len(samples))]
    assert [link.interface for link in batches[-1].links] == ["transport"]


def test_an_unknown_interface_is_refused_with_those_there_are() -> None:
    assert "lo" in interfaces()
    with pytest.raises(ValueError, match=r"'nope': no such network interface.*Known: .*lo"):
        interface_counters("nope")
    assert interface_rate_bps("lo") is None


def test_memory_that_a_process_takes_is_seen() -> None:
    recorder = Recorder(0, "worker 0", lambda: 0, None)
    step = 0
    taken = threading.Event()

    def device() -> dict[str, int]:
        taken.set()
        return {DEVICE: 12_345}

    sampler = MemorySampler(recorder, lambda: step, device, period_s=0.01)
    assert taken.wait(60)
    step = 1
    # straight from the kernel: what malloc gives may be pages that were resident before
    with mmap.mmap(-1, 64_000_000) as ballast:
        ballast.write(bytes(len(ballast)))
        ballast_bytes = len(ballast)
        sampler.close()
    recorder.close()
    batches = [decode(body) for body in recorder.memory]
    rows = [
        (b.metrics[row["name"]], row["step"], row["value"]) for b in batches for row in b.table("metrics")
    ]
    resident = [(step, value) for name, step, value in rows if name == series(RESIDENT, "worker 0")]
    assert resident[-1][1] - resident[0][1] >= 0.9 * ballast_bytes
    assert (resident[0][0], resident[-1][0]) == (0, 1)
    assert {value for name, _, value in rows if name == series(DEVICE, "worker 0")} == {12_345}


def test_the_most_memory_between_two_samples_is_seen() -> None:
    recorder = Recorder(0, "w", lambda: 0, None)
    began = threading.Event()

    def step() -> int:
        began.set()
        return 0

    sampler = MemorySampler(recorder, step, transit=iter((0, 5)).__next__, period_s=3600)
    assert began.wait(30)
    with mmap.mmap(-1, 64_000_000) as ballast:
        ballast.write(bytes(len(ballast)))
    sampler.close()  # of the ballast, nothing is left
    recorder.close()
    noted: dict[str, list[float]] = {}
    for batch in map(decode, recorder.memory):
        for row in batch.table("metrics"):
            noted.setdefault(batch.metrics[row["name"]], []).append(row["value"])
    before, after = noted[series(RESIDENT_PEAK, "w")]
    assert after - before >= 0.9 * 64_000_000
    assert noted[series(RESIDENT, "w")][-1] < after - 0.5 * 64_000_000
    assert noted[series(TRANSIT, "w")] == [5], "from when there is any"


def test_memory_of_what_is_shorter_than_a_period_is_noted_at_its_begin_and_its_end() -> None:
    began = threading.Event()
    steps = iter((0, 7))

    def step() -> int:
        began.set()
        return next(steps)

    recorder = Recorder(0, "w", lambda: 0, None)
    sampler = MemorySampler(recorder, step, period_s=3600)
    assert began.wait(30)
    sampler.close()
    recorder.close()
    noted = [
        (batch.metrics[row["name"]], int(row["step"]))
        for batch in map(decode, recorder.memory)
        for row in batch.table("metrics")
    ]
    for measure in (RESIDENT, RESIDENT_PEAK):
        assert [step for name, step in noted if name == series(measure, "w")] == [0, 7]
