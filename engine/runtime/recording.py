"""What the runtime says about itself: spans of computation, waits, messages, server work.

Compute spans tile each pass: a layer's forward span lasts until the next layer with parameters begins, and its
backward span ends when its last gradient is there, so that time in layers without parameters (activations,
pooling) is booked on a neighbour and nothing is lost. On CUDA these are the host's times of issuing the work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from engine.order.keys import rank_in_step
from engine.telemetry.events import NONE, Kind, Track
from engine.telemetry.recorder import Recorder
from engine.transport.message import Header

if TYPE_CHECKING:
    from engine.exchange.base import Choice


class Recording:
    """One process's events. The compute methods belong to the training thread; the others to any."""

    def __init__(self, recorder: Recorder, now_ns: Callable[[], int]) -> None:
        self.recorder = recorder
        self.now_ns = now_ns
        self.step = 0
        self._layer = NONE
        self._mark_ns = 0
        self._start_ns = 0
        self.exposed_ns = 0
        self.compute_ns = 0
        self.input_ns = 0

    # --- the training thread ---

    def begin_step(self, step: int) -> None:
        self.step, self._start_ns = step, self.now_ns()
        self.exposed_ns = self.compute_ns = self.input_ns = 0

    def end_step(self, *, samples: int, loss: float, end_ns: int) -> None:
        """`loss`: the mean over this worker's samples of the step."""
        self.recorder.step(
            self.step,
            start=self._start_ns,
            end=end_ns,
            samples=samples,
            loss=loss,
            exposed=self.exposed_ns,
            compute=self.compute_ns,
            input=self.input_ns,
        )

    @contextmanager
    def input(self) -> Iterator[None]:
        """Around waiting for the step's data."""
        start_ns = self.now_ns()
        yield
        end_ns = self.now_ns()
        self.input_ns += end_ns - start_ns
        self.recorder.event(Kind.INPUT, Track.INPUT, step=self.step, start=start_ns, end=end_ns)

    def begin_pass(self) -> None:
        """A forward or backward pass begins."""
        self._layer, self._mark_ns = NONE, self.now_ns()

    def entering(self, layer: int) -> None:
        """Forward reaches `layer`: the one before it has ended."""
        self._span(Kind.FORWARD, self._layer, self.now_ns())
        self._layer = layer

    def waited(self, layer: int, unit: int, start_ns: int) -> None:
        """Nothing was computed since `start_ns` because `unit` of `layer` had not arrived."""
        end_ns = self.now_ns()
        self.exposed_ns += end_ns - start_ns
        self.recorder.event(
            Kind.WAIT, Track.COMPUTE, step=self.step, layer=layer, unit=unit, start=start_ns, end=end_ns
        )
        self._mark_ns = end_ns

    def applied(self, layer: int, start_ns: int) -> None:
        """The worker has updated `layer`."""
        self._changed(Kind.UPDATE, layer, start_ns)

    def averaged(self, layer: int, start_ns: int) -> None:
        """The worker has taken the averaged step of `layer`."""
        self._changed(Kind.AVERAGE, layer, start_ns)

    def _changed(self, kind: Kind, layer: int, start_ns: int) -> None:
        end_ns = self.now_ns()
        self.compute_ns += end_ns - start_ns
        self.recorder.event(kind, Track.COMPUTE, step=self.step, layer=layer, start=start_ns, end=end_ns)
        self._mark_ns = end_ns

    def multiplied(self, layer: int, start_ns: int) -> None:
        """The worker has multiplied the factors of `layer`: the part of a backward pass that was left for later."""
        end_ns = self.now_ns()
        self.compute_ns += end_ns - start_ns
        self.recorder.event(
            Kind.BACKWARD, Track.COMPUTE, step=self.step, layer=layer, start=start_ns, end=end_ns
        )
        self._mark_ns = end_ns

    def end_forward(self) -> None:
        self._span(Kind.FORWARD, self._layer, self.now_ns())

    def gradient(self, layer: int) -> None:
        """Backward has computed the last gradient of `layer`."""
        self._span(Kind.BACKWARD, layer, self.now_ns())

    def end_backward(self) -> None:
        self._span(Kind.BACKWARD, NONE, self.now_ns())

    def collectives_awaited(self) -> None:
        """Backward has ended, and since its last gradient nothing was computed: collectives of no one layer were
        awaited."""
        self.waited(NONE, NONE, self._mark_ns)

    def _span(self, kind: Kind, layer: int, end_ns: int) -> None:
        if end_ns > self._mark_ns:
            self.compute_ns += end_ns - self._mark_ns
            self.recorder.event(
                kind, Track.COMPUTE, step=self.step, layer=layer, start=self._mark_ns, end=end_ns
            )
        self._mark_ns = end_ns

    # --- exchanges and servers ---

    @contextmanager
    def encoding(self, choice: Choice, step: int) -> Iterator[None]:
        """Around a codec's encode; the identity is not worth an event."""
        yield from self._coding(Kind.ENCODE, choice, step)

    @contextmanager
    def decoding(self, choice: Choice, step: int) -> Iterator[None]:
        """Around a codec's decode."""
        yield from self._coding(Kind.DECODE, choice, step)

    def _coding(self, kind: Kind, choice: Choice, step: int) -> Iterator[None]:
        start_ns = self.now_ns()
        yield
        if not choice.lossless:
            self._server(kind, choice, step, NONE, start_ns)

    def reduced(self, choice: Choice, step: int, origin: int, start_ns: int) -> None:
        """A contribution has been added."""
        self._server(Kind.REDUCE, choice, step, origin, start_ns)

    def updated(self, choice: Choice, step: int, start_ns: int) -> None:
        """A server has updated a unit."""
        self._server(Kind.UPDATE, choice, step, NONE, start_ns)

    def collective(self, choice: Choice, step: int, start_ns: int, size: int) -> None:
        """A native collective on a buffer of `size` bytes has ended. What it moved is the kernel's to count."""
        self.recorder.event(
            Kind.REDUCE,
            Track.SERVER,
            step=step,
            layer=choice.layer_index,
            unit=choice.unit.index,
            start=start_ns,
            end=self.now_ns(),
            bytes=size,
        )

    def _server(self, kind: Kind, choice: Choice, step: int, peer: int, start_ns: int) -> None:
        self.recorder.event(
            kind,
            Track.SERVER,
            step=step,
            layer=choice.layer_index,
            unit=choice.unit.index,
            peer=peer,
            priority=rank_in_step(choice.priority(step)),
            start=start_ns,
            end=self.now_ns(),
        )

    # --- the transport's observer ---

    def sent(
        self, header: Header, peer: int, queued_ns: int, start_ns: int, end_ns: int, *, wire: bool
    ) -> None:
        if wire and header.layer >= 0 and header.payload_bytes:
            self._message(Kind.SEND, Track.SEND, header, peer, queued_ns, start_ns, end_ns)

    def received(self, header: Header, peer: int, start_ns: int, end_ns: int, *, wire: bool) -> None:
        if wire and header.layer >= 0 and header.payload_bytes:
            self._message(Kind.RECEIVE, Track.RECEIVE, header, peer, header.queued_ns, start_ns, end_ns)

    def _message(
        self, kind: Kind, track: Track, header: Header, peer: int, queued_ns: int, start_ns: int, end_ns: int
    ) -> None:
        self.recorder.event(
            kind,
            track,
            step=header.step,
            layer=header.layer,
            unit=header.unit,
            peer=peer,
            priority=rank_in_step(header.priority),
            queued=queued_ns,
            start=start_ns,
            end=end_ns,
            bytes=header.payload_bytes,
        )
