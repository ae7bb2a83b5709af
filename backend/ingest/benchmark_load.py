"""What the ingest benchmark sends: the batches of several workers, as their recorders would write them, on
connections of their own and at the times when they are due."""

from __future__ import annotations

import http.client
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from urllib.parse import urlsplit

import numpy as np

from engine.telemetry.batch import Batch, LinkInfo, encode
from engine.telemetry.events import EVENT, LINK_SAMPLE, STEP, Kind, Track
from engine.telemetry.recorder import FLUSH_S
from engine.telemetry.spread import LinkBins
from engine.telemetry.totals import event_totals

SLICES = 5
KINDS = [Kind.WAIT, Kind.FORWARD, Kind.BACKWARD, Kind.UPDATE, *[Kind.SEND, Kind.RECEIVE] * SLICES]
"""Events of one layer in one step."""
TRACKS = {Kind.SEND: Track.SEND, Kind.RECEIVE: Track.RECEIVE}
SAMPLE_NS = 10_000_000


@dataclass(frozen=True, kw_only=True)
class Mix:
    """What a worker's batches hold."""

    layers: int
    events: int
    """Of one batch; a number of whole steps comes closest to it."""

    @property
    def per_step(self) -> int:
        return self.layers * len(KINDS)

    @property
    def steps(self) -> int:
        """Of one batch."""
        return max(1, round(self.events / self.per_step))

    @property
    def per_batch(self) -> int:
        return self.steps * self.per_step


def batch(mix: Mix, attempt: int, party: int, sequence: int) -> bytes:
    """One batch: `mix.steps` steps that fill FLUSH_S, their totals and bins, and the link's samples."""
    jitter = np.random.default_rng((party, sequence))
    index = np.arange(mix.per_batch)
    begin, length = round(sequence * FLUSH_S * 1e9), round(FLUSH_S * 1e9)
    events = np.zeros(len(index), EVENT)
    events["step"] = sequence * mix.steps + index // mix.per_step
    events["layer"] = index // len(KINDS) % mix.layers
    events["unit"] = index // 2 % SLICES
    events["kind"] = np.array(KINDS)[index % len(KINDS)]
    events["track"] = np.array([TRACKS.get(kind, Track.COMPUTE) for kind in KINDS])[index % len(KINDS)]
    events["start"] = begin + index * (length // len(index))
    events["end"] = events["start"] + jitter.integers(20_000, 900_000, len(index))
    events["queued"] = events["start"] - jitter.integers(0, 1_000_000, len(index))
    moves = np.isin(events["kind"], (Kind.SEND, Kind.RECEIVE))
    events["bytes"] = np.where(moves, 200_000, 0)
    events["peer"] = np.where(moves, (party + 1) % 2, -1)
    steps = np.zeros(mix.steps, STEP)
    steps["step"] = sequence * mix.steps + np.arange(mix.steps)
    steps["start"] = begin + np.arange(mix.steps) * (length // mix.steps)
    steps["end"] = steps["start"] + length // mix.steps
    steps["samples"], steps["loss"] = 32, jitter.random(mix.steps)
    steps["compute"] = length // mix.steps // 2
    samples = np.zeros(length // SAMPLE_NS, LINK_SAMPLE)
    samples["time"] = begin + np.arange(len(samples)) * SAMPLE_NS
    samples["tx_bytes"] = samples["rx_bytes"] = (sequence * len(samples) + np.arange(len(samples))) * 10**6
    bins = LinkBins()
    bins.add_events(events)
    bins.add_samples(samples)
    tables = {
        "events": events,
        "steps": steps,
        "samples": samples,
        "totals": event_totals(events),
        "bins": bins.take(),
    }
    link = LinkInfo(interface="transport", host=f"host {party}", rate_bps=10**9, rate_source="shaped")
    name = f"worker {party}"
    return encode(
        Batch(attempt=attempt, party=party, name=name, sequence=sequence, links=(link,), tables=tables)
    )


class Sender:
    """One worker's batches over one connection, as its supervisor sends them."""

    def __init__(self, url: str, attempt: int, token: str, party: int, mix: Mix) -> None:
        address = urlsplit(url)
        self._http = http.client.HTTPConnection(address.hostname or "", address.port, timeout=120)
        self._path = f"/api/v1/attempts/{attempt}/batches"
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/octet-stream"}
        self._attempt, self._party, self._mix = attempt, party, mix
        self.sent = 0
        """Batches that were acknowledged, and so the next one's number."""
        self.bytes = 0
        self.latency_s: list[float] = []
        """From when each was due to its acknowledgement, which follows the commit."""

    def prepare(self, count: int) -> list[bytes]:
        """The next `count` batches."""
        return [batch(self._mix, self._attempt, self._party, self.sent + n) for n in range(count)]

    def post(self, body: bytes, due: float) -> None:
        """Send one, and wait until it is stored. Raises RuntimeError where it is refused."""
        self._http.request("POST", self._path, body, self._headers)
        answer = self._http.getresponse()
        text = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"batch {self.sent} of worker {self._party}: {answer.status} {text[:500]!r}")
        self.latency_s.append(time.perf_counter() - due)
        self.sent += 1
        self.bytes += len(body)

    def pace(self, seconds: float, begin: float) -> None:
        """A batch every FLUSH_S from `begin` on. One that comes late does not delay when the next is due, so
        that a server which falls behind shows it."""
        for number in range(round(seconds / FLUSH_S)):
            (body,) = self.prepare(1)
            due = begin + number * FLUSH_S
            time.sleep(max(0.0, due - time.perf_counter()))
            self.post(body, due)

    def rush(self, bodies: list[bytes]) -> None:
        """One after another, as fast as they are taken."""
        for body in bodies:
            self.post(body, time.perf_counter())

    def close(self) -> None:
        self._http.close()


def together(calls: Sequence[Callable[[], None]]) -> float:
    """Run all at once, each on a thread; seconds until the last has ended. Raises what any of them raises."""
    begin = time.perf_counter()
    with ThreadPoolExecutor(len(calls)) as pool:
        for ended in [pool.submit(call) for call in calls]:
            ended.result()
    return time.perf_counter() - begin
