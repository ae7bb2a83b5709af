"""What a model may not do under fully_shard, which holds other tensors than the model's own parameters: between two
calls of a module a part of each, in a call the whole, and a new one in each call. Some of it fails in PyTorch
(`refused.py`); this is what would be lost without a word, found where it begins.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from functools import partial

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.tensor import DTensor
from torch.nn import Parameter

from engine.errors import TrainingError
from engine.models.uses import tensors_in

_REMEDY = "Choose ddp, or another strategy"


def check_shardable(model: nn.Module, groups: Sequence[nn.Module]) -> None:
    """Raises TrainingError for what `groups`, children first, cannot be sharded with."""
    grouped: set[int] = set()
    for group in groups:
        types: dict[torch.dtype, str] = {}
        inside = {id(p) for p in group.parameters()} - grouped
        for name, parameter in model.named_parameters():
            if id(parameter) in inside:
                types.setdefault(parameter.dtype, name)
        grouped |= inside
        if len(types) > 1:
            found = ", ".join(f"{name} is {kind}" for kind, name in types.items())
            raise TrainingError(
                f"{found}: `fsdp` gathers parameters of one type at a time, and these belong together. Give them one"
                f" type, or put them into modules of their own. {_REMEDY}"
            )
    for name, parameter in model.named_parameters():
        if _hooks(parameter):
            raise _hooked(name)


class ShardedUse:
    """Watches the passes of one sharded model."""

    def __init__(self, model: nn.Module, groups: Sequence[nn.Module]) -> None:
        """`groups`: those that are gathered as one each."""
        self._model = model
        self._trained = {name: p.requires_grad for name, p in model.named_parameters()}
        self._versions: dict[str, int] = {}
        """By parameter: what autograd had counted of it, in parts, when the pass began."""
        self._entered = False
        self._order = 0
        """A checksum of the groups that have been entered in this step, one after another."""
        model.register_forward_pre_hook(self._enter)
        model.register_forward_hook(self._leave)
        for number, group in enumerate(groups):
            group.register_forward_pre_hook(partial(self._gathered, number))

    def begin_forward(self) -> None:
        self._entered = False
        self._versions = {
            name: p._version for name, p in self._model.named_parameters() if isinstance(p, DTensor)
        }

    def end_forward(self) -> None:
        """The loss is computed. Raises TrainingError for what has been done in the pass."""
        for name, parameter in self._model.named_parameters():
            if parameter.requires_grad != self._trained[name]:
                raise TrainingError(
                    f"{name} was {'frozen' if self._trained[name] else 'thawed'} in forward: `fsdp` keeps to what was"
                    f" trained when the model was built. {_REMEDY}"
                )
            if _hooks(parameter, ours=isinstance(parameter, DTensor)):
                raise _hooked(name)
            if isinstance(parameter, DTensor):
                before = self._versions.get(name)
                if before is not None and parameter._version != before:
                    raise TrainingError(
                        f"{name} was written to while `fsdp` held a part of it on each worker: parts need not be alike."
                        f" {_REMEDY}"
                    )
        if self._versions and not self._entered:
            raise TrainingError(
                "the loss calls parts of the model, and never the model: `fsdp` gathers parameters, and sums gradients,"
                f" where the model itself is called. Call it as a whole. {_REMEDY}"
            )

    def end_backward(self) -> None:
        """The step's gradients are here. Collective; every worker raises TrainingError where they called groups in
        different orders: then each may have been given parts of another group."""
        mine = torch.tensor([self._order], device=next(self._model.parameters()).device)
        everyone = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
        dist.all_gather(everyone, mine)
        self._order = 0
        if any(int(one) != int(mine) for one in everyone):
            raise TrainingError(
                "workers called the model's layers in different orders, or not the same ones, and `fsdp` gathers what"
                f" all of them call at once: forward has to do the same for every batch. {_REMEDY}"
            )

    def _enter(self, module: nn.Module, inputs: object) -> None:
        self._entered = True

    def _leave(self, module: nn.Module, inputs: object, output: object) -> None:
        for tensor in tensors_in(output):
            if tensor.requires_grad:
                tensor.register_hook(_once_only)

    def _gathered(self, number: int, module: nn.Module, inputs: object) -> None:
        if module.training:
            self._order = zlib.crc32(number.to_bytes(4, "little"), self._order)


def _once_only(gradient: torch.Tensor) -> None:
    """Backward begins; where what it computes can be differentiated again, what it needs will have been freed."""
    if torch.is_grad_enabled():
        raise TrainingError(
            "the loss differentiates a gradient (create_graph=True), and `fsdp` frees what that takes after the first"
            f" backward pass. {_REMEDY}"
        )


def _hooks(parameter: Parameter, *, ours: bool = False) -> bool:
    """Whether the parameter has hooks of the user's. `ours`: one of them is the runtime's."""
    accumulated = getattr(parameter, "_post_accumulate_grad_hooks", None) or ()
    return bool(parameter._backward_hooks) or len(accumulated) > ours


def _hooked(name: str) -> TrainingError:
    return TrainingError(
        f"{name} has a hook: under `fsdp` gradients are those of other tensors, which do not have it. Hook the module's"
        f" output. {_REMEDY}"
    )
