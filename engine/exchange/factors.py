"""factors: late-multiply. Every worker sends a layer's inputs X and error derivatives E to every other, and multiplies
what all have sent (papers 000, section 2.1, Algorithm 2). The literature calls X and E sufficient factors, and this
exchange sufficient factor broadcasting.

    grad W = sum_r E_r^T X_r = E^T X,  grad b = sum over the rows of E
    X (rows of all workers, inputs), E (rows of all workers, outputs), stacked in the order of the ranks

Bytes: each worker sends (n-1) M (N+K) elements and receives as many, for M rows of N inputs and K outputs of
its own; 2 (n-1)/n N K as a gradient around a ring. Computing: every worker multiplies all rows, n times what it
saved in backward, and does so just before it updates the layer, in the training thread: on a GPU that is in
line with the layers, and on a processor it takes the time that an earlier product would take from them. Memory:
factors of all workers until then, but no gradient of the weight during backward.

Loses where a step has more than about 2 N K / (N+K) rows over all workers
(`engine.plan.traffic.factors_against_gradient`), and where multiplying n times takes longer than sending the
gradient.

Messages are tagged (unit, step, origin) and say how many rows they have and in which type, so that workers may have
different numbers of rows (uneven batches, sentences of different lengths, layers that some did not use), and ranks may
start layers in any order. A codec that rounds, rounds each factor once, a worker's own as well; a power of two brings E
near 1 before, because derivatives that were divided by a large batch are below what half precision can tell from zero.
Sums have one order, so replicas stay equal bit for bit where all multiply alike; on unlike processors they differ as
sums of another order do.

A worker whose gradient of a step is not its factors (`engine/state/capture.py`) sends the gradient itself to every
other, (n-1) N K elements. Everybody takes both: the products first, then the gradients, in the order of the ranks.

Deviations: the paper averages; our derivatives are divided by the global batch already. It multiplies n times
and adds up; we multiply the stacked matrices once. Its Algorithm 1, which reduces gradients to worker 0 and
broadcasts them, is `central-reduce` with `update: worker`.
"""

from __future__ import annotations

import math
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from engine.checkpoint.part import nested, parted
from engine.codec.base import UnitCodec, beginnings
from engine.exchange.base import Surroundings
from engine.exchange.later import Later
from engine.models.late_linear import Present
from engine.plan.units import Unit
from engine.protocol.errors import OutOfStepError
from engine.protocol.gathered import Gathered
from engine.protocol.instructions import Advance, Instruction, Send
from engine.protocol.messages import Lane, Message, Payload
from engine.state.capture import Capture
from engine.state.choice import Choice
from engine.tensor_bytes import as_bytes, joined
from engine.transport.message import Header

_META = struct.Struct("<BIh")
"""Whose gradients the factors stand for (bit i: the layer's i-th trained parameter), rows, and the power of two that E
was multiplied by. The name of the factors' type follows. Of a gradient, whose it is alone."""
_MOST_POWER = 120
"""So that float32 knows the power of two and its inverse."""


@dataclass(frozen=True, kw_only=True)
class _Factors:
    """One worker's factors as they travel: row after row, encoded."""

    present: Present
    rows: int
    power: int
    dtype: torch.dtype
    inputs: memoryview
    errors: memoryview


@dataclass(frozen=True, kw_only=True)
class _Whole:
    """One worker's gradient as it travels: one present parameter after the other, encoded."""

    present: Present
    flat: memoryview


