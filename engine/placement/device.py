"""device: the layers behind a cut, computed in one place for all workers (papers 000, section 2.2).

In every pass the device gets one piece from each worker (`pieces.py`): it runs the back of the model and the loss on
it, goes backward at once, answers with the loss and the gradient of the activation, and adds its own gradients up.
After the step's last pass it updates its layers once, with the hyper-parameters that worker 0 sent along:
w <- update(w, sum_i g_i). Pieces are computed in the order in which they come; in rank order where the job is
deterministic, so that sums repeat bitwise. So one worker's activations travel while another's are computed, and with
micro-batches a worker computes its front of the next one meanwhile (`edge.py`).

A worker's samples pass the back as if that worker had it: buffers (batch statistics) are kept apart for each worker,
and averaged for evaluations and in the saved state. Masks of dropout are the device's own.
Memory: parameters, optimizer state, gradients and the activations of one piece; 2 n pieces that wait, with one
micro-batch n.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import Parameter

from engine.inputs.task import Task
from engine.instrumentation.module_calls import before_forward
from engine.models.cut import ELSEWHERE, Rest
from engine.models.modes import evaluating
from engine.placement.buffers import BuffersByRank
from engine.placement.edge_codec import EdgeCodec
from engine.placement.pieces import Piece, Room, edge_header, unpack
from engine.protocol.messages import Lane, Message, Payload
from engine.replica.outside import Outside
from engine.state.choice import Choice
from engine.state.computation import Computation
from engine.state.recording import Recording
from engine.state.updates import Hyper, Updater
from engine.transport.endpoint import Endpoint
from engine.transport.message import Header


class DeviceLayer:
    """One trained layer on the device."""

    def __init__(self, index: int, name: str, parameters: Mapping[str, Parameter], updater: Updater) -> None:
        self.index = index
        self.name = name
        self.parameters = parameters
        self.updater = updater
        self.left = 0
        """Parameters whose gradient the backward pass under way still owes."""


class Back:
    """The back of the model, for as many workers as send pieces. Used by one thread; messages come in another."""

    kinds = (Message.ACTIVATION, Message.END)

    def __init__(
        self,
        *,
        back: nn.Module,
        task: Task,
        layers: Sequence[DeviceLayer],
        choice: Choice,
        workers: int,
        torch_device: torch.device,
        computation: Computation,
        begin_step: Callable[[int], None],
        endpoint: Endpoint,
        recording: Recording,
        deterministic: bool,
        deadline_s: float,
    ) -> None:
        """`layers` in forward order. `choice`: the edge's unit. `begin_step(step)`: told of a step's first piece."""
        self.back = back
        self._rest = Rest(back)
        self._task = task
        self._layers = layers
        self._choice = choice
        self._workers = workers
        self._device = torch_device
        self._computation = computation
        self._begin_step = begin_step
        self._endpoint = endpoint
        self._recording = recording
        self._deterministic = deterministic
        self._deadline_s = deadline_s
        self._buffers = BuffersByRank(back, workers)
        self._outside = Outside(back)
        self._evaluating = False
        self._forward = False
        """A training pass goes forward."""
        self._modes = ExitStack()
        """What turns the modules' modes back after an evaluation."""
        self._turn = 0
        self._step = -1
        self._room = Room()
        self._codec = EdgeCodec(choice, f"party {endpoint.index}", recording)
        self._pieces: dict[tuple[int, int], Piece] = {}
        """By turn and rank: what waits."""
        self._ended = False
        self._changed = threading.Condition()
        self._failure: BaseException | None = None
        self._told = ExitStack()  # when it is closed, nobody tells of calls any more
        self._watch_layers()

    # --- messages ---

    def place(self, header: Header) -> list[memoryview]:
        return self._room.place(header)

    def handle(self, header: Header, payload: Payload) -> None:
        piece = None
        if header.kind != Message.END:
            piece = unpack(header, self._room.take(header, payload), self._codec)
        with self._changed:
            if piece is None:
                self._ended = True
            else:
                self._pieces[header.part, piece.rank] = piece
            self._changed.notify_all()

    def fail(self, error: BaseException) -> None:
        """Wake the waiter: no piece will come."""
        with self._changed:
            self._failure = self._failure or error
            self._changed.notify_all()

    # --- the thread that computes ---

    def serve(self) -> bool:
        """Compute one pass for every worker; False where training is over. Raises TimeoutError naming the workers that
        sent nothing."""
        served: set[int] = set()
        hyper: Hyper | None = None
        last = False
        while len(served) < self._workers:
            piece = self._next(served)
            if piece is None:
                return False
            served.add(piece.rank)
            hyper, last = piece.hyper or hyper, piece.last
            self._begin(piece)
            self._answer(piece)
        self._turn += 1
        if last:
            assert hyper is not None, "worker 0 sends the step's hyper-parameters with its last piece"
            self._update(hyper)
        return True

    def close(self) -> None:
        """Watch the model's calls no more."""
        self._told.close()

    def state(self) -> dict[str, Tensor]:
        """The trained state of the back, under the model's names, with averaged buffers."""
        self._buffers.use_average()
        return {name: tensor.detach() for name, tensor in self.back.state_dict().items()}

    def _next(self, served: set[int]) -> Piece | None:
        """The piece to compute next; None where training is over."""
        start_ns, end = self._recording.now_ns(), time.monotonic() + self._deadline_s
        with self._changed:
            waits = False
            while (rank := self._ready(served)) is None:
                if self._failure is not None:
                    raise self._failure
                if self._ended:
                    return None
                waits = True
                if not self._changed.wait(max(0.0, end - time.monotonic())) and time.monotonic() >= end:
                    raise TimeoutError(self._late(served))
            piece = self._pieces.pop((self._turn, rank))
        if waits and piece.step >= 0 and self._turn:
            self._recording.waited(self._choice.layer_index, self._choice.unit.index, start_ns)
        return piece

    def _ready(self, served: set[int]) -> int | None:
        """The lowest rank whose piece of this turn is there; where sums have an order, only the next one."""
        waiting = [rank for rank in range(self._workers) if rank not in served]
        if self._deterministic:
            waiting = waiting[:1]
        return next((rank for rank in waiting if (self._turn, rank) in self._pieces), None)

    def _late(self, served: set[int]) -> str:
        missing = [
            f"worker {rank}"
            for rank in range(self._workers)
            if rank not in served and (self._turn, rank) not in self._pieces
        ]
        return (
            f"activations for {self._choice.unit.layers[0]} (after step {self._step}) did not arrive within"
            f" {self._deadline_s:.0f} s from {', '.join(missing)}"
        )

    def _begin(self, piece: Piece) -> None:
        """Turn to this worker's buffers, or to the average of all in an evaluation."""
        training = piece.step >= 0
        if training and piece.step != self._step:
            self._step = piece.step
            self._begin_step(piece.step)
        turned = self._evaluating == training
        if turned:
            self._evaluating = not training
            self._modes.close()
            if self._evaluating:
                self._modes.enter_context(evaluating(self.back))
        if training:
            self._buffers.use(piece.rank)
        elif turned:
            self._buffers.use_average()

    def _answer(self, piece: Piece) -> None:
        payload: list[memoryview] = []
        about: dict[str, Any] = {"loss": 0.0, "correct": None}
        if piece.activation is not None:
            gradient = self._compute(piece, about)
            if gradient is not None:
                payload = self._codec.encode(gradient, piece.step)
                about["shape"] = list(gradient.shape)
        header = edge_header(
            self._choice,
            Message.ACTIVATION_GRADIENT,
            Lane.WORKER,
            origin=self._endpoint.index,
            step=piece.step,
            turn=self._turn,
            now_ns=self._recording.now_ns(),
            payload=payload,
            meta=json.dumps(about).encode(),
        )
        self._endpoint.send(piece.rank, header, payload)

    def _compute(self, piece: Piece, about: dict[str, Any]) -> Tensor | None:
        """Forward, and in training backward; fills in what is to be said `about` it."""
        assert piece.activation is not None
        assert piece.targets is not None
        training = piece.step >= 0
        activation = piece.activation.to(self._device).requires_grad_(training)
        self._rest.activation = activation
        if training:
            self._recording.begin_pass()
        surroundings = self._computation.training(activation) if training else self._computation.measuring()
        self._forward = training
        with surroundings:
            result = self._task(self._rest, ELSEWHERE, piece.targets.to(self._device))
        self._forward = False
        about["loss"] = float(result.total.detach())
        about["correct"] = None if result.correct is None else int(result.correct)
        if not training:
            return None
        self._recording.end_forward()
        self._outside.check(piece.step)
        self._recording.begin_pass(backward=True)
        for layer in self._layers:
            layer.left = len(layer.parameters)
        scaled = result.total * piece.scale
        with self._computation.backward():
            scaled.backward()
        self._recording.end_backward()
        self._rest.activation = None
        if activation.grad is None:  # nothing of it reached the loss
            return torch.zeros_like(piece.activation)
        return activation.grad

    def _update(self, hyper: Hyper) -> None:
        for layer in self._layers:
            start = self._recording.mark()
            layer.updater.update(hyper)
            self._recording.applied(layer.index, start)
            for parameter in layer.parameters.values():
                parameter.grad = None

    def _watch_layers(self) -> None:
        """Tell telemetry which layer is computed."""
        modules = dict(self.back.named_modules())
        for layer in self._layers:
            if layer.name in modules:
                told = before_forward(modules[layer.name], partial(self._entering, layer))
                self._told.callback(told.remove)
            for parameter in layer.parameters.values():
                parameter.register_post_accumulate_grad_hook(self._accumulated(layer))

    def _entering(self, layer: DeviceLayer) -> None:
        if self._forward:  # else an evaluation, or recomputation during backward
            self._recording.entering(layer.index)

    def _accumulated(self, layer: DeviceLayer) -> Callable[[Tensor], None]:
        def hook(parameter: Tensor) -> None:
            layer.left -= 1
            if layer.left == 0:
                self._recording.gradient(layer.index)

        return hook
