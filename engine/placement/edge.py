"""The workers' end of an edge: the front of the model is computed here, the rest and the loss on a device."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from engine.exchange.base import Choice
from engine.inputs.task import BatchLoss, enough_samples
from engine.placement.pieces import Room, edge_header, pack
from engine.runtime.arrivals import Arrivals
from engine.runtime.host_memory import as_bytes
from engine.runtime.messages import Lane, Message, Payload
from engine.runtime.recording import Recording
from engine.runtime.updates import Hyper
from engine.transport.endpoint import Endpoint
from engine.transport.message import Header


class Local(Protocol):
    """The device, where it computes in this worker's process."""

    def serve(self) -> bool:
        """Compute one pass for every worker."""
        ...


class EdgeLoss:
    """The workers' end: the front is computed here, the rest and the loss on the device."""

    kinds = (Message.ACTIVATION_GRADIENT,)

    def __init__(
        self,
        *,
        front: nn.Module,
        choice: Choice,
        device_party: int,
        device_name: str,
        beside: Local | None,
        micro_batches: int,
        hyper: Callable[[int], Hyper] | None,
        autocast: Callable[[], AbstractContextManager[None]],
        endpoint: Endpoint,
        recording: Recording,
        deadline_s: float,
    ) -> None:
        """`choice`: the edge's unit. `beside`: the device, where it is in this process. `hyper(step)`, on worker 0: the
        hyper-parameters of a step."""
        self._front = front
        self._choice = choice
        self._device_party = device_party
        self._device_name = device_name
        self._beside = beside
        self._micro_batches = micro_batches
        self._hyper = hyper
        self._autocast = autocast
        self._endpoint = endpoint
        self._recording = recording
        self._dtype: torch.dtype = getattr(torch, choice.unit.dtype)
        self._passes = 0
        """Training passes so far."""
        self._turn = 0
        """Passes so far, evaluations included."""
        self._room = Room()
        self._answers: Arrivals[int, tuple[Mapping[str, Any], Tensor | None]] = Arrivals(deadline_s)
        """By turn: what came back."""
        self.fail = self._answers.fail

    def __call__(self, inputs: Tensor, targets: Tensor, scale: float) -> BatchLoss | None:
        """One pass. In training the gradient of `scale` times the loss has come back already: going backward from the
        answered loss, whatever it is multiplied by, hands that to the front."""
        training = self._front.training
        activation: Tensor | None = None
        if len(targets):
            with self._autocast(), enough_samples():
                activation = self._front(inputs)
        if training:
            self._recording.end_forward()
        self._send(activation, targets, scale, training)
        if self._beside is not None:
            self._beside.serve()
        about, gradient = self._receive(training)
        if training:
            self._recording.begin_pass()
        if activation is None:
            return None
        total = torch.tensor(about["loss"], dtype=torch.float64, device=activation.device)
        if training:
            assert gradient is not None
            shaped = gradient.view(self._dtype).view(activation.shape).to(activation)
            total = _Crossing.apply(activation, shaped, total)
        correct = None if about["correct"] is None else torch.tensor(about["correct"])
        return BatchLoss(total, correct)

    def place(self, header: Header) -> list[memoryview]:
        return self._room.place(header)

    def handle(self, header: Header, payload: Payload) -> None:
        self._answers.put(header.part, (json.loads(header.meta), self._room.take(header, payload)))

    def _send(self, activation: Tensor | None, targets: Tensor, scale: float, training: bool) -> None:
        step, micro = divmod(self._passes, self._micro_batches)
        last = training and micro == self._micro_batches - 1
        payload: list[memoryview] = []
        shape: tuple[int, ...] = (0,)
        if activation is not None:
            host = activation.detach().to(device="cpu", dtype=self._dtype).contiguous()
            payload, shape = [as_bytes(host.view(-1))], tuple(host.shape)
        meta = pack(
            scale=scale,
            last=last,
            hyper=self._hyper(step) if last and self._hyper is not None else None,
            shape=shape,
            dtype=self._choice.unit.dtype,
            targets=targets,
        )
        header = edge_header(
            self._choice,
            Message.ACTIVATION,
            Lane.DEVICE,
            origin=self._endpoint.index,
            step=step if training else -1,
            turn=self._turn,
            now_ns=self._recording.now_ns(),
            payload=payload,
            meta=meta,
        )
        self._endpoint.send(self._device_party, header, payload)
        self._passes += training

    def _receive(self, training: bool) -> tuple[Mapping[str, Any], Tensor | None]:
        start_ns, waits = self._recording.now_ns(), self._turn not in self._answers
        answer = self._answers.take(
            self._turn,
            f"{self._device_name} did not answer within {self._answers.deadline_s:.0f} s what was sent from"
            f" in front of {self._choice.unit.layers[0]}",
        )
        if waits and training:
            self._recording.waited(self._choice.layer_index, self._choice.unit.index, start_ns)
        self._turn += 1
        return answer


class _Crossing(torch.autograd.Function):
    """(activation, its gradient, loss) -> loss; backward hands the gradient on as it came."""

    @staticmethod
    def forward(ctx: Any, activation: Tensor, gradient: Tensor, loss: Tensor) -> Tensor:
        ctx.save_for_backward(gradient)
        return loss.clone()

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor | None, ...]:
        return ctx.saved_tensors[0], None, None
