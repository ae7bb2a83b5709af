"""native: the backend's own allreduce on flattened units (Gloo on CPU, NCCL on CUDA).

All ranks must issue their collectives in one agreed order, last layers first, so a unit leaves only after all native
units before it, as in DistributedDataParallel. Each unit carries one more element per segment: how many ranks had a
gradient, so that parameters unused everywhere keep their value. Bytes: the backend's, which the kernel counts
(`engine/telemetry/collectives.py`).
"""

from __future__ import annotations

import queue
import threading
from collections import Counter
from collections.abc import Mapping
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor

from engine.exchange.base import Surroundings
from engine.plan.units import Segment, Unit
from engine.protocol.messages import Message, Payload
from engine.state.host_memory import has
from engine.telemetry.collectives import Collectives
from engine.transport.message import Header


class NativeAllreduce:
    """One flat tensor per unit, summed by torch.distributed."""

    kinds: tuple[Message, ...] = ()

    def __init__(self, context: Surroundings) -> None:
        self._context = context
        choices = context.choices
        self._order = sorted(choices, key=lambda index: (-choices[index].unit.position, index))
        self._next = 0
        self._ready: set[int] = set()
        self._under_way: queue.SimpleQueue[tuple[Unit, int, Tensor, dist.Work, int] | None] = (
            queue.SimpleQueue()
        )
        self._weights = {
            index: weights_of(choice.unit, context.layer_of) for index, choice in choices.items()
        }
        join_process_group(
            context.collectives,
            device=context.device,
            rendezvous=context.rendezvous,
            rank=context.rank,
            workers=context.workers,
            deadline_s=context.deadline_s,
        )
        self._thread = threading.Thread(target=self._finish, name="native-allreduce", daemon=True)
        self._thread.start()

    def begin_step(self, step: int) -> None:
        """Nothing to ask for."""

    def start(self, unit: Unit, step: int) -> None:
        """Issue the unit and those after it that only waited for it."""
        if self._next == len(self._order):  # all of the step before have been issued
            self._next = 0
        self._ready.add(unit.index)
        while self._next < len(self._order) and self._order[self._next] in self._ready:
            index = self._order[self._next]
            self._ready.discard(index)
            self._next += 1
            self._issue(self._context.choices[index].unit, step)

    def backward_ended(self) -> None:
        """Nothing waits."""

    def finished(self, steps: int) -> None:
        """All workers have the same already."""

    def place(self, header: Header) -> None:
        """Nothing arrives through our transport."""

    def handle(self, header: Header, payload: Payload) -> None:
        raise AssertionError(f"no message was expected: {header}")

    def finish(self, unit: Unit, step: int) -> None:
        """Nothing is left to compute."""

    def missing(self, unit: Unit) -> str:
        return "the native allreduce has not ended; some rank did not issue it"

    def close(self) -> None:
        self._under_way.put(None)
        self._thread.join(self._context.deadline_s)
        leave_process_group(self._context.collectives)

    def _issue(self, unit: Unit, step: int) -> None:
        memory = self._context.memory
        mask = memory.mask(unit, step)
        counts = [float(has(mask, i)) for i in range(len(unit.segments))]
        gradients = memory.device_gradients(unit.segments)
        flat = torch.cat([*gradients, gradients[0].new_tensor(counts)])
        start_ns = self._context.collectives.begins()
        work = dist.all_reduce(flat, async_op=True)
        self._under_way.put((unit, step, flat, work, start_ns))

    def _finish(self) -> None:
        try:
            while (item := self._under_way.get()) is not None:
                self._complete(*item)
        except BaseException as error:  # nobody joins this thread to see it: the forward pass raises it
            self._context.versions.fail(error)

    def _complete(self, unit: Unit, step: int, flat: Tensor, work: dist.Work, start_ns: int) -> None:
        """Wait for one unit's sum and hand it out."""
        context = self._context
        work.wait()
        parts = flat.split([*(s.count for s in unit.segments), len(unit.segments)])
        absent: list[Segment] = []
        for segment, part, count in zip(unit.segments, parts, parts[-1].tolist(), strict=False):
            if count:
                context.memory.device_gradients([segment])[0].copy_(part)
            else:
                absent.append(segment)
        context.memory.drop_gradients(absent)
        context.recording.collective(context.choices[unit.index], step, start_ns, flat.nbytes)
        context.collectives.moved(
            self._weights[unit.index],
            flat.nbytes,
            rounds=2,
            workers=context.workers,
            start=start_ns,
        )
        context.versions.advance(unit.index, step + 1)


def weights_of(unit: Unit, layer_of: Mapping[str, int]) -> dict[int, int]:
    """How much of a unit belongs to each layer, in elements."""
    found: Counter[int] = Counter()
    for segment in unit.segments:
        found[layer_of[segment.parameter]] += segment.count
    return found


def join_process_group(
    collectives: Collectives, *, device: str, rendezvous: str, rank: int, workers: int, deadline_s: float
) -> None:
    """torch.distributed's default group of the workers, over the attempt's rendezvous: NCCL on CUDA, else Gloo.
    `collectives` finds its connections."""
    cuda = device.startswith("cuda")
    with collectives.joining(connects_later=cuda):
        dist.init_process_group(
            "nccl" if cuda else "gloo",
            init_method=rendezvous,
            rank=rank,
            world_size=workers,
            timeout=timedelta(seconds=deadline_s),
            device_id=torch.device(device) if cuda else None,
        )


def leave_process_group(collectives: Collectives) -> None:
    """Leave that group."""
    collectives.settle()
    dist.destroy_process_group()
