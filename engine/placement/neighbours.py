"""A stage's neighbours in a pipeline: activations come from the one before it and go to the next, gradients the other
way. Each kind is numbered by the sender and taken in that order."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence

from torch import Tensor

from engine.coordination.arrivals import Arrivals
from engine.launch import PATIENCE_S
from engine.placement.edge_codec import EdgeCodec
from engine.placement.pieces import Room, edge_header
from engine.protocol.messages import Lane, Message, Payload
from engine.state.choice import Choice
from engine.state.recording import Recording
from engine.transport.endpoint import Endpoint
from engine.transport.message import Header


def patience(stage: int, stages: int) -> dict[Message, float]:
    """How much longer than the deadline a stage waits for each kind, in seconds. Where one stage hangs all wait, each
    for the next one: its neighbours, which alone wait for it, are to speak first."""
    return {
        Message.ACTIVATION: PATIENCE_S * (stage + 1),
        Message.ACTIVATION_GRADIENT: PATIENCE_S * (stages - stage),
    }


class Neighbours:
    """Both ends of this stage's edges. Used by one thread; messages come in another."""

    kinds = (Message.ACTIVATION, Message.ACTIVATION_GRADIENT)

    def __init__(
        self,
        *,
        before: Choice | None,
        behind: Choice | None,
        patience_s: Mapping[Message, float],
        names: Sequence[str],
        endpoint: Endpoint,
        recording: Recording,
        deadline_s: float,
    ) -> None:
        """`before`, `behind`: the edges to the party before this one and to the one after it, where there are.
        `patience_s`: see `patience`."""
        self._codecs = {
            choice.unit.index: EdgeCodec(choice, f"party {endpoint.index}", recording)
            for choice in (before, behind)
            if choice is not None
        }
        self._before = before
        self._behind = behind
        self._patience_s = patience_s
        self._names = names
        self._endpoint = endpoint
        self._recording = recording
        self._sent: Counter[Message] = Counter()
        self._taken: Counter[Message] = Counter()
        self._room = Room()
        self._arrived: Arrivals[tuple[Message, int], Tensor | None] = Arrivals(deadline_s)
        self.fail = self._arrived.fail

    def place(self, header: Header) -> list[memoryview]:
        return self._room.place(header)

    def handle(self, header: Header, payload: Payload) -> None:
        received = self._room.take(header, payload)
        if received is not None:
            received = self._codecs[header.unit].decode(header, received, json.loads(header.meta)["shape"])
        self._arrived.put((Message(header.kind), header.part), received)

    def send_on(self, activation: Tensor | None, *, training: bool) -> None:
        """Hand the next stage what it computes on; None where a micro-batch has no samples."""
        assert self._behind is not None
        self._send(Message.ACTIVATION, self._behind, +1, activation, training=training)

    def send_back(self, gradient: Tensor) -> None:
        """Hand the stage before this one the gradient of what it sent."""
        assert self._before is not None
        self._send(Message.ACTIVATION_GRADIENT, self._before, -1, gradient, training=True)

    def activation(self, *, training: bool) -> Tensor | None:
        """The next one from the stage before, on the host."""
        assert self._before is not None
        return self._take(Message.ACTIVATION, self._before, -1, training=training)

    def gradient(self, of: Tensor) -> Tensor:
        """The next one from the stage behind, with the type and place of the activation that it is `of`."""
        assert self._behind is not None
        found = self._take(Message.ACTIVATION_GRADIENT, self._behind, +1, training=True)
        assert found is not None
        return found.to(of)

    def _send(
        self, kind: Message, choice: Choice, where: int, tensor: Tensor | None, *, training: bool
    ) -> None:
        payload: list[memoryview] = []
        meta, step = b"", self._recording.step if training else -1
        if tensor is not None:
            payload = self._codecs[choice.unit.index].encode(tensor, step)
            meta = json.dumps({"shape": list(tensor.shape)}).encode()
        header = edge_header(
            choice,
            kind,
            Lane.WORKER,
            origin=self._endpoint.index,
            step=step,
            turn=self._sent[kind],
            now_ns=self._recording.now_ns(),
            payload=payload,
            meta=meta,
        )
        self._sent[kind] += 1
        self._endpoint.send(self._endpoint.index + where, header, payload)

    def _take(self, kind: Message, choice: Choice, where: int, *, training: bool) -> Tensor | None:
        key = kind, self._taken[kind]
        start_ns, waits = self._recording.now_ns(), key not in self._arrived
        what = "activations for" if kind == Message.ACTIVATION else "gradients from"
        found = self._arrived.take(
            key,
            f"{what} {choice.unit.layers[0]} did not arrive within {self._arrived.deadline_s:.0f} s from"
            f" {self._names[self._endpoint.index + where]}",
            self._patience_s[kind],
        )
        self._taken[kind] += 1
        if waits and training:
            self._recording.waited(choice.layer_index, choice.unit.index, start_ns)
        return found