class FactorsExchange:
    """Everybody's factors to everybody."""

    kinds: tuple[Message, ...] = (Message.FACTORS, Message.WHOLE_GRADIENT, Message.ENCODE)

    def __init__(self, context: Surroundings) -> None:
        self._context = context
        self._lock = threading.Lock()
        self._codecs: dict[tuple[int, str], UnitCodec] = {}
        """By unit and the name of the type in which its factors travel."""
        self._machine = Gathered(rank=context.rank, workers=context.workers)
        self._parts: dict[tuple[int, int], dict[int, _Factors | _Whole]] = {}
        """By unit and step, then by rank: who is ahead may already send the next step's. Under the lock: own parts come
        from the training or a staging thread, those that are encoded and the others' from the lane's."""
        self._later = Later(context.endpoint, context.rank, context.choices, context.recording)
        self._landing: dict[tuple[int, int, int], Tensor] = {}
        """By unit, step and origin: where a message is being received."""

    def _codec(self, unit: int, dtype: torch.dtype) -> UnitCodec:
        """Factors travel in the type in which the layer computes. What is remembered of a unit's elements has no
        meaning for theirs."""
        key = unit, str(dtype).removeprefix("torch.")
        found = self._codecs.get(key)
        if found is None:
            sender = f"worker {self._context.rank}"
            found = self._codecs.setdefault(key, self._context.choices[unit].codec_of(dtype, sender))
        return found

    def state(self) -> dict[str, Tensor]:
        """See `Resumes`."""
        return nested({f"{unit}/{dtype}": codec.state() for (unit, dtype), codec in self._codecs.items()})

    def load(self, state: Mapping[str, Tensor], step: int) -> None:
        """See `Resumes`; messages say their step themselves."""
        for unit, by_dtype in parted(state).items():
            for dtype, held in parted(by_dtype).items():
                self._codec(int(unit), getattr(torch, dtype)).load(held)

    def begin_step(self, step: int) -> None:
        """Nothing to ask for."""

    def start(self, unit: Unit, step: int) -> None:
        """Send what the worker has of the layer's gradient, whatever there is, nothing included."""
        context, choice = self._context, self._context.choices[unit.index]
        context.memory.leaves(unit)
        found = context.captures[unit.index].take(step)
        leave: Callable[[Choice, int, Present, Sequence[Tensor]], None]
        if found.factors is not None:
            tensors, leave = list(found.factors), self._leave
        else:
            tensors, leave = [gradient.view(-1) for gradient in found.gradients], self._leave_whole

        def readable(copies: Sequence[Tensor]) -> None:
            go = partial(leave, choice, step, found.present, copies)
            if choice.lossless:
                go()
            else:
                self._later.put(unit.index, step, go)

        context.memory.when_readable(tensors, readable)

    def backward_ended(self) -> None:
        """Nothing waits."""

    def finished(self, steps: int) -> None:
        """All workers have the same already."""

    def place(self, header: Header) -> list[memoryview] | None:
        """A buffer of its own: the message is needed until all others are there."""
        if header.payload_bytes == 0:
            return None
        buffer = torch.empty(header.payload_bytes, dtype=torch.uint8)
        self._landing[header.unit, header.step, header.origin] = buffer
        return [as_bytes(buffer)]

    def handle(self, header: Header, payload: Payload) -> None:
        if header.kind == Message.ENCODE:
            self._later.do_next(header.unit)
            return
        choice = self._context.choices[header.unit]
        received = self._landing.pop((header.unit, header.step, header.origin), None)
        if received is None:
            received = torch.empty(0, dtype=torch.uint8)
        read = self._factors if header.kind == Message.FACTORS else self._whole
        key, part = (header.unit, header.step), read(choice, header, received)
        try:
            with self._lock:
                found = self._machine.arrived(*key, header.origin)
                self._parts.setdefault(key, {})[header.origin] = part
        except OutOfStepError as error:
            raise RuntimeError(str(error)) from error
        self._advance(found)

    def _factors(self, choice: Choice, header: Header, received: Tensor) -> _Factors:
        capture = self._context.captures[header.unit]
        mask, rows, power = _META.unpack_from(header.meta)
        name, encoding = header.meta[_META.size :].decode(), choice.layer.encoding
        inputs, errors = (encoding.bytes(name, rows * n) for n in (capture.inputs, capture.outputs))
        _expect(header, received, inputs + errors)
        whole = as_bytes(received)
        return _Factors(
            present=_present(mask, capture),
            rows=rows,
            power=power,
            dtype=getattr(torch, name),
            inputs=whole[:inputs],
            errors=whole[inputs:],
        )

    def _whole(self, choice: Choice, header: Header, received: Tensor) -> _Whole:
        capture = self._context.captures[header.unit]
        present = _present(header.meta[0], capture)
        elements = sum(capture.elements(present))
        _expect(header, received, choice.layer.encoding.bytes(choice.unit.dtype, elements))
        return _Whole(present=present, flat=as_bytes(received))

    def finish(self, unit: Unit, step: int) -> None:
        """Multiply, and add: the unit's gradients are there afterwards."""
        context = self._context
        choice, capture = context.choices[unit.index], context.captures[unit.index]
        with self._lock:
            found = self._parts.pop((unit.index, step))
        parts = [found[rank] for rank in range(context.workers)]
        products = [part for part in parts if isinstance(part, _Factors) and any(part.present)]
        start = context.recording.mark()
        for present in dict.fromkeys(part.present for part in products):  # mostly alike on all workers
            self._multiply(unit.index, capture, [part for part in products if part.present == present])
        for part in parts:
            if isinstance(part, _Whole):
                gradients = [torch.empty(n, dtype=capture.dtype) for n in capture.elements(part.present)]
                self._codec(unit.index, capture.dtype).decode(part.flat, gradients)
                capture.add(gradients, part.present)
        context.recording.multiplied(choice.layer_index, start)

    def _multiply(self, unit: int, capture: Capture, parts: Sequence[_Factors]) -> None:
        """Add the product of these workers' factors to the gradients that they stand for."""
        rows = [part.rows for part in parts]
        # Pinned, so that the way up to the device overlaps what it computes.
        pinned = self._context.device.startswith("cuda")
        inputs = torch.empty(sum(rows), capture.inputs, dtype=capture.dtype, pin_memory=pinned)
        errors = torch.empty(sum(rows), capture.outputs, dtype=capture.dtype, pin_memory=pinned)
        for part, x, e in zip(parts, inputs.split(rows), errors.split(rows), strict=True):
            codec = self._codec(unit, part.dtype)
            codec.decode(part.inputs, [x.view(-1)])
            codec.decode(part.errors, [e.view(-1)])
            if part.power:
                e.mul_(2.0**-part.power)
        capture.multiply(inputs, errors, parts[0].present)

    def missing(self, unit: Unit) -> str:
        with self._lock:
            steps = [step for index, step in self._parts if index == unit.index]
            there = self._parts[unit.index, min(steps)].keys() if steps else set()
            late = [rank for rank in range(self._context.workers) if rank not in there]
        return "factors are missing from " + ", ".join(self._context.party_name(rank) for rank in late)

    def close(self) -> None:
        """Nothing is held."""

    def _leave(self, choice: Choice, step: int, present: Present, factors: Sequence[Tensor]) -> None:
        """X and E are readable on the host. They stay as they are: nothing writes to them until they have left. As they
        are they leave from the training thread, encoded from the lane's."""
        rows, power, dtype = len(factors[0]), 0, factors[0].dtype
        with self._context.recording.encoding(choice, step):
            inputs, errors = (factor.view(-1) for factor in factors)
            if not choice.lossless:
                power = _power(errors)
                errors = errors * 2.0**power
            x, e = (self._encoded(choice.unit.index, [flat]) for flat in (inputs, errors))
        meta = _META.pack(_mask(present), rows, power) + str(dtype).removeprefix("torch.").encode()
        part = _Factors(present=present, rows=rows, power=power, dtype=dtype, inputs=x, errors=e)
        self._ready(choice, step, part, Message.FACTORS, [x, e], meta)

    def _leave_whole(self, choice: Choice, step: int, present: Present, gradients: Sequence[Tensor]) -> None:
        """As `_leave`, of the gradients of those that are `present`, each 1-D."""
        with self._context.recording.encoding(choice, step):
            flat = self._encoded(choice.unit.index, gradients) if gradients else memoryview(b"")
        part = _Whole(present=present, flat=flat)
        self._ready(choice, step, part, Message.WHOLE_GRADIENT, [flat], bytes([_mask(present)]))

    def _encoded(self, unit: int, parts: Sequence[Tensor]) -> memoryview:
        codec = self._codec(unit, parts[0].dtype)
        return joined([as_bytes(tensor) for tensor in codec.encode(parts, beginnings(parts))])

    def _ready(
        self,
        choice: Choice,
        step: int,
        part: _Factors | _Whole,
        kind: Message,
        payload: Sequence[memoryview],
        meta: bytes,
    ) -> None:
        """This rank's part is there, and travels as `payload`."""
        key = choice.unit.index, step
        with self._lock:
            found = self._machine.ready(*key)
            self._parts.setdefault(key, {})[self._context.rank] = part
        for instruction in found:
            if isinstance(instruction, Send):
                self._send(choice, step, instruction.peers, kind, payload, meta)
        self._advance(found)

    def _advance(self, found: Sequence[Instruction]) -> None:
        for instruction in found:
            if isinstance(instruction, Advance):
                self._context.versions.advance(instruction.unit, instruction.clock)

    def _send(
        self,
        choice: Choice,
        step: int,
        peers: Sequence[int],
        kind: Message,
        payload: Sequence[memoryview],
        meta: bytes,
    ) -> None:
        context = self._context
        header = choice.header(
            kind,
            step,
            origin=context.endpoint.index,
            lane=Lane.WORKER,
            queued_ns=context.recording.now_ns(),
            payload=payload,
            meta=meta,
        )
        for peer in peers:
            context.endpoint.send(peer, header, payload)


def _mask(present: Present) -> int:
    return sum(1 << index for index, there in enumerate(present) if there)


def _present(mask: int, capture: Capture) -> Present:
    return tuple(bool(mask >> index & 1) for index in range(len(capture.parameters)))


def _expect(header: Header, received: Tensor, size: int) -> None:
    """Raises RuntimeError where a message is not as long as it says."""
    if len(received) != size:
        raise RuntimeError(
            f"worker {header.origin} sent {len(received)} bytes of unit {header.unit} where {size} were expected"
        )


def _power(errors: Tensor) -> int:
    """k for which the largest of 2^k `errors` (1-D) is between 1/2 and 1; 0 where there is nothing to lift."""
    most = float(errors.abs().max()) if len(errors) else 0.0
    return max(-_MOST_POWER, min(-math.frexp(most)[1], _MOST_POWER))
