"""peers: no common point. Every worker sends its own updates to all others as they come, and adds theirs to its own
parameters: `protocol/peers.py`, carried out with tensors.

Update rule: u = decode(encode(what this worker has changed, and what was not sent of it before)); u is added here and
on every other worker, each when it next may: a unit is constant within a step. So when nothing is under way every
worker holds what all began with and the sum of all that was sent, to the rounding of sums of another order.
Bytes: each worker sends (n-1) messages of each unit in a step, as long as its codec makes them: with a codec that is
sparse a small part of what servers or a ring move, with fp32 n/2 times the bytes of a ring. A message is encoded once.
Memory: one element for each of a unit's while updates of others wait to be added.
Loses with many workers, since everybody sends to everybody, and wherever an update is not sparse. What a worker that
is lost had sent to some and not to others stays a difference between these.
Source: papers 001 (decentralized asynchronous SGD), after Strom 2015. Deviation: a worker that is more than a few of
its own updates ahead of a link waits for it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from functools import partial

import torch
from torch import Tensor

from engine.exchange.base import Surroundings
from engine.exchange.later import Later
from engine.plan.units import Unit
from engine.protocol.errors import OutOfStepError
from engine.protocol.instructions import Add, Advance, Content, Drop, Instruction, Send
from engine.protocol.messages import Lane, Message, Payload
from engine.protocol.peers import Peers
from engine.state.choice import Choice
from engine.state.host_memory import has, places, present
from engine.tensor_bytes import as_bytes, joined, kept
from engine.transport.message import Header


class PeersExchange:
    """Everybody's updates to everybody, whenever they come."""

    kinds: tuple[Message, ...] = (Message.UPDATE, Message.FINISH, Message.LOST, Message.ENCODE)

    def __init__(self, context: Surroundings) -> None:
        self._context = context
        self._machine = Peers(
            rank=context.rank,
            workers=context.workers,
            counts={index: choice.unit.count for index, choice in context.choices.items()},
        )
        self._lock = threading.Lock()
        """Around the machine: updates are ready in the training or the lane's thread, come in that, leave in the I/O
        thread."""
        sender = f"worker {context.rank}"
        self._codecs = {index: choice.codec(sender) for index, choice in context.choices.items()}
        self._later = Later(context.endpoint, context.rank, context.choices, context.recording)
        self._coming: dict[int, list[Tensor]] = {}
        """By unit: the sum of the others' updates that wait to be added, segment by segment."""
        self._adding = threading.Lock()
        """Around that, and what the machine knows of it: they are added where the lane's messages are handled, and the
        training thread takes them. Taken before `_lock`, never within it."""

    def begin_step(self, step: int) -> None:
        """Nothing to ask for."""

    def start(self, unit: Unit, step: int) -> None:
        memory, mask = self._context.memory, self._context.memory.mask(unit, step)
        leave = partial(self._leave, unit, step, mask)
        if not self._context.choices[unit.index].lossless:
            leave = partial(self._later.put, unit.index, step, leave)
        memory.when_gradients_are_readable(unit, leave)

    def _leave(self, unit: Unit, step: int, mask: bytes) -> None:
        """Encode what this worker has changed once for all; here, too, it is what a message says of it."""
        context, codec = self._context, self._codecs[unit.index]
        choice, segments = context.choices[unit.index], present(unit, mask)
        with context.recording.encoding(choice, step):
            changes = context.memory.gradients(segments)
            encoded = codec.encode(changes, places(unit, mask))
            payload = joined([as_bytes(tensor) for tensor in encoded])
            if len(encoded) == 1 and any(encoded[0].data_ptr() == change.data_ptr() for change in changes):
                payload = kept(payload)  # others' updates are about to be added to this memory
            codec.decode(payload, context.memory.sums(segments))
        context.memory.sums_written(unit, segments)
        self._tell(lambda: self._machine.ready(unit.index, step), payload, mask)

    def backward_ended(self) -> None:
        """Nothing waits."""

    def finished(self, steps: int) -> None:
        self._tell(lambda: self._machine.finished(steps))

    def place(self, header: Header) -> None:
        """Updates come in scratch buffers: they are added at once."""

    def handle(self, header: Header, payload: Payload) -> None:
        """Raises RuntimeError for what is out of step."""
        if header.kind == Message.ENCODE:
            self._later.do_next(header.unit)
        elif header.kind == Message.LOST:
            self._context.lost(header.part, self.contributed()[header.part], header.meta.decode())
            self._tell(lambda: self._machine.lost(header.part))
        elif header.kind == Message.FINISH:
            self._tell(lambda: self._machine.peer_finished(header.unit, header.origin, header.step + 1))
        else:
            try:
                with self._lock:
                    (found,) = self._machine.arrived(header.unit, header.step, header.origin)
            except OutOfStepError as error:
                raise RuntimeError(str(error)) from error
            self._take(self._context.choices[header.unit], found, header, payload)

    def _take(self, choice: Choice, found: Instruction, header: Header, payload: Payload) -> None:
        if isinstance(found, Drop):
            self._context.recording.dropped(choice, found.step, found.origin, found.reason)
            return
        assert isinstance(found, Add)
        unit, start_ns = choice.unit, self._context.recording.now_ns()
        with self._adding:
            if unit.index not in self._coming:
                dtype: torch.dtype = getattr(torch, unit.dtype)
                self._coming[unit.index] = [torch.zeros(s.count, dtype=dtype) for s in unit.segments]
            parts = [part for at, part in enumerate(self._coming[unit.index]) if has(header.meta, at)]
            self._codecs[unit.index].decode_add(payload or memoryview(b""), parts)
            with self._lock:
                then = self._machine.added(unit.index, found.step, found.origin, header.version)
        self._context.recording.reduced(choice, found.step, found.origin, start_ns)
        self._carry_out(then)

    def finish(self, unit: Unit, step: int) -> None:
        """What others have sent by now is added to what this worker has."""
        sums = self._context.memory.device_gradients(unit.segments)
        with self._adding:
            coming = self._coming.pop(unit.index, [])
            with (
                self._lock
            ):  # of what is added from now on the numbers wait for the next step, and so does the word
                parts = self._machine.taken(unit.index)
        for part, more in zip(sums, coming, strict=False):  # nothing may have come
            part.add_(more.to(part.device))
        self._context.recording.applied_late(self._context.choices[unit.index], parts)

    def missing(self, unit: Unit) -> str:
        with self._lock:
            awaited = self._machine.awaited(unit.index)
        names = ", ".join(self._context.party_name(peer) for peer in awaited)
        return (
            f"{names} took none of this worker's updates, or did not end" if names else "its own is not ready"
        )

    def contributed(self) -> dict[int, int]:
        """By worker that this one has heard of: how many of its steps have come."""
        with self._lock:
            return self._machine.contributed()

    def versions(self) -> list[int]:
        """Of every unit: how many updates what is here has seen, this worker's own included."""
        with self._lock:
            return self._machine.versions()

    def close(self) -> None:
        """Nothing is held."""

    def _left(self, unit: int, peer: int) -> None:
        """In the I/O thread."""
        self._tell(lambda: self._machine.sent(unit, peer))

    def _tell(
        self, event: Callable[[], Iterable[Instruction]], payload: Payload = None, mask: bytes = b""
    ) -> None:
        """Let the machine know, and do what it says."""
        with self._lock:
            found = event()
        self._carry_out(found, payload, mask)

    def _carry_out(self, found: Iterable[Instruction], payload: Payload = None, mask: bytes = b"") -> None:
        """Other threads carry out what later events lead to meanwhile: so a unit may go on before the update that lets
        it has been handed to the endpoint. That does no harm: its payload is its own memory, and nobody closes before
        all have said that they are done, which a peer does not before it has added as many updates as this worker's
        last message announces. Nor do versions go back where two are told in the other order (`Versions.advance`)."""
        for instruction in found:
            if isinstance(instruction, Send):
                self._send(instruction, payload, mask)
            else:
                assert isinstance(instruction, Advance)
                self._context.versions.advance(instruction.unit, instruction.clock)

    def _send(self, send: Send, payload: Payload, mask: bytes) -> None:
        context, choice = self._context, self._context.choices[send.unit]
        content = [] if payload is None or send.content is Content.NOTHING else [payload]
        header = choice.header(
            send.kind,
            send.step,
            origin=context.endpoint.index,
            lane=Lane.WORKER,
            queued_ns=context.recording.now_ns(),
            payload=content,
            version=send.version,
            meta=mask,
        )
        for peer in send.peers:
            left = partial(self._left, send.unit, peer) if send.kind == Message.UPDATE else None
            context.endpoint.send(peer, header, content, left)
