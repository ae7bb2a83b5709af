"""Outputs: what a block answers with, as checksums, so that two runs of it can be compared without keeping any."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor, nn

from engine.instrumentation.checksum import checksum
from engine.instrumentation.gate import past_gates
from engine.instrumentation.reached import PLAIN
from engine.instrumentation.undisturbed import undisturbed
from engine.memory.places import has_own_attributes
from engine.memory.saving import lies_in_memory

_DEPTH = 8


def leaves(value: Any, depth: int = _DEPTH) -> Iterator[Any]:
    """Tensors, numbers and texts in containers and objects, in their order."""
    if isinstance(value, (Tensor, *PLAIN)):
        yield value
    elif depth:
        for part in _contained(value) or _attributes(value):
            yield from leaves(part, depth - 1)


def tensors_in(value: Any, depth: int = _DEPTH) -> Iterator[Tensor]:
    """Tensors in containers."""
    if isinstance(value, Tensor):
        yield value
    elif depth:
        for part in _contained(value):
            yield from tensors_in(part, depth - 1)


@undisturbed
@past_gates
def digest(values: Iterable[Any]) -> list[Any]:
    """What tells them from other ones."""
    return [_told(value) if isinstance(value, Tensor) else repr(value) for value in values]


def _contained(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, (tuple, list, deque)) else ()


def _attributes(value: Any) -> Iterable[Any]:
    if has_own_attributes(value) and not isinstance(value, nn.Module):
        with suppress(AttributeError):
            return list(object.__getattribute__(value, "__dict__").values())
    return ()


def _told(tensor: Tensor) -> tuple[Any, ...]:
    values: tuple[Tensor, ...] = ()
    if tensor.layout == torch.sparse_coo:
        values = tensor._indices(), tensor._values()
    else:
        values = (tensor.detach().resolve_conj().resolve_neg(),)
    told = [int(checksum(_flat(each))) for each in values if lies_in_memory(each)]
    return tensor.shape, tensor.dtype, told


def _flat(tensor: Tensor) -> Tensor:
    return tensor.detach().contiguous().view(-1)
