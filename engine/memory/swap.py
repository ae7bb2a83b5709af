"""swap: what a block saves for backward leaves for a second tier of memory, and is back when backward needs it.

Rhu et al., "vDNN" (2016); Wang et al., "Experiences of deep learning optimization on PAI" (2017), section 3.2 (papers
002). The second tier is a file for tensors on the host (`disk.py`), pinned memory of the host for those on a CUDA
device (`pinned.py`).

Hooks on what autograd saves move the memory behind each tensor, from its first element to its last, once however many
tensors have just that, and remember how the tensor lies in it; backward gets views of what came back. Where tensors
overlap in part, each is moved: outputs of `unsafe_chunk`, by which recurrent cells cut their gates, are views of one
base and yet count their writes each on their own, so that of one nothing follows about the other. While one is used,
those that left before it, which are wanted next, are on their way in, as many as the option `ahead` says: each of them
takes memory while nobody uses it, so that with 0 a step holds the least.

The memory is written to by nobody between the two: where plain PyTorch would find that out in backward, this does for
what has not left by then, and has the values that were saved otherwise. That holds for what is written through `.data`,
too, which nobody counts: without this, backward would have the new values. (What is saved again after that leaves
again.)

Never moved: parameters, buffers and the pass's inputs, which are there in any case; tensors of fewer bytes than the
option `least_bytes`; classes and layouts other than plain dense ones.

Costs 2 x the bytes saved, over the link to the second tier, hidden behind computation as far as that lasts. It loses
where a block computes for less time than its bytes take.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Protocol
from weakref import ref

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._pytree import tree_leaves

from engine.axes.memory_options import MOST_AHEAD, SwapOptions
from engine.instrumentation.gate import past_gates
from engine.instrumentation.module_calls import Around
from engine.instrumentation.raw_memory import is_given_away, listen, memory_of
from engine.memory.disk import Disk
from engine.memory.mechanism import Block, Site
from engine.memory.nowhere import Nowhere
from engine.memory.pinned import Pinned
from engine.memory.saving import Stays, address_of, is_plain, memories_of, of_parameter, saves, stays, unmoved
from engine.state.told import Told


class Stored(Protocol):
    """Bytes in the second tier."""

    def prefetch(self) -> None: ...
    def bring(self) -> Tensor: ...
    def release(self) -> None: ...


class Tier(Protocol):
    """Where bytes go."""

    def out(self, values: Tensor) -> Stored:
        """Let flat bytes leave."""
        ...

    def close(self) -> None: ...


class _Moved:
    """One tensor's memory, away."""

    def __init__(self, stored: Stored, before: ref[_Moved] | None, ahead: int) -> None:
        """`before`: what left before it. `ahead`: it is on its way while so many that are wanted before it are
        used."""
        self._stored = stored
        self._before = before
        self._ahead = ahead
        self._here: Tensor | None = None
        """Its bytes, from when backward wants them first."""

    def bytes(self) -> Tensor:
        """Flat, as they were. What is wanted next is on its way."""
        if self._here is None:
            self._here = self._stored.bring()
        other = self
        for distance in range(1, MOST_AHEAD + 1):
            before = other._before() if other._before is not None else None
            if before is None:
                break
            other = before
            if other._here is None and other._ahead >= distance:
                other._stored.prefetch()
        return self._here

    def __del__(self) -> None:
        self._stored.release()


class _Tensor(NamedTuple):
    """How a tensor lies in memory that has moved."""

    moved: _Moved
    dtype: torch.dtype
    size: torch.Size
    stride: tuple[int, ...]


