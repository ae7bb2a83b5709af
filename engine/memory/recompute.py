"""recompute: what a block saves for backward is dropped after forward, and computed again when backward needs it.

Chen et al., "Training deep nets with sublinear memory cost" (2016): of n equal layers in a row, blocks of √n keep one
input each, and one block's activations are there at a time: O(√n) of the memory for at most one more forward pass. Here
√n (rounded) neighbours in an nn.Sequential form a block unless the option `neighbours` says how many are one; any other
block is the largest module all of whose layers ask for it.

In the first run, hooks on what autograd saves put a number in place of each tensor. The first of these that backward
wants starts the second run: on the same inputs, under the same autocast, with the same random numbers
(`randomness.py`), on the attributes that the first run found (`rewind.py`). Hooks on what that saves take the tensors
by their numbers, and it ends with the last; a tensor lives until autograd has taken it. No gate, span or clock takes
the second run for a forward pass. Hooks of a user's own on modules of the block are called in both runs. Under
torch.no_grad, in an evaluation and inside a transform of torch.func a block runs as ever.

In a block's first two passes inputs are copied, in case the block writes to them (later, those that it wrote to are
copied); the second run goes to its end, and its outputs must be bitwise those of the first one, on a device that
repeats itself: what depends on anything that is not restored (a generator of one's own, a counter in a file) ends the
job there, with the layer's name.

Costs a forward pass of the block; no bytes move. It loses where time is shorter than memory, and on layers alone that
save little beside their input: a convolution's input is kept in any case.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from contextlib import ExitStack, nullcontext, suppress
from typing import Any
from weakref import ref

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from engine.axes.memory_options import RecomputeOptions
from engine.errors import TrainingError
from engine.instrumentation.module_calls import Around
from engine.memory.mechanism import Block, Place
from engine.memory.randomness import Randomness
from engine.memory.rewind import REMEDY, State
from engine.tensor_bytes import as_bytes

_CHECKED = 2
"""Passes of a block in which the outputs of both runs are compared."""


class Recompute:
    """On one part of a model."""

    divides = True

    def __init__(self, place: Place) -> None:
        self._place = place

    def around(self, block: Block, options: RecomputeOptions) -> Around:
        """See Mechanism."""
        return _Calls(self._place, block)

    def begin_forward(self, inputs: Any) -> None:
        """See Mechanism."""

    def close(self) -> None:
        """See Mechanism."""


class _Calls:
    """The calls of one block."""

    def __init__(self, place: Place, block: Block) -> None:
        self.place = place
        self.block = block
        self.state = State(block.name, block.modules)
        self.passes = 0
        """That have been computed again."""
        self.writes: set[int] = set()
        """Which of the tensors among its arguments it has been seen to write to."""

    def __call__(self, run: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not (
            self.place.passes.forward
            and torch.is_grad_enabled()
            and not torch._C._are_functorch_transforms_active()
            and forward_ad._current_level < 0
        ):
            return run(*args, **kwargs)
        return _Call(self, run, args, kwargs).first()

    def refuse(self, rule: str) -> TrainingError:
        """What the block does that cannot be had."""
        return TrainingError(f"{self.block.name} {rule}. {REMEDY}")


class _Saved:
    """In place of a tensor that autograd has saved, which lives as long as autograd has this."""

    __slots__ = ("__weakref__", "number", "tensors")

    def __init__(self, number: int) -> None:
        self.number = number
        self.tensors: dict[int, Tensor] = {}
        """What the second run has saved under this number, by the backward pass that wanted it."""


class _Enough(BaseException):
    """The second run has saved all that is wanted. No model means to catch this."""


class _Call:
    """One call: its first run, and whatever second runs backward passes want."""

    def __init__(
        self, calls: _Calls, run: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        self._calls = calls
        self._run = run
        self._leaves, self._spec = tree_flatten((args, kwargs))
        self._places = [i for i, leaf in enumerate(self._leaves) if isinstance(leaf, Tensor)]
        self._saved: list[ref[_Saved]] = []
        self._shapes: list[tuple[torch.Size, torch.dtype]] = []
        self._checked = calls.passes < _CHECKED
        self._digest: tuple[Any, ...] = ()
        self._autocast = _autocast_now(calls.place.device)
        self._randomness = Randomness(calls.place.device)
        self._before = calls.state.begin()
        self._versions: dict[int, int] = {}
        """Of the inputs that are held themselves, by their place."""

    def first(self) -> Any:
        """Run the block."""
        leaves = list(self._leaves)
        given: dict[int, Tensor] = {place: leaves[place] for place in self._places}
        held: dict[int, Tensor] = {}
        for place, tensor in given.items():
            if id(tensor) not in held:
                held[id(tensor)] = self._held(place, tensor)
            self._leaves[place] = held[id(tensor)]
        versions = {place: _version(tensor) for place, tensor in given.items()}
        with saved_tensors_hooks(self._pack, self._unpack):
            result = self._called(leaves)
        self._before.end()
        written = {place for place, tensor in given.items() if _version(tensor) != versions[place]}
        if unheard := written & self._versions.keys():
            for place in unheard:
                self._calls.writes.add(place)
            raise self._calls.refuse(
                "wrote to its input, which it had not done in its first passes: it cannot be computed again"
            )
        self._calls.writes |= written
        if self._checked:
            self._digest = self._digested(result)
        return result

    def _held(self, place: int, tensor: Tensor) -> Tensor:
        """An input for the second run: itself, or a copy where the block writes to it, or may write to it."""
        held = tensor.detach()
        written = place in self._calls.writes
        if written or self._checked:
            copy = held.clone()
            # Of a part of a tensor a copy is laid out otherwise, which may change the last bits of a product.
            held = copy if written or copy.stride() == held.stride() else held
        if held.untyped_storage()._cdata == tensor.untyped_storage()._cdata:
            self._versions[place] = _version(tensor)
        return held.requires_grad_(tensor.requires_grad)

    def _pack(self, tensor: Tensor) -> _Saved:
        saved = _Saved(len(self._saved))
        self._saved.append(ref(saved))
        self._shapes.append((tensor.shape, tensor.dtype))
        return saved

    def _unpack(self, saved: _Saved) -> Tensor:
        task = torch._C._current_graph_task_id()
        if task not in saved.tensors:
            self._again(task)
        return saved.tensors.pop(task)

    def _again(self, task: int) -> None:
        """The second run, for a backward pass."""
        calls, place = self._calls, self._calls.place
        for number, version in self._versions.items():
            if _version(self._leaves[number]) != version:
                raise calls.refuse(
                    "cannot be computed again in backward: its input was written to after its forward"
                )
        again = _Again(self, task, stops=not self._checked)
        recording = place.recording.recomputing(calls.block.index) if place.passes.backward else nullcontext()
        result: Any = None
        with recording, torch.enable_grad(), ExitStack() as surroundings:
            leaves = self._given()
            for autocast in self._autocast:
                surroundings.enter_context(torch.autocast(**autocast))
            surroundings.enter_context(self._randomness.again())
            surroundings.enter_context(self._before.again())
            surroundings.enter_context(saved_tensors_hooks(again.pack, _itself))
            with suppress(_Enough):
                result = self._called(leaves)
        calls.passes += 1
        again.check()
        if self._checked and self._digest != self._digested(result):
            raise calls.refuse(
                "computed something else when it was computed again in backward: its forward pass depends on more than"
                " its inputs, its modules' attributes and the default random numbers of torch, NumPy and Python"
            )

    def _given(self) -> list[Any]:
        """The arguments of the second run. Those that were one tensor are one again: attention asks for that."""
        leaves = list(self._leaves)
        copies: dict[int, Tensor] = {}
        for place in self._calls.writes.intersection(self._places):
            held = leaves[place]
            if id(held) not in copies:
                copies[id(held)] = held.clone()
            leaves[place] = copies[id(held)]
        return leaves

    def _called(self, leaves: list[Any]) -> Any:
        args, kwargs = tree_unflatten(leaves, self._spec)
        leaves.clear()
        return self._run(*args, **kwargs)

    def _digested(self, result: Any) -> tuple[Any, ...]:
        if not self._calls.place.repeats:
            return ()
        return tuple(
            (leaf.shape, leaf.dtype, zlib.crc32(as_bytes(leaf.detach().cpu().contiguous().view(-1))))
            for leaf in tree_leaves(result)
            if isinstance(leaf, Tensor) and leaf.layout == torch.strided and not leaf.is_meta
        )


class _Again:
    """What a second run saves."""

    def __init__(self, call: _Call, task: int, *, stops: bool) -> None:
        self._call = call
        self._task = task
        self._stops = stops
        self._count = 0
        self._others = False
        """It saves other tensors than the first run."""

    def pack(self, tensor: Tensor) -> Tensor:
        """Hand a tensor to autograd's place for it. Raises _Enough after the last one."""
        number, saved = self._count, self._call._saved
        self._count += 1
        held = tensor.detach()
        if number >= len(saved) or self._call._shapes[number] != (tensor.shape, tensor.dtype):
            self._others = True
        elif (place := saved[number]()) is not None:
            place.tensors[self._task] = held
        if self._stops and self._count == len(saved):
            raise _Enough
        return held

    def check(self) -> None:
        """Raises TrainingError where the two runs do not agree."""
        if self._others or self._count != len(self._call._saved):
            raise self._call._calls.refuse(
                "saved other tensors for backward when it was computed again: its forward pass went another way"
            )


def _itself(tensor: Tensor) -> Tensor:
    return tensor


def _version(tensor: Tensor) -> int:
    """How often it has been written to; of an inference tensor nobody counts."""
    return 0 if tensor.is_inference() else tensor._version


def _autocast_now(device: torch.device) -> list[dict[str, Any]]:
    """What torch.autocast is to be given so that it is as it is now."""
    return [
        {
            "device_type": kind,
            "enabled": torch.is_autocast_enabled(kind),
            "dtype": torch.get_autocast_dtype(kind),
            "cache_enabled": torch.is_autocast_cache_enabled(),
        }
        for kind in dict.fromkeys(("cpu", device.type))
        if torch.amp.is_autocast_available(kind)
    ]
