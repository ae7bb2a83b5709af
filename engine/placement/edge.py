"""The workers' end of an edge: the front of the model is computed here, the rest and the loss on a device.

While one micro-batch is away, the front of the next one is computed: what travels, and what the device computes, hides
behind it. So a worker holds the front's activations of two micro-batches.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from engine.coordination.arrivals import Arrivals
from engine.inputs.loader import MicroBatch
from engine.inputs.task import BatchLoss
from engine.placement.edge_codec import EdgeCodec
from engine.placement.pieces import Room, edge_header, pack
from engine.placement.schedule import actions
from engine.protocol.messages import Lane, Message, Payload
from engine.replica.base import Replica, finite
from engine.state.choice import Choice
from engine.state.computation import Computation
from engine.state.recording import Recording
from engine.state.updates import Hyper
from engine.transport.endpoint import Endpoint
from engine.transport.message import Header


class Local(Protocol):
    """The device, where it computes in this worker's process."""

    def serve(self) -> bool:
        """Compute one pass for every worker."""
        ...


class EdgePasses:
    """A worker's passes: of training (`Passes`), and of an evaluation (`PassLoss`, by `evaluate`)."""

    kinds = (Message.ACTIVATION_GRADIENT,)

    def __init__(
        self,
        *,
        front: nn.Module,
        replica: Replica,
        choice: Choice,
        device_party: int,
        device_name: str,
        beside: Local | None,
        micro_batches: int,
        hyper: Callable[[int], Hyper] | None,
        computation: Computation,
        endpoint: Endpoint,
        recording: Recording,
        deadline_s: float,
    ) -> None:
        """`replica`: how the front is kept in step with the other workers'. `choice`: the edge's unit. `beside`: the
        device, where it is in this process. `hyper(step)`, on worker 0: the hyper-parameters of a step."""
        self._front = front
        self._replica = replica
        self._choice = choice
        self._device_party = device_party
        self._device_name = device_name
        self._beside = beside
        self._micro_batches = micro_batches
        self._hyper = hyper
        self._computation = computation
        self._endpoint = endpoint
        self._recording = recording
        self._codec = EdgeCodec(choice, f"party {endpoint.index}", recording)
        self._passes = 0
        """Training passes that have left."""
        self._left = 0
        """Passes that have left, evaluations included."""
        self._came_back = 0
        self._room = Room()
        self._answers: Arrivals[int, tuple[Mapping[str, Any], Tensor | None]] = Arrivals(deadline_s)
        """By turn: what came back."""
        self.fail = self._answers.fail

    def __call__(self, micro_batches: list[MicroBatch], divisor: float) -> tuple[float, int]:
        """See Passes."""
        total, coming, left = 0.0, iter(micro_batches), len(micro_batches)
        away: deque[tuple[Tensor | None, float]] = deque()
        for action in actions("1f1b", 0, 2, left):
            if action == "forward":
                micro = next(coming)
                scale = micro.scale / divisor
                away.append((self._forward(micro, scale), scale))
            else:
                left -= 1
                activation, scale = away.popleft()
                total += self._backward(activation, last=left == 0) * scale
        return total, sum(micro.samples for micro in micro_batches)

    def evaluate(self, inputs: Tensor, targets: Tensor) -> BatchLoss | None:
        """See PassLoss."""
        activation = self._compute(inputs, targets, self._computation.measuring())
        self._send(activation, targets, 1.0, training=False)
        about, _ = self._come_back(training=False)
        if activation is None:
            return None
        total = torch.tensor(about["loss"], dtype=torch.float64)
        return BatchLoss(total, None if about["correct"] is None else torch.tensor(about["correct"]))

    def _forward(self, micro: MicroBatch, scale: float) -> Tensor | None:
        """The front's activation, which has left; None for a micro-batch without samples."""
        self._replica.begin_forward()
        surroundings = self._computation.training(micro.inputs)
        activation = self._compute(micro.inputs, micro.targets, surroundings)
        self._replica.end_forward()
        self._send(activation, micro.targets, scale, training=True)
        return activation

    def _backward(self, activation: Tensor | None, *, last: bool) -> float:
        """The loss of the micro-batch that left first, not yet scaled; its gradient came back scaled."""
        about, gradient = self._come_back(training=True)
        loss = finite(float(about["loss"]), self._recording.step)
        self._replica.begin_backward(last)
        if activation is not None and activation.requires_grad:
            assert gradient is not None
            with self._computation.backward():
                activation.backward(gradient.to(activation))
        self._replica.end_backward()
        return loss

    def _compute(
        self, inputs: Tensor, targets: Tensor, surroundings: AbstractContextManager[None]
    ) -> Tensor | None:
        if not len(targets):
            return None
        with surroundings:
            activation: Tensor = self._front(inputs)
        return activation

    def _come_back(self, *, training: bool) -> tuple[Mapping[str, Any], Tensor | None]:
        """The device's answer to the pass that left first."""
        if self._beside is not None:
            self._beside.serve()
        return self._receive(training)

    def place(self, header: Header) -> list[memoryview]:
        return self._room.place(header)

    def handle(self, header: Header, payload: Payload) -> None:
        about, received = json.loads(header.meta), self._room.take(header, payload)
        gradient = None if received is None else self._codec.decode(header, received, about["shape"])
        self._answers.put(header.part, (about, gradient))

    def _send(self, activation: Tensor | None, targets: Tensor, scale: float, *, training: bool) -> None:
        step, micro = divmod(self._passes, self._micro_batches)
        last = training and micro == self._micro_batches - 1
        payload: list[memoryview] = []
        shape: tuple[int, ...] = (0,)
        if activation is not None:
            payload = self._codec.encode(activation, step if training else -1)
            shape = tuple(activation.shape)
        meta = pack(
            scale=scale,
            last=last,
            hyper=self._hyper(step) if last and self._hyper is not None else None,
            shape=shape,
            targets=targets,
        )
        header = edge_header(
            self._choice,
            Message.ACTIVATION,
            Lane.DEVICE,
            origin=self._endpoint.index,
            step=step if training else -1,
            turn=self._left,
            now_ns=self._recording.now_ns(),
            payload=payload,
            meta=meta,
        )
        self._endpoint.send(self._device_party, header, payload)
        self._passes += training
        self._left += 1

    def _receive(self, training: bool) -> tuple[Mapping[str, Any], Tensor | None]:
        start_ns, waits = self._recording.now_ns(), self._came_back not in self._answers
        answer = self._answers.take(
            self._came_back,
            f"{self._device_name} did not answer within {self._answers.deadline_s:.0f} s what was sent from"
            f" in front of {self._choice.unit.layers[0]}",
        )
        if waits and training:
            self._recording.waited(self._choice.layer_index, self._choice.unit.index, start_ns)
        self._came_back += 1
        return answer
