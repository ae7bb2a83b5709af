"""What a model may not do under fully_shard, which holds other tensors than the model's own parameters: between two
calls of a module a part of each, in a call the whole, and a new one in each call. Some of it fails in PyTorch
(`engine/runtime/refused.py`); this is what would be lost without a word, found where it begins.
"""

from __future__ import annotations

import gc
import zlib
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd.graph import get_gradient_edge
from torch.distributed.tensor import DTensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nn import Parameter
from torch.nn.modules.lazy import LazyModuleMixin

from engine.errors import TrainingError
from engine.instrumentation.checksum import Turns
from engine.instrumentation.compiled import regions
from engine.instrumentation.own_hook import OwnHook
from engine.instrumentation.uses import tensors_in
from engine.replica.freed_reads import FreedReads
from engine.replica.sharded_gradients import ShardedGradients

_REMEDY = "Choose ddp, or another strategy"
_ORDER_BYTES = 4
"""Of a checksum."""
_NODES_EVERY = 100
"""Backward passes from one look at parameters' AccumulateGrad nodes to the next: it takes 10 to 100 us for each."""


def check_shardable(model: nn.Module, groups: Sequence[nn.Module]) -> None:
    """Raises TrainingError for what `groups`, children first, cannot be sharded with."""
    names = {module: name for name, module in model.named_modules()}
    grouped: set[int] = set()
    for group in groups:
        if isinstance(group, LazyModuleMixin):
            raise TrainingError(
                f"{names[group] or 'the model'} is a {type(group).__name__} that was never called: it becomes another"
                " class in its first call, and so does what `fsdp` made of it. Call the model once where it is built."
                f" {_REMEDY}"
            )
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
        if type(parameter) is not Parameter:
            raise TrainingError(
                f"{name} is a {type(parameter).__name__}, a class of the model's own, and `fsdp` puts tensors of other"
                f" classes in its place. Make it an nn.Parameter. {_REMEDY}"
            )


def warn_of_other_ways(model: nn.Module, groups: Sequence[nn.Module]) -> None:
    """Say which transformer layers PyTorch computes in another way in evaluation mode because they are gathered."""
    gathered = set(groups)
    found = [
        name or "the model"
        for name, module in model.named_modules()
        if isinstance(module, nn.TransformerEncoderLayer) and not gathered.isdisjoint(module.modules())
    ]
    if found:
        print(
            f"warning: {', '.join(found[:3])}{' and others' if found[3:] else ''}: `fsdp` gathers these transformer"
            " layers, or parts of them, and PyTorch computes such layers in evaluation mode without their fast path."
            " Other numbers come out for padded positions, and where you have replaced a part of such a layer. If"
            f" something reads these, {_or_higher(model)}choose ddp, or another strategy",
            flush=True,
        )


def _or_higher(model: nn.Module) -> str:
    if isinstance(model, nn.TransformerEncoderLayer):  # in whatever group
        return ""
    return "set `group_bytes` so high that one group holds the layers and what is around them, or "


class Originals:
    """The memory of a model's own parameters, which fully_shard puts others in the place of."""

    def __init__(self, model: nn.Module) -> None:
        self._memory = {name: StorageWeakRef(p.untyped_storage()) for name, p in model.named_parameters()}

    def check_left(self) -> None:
        """Raises TrainingError where somebody still holds one: what he reads would never change."""
        if not self._held():
            return
        gc.collect()
        held = self._held()
        if held:
            raise TrainingError(
                f"{', '.join(held[:3])}{' and others' if held[3:] else ''}: something other than the module that owns"
                " the parameter holds its memory (a list or dictionary of parameters, an optimizer, a NumPy array,"
                " a view, a buffer), and `fsdp` puts parts in the place of parameters: what is held never changes. Ask"
                f" the module for its parameters where they are used. {_REMEDY}"
            )

    def _held(self) -> list[str]:
        return [name for name, memory in self._memory.items() if not memory.expired()]


