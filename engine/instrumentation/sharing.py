"""Sharing: whether another tensor holds a parameter's memory.

A view of a parameter, what `.data`, `detach()` or `numpy()` gave, and what autograd has saved of these, read and write
the parameter without asking anybody. They cannot be found, but their memory counts who holds it. Pointers and storages
are not counted: what was given away so (`raw_memory.py`) counts as shared from then on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import torch
from torch import Tensor
from torch.nn import Parameter

from engine.instrumentation.raw_memory import STORAGE, is_given_away


def memory_of(tensor: Tensor) -> int:
    """The same for tensors that lie in the same memory."""
    address: int = STORAGE(tensor)._cdata
    return address


def _holders(memory: int) -> int:
    return torch._C._storage_Use_Count(memory)


_OWN = _holders(memory_of(_LONELY := torch.empty(1)))
"""How many holders the memory of a tensor has that shares it with nobody."""


def is_lonely(tensor: Tensor) -> bool:
    """Whether no other tensor holds the memory of `tensor`."""
    return not others_hold(memory_of(tensor), 1)


def others_hold(memory: int, known: int) -> bool:
    """Whether more tensors hold the memory than so many that are `known`."""
    return _holders(memory) > _OWN - 1 + known


class Sharing:
    """Counts the holders of some parameters' memory, less those that are known."""

    def __init__(self, parameters: Mapping[str, Parameter]) -> None:
        self._parameters = parameters
        self._memory: dict[str, int] = {}
        """By name: the memory that the parameter had when it was last looked at."""
        self._together: Counter[int] = Counter()
        """By memory: how many of the parameters lie in it (a recurrent layer's may on CUDA)."""
        self._views: Counter[int] = Counter()
        """By memory: how many views of it the runtime keeps."""
        for name in parameters:
            self._look(name)

    def keeps_views(self, old: Iterable[int], names: Iterable[str]) -> list[int]:
        """The runtime keeps a view of each of the named parameters, and none of those any more for which this method
        answered `old`."""
        self._views.subtract(old)
        kept = [self._look(name) for name in names]
        self._views.update(kept)
        return kept

    def is_shared(self, name: str) -> bool:
        """Whether anybody else holds the parameter's memory, or may. The caller passes gates."""
        if self.is_given_away(name):
            return True
        memory = self._look(name)
        holders = _holders(memory)
        if holders == _OWN and self._together[memory] == 1:
            return False
        return others_hold(memory, self._together[memory] + self._views[memory])

    def is_given_away(self, name: str) -> bool:
        """Whether a pointer to the parameter's memory, or its storage, may have been kept."""
        return is_given_away(self._parameters[name])

    def _look(self, name: str) -> int:
        memory = memory_of(self._parameters[name])
        before = self._memory.get(name)
        if before != memory:
            if before is not None:
                self._together[before] -= 1
            self._memory[name] = memory
            self._together[memory] += 1
        return memory
