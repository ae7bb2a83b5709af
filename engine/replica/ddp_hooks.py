"""What sums a bucket of DDP's: its plain allreduce, or one of PyTorch's own communication hooks, which compress.

PyTorch's hooks answer means, and ours are to be sums, because losses are scaled by the global batch: what they answer
is multiplied by the number of workers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import TypeAlias

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import (
    PowerSGDState,
    _should_compress,
    powerSGD_hook,
)
from torch.futures import Future

from engine.plan.plan import CommHook
from engine.telemetry.collectives import Collectives

Issued: TypeAlias = tuple[Future[Tensor], int]
"""The sum that is under way, and how many bytes each worker gives to collectives for it."""
Sum: TypeAlias = Callable[[dist.GradBucket], Issued]


def sum_by(hook: CommHook | None, collectives: Collectives) -> Sum:
    """What issues a bucket's sum. `None`: DDP's own allreduce. Collective."""
    if hook is None:
        return _allreduce
    if hook.name == "powersgd":
        return _PowerSgd(hook, collectives)
    return partial(_halves, getattr(default_hooks, f"{hook.name}_compress_hook"))


def _allreduce(bucket: dist.GradBucket) -> Issued:
    flat = bucket.buffer()
    issued = dist.all_reduce(flat, async_op=True).get_future()
    return issued.then(lambda future: future.value()[0]), flat.nbytes


def _halves(
    hook: Callable[[dist.ProcessGroup, dist.GradBucket], Future[Tensor]], bucket: dist.GradBucket
) -> Issued:
    """16 bits for each element."""
    return _times_workers(hook(_everybody(), bucket)), 2 * bucket.buffer().numel()


class _PowerSgd:
    """Its state is this worker's: by bucket, what was lost, and the last factors."""

    def __init__(self, hook: CommHook, collectives: Collectives) -> None:
        group, self._serial = _everybody(), None
        if dist.get_backend() == dist.Backend.GLOO:
            with collectives.joining(connects_later=False):
                group = (
                    dist.new_group()
                )  # whose collectives that thread alone issues, in one order on all workers
            self._serial = _Serial()
        self._state = PowerSGDState(
            group, matrix_approximation_rank=hook.rank, start_powerSGD_iter=hook.first_step
        )

    def __call__(self, bucket: dist.GradBucket) -> Issued:
        given = self._count(bucket)  # before it is issued: the last bucket's counts the step as done
        issue = partial(powerSGD_hook, self._state, bucket)
        mean = issue() if self._serial is None else self._serial.run(issue)
        return _times_workers(mean), given * bucket.buffer().element_size()

    def _count(self, bucket: dist.GradBucket) -> int:
        """Elements that are given to collectives."""
        state, found = self._state, 0
        if state.iter < state.start_powerSGD_iter:
            return bucket.buffer().numel()
        for gradient in bucket.gradients():
            rows, columns = gradient.view(gradient.shape[0], -1).shape
            rank = min(rows, columns, state.matrix_approximation_rank)
            pays, whole, factors = _should_compress(rows, columns, rank, state.min_compression_rate)
            found += factors if pays else whole
        return found


class _Serial:
    """A thread that issues one bucket's sum when the one before it has ended.

    What follows a sum runs in Gloo's two threads, and powersgd waits there for two further sums: several buckets at
    once would keep both threads waiting for what no thread is left for.
    """

    def __init__(self) -> None:
        self._queue: SimpleQueue[tuple[Callable[[], Future[Tensor]], Future[Tensor]]] = SimpleQueue()
        Thread(target=self._loop, name="powersgd", daemon=True).start()

    def run(self, issue: Callable[[], Future[Tensor]]) -> Future[Tensor]:
        """What `issue` will have answered."""
        answer: Future[Tensor] = Future()
        self._queue.put((issue, answer))
        return answer

    def _loop(self) -> None:
        while True:
            issue, answer = self._queue.get()
            try:
                answer.set_result(issue().wait())
            except Exception as error:  # of Gloo's: a peer is lost
                answer.set_exception(error)  # type: ignore[arg-type]  # as its own documentation has it


def _everybody() -> dist.ProcessGroup:
    group = dist.group.WORLD
    assert group is not None, "joined before the model is wrapped"
    return group


def _times_workers(mean: Future[Tensor]) -> Future[Tensor]:
    def times(future: Future[Tensor]) -> Tensor:
        with torch.no_grad():
            return future.value().mul_(dist.get_world_size())

    return mean.then(times)