class ShardedUse:
    """Watches the passes of one sharded model."""

    def __init__(
        self,
        model: nn.Module,
        groups: Sequence[nn.Module],
        gradients: ShardedGradients | None,
        originals: Originals,
    ) -> None:
        """`groups`: those that are gathered as one each. `gradients`: None where every parameter has one."""
        self._model = model
        self._groups = groups
        self._gradients = gradients
        self._originals: Originals | None = originals
        self._trained = {name: p.requires_grad for name, p in model.named_parameters()}
        self._before: dict[str, tuple[int, torch.UntypedStorage]] = {}
        """By parameter, in parts, when the pass began: what autograd had counted of it, and its memory, which `.data =`
        replaces."""
        self._whole: dict[Tensor, int] = {}
        """By parameter, gathered: what autograd had counted of it when backward began."""
        self._entered = False
        self._passes = 0
        """Backward passes so far."""
        self._order = 0
        """A checksum of the groups that have been entered in this step, one after another."""
        self._reads = FreedReads(self._owner_of)
        self._reading = False
        self._is_compiled = bool(regions(model))
        """Then what is computed within is not looked at: the compiler takes what looks for a reason to give up."""
        model.register_forward_pre_hook(OwnHook(self._enter))
        model.register_forward_hook(OwnHook(self._leave))
        for number, group in enumerate(groups):
            # Before fully_shard's own, which puts what it gathers in the place of what the modules have.
            group.register_forward_pre_hook(OwnHook(partial(self._gathering, number)), prepend=True)
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                parameter.register_hook(partial(_reached, name))

    def begin_forward(self, step: int) -> None:
        self._entered = False
        if step < Turns.FIRST and not self._is_compiled:
            self._reads.__enter__()
            self._reading = True
        self._before = {
            name: (p._version, p.untyped_storage())
            for name, p in self._model.named_parameters()
            if isinstance(p, DTensor)
        }

    def end_forward(self) -> None:
        """The loss is computed. Raises TrainingError for what has been done in the pass."""
        if self._reading:
            self._reads.__exit__(None, None, None)
            self._reading = False
        if self._originals is not None:  # in the first pass, what is computed anew in each lets go of them
            self._originals.check_left()
            self._originals = None
        known = {held for group in self._groups for part in _parts(group) for held in _held(part)}
        for name, parameter in self._model.named_parameters():
            if name not in self._trained:
                continue  # the model has been given it since, which `outside.py` looks at
            if parameter not in known:
                raise TrainingError(
                    f"{name} was replaced by another tensor in forward, which `fsdp` holds no part of. {_REMEDY}"
                )
            if parameter.requires_grad != self._trained[name]:
                how = "frozen" if self._trained[name] else "thawed"
                also = "" if self._trained[name] else ", and build the model with it trainable"
                raise TrainingError(
                    f"{name} was {how} in forward: `fsdp` keeps to what was trained when the model was built."
                    f" {_REMEDY}{also}"
                )
            part = isinstance(parameter, DTensor)
            if _hooks(parameter, ours=part, after=part or self._gradients is not None):
                raise _hooked(name)
            if part:
                self._check_part(name, parameter)
        if self._before and not self._entered:
            raise TrainingError(
                "the loss calls parts of the model, and never the model: `fsdp` gathers parameters, and sums gradients,"
                f" where the model itself is called. Call it as a whole. {_REMEDY}"
            )

    def begin_backward(self) -> None:
        """What is gathered in backward is the same tensor again, of which FSDP's own writes are not counted."""
        for group in self._groups:
            for part in _parts(group):
                for parameter in _held(part)[1:]:
                    self._whole[parameter] = parameter._version

    def passed(self, last: bool) -> None:
        """A backward pass is over. Raises TrainingError for what was written in it, and after the step's `last` one
        for a gradient that nobody has summed."""
        freed = {
            held
            for group in self._groups
            if not _is_whole(group)
            for p in _parts(group)
            for held in _held(p)[1:]
        }
        for name, parameter in self._model.named_parameters():
            if isinstance(parameter, DTensor):
                self._check_part(name, parameter)
            elif parameter in freed:
                raise TrainingError(
                    f"{name} is where `fsdp` does not know of it: forward has put the parameter, gathered, into another"
                    f" module than the one that had it when the model was built. Leave it where it is. {_REMEDY}"
                )
        for group in self._groups:
            for part in _parts(group):
                for parameter in _held(part)[1:]:
                    if last and parameter.grad is not None:
                        raise _elsewhere(self._path(part))
                    if self._whole.get(parameter, parameter._version) != parameter._version:
                        raise TrainingError(
                            f"{self._path(part)} was written to in backward while `fsdp` had gathered it, and its"
                            f" shards do not get to know. {_REMEDY}"
                        )
        self._whole.clear()
        if self._passes % _NODES_EVERY == 0:
            self._check_nodes()
        self._passes += 1

    def _check_nodes(self) -> None:
        for group in self._groups:
            for part in _parts(group):
                if any(_node_is_hooked(each) for each in _held(part) if each.requires_grad):
                    raise TrainingError(
                        f"the AccumulateGrad node of {self._path(part)} has a hook: under `fsdp` gradients are those of"
                        f" other tensors, with nodes of their own. Hook the module's output. {_REMEDY}"
                    )

    def _check_part(self, name: str, parameter: Tensor) -> None:
        if name not in self._before:
            return
        version, memory = self._before[name]
        if parameter._version != version or parameter.untyped_storage()._cdata != memory._cdata:
            raise TrainingError(
                f"{name} was written to while `fsdp` held a part of it on each worker: parts need not be alike."
                f" {_REMEDY}"
            )

    def end_backward(self) -> list[str]:
        """The step's gradients are here: the parameters that no worker has one of. Collective; every worker raises
        TrainingError where they called groups in different orders: then each may have been given parts of another
        group."""
        mine = self._order.to_bytes(_ORDER_BYTES, "little")
        if self._gradients is not None:
            mine += self._gradients.take()
        self._order = 0
        device = next(self._model.parameters()).device
        sent = torch.frombuffer(bytearray(mine), dtype=torch.uint8).to(device)
        gathered = [torch.empty_like(sent) for _ in range(dist.get_world_size())]
        dist.all_gather(gathered, sent)
        everyone = torch.stack(gathered).cpu()
        if bool((everyone[:, :_ORDER_BYTES] != everyone[0, :_ORDER_BYTES]).any()):
            raise TrainingError(
                "workers called the model's layers in different orders, or not the same ones, and `fsdp` gathers what"
                f" all of them call at once: forward has to do the same for every batch. {_REMEDY}"
            )
        return [] if self._gradients is None else self._gradients.absent(everyone[:, _ORDER_BYTES:])

    def _enter(self, module: nn.Module, inputs: object) -> None:
        self._entered = True

    def _leave(self, module: nn.Module, inputs: object, output: object) -> None:
        for tensor in tensors_in(output):
            if tensor.requires_grad:
                tensor.register_hook(_once_only)

    def _gathering(self, number: int, module: nn.Module, inputs: object) -> None:
        if module.training:
            self._order = zlib.crc32(number.to_bytes(4, "little"), self._order)
        parts = module._get_fsdp_state()._fsdp_param_group  # type: ignore[operator]
        for part in () if parts is None or parts.is_unsharded else parts.fsdp_params:
            place = part._module_info
            if place.module._parameters.get(place.param_name) is not part.sharded_param:
                raise TrainingError(
                    f"{self._path(part)} has been replaced by another tensor"
                    " (torch.func.functional_call does so), and `fsdp` puts the parameter that it gathers in the place"
                    " of that. Set `group_bytes` so high that one group holds the module and whoever calls it, or"
                    " choose ddp, or another strategy"
                )

    def _owner_of(self, tensor: Tensor) -> str | None:
        """The name of the parameter whose memory, once gathered, this is."""
        memory = tensor.untyped_storage()._cdata
        for group in self._groups:
            for part in _parts(group):
                if any(whole.untyped_storage()._cdata == memory for whole in _held(part)[1:]):
                    return self._path(part)
        return None

    def _path(self, part: Any) -> str:
        """The name of a parameter that a group holds parts of."""
        owner, name = part._module_info.module, part._module_info.param_name
        path = next(path for path, one in self._model.named_modules() if one is owner)
        return f"{path}.{name}".removeprefix(".")


