"""Ledger: how many bytes of tensors live, at each moment of what runs under it, and who has made them.

Every storage counts once, from the operation that returns it until nobody has it any more, whatever views there are.
What an operation holds while it runs, and gives back before it returns, is not seen; `Kernels` say it of some. On
`meta` tensors it takes neither memory nor time that grows with sizes.

Cost: some 10 µs for each operation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol
from weakref import ref

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Kernels(Protocol):
    """How a device computes otherwise than the one that is run on."""

    def instead(self, operation: Any, arguments: tuple[Any, ...]) -> Tensor | None:
        """What is returned in place of what the operation would; None: it is run."""
        ...

    def needs(self, operation: Any, arguments: tuple[Any, ...], result: Any) -> int:
        """Bytes that it holds while it runs, beside what it returns."""
        ...


class Holder(NamedTuple):
    """Who has made what lives: in which part of a step, and for which layer."""

    part: str
    layer: str | None = None


class Ledger(TorchDispatchMode):
    """Counts while it is entered. Bytes are those of tensors on any device, dense or not."""

    def __init__(self, kernels: Kernels | None = None) -> None:
        super().__init__()
        self.holder = Holder("")
        """Of what is made from now on."""
        self.held = 0
        self.peak = 0
        self.at_peak: Counter[Holder] = Counter()
        self.during: Holder = self.holder
        """Who was at work when it was highest."""
        self._kernels = kernels
        self._alive: dict[int, tuple[int, Holder, ref[Any]]] = {}
        """By address of a storage."""
        self._elsewhere: set[int] = set()
        """Addresses of those that are counted no more."""
        self._by: Counter[Holder] = Counter()

    def begin(self) -> None:
        """Look for the peak from now on."""
        self.peak, self.at_peak, self.during = self.held, self._by.copy(), self.holder

    def book(self, tensors: Iterable[Tensor], holder: Holder) -> None:
        """These live from before, or are `holder`'s from now on."""
        for tensor in tensors:
            for each in _dense(tensor):
                self._book(each, holder)

    def leaves(self, tensor: Tensor) -> None:
        """What is behind it is in no memory that is counted, from now on."""
        address = tensor.untyped_storage()._cdata
        if address in self._alive and address not in self._elsewhere:
            size, holder, _ = self._alive[address]
            self._elsewhere.add(address)
            self._add(holder, -size)

    def live(self) -> Counter[Holder]:
        """Bytes that live now."""
        return +self._by

    def held_by(self, part: str) -> int:
        """Bytes that live now, made in a part of a step."""
        return sum(size for holder, size in self._by.items() if holder.part == part)

    def holds(self, tensor: Tensor) -> int:
        """Bytes of its storage, as it is counted; 0 where it is not."""
        known = self._alive.get(tensor.untyped_storage()._cdata)
        return known[0] if known is not None else 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kernels = self._kernels
        result = None if kernels is None else kernels.instead(func, args)
        if result is None:
            result = func(*args, **(kwargs or {}))
        made = (result,) if isinstance(result, Tensor) else tree_leaves(result)
        for tensor in made:
            if isinstance(tensor, Tensor):
                for each in _dense(tensor):
                    self._book(each, None)
        self._look(0 if kernels is None else kernels.needs(func, args, result))
        return result

    def _look(self, beside: int) -> None:
        if self.held + beside > self.peak:
            self.peak, self.at_peak, self.during = self.held + beside, self._by.copy(), self.holder
            if beside:
                self.at_peak[Holder("kernels")] += beside

    def _book(self, tensor: Tensor, holder: Holder | None) -> None:
        storage = tensor.untyped_storage()
        address, size = storage._cdata, storage.nbytes()
        if address in self._elsewhere:
            return
        known = self._alive.get(address)
        if known is not None:
            if known[0] == size and (holder is None or holder == known[1]):
                return
            self._add(known[1], -known[0])
            holder = holder or known[1]
        holder = holder or self.holder
        self._alive[address] = size, holder, ref(storage, lambda _: self._gone(address))
        self._add(holder, size)

    def _gone(self, address: int) -> None:
        size, holder, _ = self._alive.pop(address)
        if address in self._elsewhere:
            self._elsewhere.remove(address)
        else:
            self._add(holder, -size)

    def _add(self, holder: Holder, size: int) -> None:
        self.held += size
        self._by[holder] += size


def _dense(tensor: Tensor) -> tuple[Tensor, ...]:
    """The tensors that hold its values."""
    if tensor.layout == torch.strided:
        return (tensor,)
    return (tensor._indices(), tensor._values()) if tensor.layout == torch.sparse_coo else ()
