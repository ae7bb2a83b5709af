"""A server shard: the home of some units. It sums the workers' gradients and answers with what the plan says.

Sums are in the parameters' own precision, in the order of arrival; in rank order where `deterministic`, so that
they repeat bitwise. Memory: one copy of its parameters and optimizer state (update on the server), or of the last
sums (update on the workers), one accumulator per unit, used again every step, and n gradients per unit where sums
wait for rank order.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from engine.consistency.every_step import EveryStep
from engine.exchange.base import Choice
from engine.runtime.host_memory import as_bytes, as_tensor, has, union
from engine.runtime.messages import Lane, Message, Payload
from engine.runtime.recording import Recording
from engine.runtime.updates import PieceUpdater
from engine.runtime.writes import unequal
from engine.transport.endpoint import Endpoint
from engine.transport.message import Header


@dataclass(kw_only=True)
class _Home:
    """One unit's state on its shard."""

    choice: Choice
    updater: PieceUpdater | None
    """Of its parameters, one 1-D tensor per segment, where this shard updates them."""
    dtype: torch.dtype
    version: int = 0
    """How many steps' contributions are in it."""
    step: int = 0
    """The step whose contributions are arriving."""
    arrived: dict[int, Tensor | None] = field(default_factory=dict)
    """By rank: the contribution kept for a rank-ordered sum, or None where it is added already."""
    masks: dict[int, bytes] = field(default_factory=dict)
    """By rank: which segments it had."""
    sums: list[Tensor] = field(default_factory=list)
    """The accumulator of the step under way."""
    spare: list[Tensor] = field(default_factory=list)
    """Memory for the next accumulator. Where workers update, it is the answer before the last one: whoever pushes a
    step has the answer of the step before, so nothing of an older one is still on its way out."""
    mask: bytes | None = None
    """Segments present anywhere in the step under way; None before its first contribution is in."""
    answer: list[Tensor] = field(default_factory=list)
    """What workers get: the parameters, or the last complete step's sums. Kept apart from `sums`: a fast worker
    may push the next step before a slow one has pulled this one's."""
    views: list[memoryview] = field(default_factory=list)
    """The answer's bytes where this shard updates: the memory stays the same."""
    answer_mask: bytes = b""
    """Segments present anywhere in the last complete step."""
    waiting: dict[int, int] = field(default_factory=dict)
    """Workers that asked for a version that is not there yet: rank -> version."""
    first_arrival_s: float = 0.0
    assigned: dict[int, bytes] = field(default_factory=dict)
    """By rank: checksums of what its model has written to the parameters in the step under way."""
    values: list[Tensor] = field(default_factory=list)
    """What worker 0's has."""


