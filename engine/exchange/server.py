"""The worker's side of the server exchanges, `central-reducer` (one shard) and `parameter-server` (N shards), with
tensors: it carries out what `protocol/served.py` says.

A unit's gradient is pushed to its shard; the answer is the updated parameters, or what they have moved by (update on
the server), or the summed gradient (update on the worker). Where the server updates, and the model has written to the
parameters itself, what it wrote goes ahead of the gradient. A unit with phases (`phases.py`) is pushed and answered
once for each. The other side is `shard.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

import torch
from torch import Tensor

from engine.codec.difference import moved_by
from engine.codec.states import Codecs, load_states, states_of
from engine.errors import TrainingError
from engine.exchange.base import Surroundings
from engine.exchange.later import Later
from engine.exchange.phases import Phases
from engine.instrumentation.checksum import packed
from engine.plan.description import DTYPE_BYTES
from engine.plan.units import Unit
from engine.protocol.assembly import returns_of
from engine.protocol.instructions import Advance, Content, GoOn, Instruction, Put, Send
from engine.protocol.messages import Lane, Message, Payload
from engine.protocol.served import Served, ServedUnit
from engine.state.choice import Choice
from engine.state.host_memory import has, places, present
from engine.telemetry.events import Kind
from engine.tensor_bytes import as_bytes, as_tensor
from engine.transport.message import Header

LIGHT_BYTES = 4096
"""A gradient of at most so much, as a normalization's, leaves with the next one, most often its neighbour's. Chosen
to be above those and below what is worth a wake, not tuned."""


class ServerExchange:
    """Push to the shard, take its answer."""

    kinds: tuple[Message, ...] = (Message.NOTIFY, Message.ANSWER, Message.ENCODE)

    def __init__(self, context: Surroundings) -> None:
        self._context = context
        self._at_once = context.device == "cpu"
        """Gradients are pushed within `start`; elsewhere once they have been copied, perhaps after backward."""
        sender = f"worker {context.rank}"
        self._codecs = {index: choice.codec(sender) for index, choice in context.choices.items()}
        self._answers = {
            index: choice.answer_codec(sender)
            for index, choice in context.choices.items()
            if choice.answers_differences
        }
        self._machine = Served({index: _served(context, choice) for index, choice in context.choices.items()})
        self._phases = Phases(context.choices, context.recording)
        self._remembering: Codecs = {
            "push": self._codecs,
            "answer": self._answers,
            "phases": self._phases.codecs,
        }
        self._later = Later(context.endpoint, context.rank, context.choices, context.recording)

    def begin_step(self, step: int) -> None:
        self._send_all(self._machine.step_began(step))

    def start(self, unit: Unit, step: int) -> None:
        choice = self._context.choices[unit.index]
        memory = self._context.memory
        mask = memory.mask(unit, step)
        if choice.flow.answer == "parameters" and self._context.written(unit):
            if not self._context.lockstep:
                raise TrainingError(
                    f"{unit.layers[0]} was written to by the model or its loss. Where workers do not wait for one"
                    " another, or for their own last update, they do not hold what the server has, so it cannot take"
                    " what one of them writes. Use a strategy in which they wait, such as parameter-server, or keep"
                    " what is written in a buffer"
                )
            memory.when_readable(memory.values(unit.segments), partial(self._assign, choice, step))

        def push() -> None:
            (send,) = self._machine.ready(unit.index, step)
            assert isinstance(send, Send)
            if unit.phases:
                leave = partial(self._begin, choice, send, mask)
                self._later.put(unit.index, step, leave, hurry=self._hurries(self._size(choice, send)))
                return
            parts = memory.gradients(present(unit, mask))
            leave = partial(self._push, choice, send, parts, mask)
            if choice.lossless:
                leave(hurry=self._hurries(sum(part.nbytes for part in parts)))
            else:
                most = unit.message_bytes(choice.layer.encoding, 0, unit.count)
                self._later.put(unit.index, step, leave, hurry=self._hurries(most))

        memory.when_gradients_are_readable(unit, push)

    def _hurries(self, size: int) -> bool:
        return not self._at_once or size > LIGHT_BYTES

    def _push(
        self, choice: Choice, send: Send, parts: list[Tensor], mask: bytes, *, hurry: bool = True
    ) -> None:
        """This worker's gradients leave: in its training thread as they are, by its lane encoded."""
        with self._context.recording.encoding(choice, send.step):
            encoded = self._codecs[send.unit].encode(parts, places(choice.unit, mask))
        self._send(choice, send, [as_bytes(part) for part in encoded], mask, hurry=hurry)

    def _begin(self, choice: Choice, send: Send, mask: bytes) -> None:
        """By its lane: what is summed first of a unit with phases leaves. Absent gradients travel as zeros."""
        memory, segments = self._context.memory, choice.unit.segments
        memory.sums(segments)
        self._phases.begin(choice, send.step, memory.gradients(segments))
        self._push_numbers(choice, send, mask)

    def _push_numbers(self, choice: Choice, send: Send, mask: bytes) -> None:
        payload = [as_bytes(self._phases.numbers(choice, send.start, send.stop))]
        self._send(choice, send, payload, mask, hurry=self._hurries(self._size(choice, send)))

    def _size(self, choice: Choice, send: Send) -> int:
        return DTYPE_BYTES[choice.unit.dtype] * (send.stop - send.start)

    def _assign(self, choice: Choice, step: int, values: list[Tensor]) -> None:
        """Every worker says what it has written, and worker 0 sends it."""
        unit = choice.unit
        assert unit.shard is not None
        payload = [as_bytes(value) for value in values] if self._context.rank == 0 else []
        home = self._context.shard_party(unit.shard)
        self._send(choice, Send((home,), Message.ASSIGN, unit.index, step), payload, packed(values))

    def backward_ended(self) -> None:
        self._context.endpoint.nudge()

    def finished(self, steps: int) -> None:
        self._send_all(self._machine.finished(steps))

    def join(self, clock: int) -> None:
        """This worker was lost, and contributes again from step `clock` on; the answers for that step come."""
        self._send_all(self._machine.joins(clock))

    def state(self) -> dict[str, Tensor]:
        """See `Resumes`."""
        return states_of(self._remembering)

    def load(self, state: Mapping[str, Tensor], step: int) -> None:
        """See `Resumes`."""
        load_states(self._remembering, state)
        self._machine.begin_at(step)

    def versions(self) -> list[int]:
        """Of every unit: how many updates what is here has seen."""
        return self._machine.versions()

    def place(self, header: Header) -> list[memoryview] | None:
        choice = self._context.choices[header.unit]
        if header.kind != Message.ANSWER or header.payload_bytes == 0 or _says_difference(choice, header):
            return None
        memory, unit = self._context.memory, choice.unit
        if unit.phases:
            return [as_bytes(self._phases.numbers(choice, *self._machine.span(unit.index, header.part)))]
        if choice.flow.answer == "parameters":
            return memory.landing_places(unit)
        if not choice.lossless:
            return None
        return [as_bytes(p) for p in memory.sums(present(unit, header.meta))]

    def handle(self, header: Header, payload: Payload) -> None:
        if header.kind == Message.ENCODE:
            self._later.do_next(header.unit)
            return
        if header.kind == Message.NOTIFY:
            self._send_all(self._machine.notified(header.unit, header.step))
            return
        choice = self._context.choices[header.unit]
        for instruction in self._machine.answered(
            header.unit, header.step, header.part * bool(choice.unit.phases)
        ):
            if isinstance(instruction, Put):
                self._put(choice, instruction, header, payload)
            elif isinstance(instruction, GoOn):
                self._phases.go_on(choice, instruction.step, instruction.phase)
            elif isinstance(instruction, Send):
                self._push_numbers(choice, instruction, header.meta)
            else:
                assert isinstance(instruction, Advance)
                self._context.versions.advance(instruction.unit, instruction.clock)

    def finish(self, unit: Unit, step: int) -> None:
        """Nothing is left to compute."""

    def missing(self, unit: Unit) -> str:
        assert unit.shard is not None
        return f"no answer from {self._context.party_name(self._context.shard_party(unit.shard))}"

    def close(self) -> None:
        """Nothing is held."""

    def _put(self, choice: Choice, put: Put, header: Header, payload: Payload) -> None:
        """The answer is there: parameters, what they have moved by, or the sum of the step."""
        memory, unit = self._context.memory, choice.unit
        installed = partial(self._machine.installed, unit.index, header.version)
        if _says_difference(choice, header):
            with self._context.recording.coding(Kind.DECODE, choice, header.step):
                codec, dtype = self._answers[unit.index], getattr(torch, unit.dtype)
                moved = moved_by(codec, payload, unit.count, dtype)
            memory.land_difference(unit, moved, installed)
            return
        if choice.flow.answer == "parameters":
            memory.land(unit, payload, installed)
            return
        if unit.phases and payload is not None:
            self._phases.numbers(choice, put.start, put.stop).copy_(
                as_tensor(payload, getattr(torch, unit.dtype))
            )
        if put.part + 1 < len(unit.phases):
            return
        installed()
        segments = present(unit, header.meta)
        if unit.phases:
            gradients = memory.sums(unit.segments)
            self._phases.end(
                choice, put.step, gradients, [has(header.meta, k) for k in range(len(gradients))]
            )
        elif payload is not None and segments:
            with self._context.recording.decoding(choice, header.step):
                self._codecs[unit.index].decode(payload, memory.sums(segments))
        memory.drop_gradients(set(unit.segments) - set(segments))
        memory.sums_written(unit, segments)

    def _send_all(self, found: Iterable[Instruction]) -> None:
        """What has no content."""
        for instruction in found:
            assert isinstance(instruction, Send)
            assert instruction.content is Content.NOTHING
            choice = self._context.choices[instruction.unit]
            leave = partial(self._send, choice, instruction, [], b"")
            self._later.behind(instruction.unit, instruction.step, leave)

    def _send(
        self, choice: Choice, send: Send, payload: list[memoryview], meta: bytes, *, hurry: bool = True
    ) -> None:
        context = self._context
        header = choice.header(
            send.kind,
            send.step,
            origin=context.endpoint.index,
            lane=Lane.SERVER,
            queued_ns=context.recording.now_ns(),
            payload=payload,
            part=send.part,
            version=send.version,
            meta=meta,
        )
        for peer in send.peers:
            context.endpoint.send(peer, header, payload, hurry=hurry)


def _says_difference(choice: Choice, header: Header) -> bool:
    """Whether an answer says what the parameters have moved by, and not (`part` 1) the parameters."""
    return choice.answers_differences and not header.part


def _served(context: Surroundings, choice: Choice) -> ServedUnit:
    unit = choice.unit
    assert unit.shard is not None
    home = context.shard_party(unit.shard)
    return ServedUnit(unit.layers[0], unit.summed, home, returns_of(choice.layer))
