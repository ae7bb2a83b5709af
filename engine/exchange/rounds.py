"""What allreduces in rounds share: a unit's program (`engine/plan/rounds.py`), carried out in place on its gradients.

Messages are tagged (unit, step, round), so ranks may start units in different orders, and what comes before its turn
is kept until then. Absent gradients travel as zeros; presence masks are united as the sums are. A lossy codec rounds
at each hop; who has finished a sum keeps what it sends, so that all replicas stay equal.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, partial

import torch
from torch import Tensor

from engine.exchange.base import Choice, Context
from engine.plan.rounds import Program, Programmer, Receive, Send
from engine.plan.units import Segment, Unit
from engine.runtime.host_memory import as_bytes, as_tensor, present, union
from engine.runtime.messages import Lane, Message, Payload
from engine.transport.message import Header


@dataclass(kw_only=True)
class _Turn:
    """One unit in one step. Touched only by the worker lane's handler, but for `open`, and read by `place` in the I/O
    thread: `at` only grows, and not past the message that is placed, which has not been handled."""

    program: Program
    step: int
    mask: bytes = b""
    """Segments present on any rank that the parts have passed."""
    at: int = -1
    """Where in the program it is; -1 before this rank's own gradients are there."""
    early: dict[int, tuple[Header, Tensor | None]] = field(default_factory=dict)
    """By round: what came before its turn; None for what is in its place already."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    open: int = 1
    """What the unit's version waits for: its sums, and each part that has not left. Under the lock: parts leave in the
    I/O thread."""

    @property
    def awaited(self) -> Receive | None:
        """The message without which it cannot go on."""
        step = self.program[self.at] if 0 <= self.at < len(self.program) else None
        return step if isinstance(step, Receive) else None

    def left(self, header: Header) -> Receive | None:
        """The step that a message belongs to, if it is still to come."""
        for step in self.program[max(self.at, 0) :]:
            if isinstance(step, Receive) and (step.round, step.peer) == (header.part, header.origin):
                return step
        return None


class RoundsAllreduce:
    """An exchange whose workers follow programs; a subclass says which."""

    kinds: tuple[Message, ...] = (Message.ROUND, Message.ROUND_START)
    program: Programmer

    def __init__(self, context: Context) -> None:
        self._context = context
        self._program = cache(partial(self.program, context.rank, context.workers))
        self._turns: dict[tuple[int, int], _Turn] = {}
        """By unit and step: who is ahead may already send a part of the next step."""

    def begin_step(self, step: int) -> None:
        """Nothing to ask for."""

    def start(self, unit: Unit, step: int) -> None:
        """Hand the unit to the lane's handler, where its parts meet its own gradients."""
        context = self._context
        if context.workers == 1:
            context.versions.advance(unit.index, step + 1)
            return
        mask = context.memory.mask(unit, step)
        context.memory.when_gradients_are_readable(
            unit,
            lambda: self._send(context.rank, Message.ROUND_START, context.choices[unit.index], step, mask),
        )

    def place(self, header: Header) -> list[memoryview] | None:
        """Finished sums in their place, also before their turn: they hold this rank's part, so it has been sent, and
        nothing here reads or adds to these elements any more. What is to be added comes in a scratch buffer."""
        choice = self._context.choices[header.unit]
        turn = self._turns.get((header.unit, header.step))
        if header.kind != Message.ROUND or turn is None or turn.at < 0 or not choice.lossless:
            return None
        step = turn.left(header)
        if step is None or step.adds:
            return None
        return [as_bytes(part) for part in self._views(choice.unit, step.start, step.stop)]

    def handle(self, header: Header, payload: Payload) -> None:
        choice = self._context.choices[header.unit]
        turn = self._turn(choice.unit, header.step)
        if header.kind == Message.ROUND_START:
            self._context.memory.sums(choice.unit.segments)  # absent gradients travel as zeros
            turn.mask = header.meta
            self._go_on(choice, turn)
            return
        in_place = payload is None and header.payload_bytes > 0
        received = None if in_place else as_tensor(payload, choice.codec.wire_dtype(_dtype(choice.unit)))
        awaited = turn.awaited
        if awaited is not None and (header.part, header.origin) == (awaited.round, awaited.peer):
            self._take(choice, turn, awaited, header, received)
            self._go_on(choice, turn)
        else:
            self._expect_later(turn, header)
            turn.early[header.part] = header, None if received is None else received.clone()

    def finish(self, unit: Unit, step: int) -> None:
        """Nothing is left to compute."""

    def missing(self, unit: Unit) -> str:
        turn = next((turn for (index, _), turn in list(self._turns.items()) if index == unit.index), None)
        awaited = turn.awaited if turn is not None else None
        return self.late(awaited) if awaited is not None else "the last part could not be handed on"

    def late(self, awaited: Receive) -> str:
        """Who should have sent what a late unit waits for."""
        return f"round {awaited.round + 1} is missing from {self._context.party_name(awaited.peer)}"

    def close(self) -> None:
        """Nothing is held."""

    def _turn(self, unit: Unit, step: int) -> _Turn:
        turn = self._turns.get((unit.index, step))
        if turn is None:
            turn = self._turns[unit.index, step] = _Turn(program=self._program(unit.count), step=step)
        return turn

    def _go_on(self, choice: Choice, turn: _Turn) -> None:
        """Do what comes next, up to a message that is not there yet."""
        while turn.at + 1 < len(turn.program):
            turn.at += 1
            step = turn.program[turn.at]
            if isinstance(step, Send):
                self._give(choice, turn, step)
                continue
            kept = turn.early.pop(step.round, None)
            if kept is None:
                return
            self._take(choice, turn, step, *kept)
        self._finish(choice, turn)

    def _take(
        self, choice: Choice, turn: _Turn, step: Receive, header: Header, received: Tensor | None
    ) -> None:
        """Add what has come, or put it in its place; None is there already."""
        if received is None:
            turn.mask = union(turn.mask, header.meta)
            return
        recording = self._context.recording
        parts = self._views(choice.unit, step.start, step.stop)
        turn.mask = union(turn.mask, header.meta)
        start_ns = recording.now_ns()
        if step.adds:
            choice.codec.decode_add(received, parts)
            recording.reduced(choice, turn.step, header.origin, start_ns)
        else:
            choice.codec.decode(received, parts)

    def _give(self, choice: Choice, turn: _Turn, step: Send) -> None:
        parts = self._views(choice.unit, step.start, step.stop)
        payload = choice.codec.encode(parts)
        if step.owned and not choice.lossless:
            for whole, encoded in zip(parts, payload, strict=True):
                whole.copy_(encoded)  # the owner keeps what the others will get
        with turn.lock:
            turn.open += 1
        self._send(
            step.peer,
            Message.ROUND,
            choice,
            turn.step,
            turn.mask,
            part=step.round,
            payload=[as_bytes(p) for p in payload],
            on_sent=partial(self._settle, choice.unit, turn),
        )

    def _finish(self, choice: Choice, turn: _Turn) -> None:
        context, unit = self._context, choice.unit
        del self._turns[unit.index, turn.step]
        segments = present(unit, turn.mask)
        context.memory.drop_gradients(set(unit.segments) - set(segments))
        context.memory.sums_written(unit, segments)
        self._settle(unit, turn)

    def _settle(self, unit: Unit, turn: _Turn) -> None:
        """The sums are there, or a part has left; the last of these completes the unit."""
        with turn.lock:
            turn.open -= 1
            complete = turn.open == 0
        if complete:
            self._context.versions.advance(unit.index, turn.step + 1)

    def _views(self, unit: Unit, start: int, stop: int) -> list[Tensor]:
        """The gradients of elements [start, stop) of the unit, piece by piece."""
        pieces, offset = [], 0
        for segment in unit.segments:
            first, last = max(start - offset, 0), min(stop - offset, segment.count)
            if first < last:
                pieces.append(Segment(segment.parameter, segment.start + first, segment.start + last))
            offset += segment.count
        return self._context.memory.gradients(pieces)

    def _send(
        self,
        peer: int,
        kind: Message,
        choice: Choice,
        step: int,
        mask: bytes,
        *,
        part: int = 0,
        payload: list[memoryview] | None = None,
        on_sent: Callable[[], None] | None = None,
    ) -> None:
        context, payload = self._context, payload or []
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
        context.endpoint.send(peer, header, payload, on_sent)

    @staticmethod
    def _expect_later(turn: _Turn, header: Header) -> None:
        """A message is part of the program and has not come before, or someone is out of step."""
        if header.part in turn.early or turn.left(header) is None:
            raise RuntimeError(
                f"worker {header.origin} sent round {header.part} of step {header.step} of unit {header.unit},"
                " which nobody here awaits"
            )


def _dtype(unit: Unit) -> torch.dtype:
    found: torch.dtype = getattr(torch, unit.dtype)
    return found
