"""Values of tensors that a block comes at: noted before a run, compared after it, and put back where they lie.

Who writes is not told by a version alone: batch normalization writes its statistics uncounted, and so does whoever
writes through `.data`. Tensors of up to `SMALL_BYTES` are therefore copied before every run (once, while they stay the
same). Larger ones, and parameters that are not trained, are copied in a block's first runs, and where they have been
seen to be written to, or given away past PyTorch; of the others the version tells.

Values are put back into the same memory, so that views, arrays and whoever else has it find them there, and the
tensor's version is set back, too: nobody else's backward pass takes notice.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from engine.instrumentation.raw_memory import memory_of
from engine.memory.saving import is_dense, lies_in_memory, version_of

SMALL_BYTES = 2**18


class _GivenAway:
    """Memory that somebody has been given past PyTorch."""

    def __init__(self) -> None:
        self.addresses: set[int] = set()

    def given_away(self, memory: int) -> None:
        """See Listener."""
        self.addresses.add(memory)


GIVEN_AWAY = _GivenAway()
"""Since a block's run began."""


class Note(NamedTuple):
    """A tensor as it was."""

    name: str
    """For people."""
    tensor: Tensor
    alias: Tensor
    """The same memory, of the same shape."""
    version: int
    copy: Tensor | None


def note(name: str, tensor: Tensor, known: Tensor | None = None, *, copies: bool) -> Note:
    """How it is now. `copies`: its values, too. `known`: a copy of earlier, which will do where it is the same."""
    alias = tensor.detach()
    if not copies:
        return Note(name, tensor, alias, version_of(tensor), None)
    same = known is not None and _equal(known, alias)
    return Note(name, tensor, alias, version_of(tensor), known if same else alias.clone())


def is_as(noted: Note) -> bool:
    """Whether it is as it was noted, as far as that shows."""
    _, tensor, alias, version, copy = noted
    if version_of(tensor) != version:
        return False
    if copy is None:
        return not is_dense(tensor) or _is_set_to(tensor, alias)
    return _is_set_to(tensor, alias) and _equal(alias, copy)


def was_given_away(noted: Note) -> bool:
    """Whether somebody may have written to it uncounted since a block's run began."""
    return (
        bool(GIVEN_AWAY.addresses)
        and lies_in_memory(noted.alias)
        and memory_of(noted.alias) in GIVEN_AWAY.addresses
    )


def put_back(noted: Note) -> bool:
    """Let it be as it was noted. False where there is no copy of its values, and they are others now."""
    _, tensor, alias, version, copy = noted
    if copy is None and version_of(alias) != version:
        return False
    with torch.no_grad():
        if is_dense(alias) and not _is_set_to(tensor, alias):
            tensor.data = alias
        if copy is not None:
            with torch.inference_mode(tensor.is_inference()):
                alias.copy_(copy)
    if not tensor.is_inference():
        counted = (tensor, alias)
        torch._C._autograd._unsafe_set_version_counter(counted, (version, version))
    return True


def can_be_copied(tensor: Tensor) -> bool:
    """Whether its values can be put back: there is one place for each."""
    return is_dense(tensor) and all(
        step or size < 2 for size, step in zip(tensor.shape, tensor.stride(), strict=True)
    )


def _equal(one: Tensor, other: Tensor) -> bool:
    """Those on `meta` have no values that could differ."""
    return one.is_meta or torch.equal(one, other)


def _is_set_to(one: Tensor, other: Tensor) -> bool:
    """`is_set_to`, which PyTorch does not have on `meta`."""
    if not one.is_meta or not other.is_meta:
        return one.is_set_to(other)
    lies = [
        (each.untyped_storage()._cdata, each.storage_offset(), each.size(), each.stride())
        for each in (one, other)
    ]
    return lies[0] == lies[1]
