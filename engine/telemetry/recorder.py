"""What a worker calls to say what it did: cheap, bounded, and never in the way of training.

`event` packs 43 bytes into a queue. A background thread takes the queue every `flush_s`, folds *every* event
into totals, asks the detail policy which to keep whole, and writes one batch to the spool. Detail gives way, and
the next batch says of which steps; totals never do: when the queue is full (the disk refuses) the caller folds it
itself, and when too much waits in the spool (the server is away) batches carry totals only.
"""

from __future__ import annotations

import logging
import math
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Collection
from pathlib import Path

import numpy as np

from engine.telemetry.asked import AskedSteps, Range
from engine.telemetry.batch import Batch, LinkInfo, encode
from engine.telemetry.detail import Detail, DetailPolicy
from engine.telemetry.events import (
    EVENT,
    LINK_SAMPLE,
    METRIC,
    MOVED,
    NONE,
    STEP,
    Clock,
    Direction,
    Kind,
    Track,
)
from engine.telemetry.spool import SpoolWriter
from engine.telemetry.spread import MOST_TAKEN, LinkBins
from engine.telemetry.staleness import StalenessCounts
from engine.telemetry.totals import Totals

TRANSPORT = "transport"
"""Name of the link whose bytes the transport itself counts, and the kernel on the connections of collectives: the one
that send and receive events belong to."""
PATIENCE_S = 30.0
"""How long a recorder that closes waits for a disk that refuses."""

MOST_TOGETHER = 8
"""A worker that is killed loses what it has not flushed: 2 s at most."""

_event = struct.Struct("<ihiBBhiqqqqB").pack
_step = struct.Struct("<iqqqdqqq").pack
_metric = struct.Struct("<hiqd").pack
_sample = struct.Struct("<hqqq").pack
_moved = struct.Struct("<hBqqq").pack
logger = logging.getLogger(__name__)


FLUSH_S = 0.5
"""Pages ask at most once a second, and each batch costs the server a commit, on processors that train."""


