"""What a batch's inputs, or its targets, are: a tensor, or tensors in dictionaries, tuples and lists, as a data set's
samples are collated. The first dimension of every tensor is that of the samples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map_only

Tensors: TypeAlias = Any
"""A tensor, or tensors in containers."""


def every(function: Callable[[Tensor], Any], batch: Tensors) -> Any:
    """The same containers, of what `function` makes of each tensor."""
    return function(batch) if isinstance(batch, Tensor) else tree_map_only(Tensor, function, batch)


def are_tensors(batch: Any) -> bool:
    """Whether a batch is made of tensors, at least one, and of nothing else."""
    leaves = tree_leaves(batch)
    return bool(leaves) and all(isinstance(leaf, Tensor) for leaf in leaves)


def samples_of(batch: Tensors) -> set[int | None]:
    """The samples of each of its tensors, once; None of one without a dimension."""
    return {len(leaf) if leaf.ndim else None for leaf in tree_leaves(batch)}


def count(batch: Tensors) -> int:
    """Its samples."""
    return len(batch if isinstance(batch, Tensor) else tree_leaves(batch)[0])


def shape(batch: Tensors) -> tuple[int, ...]:
    """Of one sample's first tensor."""
    first: Tensor = batch if isinstance(batch, Tensor) else tree_leaves(batch)[0]
    return tuple(first.shape[1:])


def first(batch: Tensors, samples: int) -> Tensors:
    """So many samples of it, from the beginning."""
    return every(lambda tensor: tensor[:samples], batch)


def on(device: torch.device | str, batch: Tensors) -> Tensors:
    """The same on a device, perhaps while the host goes on."""
    return every(lambda tensor: tensor.to(device, non_blocking=True), batch)


def of_type(dtype: torch.dtype | None, batch: Tensors) -> Tensors:
    """The same, with numbers that have a fraction in `dtype`; None: as they are."""
    if dtype is None:
        return batch
    return every(lambda tensor: tensor.to(dtype) if tensor.is_floating_point() else tensor, batch)


def repeated(batch: Tensors, times: int) -> Tensors:
    """The same samples so many times, one batch behind the other."""
    return every(lambda tensor: torch.cat([tensor] * times), batch)


def shown(batch: Tensors) -> str:
    """Its shapes, for a person."""
    return str(every(lambda tensor: tuple(tensor.shape), batch))
