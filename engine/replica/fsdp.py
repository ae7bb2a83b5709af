"""One worker's replica under PyTorch's own fully_shard (FSDP2): 1/n of every parameter, gradient and optimizer state.

A group's parameters are gathered before its forward and before its backward pass, and its gradients summed and
scattered after. Between steps `settle` gathers all of them, so that an evaluation, in which workers may have different
numbers of batches, needs no exchange. Events show computation with the waiting in it: FSDP does not tell them apart.
What a group gathers and scatters are the bytes of its parameters' layers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.fsdp._fully_shard._fsdp_collectives import DefaultAllGather, DefaultReduceScatter
from torch.distributed.tensor import DTensor

from engine.inputs.loader import StepBatch
from engine.plan.plan import Wrapper
from engine.plan.updates import OptimizerSpec
from engine.replica.divided_updater import DividedUpdater
from engine.replica.gathered_writes import GatheredWrites
from engine.replica.sharded_gradients import ShardedGradients
from engine.replica.sharded_use import Originals, ShardedUse, check_shardable, warn_of_other_ways
from engine.replica.wrapped import WrappedReplica
from engine.state.updates import Away, Updater
from engine.telemetry.collectives import Collectives

_NEVER_CALLED = (nn.ModuleList, nn.ModuleDict, nn.ParameterList, nn.ParameterDict)
"""Containers without a forward pass of their own."""
_USED_FROM_OUTSIDE = (nn.MultiheadAttention,)
"""Modules that use their children's parameters without calling them."""


class FsdpReplica(WrappedReplica):
    """A model in groups of modules, each of them sharded as one."""

    whole = False

    def _wrap(self, wrapper: Wrapper, device: str, all_used: bool) -> None:
        model = self.model
        workers = dist.get_world_size()
        mesh = init_device_mesh(device.partition(":")[0], (workers,))
        rounds = 1 if device.startswith("cuda") else 2  # Gloo gives everybody the whole sum to scatter it
        left = dict.fromkeys(model.parameters())
        modules = (*groups(model, wrapper.bucket_bytes), model)
        check_shardable(model, modules)
        warn_of_other_ways(model, modules)
        originals = Originals(model)
        told: list[tuple[FSDPModule, dict[int, int]]] = []
        for module in modules:
            mine = [parameter for parameter in module.parameters() if parameter in left]
            for parameter in mine:
                del left[parameter]
            weights = self._weights(mine)
            group: FSDPModule = fully_shard(module, mesh=mesh)
            told.append((group, weights))
        self._groups = [module for module in model.modules() if isinstance(module, FSDPModule)]
        trained = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
        self._gradients = None if all_used else ShardedGradients(trained)
        for group in self._groups:
            group.set_gradient_divide_factor(1.0)
            group.set_force_sum_reduction_for_comms(True)  # Gloo cannot multiply as it sums
            group.set_reduce_scatter_unused_params(not all_used, recurse=False)
            group.unshard()  # one that was never gathered would have no gradient in place of a zero one
            if self._gradients is not None:
                for name, parameter in model.named_parameters():
                    if parameter.requires_grad and not isinstance(parameter, DTensor):
                        self._gradients.note(name, parameter)
            group.reshard()
        for group, weights in told:
            group.set_custom_all_gather(_Gather(self._collectives, weights, workers, rounds=1))
            group.set_custom_reduce_scatter(_Scatter(self._collectives, weights, workers, rounds=rounds))
        self._layer_of.clear()  # of the original parameters, which nobody is to hold
        self._whole = False
        self._writes = GatheredWrites(model, [] if all_used else self._groups)
        self._use = ShardedUse(model, self._groups, self._gradients, originals)

    def _updates(self, optimizer: OptimizerSpec, away: Away | None) -> Updater:
        return DividedUpdater(optimizer, self._parameters, away)

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
            # An evaluation's passes are on record as if they were to go backward. Workers may have had none, and would
            # gather other groups ahead.
            self._root._get_fsdp_state()._reset_iter_state()

    def begin_forward(self) -> None:
        super().begin_forward()
        # A loss that differentiates by itself may use parameters afterwards.
        self._root.set_reshard_after_backward(False, recurse=False)
        self._use.begin_forward(self._step)

    def end_forward(self) -> None:
        super().end_forward()
        self._use.end_forward()
        self._writes.end_forward()

    def begin_backward(self, last: bool) -> None:
        super().begin_backward(last)
        self._root.set_reshard_after_backward(True, recurse=False)
        self._use.begin_backward()
        if self._gradients is not None:
            self._gradients.begin_backward()

    def end_backward(self) -> None:
        self._use.passed(self._departing)
        if self._departing:
            for name in self._use.end_backward():
                self._parameters[name].grad = None
        super().end_backward()

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


class _Telling:
    """What a group's collectives say of themselves."""

    def __init__(
        self, collectives: Collectives, weights: Mapping[int, int], workers: int, *, rounds: int
    ) -> None:
        """`weights`: how much of the group belongs to each layer. `rounds`: see `Collectives.moved`."""
        self._collectives = collectives
        self._moved = partial(collectives.moved, weights, rounds=rounds, workers=workers)

    @contextmanager
    def _told(self, size: int) -> Iterator[None]:
        """Around a collective of `size` bytes, those of the whole group."""
        start_ns = self._collectives.begins()
        yield
        self._moved(size, start=start_ns)


class _Gather(_Telling, DefaultAllGather):
    """FSDP's own."""

    def __call__(
        self, output_tensor: Tensor, input_tensor: Tensor, group: dist.ProcessGroup, async_op: bool = False
    ) -> dist.Work | None:
        with self._told(output_tensor.nbytes):
            return super().__call__(output_tensor, input_tensor, group, async_op)


class _Scatter(_Telling, DefaultReduceScatter):
    """FSDP's own."""

    def __call__(
        self,
        output_tensor: Tensor,
        input_tensor: Tensor,
        group: dist.ProcessGroup,
        op: Any,
        async_op: bool = False,
    ) -> dist.Work:
        with self._told(input_tensor.nbytes):
            return super().__call__(output_tensor, input_tensor, group, op, async_op)


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
