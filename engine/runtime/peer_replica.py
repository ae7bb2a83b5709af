"""One worker's replica under PyTorch's own DistributedDataParallel, with the methods of `PlanReplica`.

A communication hook keeps DDP's allreduce but leaves out its division by the number of workers: our losses are scaled
by the global batch already, so that sums are what is wanted. What it sends when is its own affair: events show
computation and each bucket's allreduce.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager

import torch
import torch.distributed as dist
from torch import nn
from torch.futures import Future
from torch.nn import Parameter
from torch.nn.parallel import DistributedDataParallel

from engine.runtime.recording import Recording
from engine.runtime.updates import Hyper, LayerUpdater
from engine.telemetry.events import Kind, Track


class PeerReplica:
    """A model that DDP exchanges, updated by one optimizer over all parameters after backward."""

    def __init__(
        self,
        *,
        model: nn.Module,
        parameters: Mapping[str, Parameter],
        layer_index: Mapping[str, int],
        bucket_bytes: int,
        updater: LayerUpdater,
        recording: Recording,
        hyper: Callable[[int], Hyper],
        clip_norm: float | None,
        device: str,
        all_used: bool,
    ) -> None:
        """`parameters`: the trainable ones by name; `layer_index`: their layers' forward positions. `all_used`: every
        pass uses every parameter, so that DDP need not look for those that have no gradient."""
        self._inner = model
        self._parameters = parameters
        self._layer_index = layer_index
        self._updater = updater
        self._recording = recording
        self._hyper = hyper
        self._clip_norm = clip_norm
        self._step = 0
        self._departing = False
        self.model = DistributedDataParallel(
            model,
            device_ids=[torch.device(device)] if device.startswith("cuda") else None,
            broadcast_buffers=False,
            bucket_cap_mb=bucket_bytes / 2**20,
            find_unused_parameters=not all_used,
        )
        self.model.register_comm_hook(None, self._allreduce)
        left: dict[int, int] = {}
        for name in parameters:
            left[layer_index[name]] = left.get(layer_index[name], 0) + 1
        self._layer_size = left
        self._layer_left = dict(left)
        for name, parameter in parameters.items():
            parameter.register_post_accumulate_grad_hook(self._on_gradient(layer_index[name]))
        self._first_forward = True

    def begin_step(self, step: int) -> None:
        self._step = step

    def begin_forward(self) -> None:
        self._recording.begin_pass()
        if self._first_forward:
            self._mark_layers()

    def end_forward(self) -> None:
        self._recording.end_forward()

    def begin_backward(self, last: bool) -> None:
        self._layer_left = dict(self._layer_size)
        self._recording.begin_pass()
        self._departing = last

    def end_backward(self) -> None:
        """DDP has waited for its buckets inside backward: clip and update at once, as its users do."""
        self._recording.end_backward()
        if not self._departing:
            return
        if self._clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(self._parameters.values(), self._clip_norm)
        start_ns = self._recording.now_ns()
        self._updater.update(self._hyper(self._step))
        self._recording.applied(-1, start_ns)
        for parameter in self._parameters.values():
            parameter.grad = None
        self._step += 1

    def settle(self) -> None:
        """Nothing is under way between steps."""

    def close(self) -> None:
        dist.destroy_process_group()

    def accumulating(self) -> AbstractContextManager[None]:
        """Around a micro-batch that is not the last: no exchange."""
        context: AbstractContextManager[None] = self.model.no_sync()
        return context

    def _mark_layers(self) -> None:
        """Tell forward spans apart by the modules that own parameters."""
        self._first_forward = False
        modules = dict(self._inner.named_modules())
        owners: dict[str, int] = {}
        for name, index in self._layer_index.items():
            owners.setdefault(name.rpartition(".")[0], index)
        for owner, index in owners.items():
            modules[owner].register_forward_pre_hook(
                lambda module, inputs, index=index: (
                    self._recording.entering(index) if module.training else None
                )
            )

    def _on_gradient(self, layer: int) -> Callable[[torch.Tensor], None]:
        def hook(parameter: torch.Tensor) -> None:
            self._layer_left[layer] -= 1
            if self._layer_left[layer] == 0:
                self._recording.gradient(layer)

        return hook

    def _allreduce(self, state, bucket):  # DDP refuses annotations that are not evaluated
        """DDP's allreduce, timed, and summed instead of averaged: (None, GradBucket) -> Future of the flat sum."""
        start_ns, step, recording = self._recording.now_ns(), self._step, self._recording
        flat = bucket.buffer()
        index, size = bucket.index(), flat.nbytes

        def done(future: Future[list[torch.Tensor]]) -> torch.Tensor:
            recording.recorder.event(
                Kind.REDUCE,
                Track.SERVER,
                step=step,
                unit=index,
                start=start_ns,
                end=recording.now_ns(),
                bytes=size,
            )
            return future.value()[0]

        return dist.all_reduce(flat, async_op=True).get_future().then(done)