def _parts(group: nn.Module) -> Sequence[Any]:
    """What PyTorch knows of each parameter that a group holds parts of."""
    parts = group._get_fsdp_state()._fsdp_param_group  # type: ignore[operator]
    return () if parts is None else parts.fsdp_params


def _is_whole(group: nn.Module) -> bool:
    """Whether the group is gathered."""
    parts = group._get_fsdp_state()._fsdp_param_group  # type: ignore[operator]
    return parts is None or bool(parts.is_unsharded)


def _held(part: Any) -> tuple[nn.Parameter, ...]:
    """What stands in the module for a parameter: this worker's part, and all of it, once it has been gathered."""
    whole = getattr(part, "_unsharded_param", None)
    return (part.sharded_param,) if whole is None else (part.sharded_param, whole)


def _once_only(gradient: torch.Tensor) -> None:
    """Backward begins; where what it computes can be differentiated again, what it needs will have been freed."""
    if torch.is_grad_enabled():
        raise TrainingError(
            "the loss differentiates a gradient (create_graph=True), and `fsdp` frees what that takes after the first"
            f" backward pass. {_REMEDY}"
        )


def _reached(name: str, gradient: object) -> None:
    """A backward pass comes to a part, where fully_shard leaves sums only."""
    raise _elsewhere(name)


def _elsewhere(name: str) -> TrainingError:
    return TrainingError(
        f"the loss depends on {name} outside of the module that owns it, where `fsdp` holds a part of it on each worker"
        f" (a function was given it as an argument, say): its gradient would be lost. Use it in its own module."
        f" {_REMEDY}"
    )


def _hooks(parameter: Parameter, *, ours: bool = False, after: bool = False) -> bool:
    """Whether the parameter has hooks of the user's. `ours`, `after`: one on its gradient, and one on what was
    accumulated, is the runtime's."""
    before, accumulated = parameter._backward_hooks, getattr(parameter, "_post_accumulate_grad_hooks", None)
    return len(before or ()) > ours or len(accumulated or ()) > after


def _node_is_hooked(parameter: Parameter) -> bool:
    """Whether the node that accumulates its gradient has hooks. It does not tell: one of ours is put beside them."""
    node = get_gradient_edge(parameter).node
    for register in (node.register_prehook, node.register_hook):
        handle = register(lambda *gradients: None)
        others = len(handle.hooks_dict_ref() or ()) > 1
        handle.remove()
        if others:
            return True
    return False


def _hooked(name: str) -> TrainingError:
    return TrainingError(
        f"{name} has a hook: under `fsdp` gradients are those of other tensors, which do not have it. Hook the module's"
        f" output. {_REMEDY}"
    )
