"""ring-allreduce: scatter-reduce, then allgather, written out (papers 003).

Each unit is split into n chunks. In round k of n-1, rank r sends chunk (r-k) mod n to its right neighbour and adds
chunk (r-1-k) mod n from its left one; then rank r holds the sum of chunk (r+1) mod n, and n-1 further rounds hand
the sums around. Every worker sends and receives 2 (n-1)/n of the bytes. Messages are tagged (unit, step, round),
so ranks may start units in different orders. Sums run around the ring: the order is fixed for each chunk, and so
the result repeats bitwise. A lossy codec rounds at each hop; the owner of a finished chunk keeps what it sends, so
that all replicas stay equal.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor

from engine.exchange.base import Choice, Context
from engine.plan.traffic import chunk
from engine.plan.units import Segment, Unit
from engine.runtime.host_memory import as_bytes, as_tensor, present, union
from engine.runtime.messages import Lane, Message, Payload
from engine.transport.message import Header


@dataclass(kw_only=True)
class _Turn:
    """One unit on its way around the ring. Touched only by the worker lane's handler, except `open`."""

    step: int
    mask: bytes = b""
    """Segments present on any rank that the chunks have passed."""
    started: bool = False
    handled: int = 0
    """Rounds whose chunk has been taken in."""
    early: list[tuple[Header, Tensor]] = field(default_factory=list)
    """Chunks that came before this rank's own gradients."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    open: int = 1
    """What the unit's version waits for: its sums, and each chunk that has not left. Under the lock: chunks leave in
    the I/O thread."""


class RingAllreduce:
    """Around the ring, chunk by chunk, in place on the gradients."""

    kinds: tuple[Message, ...] = (Message.RING, Message.RING_START)

    def __init__(self, context: Context) -> None:
        self._context = context
        self._rounds = 2 * (context.workers - 1)
        self._turns: dict[int, _Turn] = {}

    def begin_step(self, step: int) -> None:
        """Nothing to ask for."""

    def start(self, unit: Unit, step: int) -> None:
        """Hand the unit to the lane's handler, where its chunks meet its own gradients."""
        context = self._context
        if context.workers == 1:
            context.versions.advance(unit.index, step + 1)
            return
        mask = context.memory.mask(unit)
        context.memory.when_gradients_are_readable(
            unit, lambda: self._send(context.choices[unit.index], Message.RING_START, step, 0, [], mask)
        )

    def place(self, header: Header) -> None:
        """A chunk is added to what is there, so it is not received in place."""

    def handle(self, header: Header, payload: Payload) -> None:
        choice = self._context.choices[header.unit]
        turn = self._turns.setdefault(header.unit, _Turn(step=header.step))
        if header.kind == Message.RING_START:
            self._context.memory.sums(choice.unit.segments)  # absent gradients travel as zeros
            turn.started, turn.mask = True, header.meta
            self._pass_on(choice, turn, 0)
            early, turn.early = turn.early, []
            for early_header, received in early:
                self._take(choice, turn, early_header, received)
            return
        received = as_tensor(payload, choice.codec.wire_dtype(_dtype(choice.unit)))
        if turn.started:
            self._take(choice, turn, header, received)
        else:
            turn.early.append((header, received.clone()))

    def missing(self, unit: Unit) -> str:
        rank, workers = self._context.rank, self._context.workers
        left, right = (self._context.party_name((rank + way) % workers) for way in (-1, 1))
        turn = self._turns.get(unit.index)
        if turn is None:
            return f"the last chunk could not be handed to {right}"
        text = f"round {turn.handled + 1} of {self._rounds} is missing from {left}"
        if 0 < turn.handled < workers - 1:  # each round brings what began one rank further to the left
            origin = self._context.party_name((rank - 1 - turn.handled) % workers)
            text += f", which itself waits for {origin}: that one has not begun"
        return text

    def close(self) -> None:
        """Nothing is held."""

    def _take(self, choice: Choice, turn: _Turn, header: Header, received: Tensor) -> None:
        """Round `header.part` has come from the left: add or keep its chunk, and pass it on."""
        context, unit, part = self._context, choice.unit, header.part
        if (header.step, part) != (turn.step, turn.handled):
            raise RuntimeError(
                f"worker {header.origin} sent round {part} of step {header.step} of unit {header.unit},"
                f" which is at round {turn.handled} of step {turn.step}"
            )
        parts = self._views(unit, self._chunk_received(part))
        turn.mask = union(turn.mask, header.meta)
        start_ns = context.recording.now_ns()
        if part < context.workers - 1:
            choice.codec.decode_add(received, parts)
            context.recording.reduced(choice, turn.step, context.rank, start_ns)
        else:
            choice.codec.decode(received, parts)
        turn.handled = part + 1
        if turn.handled < self._rounds:
            self._pass_on(choice, turn, turn.handled)
        else:
            self._finish(choice, turn)

    def _pass_on(self, choice: Choice, turn: _Turn, part: int) -> None:
        """Send the chunk of round `part` to the right."""
        parts = self._views(choice.unit, self._chunk_received(part - 1))
        payload = choice.codec.encode(parts)
        if part == self._context.workers - 1 and not choice.lossless:
            for whole, encoded in zip(parts, payload, strict=True):
                whole.copy_(encoded)  # the owner keeps what the others will get
        with turn.lock:
            turn.open += 1
        left = partial(self._settle, choice.unit, turn)
        self._send(choice, Message.RING, turn.step, part, [as_bytes(p) for p in payload], turn.mask, left)

    def _finish(self, choice: Choice, turn: _Turn) -> None:
        context, unit = self._context, choice.unit
        del self._turns[unit.index]
        segments = present(unit, turn.mask)
        context.memory.drop_gradients(set(unit.segments) - set(segments))
        context.memory.sums_written(unit, segments)
        self._settle(unit, turn)

    def _settle(self, unit: Unit, turn: _Turn) -> None:
        """The sums are there, or a chunk has left; the last of these completes the unit."""
        with turn.lock:
            turn.open -= 1
            complete = turn.open == 0
        if complete:
            self._context.versions.advance(unit.index, turn.step + 1)

    def _chunk_received(self, part: int) -> int:
        """The chunk that comes from the left in round `part`, and leaves to the right in the next one."""
        workers, rank = self._context.workers, self._context.rank
        return (
            (rank - 1 - part) % workers if part < workers - 1 else (rank - (part - (workers - 1))) % workers
        )

    def _views(self, unit: Unit, index: int) -> list[Tensor]:
        """The gradients of one chunk of the unit, piece by piece."""
        start, stop = chunk(unit.count, self._context.workers, index)
        pieces, offset = [], 0
        for segment in unit.segments:
            first, last = max(start - offset, 0), min(stop - offset, segment.count)
            if first < last:
                pieces.append(Segment(segment.parameter, segment.start + first, segment.start + last))
            offset += segment.count
        return self._context.memory.gradients(pieces)

    def _send(
        self,
        choice: Choice,
        kind: Message,
        step: int,
        part: int,
        payload: list[memoryview],
        mask: bytes,
        on_sent: Callable[[], None] | None = None,
    ) -> None:
        context = self._context
        header = Header(
            kind=kind,
            lane=Lane.WORKER,
            origin=context.endpoint.index,
            step=step,
            unit=choice.unit.index,
            part=part,
            layer=choice.layer_index,
            priority=choice.priority(step),
            queued_ns=context.recording.now_ns(),
            payload_bytes=sum(map(len, payload)),
            meta=mask,
        )
        here = kind == Message.RING_START
        context.endpoint.send(
            context.rank if here else (context.rank + 1) % context.workers, header, payload, on_sent
        )


def _dtype(unit: Unit) -> torch.dtype:
    return getattr(torch, unit.dtype)
