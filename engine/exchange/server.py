"""The worker's side of the server exchanges: `central-reducer` (one shard) and `parameter-server` (N shards).

A unit's gradient is pushed to its shard; the answer is the updated parameters (update on the server) or the
summed gradient (update on the worker). How the answer returns is the plan's: pushed at once, pulled after the
notification of every part of the layer (papers 004, section 4.1), or pulled when the next forward begins. Where the
server updates, and the model has written to the parameters itself, what it wrote goes ahead of the gradient.
The other side is `shard.py`.
"""

from __future__ import annotations

from collections import defaultdict
from functools import partial

from torch import Tensor

from engine.exchange.base import Choice, Context
from engine.plan.units import Unit
from engine.runtime.checksum import packed
from engine.runtime.host_memory import as_bytes, as_tensor, present
from engine.runtime.messages import Lane, Message, Payload
from engine.transport.message import Header


class ServerExchange:
    """Push to the shard, take its answer."""

    kinds: tuple[Message, ...] = (Message.NOTIFY, Message.ANSWER)

    def __init__(self, context: Context) -> None:
        self._context = context
        self._of_layer: dict[str, list[Unit]] = defaultdict(list)
        for choice in context.choices.values():
            self._of_layer[choice.unit.layers[0]].append(choice.unit)
        self._notified: dict[str, set[int]] = defaultdict(set)
        self._pulled = 0

    def begin_step(self, step: int) -> None:
        if step <= self._pulled:  # nothing to pull yet, or an evaluation has pulled it already
            return
        self._pulled = step
        for choice in self._context.choices.values():
            if choice.layer.order.returns == "deferred-pull":
                self._pull(choice, step - 1)

    def start(self, unit: Unit, step: int) -> None:
        choice = self._context.choices[unit.index]
        memory = self._context.memory
        mask = memory.mask(unit, step)
        if choice.layer.update == "server" and self._context.written(unit):
            memory.when_readable(memory.values(unit.segments), partial(self._assign, choice, step))

        def push() -> None:
            parts = memory.gradients(present(unit, mask))
            with self._context.recording.encoding(choice, step):
                payload = choice.codec.encode(parts)
            self._send(choice, Message.PUSH, step, [as_bytes(p) for p in payload], mask)

        memory.when_gradients_are_readable(unit, push)

    def _assign(self, choice: Choice, step: int, values: list[Tensor]) -> None:
        """Every worker says what it has written, and worker 0 sends it."""
        meta = packed(values)
        payload = [as_bytes(value) for value in values] if self._context.rank == 0 else []
        self._send(choice, Message.ASSIGN, step, payload, meta)

    def place(self, header: Header) -> list[memoryview] | None:
        choice = self._context.choices[header.unit]
        if header.kind != Message.ANSWER or header.payload_bytes == 0:
            return None
        memory, unit = self._context.memory, choice.unit
        if choice.layer.update == "server":
            return memory.landing_places(unit)
        if not choice.lossless:
            return None
        return [as_bytes(p) for p in memory.sums(present(unit, header.meta))]

    def handle(self, header: Header, payload: Payload) -> None:
        choice = self._context.choices[header.unit]
        if header.kind == Message.NOTIFY:
            self._on_notify(choice, header.step)
            return
        memory, unit = self._context.memory, choice.unit
        if choice.layer.update == "server":
            memory.land(unit, payload)
        else:
            segments = present(unit, header.meta)
            if payload is not None and segments:
                with self._context.recording.decoding(choice, header.step):
                    parts = memory.sums(segments)
                    choice.codec.decode(as_tensor(payload, choice.codec.wire_dtype(parts[0].dtype)), parts)
            memory.drop_gradients(set(unit.segments) - set(segments))
            memory.sums_written(unit, segments)
        self._context.versions.advance(unit.index, header.step + 1)

    def finish(self, unit: Unit, step: int) -> None:
        """Nothing is left to compute."""

    def missing(self, unit: Unit) -> str:
        assert unit.shard is not None
        return f"no answer from {self._context.party_name(self._context.shard_party(unit.shard))}"

    def close(self) -> None:
        """Nothing is held."""

    def _on_notify(self, choice: Choice, step: int) -> None:
        """Pull a layer when every part of it has been updated."""
        layer = choice.unit.layers[0]
        notified = self._notified[layer]
        notified.add(choice.unit.index)
        if len(notified) == len(self._of_layer[layer]):
            notified.clear()
            for unit in self._of_layer[layer]:
                self._pull(self._context.choices[unit.index], step)

    def _pull(self, choice: Choice, step: int) -> None:
        self._send(choice, Message.PULL, step, [], b"")

    def _send(self, choice: Choice, kind: Message, step: int, payload: list[memoryview], meta: bytes) -> None:
        context, unit = self._context, choice.unit
        assert unit.shard is not None
        header = Header(
            kind=kind,
            lane=Lane.SERVER,
            origin=context.endpoint.index,
            step=step,
            unit=unit.index,
            layer=choice.layer_index,
            priority=choice.priority(step),
            queued_ns=context.recording.now_ns(),
            payload_bytes=sum(map(len, payload)),
            meta=meta,
        )
        context.endpoint.send(context.shard_party(unit.shard), header, payload)
