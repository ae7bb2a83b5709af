"""One worker's replica under PyTorch's own DistributedDataParallel.

A communication hook sums each bucket (`engine/replica/ddp_hooks.py`) without DDP's division by the number of workers.
Events show computation and each bucket's sum, whose bytes are those of the layers that have gradients in the bucket.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel

from engine.inputs.task import BatchLoss, Task
from engine.instrumentation.compiled import compiler
from engine.plan.plan import Wrapper
from engine.replica.bucketed_gradients import BucketedGradients
from engine.replica.ddp_hooks import sum_by
from engine.replica.wrapped import WrappedReplica
from engine.telemetry.events import NONE, Kind, Track


class _Pass(nn.Module):
    """A whole pass, the loss included: DDP looks there for what is used, and the loss gets the model itself."""

    def __init__(self, model: nn.Module, task: Task) -> None:
        super().__init__()
        self.model = model
        self._task = task

    def forward(self, inputs: Tensor, targets: Tensor) -> BatchLoss:
        return self._task(self.model, inputs, targets)


class DdpReplica(WrappedReplica):
    """A whole model, whose gradients DDP sums in buckets during backward."""

    def _wrap(self, wrapper: Wrapper, device: str, all_used: bool) -> None:
        bucket_bytes = wrapper.bucket_bytes
        self._sum = sum_by(wrapper.hook, self._collectives)
        self._small_buckets = bucket_bytes < dist._DEFAULT_FIRST_BUCKET_BYTES
        self._options: dict[str, Any] = {
            "device_ids": [torch.device(device)] if device.startswith("cuda") else None,
            "broadcast_buffers": False,
            "bucket_cap_mb": bucket_bytes / 2**20,
            "find_unused_parameters": not all_used,
        }
        trained = {name: p for name, p in self.model.named_parameters() if p.requires_grad}
        self._gradients = BucketedGradients(trained)
        for parameter in trained.values():
            parameter.register_post_accumulate_grad_hook(self._gradients.came)

    def passing(self, task: Task) -> Callable[[Tensor, Tensor], BatchLoss]:
        if self._small_buckets and compiler() is not None:
            # It cuts what it compiles where buckets end, and fails where they are smaller than DDP's usual first one.
            torch._dynamo.config.optimize_ddp = False
        with warnings.catch_warnings():
            # What is to come in its place sends buffers once at the start.
            warnings.filterwarnings("ignore", "`broadcast_buffers` is deprecated", FutureWarning)
            self._wrapped = DistributedDataParallel(_Pass(self.model, task), **self._options)
        self._wrapped.register_comm_hook(None, self._sum_bucket)
        return self._wrapped

    def accumulating(self) -> AbstractContextManager[None]:
        context: AbstractContextManager[None] = self._wrapped.no_sync()
        return context

    def end_backward(self) -> None:
        if self._departing:
            self._gradients.end_backward()
        super().end_backward()

    def settle(self) -> None:
        """Nothing is under way between steps."""

    def _sum_bucket(self, state, bucket):  # DDP refuses annotations that are not evaluated
        """(None, GradBucket) -> Future of the flat sum, timed."""
        self._gradients.leave(bucket.parameters(), bucket.gradients())
        start_ns, step, recording = self._collectives.begins(), self._step, self._recording
        index, weights = bucket.index(), self._weights(bucket.parameters())
        layer = next(iter(weights)) if len(weights) == 1 else NONE  # a large one has its bucket to itself

        issued, size = self._sum(bucket)

        def done(future: Future[torch.Tensor]) -> torch.Tensor:
            recording.recorder.event(
                Kind.REDUCE,
                Track.SERVER,
                step=step,
                layer=layer,
                unit=index,
                start=start_ns,
                end=recording.now_ns(),
                bytes=size,
            )
            self._collectives.moved(weights, size, rounds=2, workers=dist.get_world_size(), start=start_ns)
            return future.value()

        return issued.then(done)
