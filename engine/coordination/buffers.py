"""Buffers (batch statistics and the like): every worker has its own in training.

For an evaluation, and in the saved state, they are averaged over the workers: numbers with a fraction by their mean,
counts by the largest. A forward pass may replace a buffer by another tensor, and register further ones; what differs
in shape or type between workers then has no average, and stays each worker's own.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeAlias

import torch
from torch import Tensor, nn

from engine.coordination.gather import Gather
from engine.errors import UserError

_Form: TypeAlias = list[str]
"""A buffer's shape and type."""


def agree_on_buffers(model: nn.Module, gather: Gather, title: str) -> None:
    """Buffers are not part of the description of the model called `title`, but they are handed out and averaged.
    Collective; every worker raises, so that none goes on and sends what another has no place for."""
    everyone = _everyones_forms(dict(model.named_buffers()), gather)
    for rank, theirs in enumerate(everyone):
        if theirs != everyone[0]:
            raise UserError(
                "model",
                title,
                f"its buffers on worker {rank} ({_shown(theirs)}) differ from worker 0's ({_shown(everyone[0])})",
                "Build the same model on every worker",
            )


def averaged_buffers(model: nn.Module, gather: Gather) -> dict[str, Tensor]:
    """The model's buffers, averaged over the workers, on the host. Collective."""
    # Under every name of its own: a buffer that two modules share is twice in the state_dict.
    named = dict(model.named_buffers(remove_duplicate=False))
    everyone = _everyones_forms(named, gather)
    alike = [name for name, form in everyone[0].items() if all(forms.get(name) == form for forms in everyone)]
    for name in named.keys() - {*alike}:
        print(f"warning: {name} differs in shape or type between workers: worker 0's is saved", flush=True)
    if not alike:
        return {}
    parts = gather.run([named[name].detach().cpu() for name in alike])
    return {name: average([part[position] for part in parts]) for position, name in enumerate(alike)}


def average(values: Sequence[Tensor]) -> Tensor:
    """What one buffer is over all workers: the mean of numbers with a fraction, the largest count."""
    dtype = values[0].dtype
    if dtype.is_floating_point or dtype.is_complex:
        exact = torch.float32 if dtype.itemsize == 1 else dtype  # nobody adds numbers of eight bits
        return torch.stack([value.to(exact) for value in values]).mean(0).to(dtype)
    if dtype.is_signed or dtype.itemsize == 1:
        return torch.stack(list(values)).amax(0)
    return torch.stack([value.to(torch.int64) for value in values]).amax(0).to(dtype)


@contextmanager
def looking_with(model: nn.Module, values: Mapping[str, Tensor]) -> Iterator[None]:
    """Buffers have `values`, by name, while the block runs; afterwards they hold what they held, whatever a forward
    pass did to them meanwhile."""
    buffers = dict(model.named_buffers())
    local = {name: buffer.detach().clone() for name, buffer in buffers.items()}
    _write(buffers, values)
    try:
        yield
    finally:
        _write(buffers, local)


@torch.no_grad()
def _write(buffers: Mapping[str, Tensor], values: Mapping[str, Tensor]) -> None:
    for name in buffers.keys() & values.keys():
        buffers[name].copy_(values[name])


def _everyones_forms(named: Mapping[str, Tensor], gather: Gather) -> list[dict[str, _Form]]:
    """Shapes and types of everybody's buffers, by rank and name. Mostly they are alike, and a digest shows it."""
    own = {name: [str(tuple(buffer.shape)), str(buffer.dtype)] for name, buffer in named.items()}
    text = json.dumps(own).encode()
    digest = torch.tensor(list(hashlib.sha256(text).digest()), dtype=torch.uint8)
    parts = gather.run([digest, torch.tensor(len(text))])
    if all(torch.equal(theirs, digest) for theirs, _ in parts):
        return [own] * len(parts)
    width = max(int(size) for _, size in parts)
    padded = torch.tensor(list(text.ljust(width)), dtype=torch.uint8)
    return [json.loads(bytes(part.tolist())) for (part,) in gather.run([padded])]


def _shown(forms: Mapping[str, _Form]) -> str:
    return ", ".join(f"{name} {shape} {dtype}" for name, (shape, dtype) in forms.items()) or "none"
