"""What allreduces in rounds share: a unit's rounds (`protocol/rounds.py`), carried out in place on its gradients.

Absent gradients travel as zeros; presence masks are united as the sums are. A lossy codec encodes at each hop on the
way to a finished sum. Who has finished it keeps what it sends, and the others hand on what they got, so that all
replicas stay equal. Of a unit with phases, what its codec makes is summed as it is, phase by phase (`phases.py`).
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from functools import partial

from torch import Tensor

from engine.codec.base import beginnings
from engine.codec.states import Codecs, load_states, states_of
from engine.exchange.base import Surroundings
from engine.exchange.phases import Phases
from engine.plan.rounds import Algorithm, ReceiveChunk, Span
from engine.plan.units import Segment, Unit
from engine.protocol.errors import OutOfStepError
from engine.protocol.instructions import Add, Advance, GoOn, Instruction, Keep, Put, Send, Summed
from engine.protocol.messages import Lane, Message, Payload
from engine.protocol.rounds import Rounds
from engine.state.choice import Choice
from engine.state.host_memory import has, present, union
from engine.tensor_bytes import as_bytes, joined, kept
from engine.transport.message import Header


class RoundsAllreduce:
    """An exchange whose workers follow programs; a subclass says which."""

    kinds: tuple[Message, ...] = (Message.ROUND, Message.ROUND_START)
    algorithm: Algorithm

    def __init__(self, context: Surroundings) -> None:
        self._context = context
        self._machine = Rounds(
            self.algorithm,
            rank=context.rank,
            workers=context.workers,
            counts={index: choice.unit.summed for index, choice in context.choices.items()},
        )
        sender = f"worker {context.rank}"
        self._codecs = {index: choice.codec(sender) for index, choice in context.choices.items()}
        self._phases = Phases(context.choices, context.recording)
        self._remembering: Codecs = {"hop": self._codecs, "phases": self._phases.codecs}
        self._lock = threading.Lock()
        """Around the machine: parts come in the lane's thread and leave in the I/O thread."""
        self._masks: dict[tuple[int, int], bytes] = {}
        """By unit and step: segments present on any rank that the parts have passed."""
        self._kept: dict[tuple[int, int, int], tuple[memoryview | None, bytes]] = {}
        """By unit, step and round: what came before its turn, with its mask; None for what is in its place already."""
        self._finished: dict[tuple[int, int], dict[Span, memoryview]] = {}
        """By unit and step: finished sums as they were encoded where they were completed, to be handed on; not where
        the codec is lossless."""

    def begin_step(self, step: int) -> None:
        """Nothing to ask for."""

    def start(self, unit: Unit, step: int) -> None:
        """Hand the unit to the lane's handler, where its parts meet its own gradients."""
        context = self._context
        if context.workers == 1:
            context.versions.advance(unit.index, step + 1)
            return
        choice, mask = context.choices[unit.index], context.memory.mask(unit, step)
        start = Send((context.rank,), Message.ROUND_START, unit.index, step)
        context.memory.when_gradients_are_readable(unit, lambda: self._send(choice, start, [], mask))

    def backward_ended(self) -> None:
        """Nothing waits."""

    def finished(self, steps: int) -> None:
        """All workers have the same already."""

    def place(self, header: Header) -> list[memoryview] | None:
        """Finished sums in their place. What is to be added comes in a scratch buffer."""
        choice = self._context.choices[header.unit]
        if header.kind != Message.ROUND or not choice.lossless:
            return None
        found = self._machine.place(header.unit, header.step, header.part, header.origin)
        return None if found is None else [as_bytes(part) for part in self._views(choice, *found)]

    def handle(self, header: Header, payload: Payload) -> None:
        """Raises RuntimeError for what nobody awaits."""
        choice, key = self._context.choices[header.unit], (header.unit, header.step)
        if header.kind == Message.ROUND_START:
            self._context.memory.sums(choice.unit.segments)  # absent gradients travel as zeros
            if choice.unit.phases:
                gradients = self._context.memory.gradients(choice.unit.segments)
                self._phases.begin(choice, header.step, gradients)
            self._masks[key] = header.meta
            with self._lock:
                found = self._machine.ready(*key)
        else:
            try:
                with self._lock:
                    found = self._machine.arrived(*key, header.part, header.origin)
            except OutOfStepError as error:
                raise RuntimeError(str(error)) from error
        for instruction in found:
            self._carry_out(choice, instruction, header, payload)

    def state(self) -> dict[str, Tensor]:
        """See `Resumes`."""
        return states_of(self._remembering)

    def load(self, state: Mapping[str, Tensor], step: int) -> None:
        """See `Resumes`; messages say their step themselves."""
        load_states(self._remembering, state)

    def finish(self, unit: Unit, step: int) -> None:
        """Nothing is left to compute."""

    def missing(self, unit: Unit) -> str:
        awaited = self._machine.awaits(unit.index)
        return self.late(awaited) if awaited is not None else "the last part could not be handed on"

    def late(self, awaited: ReceiveChunk) -> str:
        """Who should have sent what a late unit waits for."""
        return f"round {awaited.round + 1} is missing from {self._context.party_name(awaited.peer)}"

    def close(self) -> None:
        """Nothing is held."""

    def _carry_out(self, choice: Choice, instruction: Instruction, header: Header, payload: Payload) -> None:
        match instruction:
            case Add() | Put():
                self._take(choice, instruction, header, payload)
            case Send():
                self._give(choice, instruction)
            case Keep(unit, _, step, part):
                received = _received(header, payload)
                self._kept[unit, step, part] = None if received is None else kept(received), header.meta
            case GoOn(_, step, phase):
                self._phases.go_on(choice, step, phase)
            case Summed(unit, step):
                self._finished.pop((unit, step), None)
                mask = self._masks.pop((unit, step))
                segments = present(choice.unit, mask)
                if choice.unit.phases:
                    gradients = self._context.memory.gradients(choice.unit.segments)
                    there = [has(mask, index) for index in range(len(gradients))]
                    self._phases.end(choice, step, gradients, there)
                self._context.memory.drop_gradients(set(choice.unit.segments) - set(segments))
                self._context.memory.sums_written(choice.unit, segments)
                with self._lock:
                    found = self._machine.summed(unit, step)
                self._advance(found)
            case _:
                raise AssertionError(instruction)

    def _take(self, choice: Choice, take: Add | Put, header: Header, payload: Payload) -> None:
        """Add what has come, or put it in its place."""
        key, recording = (take.unit, take.step), self._context.recording
        if take.kept:
            received, mask = self._kept.pop((*key, take.part))
        else:
            received, mask = _received(header, payload), header.meta
        self._masks[key] = union(self._masks[key], mask)
        if received is None:
            return
        if isinstance(take, Put):
            self._put(choice, take, received)
            return
        start_ns = recording.now_ns()
        self._codecs[take.unit].decode_add(received, self._views(choice, take.start, take.stop))
        recording.reduced(choice, take.step, take.origin, start_ns)

    def _put(self, choice: Choice, put: Put, received: memoryview) -> None:
        """Finished sums, in the parts in which they were encoded."""
        codec, begin = self._codecs[put.unit], 0
        for start, stop in put.apart:
            end = begin + choice.extent(start, stop, received[begin:])
            piece = received[begin:end]
            with self._context.recording.decoding(choice, put.step):
                codec.decode(piece, self._views(choice, start, stop))
            if not choice.lossless:
                self._finished.setdefault((put.unit, put.step), {})[start, stop] = kept(piece)
            begin = end
        if begin != len(received):
            raise RuntimeError(
                f"worker {put.origin} sent {len(received)} bytes of unit {put.unit} where {begin} were expected"
            )

    def _give(self, choice: Choice, send: Send) -> None:
        if send.finished and not send.owned and not choice.lossless:
            finished = self._finished[send.unit, send.step]
            payload = [finished[span] for span in send.apart]
        else:
            payload = self._encoded(choice, send)
        self._send(choice, send, payload, self._masks[send.unit, send.step])

    def _encoded(self, choice: Choice, send: Send) -> list[memoryview]:
        parts, codec = self._views(choice, send.start, send.stop), self._codecs[send.unit]
        with self._context.recording.encoding(choice, send.step):
            payload = [as_bytes(tensor) for tensor in codec.encode(parts, beginnings(parts, send.start))]
        if send.owned and not choice.lossless and send.apart:
            # What the others will get is what is kept here.
            whole = joined(payload)
            payload = [whole]
            with self._context.recording.decoding(choice, send.step):
                codec.decode(whole, parts)
            self._finished.setdefault((send.unit, send.step), {})[send.start, send.stop] = whole
        return payload

    def _left(self, send: Send) -> None:
        """In the I/O thread: a part has left, and may have been the last thing that the unit waited for."""
        with self._lock:
            found = self._machine.sent(send.unit, send.step)
        self._advance(found)

    def _advance(self, found: Sequence[Instruction]) -> None:
        for instruction in found:
            assert isinstance(instruction, Advance)
            self._context.versions.advance(instruction.unit, instruction.clock)

    def _views(self, choice: Choice, start: int, stop: int) -> list[Tensor]:
        """The gradients of elements [start, stop) of the unit, piece by piece, or the numbers that are summed in their
        place."""
        if choice.unit.phases:
            return [self._phases.numbers(choice, start, stop)]
        pieces, offset = [], 0
        for segment in choice.unit.segments:
            first, last = max(start - offset, 0), min(stop - offset, segment.count)
            if first < last:
                pieces.append(Segment(segment.parameter, segment.start + first, segment.start + last))
            offset += segment.count
        return self._context.memory.gradients(pieces)

    def _send(self, choice: Choice, send: Send, payload: list[memoryview], mask: bytes) -> None:
        context = self._context
        header = choice.header(
            send.kind,
            send.step,
            origin=context.endpoint.index,
            lane=Lane.WORKER,
            queued_ns=context.recording.now_ns(),
            payload=payload,
            part=send.part,
            meta=mask,
        )
        on_sent = partial(self._left, send) if send.kind == Message.ROUND else None
        for peer in send.peers:
            context.endpoint.send(peer, header, payload, on_sent)


def _received(header: Header, payload: Payload) -> memoryview | None:
    """A message's content; None where it has been received in its place."""
    if payload is None:
        return None if header.payload_bytes else memoryview(b"")
    return payload
