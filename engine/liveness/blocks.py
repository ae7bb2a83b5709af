"""Blocks: what each block of a model saves for backward, holds while it runs, and costs, on tensors without values.

Two passes of different numbers of samples tell what grows with them. What is in no block (functions in the forward of a
module whose layers are blocks themselves, the loss) is listed last.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from engine.axes.memory import ACTIVATIONS
from engine.axes.memory_options import RecomputeOptions
from engine.instrumentation.module_calls import before_forward
from engine.liveness import host_kernels
from engine.liveness.ledger import Holder, Ledger
from engine.liveness.training import Training
from engine.memory.blocks import Asked, Finder, Found, surround
from engine.memory.saving import stays, unmoved
from engine.models.meta_kernels import quick
from engine.plan.description import Amount, BlockDescription

ASKED = Asked("recompute", RecomputeOptions(neighbours=1))
"""So that neighbours in an nn.Sequential are blocks of their own."""


@dataclass(kw_only=True)
class Seen:
    """Of one block in one pass, in bytes."""

    layers: tuple[str, ...]
    calls: int = 0
    bytes: Counter[str] = field(default_factory=Counter)
    """By the name of an Amount of `BlockDescription`; `highest`: the most that was there while it went forward or
    backward, beside parameters, buffers and the pass's inputs."""
    by_layer: Counter[str] = field(default_factory=Counter)
    saved: dict[int, int] = field(default_factory=dict)
    """By address of a memory."""
    flops: Counter[str] = field(default_factory=Counter)


@quick()
def blocks_of(training: Training) -> tuple[BlockDescription, ...]:
    """Of a model and a batch on `meta`. Raises whatever a model raises that looks at values."""
    layers = training.described.layers
    asked = dict.fromkeys((x.name for x in layers if any(p.trainable for p in x.parameters)), ASKED)
    once, twice = (Pass(training.times(number), asked).run() for number in (1, 2))
    return tuple(
        _described(one, two, training.samples) for one, two in zip(once, twice, strict=True) if one.calls
    )