class Swap:
    """On one part of a model."""

    divides = False
    single = False

    def __init__(self, site: Site) -> None:
        self._site = site
        self._tier = _TIERS.get(site.device.type, Disk)(site.scratch, site.device, site.recording)
        self._moved: dict[tuple[int, int, int], tuple[StorageWeakRef, int, ref[_Moved]]] = {}
        """By the address of a storage, a first byte in it and a number of bytes: the storage, and how often they had
        been written to when they left."""
        self._held: set[int] = set()
        """Addresses of storages that stay."""
        self._noted: set[int] = set()
        """Addresses of others that have stayed in this pass."""
        self._handed_out: set[int] = set()
        """Addresses of memories that somebody was given past PyTorch in this pass, where writes are not counted."""
        self._last: ref[_Moved] | None = None
        listen(self)

    def around(self, block: Block, options: SwapOptions) -> Around:
        """See Mechanism."""
        return partial(self._call, options)

    @past_gates
    def begin_forward(self, inputs: Any) -> None:
        """See Mechanism."""
        part = self._site.part
        held = [*part.parameters(), *part.buffers(), *tree_leaves(inputs)]
        self._held = {
            address_of(tensor) for tensor in held if isinstance(tensor, Tensor) and is_plain(tensor)
        }
        self._noted.clear()
        self._handed_out.clear()
        self._moved = {key: found for key, found in self._moved.items() if not found[0].expired()}

    def close(self) -> None:
        """See Mechanism."""
        self._tier.close()

    def given_away(self, memory: int) -> None:
        """See raw_memory.Listener. Those on `meta` have no address."""
        if memory:
            self._handed_out.add(memory)

    def _call(
        self, options: SwapOptions, run: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        if not saves(self._site.passes):
            return run(*args, **kwargs)
        with saved_tensors_hooks(partial(self._pack, options), _unpack):
            return run(*args, **kwargs)

    @past_gates
    def _pack(self, options: SwapOptions, tensor: Tensor) -> _Tensor | Stays:
        if self._stays(tensor, options.least_bytes):
            self._note(tensor)
            return stays(tensor)
        return _Tensor(self._away(tensor, options.ahead), tensor.dtype, tensor.size(), tensor.stride())

    def _stays(self, tensor: Tensor, least: int) -> bool:
        if not is_plain(tensor) or tensor.nbytes < max(least, 1) or tensor.is_inference():
            return True
        elsewhere = tensor.device != self._site.device
        return of_parameter(tensor) or elsewhere or address_of(tensor) in self._held

    def _note(self, tensor: Tensor) -> None:
        """It stays here for backward: say so of what is not held in any case."""
        for address, count in memories_of([tensor]).items():
            if address not in self._held and address not in self._noted:
                self._noted.add(address)
                self._site.recording.stays(None, count)

    def _away(self, tensor: Tensor, ahead: int) -> _Moved:
        """What the tensor's memory has become: it leaves, unless it has left already as it is now."""
        storage, offset = tensor.untyped_storage(), int(tensor.storage_offset())
        count = 1 + sum((size - 1) * step for size, step in zip(tensor.size(), tensor.stride(), strict=True))
        key = storage._cdata, offset * tensor.element_size(), count * tensor.element_size()
        known = self._moved.get(key)
        same = known is not None and not known[0].expired() and known[1] == tensor._version
        if known is not None and same and not self._may_be_written_to(tensor):
            moved = known[2]()
            if moved is not None:
                return moved
        # A view, which counts with the tensor how often that is written to.
        flat = tensor.detach().as_strided((count,), (1,), offset)
        moved = _Moved(self._tier.out(flat.view(torch.uint8)), self._last, ahead)
        self._last = ref(moved)
        self._moved[key] = StorageWeakRef(storage), tensor._version, self._last
        return moved

    def _may_be_written_to(self, tensor: Tensor) -> bool:
        """Uncounted, since it left."""
        return memory_of(tensor) in self._handed_out or is_given_away(tensor)


_TIERS: dict[str, Callable[[str, torch.device, Told], Tier]] = {"cuda": Pinned, "meta": Nowhere}
"""By kind of device; Disk for all others."""


def _unpack(saved: _Tensor | Stays) -> Tensor:
    if isinstance(saved, Stays):
        return unmoved(saved)
    moved, dtype, size, stride = saved
    values = moved.bytes()
    return torch.empty(0, dtype=dtype, device=values.device).set_(values.untyped_storage(), 0, size, stride)
