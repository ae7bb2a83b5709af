"""One worker's replica under PyTorch's own fully_shard (FSDP2): 1/n of every parameter, gradient and optimizer state.

A group's parameters are gathered before its forward and before its backward pass, and its gradients summed and
scattered after. Between steps `settle` gathers all of them, so that an evaluation, in which workers may have different
numbers of batches, needs no exchange. Events show computation with the waiting in it: FSDP does not tell them apart.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard

from engine.inputs.loader import StepBatch
from engine.runtime.gathered_writes import GatheredWrites
from engine.runtime.peer_replica import PeerReplica

_NEVER_CALLED = (nn.ModuleList, nn.ModuleDict)
"""Containers without a forward pass of their own."""
_USED_FROM_OUTSIDE = (nn.MultiheadAttention,)
"""Modules that use their children's parameters without calling them."""


class FsdpReplica(PeerReplica):
    """A model in groups of modules, each of them sharded as one."""

    whole = False

    def _wrap(self, bucket_bytes: int, device: str, all_used: bool) -> None:
        model = self.model
        mesh = init_device_mesh(device.partition(":")[0], (dist.get_world_size(),))
        for module in (*groups(model, bucket_bytes), model):
            fully_shard(module, mesh=mesh)
        self._groups = [module for module in model.modules() if isinstance(module, FSDPModule)]
        for group in self._groups:
            group.set_gradient_divide_factor(1.0)
            group.set_force_sum_reduction_for_comms(True)  # Gloo cannot multiply as it sums
            group.set_reduce_scatter_unused_params(not all_used, recurse=False)
        self._whole = False
        self._writes = GatheredWrites(model, [] if all_used else self._groups)

    @contextmanager
    def accumulating(self) -> Iterator[None]:
        self._root.set_requires_gradient_sync(False)
        try:
            yield
        finally:
            self._root.set_requires_gradient_sync(True)

    def begin_step(self, step: int, batch: StepBatch) -> None:
        super().begin_step(step, batch)
        self._writes.begin_step(step)
        if self._whole:
            self._keep_whole(False)
            for group in self._groups:
                group.reshard()

    def end_forward(self) -> None:
        super().end_forward()
        self._writes.end_forward()

    def settle(self) -> None:
        """Gather every parameter, to stay until the next step. Collective."""
        self._keep_whole(True)
        for group in self._groups:
            group.unshard()

    def _keep_whole(self, whole: bool) -> None:
        self._whole = whole
        for group in self._groups:
            group.set_reshard_after_forward(not whole and group is not self._root, recurse=False)

    @property
    def _root(self) -> FSDPModule:
        return self._groups[0]


def groups(model: nn.Module, size: int) -> list[nn.Module]:
    """The modules below `model` that are sharded as one each, children first: from the leaves up, a module becomes a
    group when the parameters below it that are in no group yet reach `size` bytes, as in FSDP's size-based policy, or
    are of another type than most, because a group has one type.

    Left to a module further up: parameters that modules outside use, too, for they have to be there for all of them.
    """
    by_type: dict[torch.dtype, int] = defaultdict(int)
    for parameter in model.parameters():
        by_type[parameter.dtype] += parameter.nbytes
    usual = max(by_type, key=by_type.__getitem__)
    owners: dict[int, set[nn.Module]] = defaultdict(set)
    for module in model.modules():
        for parameter in module.parameters(recurse=False):
            owners[id(parameter)].add(module)
    found: list[nn.Module] = []
    grouped: set[int] = set()

    def visit(module: nn.Module) -> None:
        if not isinstance(module, _USED_FROM_OUTSIDE):
            for child in module.children():
                visit(child)
        inside = set(module.modules())
        mine = [p for p in module.parameters() if id(p) not in grouped]
        closed = all(owners[id(p)] <= inside for p in mine)
        wanted = sum(p.nbytes for p in mine) >= size or any(p.dtype != usual for p in mine)
        if wanted and closed and not isinstance(module, _NEVER_CALLED):
            found.append(module)
            grouped.update(map(id, mine))

    for child in model.children():
        visit(child)
    return found