class Pass:
    """One forward and backward pass."""

    def __init__(self, training: Training, asked: Mapping[str, Asked]) -> None:
        """`asked`: what the layers ask for whose blocks are looked at."""
        self._training = training
        model, described = training.model, training.described
        self._found = Finder(model, described, asked, lambda name: ACTIVATIONS[name].load()).find()
        self._outside = Seen(layers=(), calls=1)
        self._seen = {each.block.index: Seen(layers=each.block.layers) for each in self._found}
        self._now = self._outside
        self._fresh: dict[int, int] = {}
        """What the call that is going on has saved first, in bytes by address."""
        self._layer = ""
        self._names = [layer.name for layer in described.layers]
        self._spans: list[tuple[int, Seen]] = []
        """First number of a node of autograd's, and whose nodes those are from there on."""
        self._ledger = Ledger(host_kernels)
        held = [*model.parameters(), *model.buffers(), *training.batch]
        self._never = {_address(tensor) for tensor in held}
        self._ledger.book(held, Holder("before"))
        self._before = self._ledger.held

    def run(self) -> list[Seen]:
        """What was seen of each block, in forward order, and last of what is in none."""
        with ExitStack() as surroundings:
            surroundings.enter_context(self._ledger)
            surroundings.enter_context(host_kernels.on_the_host())
            surroundings.enter_context(_Flops(self._count))
            for each in surround(self._found, self._around):
                surroundings.callback(each.remove)
            modules = dict(self._training.model.named_modules(remove_duplicate=False))
            for name in self._names:
                if name in modules:
                    told = before_forward(modules[name], partial(self._entering, name))
                    surroundings.callback(told.remove)
            self._enter(self._outside, self._fresh)
            with saved_tensors_hooks(self._pack, unmoved):
                loss = self._training.loss().total
            if loss.requires_grad:
                loss.backward()
        self._training.model.zero_grad(set_to_none=True)
        return [self._seen[index] for index in sorted(self._seen)] + [self._outside]

    def _around(self, found: Found) -> Callable[..., Any]:
        return partial(self._call, self._seen[found.block.index])

    def _call(
        self, seen: Seen, run: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        before, fresh, ledger = (self._now, self._fresh), dict[int, int](), self._ledger
        if self._now is seen:  # it calls itself
            return run(*args, **kwargs)
        seen.calls += 1
        given = _memories([args, kwargs], self._never)
        seen.bytes["inputs"] += sum(given.values())
        held, highest = ledger.held, ledger.peak
        ledger.begin()
        self._enter(seen, fresh)
        try:
            result = run(*args, **kwargs)
        finally:
            self._enter(*before)
        seen.bytes["forward_peak"] = max(seen.bytes["forward_peak"], ledger.peak - held)
        seen.bytes["highest"] = max(seen.bytes["highest"], ledger.peak - self._before)
        ledger.peak = max(ledger.peak, highest)
        answered = _memories(result, self._never)
        seen.bytes["outputs"] += sum(answered.values())
        seen.bytes["saved_inputs"] += sum(size for memory, size in fresh.items() if memory in given)
        own = (memory for memory in fresh if memory in answered and memory not in given)
        seen.bytes["saved_outputs"] += sum(fresh[memory] for memory in own)
        return result

    def _enter(self, seen: Seen, fresh: dict[int, int]) -> None:
        self._now, self._fresh = seen, fresh
        self._spans.append((torch.autograd._get_sequence_nr(), seen))

    def _entering(self, layer: str) -> None:
        self._layer = layer

    def _pack(self, tensor: Tensor) -> Any:
        if tensor.layout == torch.strided:
            memory, size = _address(tensor), tensor.untyped_storage().nbytes()
            if memory not in self._never and memory not in self._now.saved:
                self._now.saved[memory] = self._fresh[memory] = size
                self._now.bytes["saved"] += size
                self._now.by_layer[self._layer] += size
        return stays(tensor)

    def _count(self, flops: int) -> None:
        if torch._C._current_graph_task_id() < 0:
            self._now.flops["forward"] += flops
            return
        node = torch._C._current_autograd_node()
        number = node._sequence_nr() if node is not None else -1
        at = bisect_right(self._spans, number, key=lambda span: span[0]) - 1
        seen, ledger = self._spans[max(at, 0)][1], self._ledger
        seen.flops["backward"] += flops
        seen.bytes["highest"] = max(seen.bytes["highest"], ledger.peak - self._before)
        ledger.peak = ledger.held


class _Flops(TorchDispatchMode):
    """Tells of each operation that ran under it, with its floating-point operations."""

    def __init__(self, tell: Callable[[int], None]) -> None:
        super().__init__()
        self._tell = tell

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        formula = flop_registry.get(func._overloadpacket)
        self._tell(0 if formula is None else formula(*args, **(kwargs or {}), out_val=result))
        return result


def _address(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata


def _memories(values: Any, but: Iterable[int]) -> dict[int, int]:
    """Bytes of the memories behind the tensors in `values`, by address."""
    tensors = (
        each for each in tree_leaves(values) if isinstance(each, Tensor) and each.layout == torch.strided
    )
    found = {_address(tensor): tensor.untyped_storage().nbytes() for tensor in tensors}
    return {memory: size for memory, size in found.items() if memory not in but}


def _described(one: Seen, two: Seen, samples: int) -> BlockDescription:
    def amount(first: int, second: int) -> Amount:
        each = (second - first) // samples
        fixed = first - each * samples
        if each < 0 or fixed < 0:  # what grows otherwise than with the samples: at the larger number
            return Amount(sample=-(-second // (2 * samples)))
        return Amount(fixed=fixed, sample=each)

    names = ("inputs", "outputs", "saved", "saved_inputs", "saved_outputs", "forward_peak")
    return BlockDescription(
        layers=one.layers,
        calls=one.calls,
        **{name: amount(one.bytes[name], two.bytes[name]) for name in names},
        by_layer=tuple(amount(one.by_layer[layer], two.by_layer[layer]) for layer in one.layers),
        forward_flops=round(one.flops["forward"] / samples),
        backward_flops=round(one.flops["backward"] / samples),
    )