class Shard:
    """Server shard `index`, living in the process that owns `endpoint`."""

    kinds = (Message.PUSH, Message.PULL, Message.HYPER, Message.ASSIGN)

    def __init__(
        self,
        *,
        index: int,
        workers: int,
        choices: Mapping[int, Choice],
        make_updater: Callable[[Choice, list[Tensor]], PieceUpdater],
        initial: Mapping[str, Tensor],
        endpoint: Endpoint,
        recording: Recording,
        deterministic: bool,
        deadline_s: float,
    ) -> None:
        """`choices`: the units of this shard. `initial`: worker 0's initial parameters by name."""
        self._workers = workers
        self._endpoint = endpoint
        self._recording = recording
        self._deterministic = deterministic
        self._deadline_s = deadline_s
        self._consistency = EveryStep()
        self._hyper: dict[int, list[dict[str, Any]]] = {}
        self._homes = {
            choice.unit.index: self._home(choice, initial, make_updater) for choice in choices.values()
        }
        self.index = index

    def place(self, header: Header) -> None:
        """Gradients arrive in scratch buffers: they are added at once."""

    def handle(self, header: Header, payload: Payload) -> None:
        """One message of a worker. Called by the server lane, one at a time, most urgent first."""
        if header.kind == Message.HYPER:
            self._hyper = {header.step: json.loads(header.meta)}
        elif header.kind == Message.PULL:
            self._on_pull(self._homes[header.unit], header.origin, header.step + 1)
        elif header.kind == Message.ASSIGN:
            self._on_assign(self._homes[header.unit], header, payload)
        else:
            self._on_push(self._homes[header.unit], header, payload)

    def overdue(self) -> str | None:
        """Who is missing where a unit has waited for longer than the deadline, or None."""
        now = time.monotonic()
        for home in list(self._homes.values()):
            if home.arrived and now - home.first_arrival_s > self._deadline_s:
                missing = sorted(set(range(self._workers)) - set(home.arrived))
                names = ", ".join(f"worker {rank}" for rank in missing)
                layer = home.choice.unit.layers[0]
                return (
                    f"gradients of {layer} (step {home.step}) did not arrive within {self._deadline_s:.0f} s"
                    f" from {names}"
                )
        return None

    def _on_push(self, home: _Home, header: Header, payload: Payload) -> None:
        choice = home.choice
        if not home.arrived and header.step >= home.version:  # workers that average leave steps out
            home.step, home.first_arrival_s = header.step, time.monotonic()
        if header.step != home.step or header.step < home.version or header.origin in home.arrived:
            raise RuntimeError(
                f"worker {header.origin} pushed step {header.step} of unit {header.unit}, which is at {home.version}"
            )
        start_ns = self._recording.now_ns()
        self._take(home, header, payload)
        self._recording.reduced(choice, header.step, header.origin, start_ns)
        if self._consistency.complete(len(home.arrived), self._workers):
            self._complete(home, header.step)

    def _on_assign(self, home: _Home, header: Header, payload: Payload) -> None:
        """A worker's model has written to the parameters. It says so ahead of its gradient."""
        home.assigned[header.origin] = header.meta
        if header.origin == 0:
            received = as_tensor(payload, home.dtype).clone()
            home.values = list(received.split([s.count for s in home.choice.unit.segments]))

    def _assign(self, home: _Home) -> None:
        """Let what all workers have written be what is updated. Raises TrainingError where they wrote differently."""
        if not home.assigned:
            return
        for rank in range(self._workers):
            if home.assigned.get(rank) != home.assigned.get(0):
                raise unequal(home.choice.unit.layers[0], rank)
        with torch.no_grad():
            for part, value in zip(home.answer, home.values, strict=True):
                part.copy_(value)
        home.assigned, home.values = {}, []

    def _home(
        self,
        choice: Choice,
        initial: Mapping[str, Tensor],
        make_updater: Callable[[Choice, list[Tensor]], PieceUpdater],
    ) -> _Home:
        unit = choice.unit
        dtype: torch.dtype = getattr(torch, unit.dtype)
        if choice.layer.update == "worker":
            return _Home(choice=choice, updater=None, dtype=dtype)
        pieces = [initial[s.parameter].detach().reshape(-1)[s.start : s.stop].clone() for s in unit.segments]
        return _Home(choice=choice, updater=make_updater(choice, pieces), dtype=dtype, answer=pieces)

    def _take(self, home: _Home, header: Header, payload: Payload) -> None:
        """Add a contribution, or keep it until the ranks before it are there."""
        unit, codec = home.choice.unit, home.choice.codec
        if not home.arrived:
            home.sums = home.spare or [torch.empty(s.count, dtype=home.dtype) for s in unit.segments]
            home.spare, home.mask = [], None
        home.masks[header.origin] = header.meta
        home.arrived[header.origin] = None
        if payload is not None and self._deterministic:
            home.arrived[header.origin] = as_tensor(payload, codec.wire_dtype(home.dtype)).clone()
        elif payload is not None:
            self._add(home, as_tensor(payload, codec.wire_dtype(home.dtype)), header.meta)
        if self._deterministic and self._consistency.complete(len(home.arrived), self._workers):
            for rank in range(self._workers):
                kept = home.arrived[rank]
                if kept is not None:
                    self._add(home, kept, home.masks[rank])

    def _add(self, home: _Home, received: Tensor, mask: bytes) -> None:
        """Add a contribution to the sums; the first one overwrites what an older step left there."""
        codec = home.choice.codec
        if home.mask is None:
            codec.decode(received, _present(home.sums, mask))
            home.mask = mask
            return
        if mask != home.mask:
            for index, part in enumerate(home.sums):
                if has(mask, index) and not has(home.mask, index):
                    part.zero_()
            home.mask = union(home.mask, mask)
        codec.decode_add(received, _present(home.sums, mask))

    def _complete(self, home: _Home, step: int) -> None:
        """All contributions are there: update, and answer as the plan says."""
        choice, mask = home.choice, home.mask
        if mask is None:  # no worker had a gradient of it
            mask = bytes(-(-len(choice.unit.segments) // 8))
        if home.updater is not None:
            self._assign(home)
            start_ns = self._recording.now_ns()
            home.updater.update(
                [s if has(mask, i) else None for i, s in enumerate(home.sums)], self._hyper[step]
            )
            self._recording.updated(choice, step, start_ns)
            home.spare = home.sums
        else:
            home.spare, home.answer = home.answer, home.sums
        home.sums, home.answer_mask = [], mask
        home.version = step + 1
        home.arrived.clear()
        home.masks.clear()
        returns = choice.layer.order.returns
        if returns == "push":
            self._answer(home, range(self._workers))
        elif returns == "notify-pull":
            self._send(home, range(self._workers), Message.NOTIFY, [], b"")
        served = [rank for rank, version in home.waiting.items() if version <= home.version]
        for rank in served:
            del home.waiting[rank]
        if served:
            self._answer(home, served)

    def _on_pull(self, home: _Home, rank: int, version: int) -> None:
        if home.version >= version:
            self._answer(home, [rank])
        else:
            home.waiting[rank] = version

    def _answer(self, home: _Home, ranks: Iterable[int]) -> None:
        """Send workers what they wait for: the parameters, or the sum of the step; encoded once for all."""
        if home.updater is not None:
            home.views = home.views or [as_bytes(part) for part in home.answer]
            payload = home.views
        else:
            parts = home.choice.codec.encode(_present(home.answer, home.answer_mask))
            payload = [as_bytes(part) for part in parts]
        self._send(home, ranks, Message.ANSWER, payload, home.answer_mask)

    def _send(
        self, home: _Home, ranks: Iterable[int], kind: Message, payload: list[memoryview], mask: bytes
    ) -> None:
        choice = home.choice
        header = Header(
            kind=kind,
            lane=Lane.WORKER,
            origin=self._endpoint.index,
            step=home.version - 1,
            unit=choice.unit.index,
            layer=choice.layer_index,
            priority=choice.priority(home.version - 1),
            queued_ns=self._recording.now_ns(),
            payload_bytes=sum(map(len, payload)),
            meta=mask,
        )
        for rank in ranks:
            self._endpoint.send(rank, header, payload)


def _present(parts: list[Tensor], mask: bytes) -> list[Tensor]:
    """The pieces whose presence bit is set."""
    return [part for index, part in enumerate(parts) if has(mask, index)] if mask else parts