def flushes_together(waiting: int) -> int:
    """How many flushes become one batch while so many batches wait: each batch costs the server a commit, and one
    that has fallen behind must be able to catch up."""
    return min(MOST_TOGETHER, 1 + waiting // 8)


class Recorder:
    """Records one party (worker, server or reducer) of one attempt. Every method may be called by any
    thread."""

    def __init__(
        self,
        party: int,
        name: str,
        clock_ns: Callable[[], int],
        spool: Path | None,
        *,
        attempt: int = 0,
        flush_s: float = FLUSH_S,
        capacity: int = 65_536,
        detail: DetailPolicy | None = None,
        spool_bytes: int = 2**30,
        asked: Path | None = None,
        interface: str = TRANSPORT,
        host: str | None = None,
        near: Collection[int] = (),
    ) -> None:
        """`clock_ns` reads the attempt's clock. `spool` is the attempt's spool directory; with None the
        batches stay in `self.memory`. `capacity` bounds the events waiting for the flush (about 100 bytes
        each), `spool_bytes` the detail that waits on disk. `asked` is the file of steps that a person wants recorded.
        `interface` names the link that this party's send and receive events travel on,
        but for those to and from the parties `near`, on the same host. `host`: whose links these are; None:
        this machine's name."""
        self.party = party
        self.name = name
        self.clock_ns = clock_ns
        self.memory: list[bytes] = []
        self.staleness = StalenessCounts()
        """Of what this party's shards apply, where workers drift."""
        self._attempt = attempt
        self._host = host or socket.gethostname()
        self._spool = None if spool is None else SpoolWriter(spool, party)
        self._sequence = 0 if self._spool is None else self._spool.next_sequence()
        self._capacity = capacity
        self._spool_bytes = spool_bytes
        self._asked = None if asked is None else AskedSteps(asked)
        self._flush_s = flush_s

        self._events: deque[bytes] = deque()
        self._push = self._events.append
        self._steps: deque[bytes] = deque()
        self._metrics: deque[bytes] = deque()
        self._samples: deque[bytes] = deque()
        self._moved: deque[bytes] = deque()
        self._names: list[str] = []
        self._links: list[LinkInfo] = []
        self._naming = threading.Lock()

        self._fold = threading.Lock()  # guards the four below; never held during I/O or compression
        self._totals = Totals()
        self._bins = LinkBins(near)
        self._detail = Detail(detail or DetailPolicy())
        self._kept: list[np.ndarray] = []

        self._unwritten: Batch | None = None
        self._flushing = threading.Lock()  # one flush at a time
        self._stop = threading.Event()
        self._closed = False
        self.declare_link(interface)
        self._thread = threading.Thread(target=self._loop, name=f"telemetry-{name}", daemon=True)
        self._thread.start()

    # --- what a worker calls ---

    def event(
        self,
        kind: Kind,
        track: Track,
        *,
        step: int,
        layer: int = NONE,
        unit: int = NONE,
        peer: int = NONE,
        priority: int = 0,
        queued: int = NONE,
        start: int,
        end: int,
        bytes: int = 0,
        clock: Clock = Clock.HOST,
    ) -> None:
        """One event. `queued`, `start`, `end` in ns on the attempt's clock, and whose `clock` they were read from;
        `layer` is the index in the model's description, `unit` the slice, `peer` the other side's party number. Raises
        struct.error for a value that is no integer or does not fit its column."""
        if len(self._events) >= self._capacity:
            self._overflow()
        self._push(_event(step, layer, unit, kind, track, peer, priority, queued, start, end, bytes, clock))

    def step(
        self,
        step: int,
        *,
        start: int,
        end: int,
        samples: int,
        loss: float = math.nan,
        exposed: int = 0,
        compute: int = 0,
        input: int = 0,
    ) -> None:
        """One row per worker and step, after the step: `start` of its forward, `end` of the step, `samples`
        this worker processed, its `loss`; ns in which it computed nothing for want of a version (`exposed`),
        computed (`compute`), and waited for its `input`."""
        self._steps.append(_step(step, start, end, samples, loss, exposed, compute, input))

    def metric(self, name: str, step: int, value: float) -> None:
        """The value of a named metric (`test_accuracy`, `test_loss`, ...) after `step`."""
        with self._naming:
            if name not in self._names:
                self._names.append(name)
            index = self._names.index(name)
        self._metrics.append(_metric(index, step, self.clock_ns(), value))

    def declare_link(
        self,
        interface: str,
        *,
        rate_bps: int | None = None,
        rate_source: str = "unknown",
        shared: bool = False,
        by_size: bool = False,
    ) -> None:
        """Say what is known of a link: its rate in bit/s per direction, and whether that is `shaped` (a limit
        that somebody set), the `interface`'s own, `declared` by the job, or `unknown`; whether it is `shared` with
        what is not the job's, and whether layers' bytes are told apart `by_size`. The last word counts."""
        info = LinkInfo(
            interface=interface,
            host=self._host,
            rate_bps=rate_bps,
            rate_source=rate_source,
            shared=shared,
            by_size=by_size,
        )
        with self._naming:
            index = self._link_index(interface)
            if index is None:
                self._links.append(info)
            else:
                self._links[index] = info

    def link(self, interface: str, *, tx_bytes: int, rx_bytes: int, time: int | None = None) -> None:
        """One sample of an interface's byte counters (ever growing); `time` defaults to now."""
        with self._naming:
            index = self._link_index(interface)
        if index is None:
            self.declare_link(interface)
            return self.link(interface, tx_bytes=tx_bytes, rx_bytes=rx_bytes, time=time)
        self._samples.append(_sample(index, self.clock_ns() if time is None else time, tx_bytes, rx_bytes))
        return None

    def moved(self, layer: int, direction: Direction, *, start: int, end: int, bytes: int) -> None:
        """Bytes of a layer that went over this party's first link between `start` and `end`, and are no message's."""
        if len(self._moved) >= self._capacity:
            self._overflow()
        self._moved.append(_moved(layer, direction, start, end, bytes))

    def close(self) -> int:
        """Flush everything, the details of the last minute included; the last sequence number written, -1
        where there is none. Waits a while for a disk that refuses, without details where that helps; then raises
        OSError."""
        with self._naming:
            if self._closed:
                return self._sequence - 1
            self._closed = True
        self._stop.set()
        self._thread.join()
        with self._fold:
            self._take_events()
            self._kept.extend(self._detail.ask(self._newly_asked()))
            self._kept.extend(self._detail.rest())
        self._flush_patiently()
        return self._sequence - 1

    # --- the background ---

    def flush(self, *, final: bool = False) -> None:
        """Write what was recorded so far as one batch (the background thread does this every `flush_s`)."""
        with self._flushing:
            if self._unwritten is not None:  # the disk refused it last time
                self._write(self._unwritten)
            asked = self._newly_asked()
            crowded = self._spool is not None and self._spool.waiting()[1] > self._spool_bytes
            batch = self._collect(final, asked, crowded)
            if batch is not None:
                self._unwritten = batch
                self._write(batch)

    def _loop(self) -> None:
        failing, passed = False, 0
        while not self._stop.wait(self._flush_s):
            passed += 1
            waiting = 0 if self._spool is None else self._spool.waiting()[0]
            if passed < flushes_together(waiting) and len(self._events) < self._capacity // 2:
                continue
            passed = 0
            try:
                self.flush()
                if failing:
                    logger.warning(
                        "%s: telemetry is written again; nothing but detail was given up", self.name
                    )
                failing = False
            except (
                OSError
            ) as error:  # a full disk must not end the training; the batch is kept and tried again
                if not failing:
                    logger.warning("%s: telemetry is not being written: %s", self.name, error)
                failing = True

    def _flush_patiently(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                while self._bins.waiting() > MOST_TAKEN:
                    self.flush()
                return self.flush(final=True)
            except OSError as error:
                if time.monotonic() > deadline:
                    raise OSError(
                        error.errno,
                        f"telemetry of {self.name} cannot be written ({error.strerror}). Free space on that disk",
                        error.filename,
                    ) from error
                if self._unwritten is not None:
                    self._unwritten = self._unwritten.without_detail()
            time.sleep(min(self._flush_s, 0.25))

    def _newly_asked(self) -> list[Range]:
        try:
            return [] if self._asked is None else self._asked.news()
        except (OSError, ValueError) as error:
            logger.warning("%s: steps that were asked for cannot be read: %s", self.name, error)
            return []

    def _write(self, batch: Batch) -> None:
        body = encode(batch)
        if self._spool is None:
            self.memory.append(body)
        else:
            self._spool.write(self._sequence, body)
        self._sequence += 1
        self._unwritten = None

    def _overflow(self) -> None:
        """The queue is full: the flush is behind (a stalled disk). Keep the sums, give up the detail."""
        with self._fold:
            events = _drain(self._events, EVENT)
            self._add(events)
            self._detail.give_up(events)
            self._bins.add_samples(_drain(self._samples, LINK_SAMPLE))
            self._bins.add_moved(_drain(self._moved, MOVED))

    def _take_events(self) -> None:
        events = _drain(self._events, EVENT)
        self._add(events)
        self._kept.extend(self._detail.take(events))

    def _add(self, events: np.ndarray) -> None:
        self._totals.add(events)
        self._bins.add_events(events)

    def _collect(self, final: bool, asked: list[Range], crowded: bool) -> Batch | None:
        """Everything since the last batch, without detail where the spool is crowded; None where nothing
        happened."""
        with self._fold:
            self._take_events()
            self._kept.extend(self._detail.ask(asked))
            steps = _drain(self._steps, STEP)
            self._kept.extend(self._detail.steps(steps))
            samples = _drain(self._samples, LINK_SAMPLE)
            self._bins.add_samples(samples)
            self._bins.add_moved(_drain(self._moved, MOVED))
            tables = {
                "events": np.concatenate(self._kept) if self._kept else np.empty(0, EVENT),
                "steps": steps,
                "metrics": _drain(self._metrics, METRIC),
                "samples": samples,
                "totals": self._totals.take(),
                "bins": self._bins.take(None) if final else self._bins.take(),
                "staleness": self.staleness.take(),
            }
            dropped = self._detail.take_dropped()
            self._kept = []
        if not final and not dropped.events and not any(len(table) for table in tables.values()):
            return None
        with self._naming:
            names, links = tuple(self._names), tuple(self._links)
        batch = Batch(
            attempt=self._attempt,
            party=self.party,
            name=self.name,
            sequence=self._sequence,
            metrics=names,
            links=links,
            dropped=dropped.events,
            dropped_steps=(dropped.first_step, dropped.last_step),
            final=final,
            tables=tables,
        )
        return batch.without_detail() if crowded else batch

    def _link_index(self, interface: str) -> int | None:
        return next((i for i, link in enumerate(self._links) if link.interface == interface), None)


def _drain(queue: deque[bytes], dtype: np.dtype) -> np.ndarray:
    """Take what is in the queue now. deque's append and popleft are atomic: no lock on the recording side."""
    pop = queue.popleft
    return np.frombuffer(b"".join([pop() for _ in range(len(queue))]), dtype)
