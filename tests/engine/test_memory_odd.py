"""Odd models under memory mechanisms: bitwise what plain training makes, over passes in which all is learnt and later.

What a user may look at after each pass is the same, too: a second run leaves no trace.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests import odd_keeping, odd_tensors
from tests import odd_models as odd
from tests.memory import MOVED, install, summed, trained

STEPS = 6

MODELS: dict[str, Callable[[], nn.Module]] = {
    "a list that it fills": lambda: odd.WithList(odd.FillsList),
    "a dictionary that both change": lambda: odd.WithDict(odd.ChangesDict),
    "an object": lambda: odd.WithObject(odd.ChangesObject, odd.Context),
    "an object with slots": lambda: odd.WithObject(odd.ChangesObject, odd.Slotted),
    "a list of one's own": lambda: odd.WithGrowing(odd.FillsGrowing),
    "an array": lambda: odd.WithArray(odd.WritesArray),
    "tensors in containers": lambda: odd.WithParts(odd.WritesParts),
    "one list by several ways": lambda: odd.WithTwice(odd.TwiceGiven),
    "a hook for a while": lambda: odd.Model(odd.TemporaryHook),
    "a flag for a while": lambda: odd.Model(odd.GlobalFlag),
    "a context manager": lambda: odd.Model(odd.InContext),
    **{
        f"changed: {change.__name__}": lambda change=change: odd.Changed(odd.Plain, change)  # type: ignore[misc]
        for change in (
            odd._sets, odd._fills, odd._writes, odd._writes_data, odd._replaces, odd._evaluates, odd._hooks,
            odd._freezes,
        )
    },
    **{f"kept: {where}": lambda where=where: odd.Model(odd_keeping.Keeps, where) for where in odd_keeping.KEEPS},  # type: ignore[misc]
    "late writes through .data": lambda: odd.Model(odd_tensors.LateData, 4, True),
    "late writes that do not show": lambda: odd.Model(odd_tensors.LateData, 4, False),
    "late writes to what is large": lambda: odd.Model(odd_tensors.LateData, 2**16, False),
    "a momentum encoder": lambda: odd.Model(odd_tensors.Momentum),
    "made of the first batch": lambda: odd.Model(odd_tensors.FirstBatch),
    "vmap": lambda: odd.Model(odd_tensors.Mapped),
    "a sparse argument": lambda: odd_tensors.WithSparse(odd_tensors.SparseGiven),
    "sparse attributes": lambda: odd.Model(odd_tensors.SparseHeld, False),
    "sparse attributes that are replaced": lambda: odd.Model(odd_tensors.SparseHeld, True),
    "a shared dictionary": lambda: odd.Model(odd_tensors.Shares),
    "conjugate outputs": lambda: odd_tensors.WithConjugate(odd_tensors.Conjugate),
    "autograd.grad": lambda: odd.Model(odd_tensors.Force),
    "it calls itself": lambda: odd.Model(odd_tensors.Tree),
    "an older checkpoint": lambda: odd.Model(odd_tensors.Older),
    "context variables": lambda: odd_tensors.WithContext(odd_tensors.Contextual),
    "answers in objects": lambda: odd_tensors.WithAnswers(odd_tensors.Answers),
}  # fmt: skip


def seen(
    build: Callable[[], nn.Module], scratch: Path, activations: str | None
) -> tuple[list[Tensor], list[str]]:
    """What a training loop makes, and what a user sees after each pass."""
    random.seed(5)
    np.random.seed(5)
    torch.manual_seed(0)
    odd_keeping.fresh()
    model = build()
    options = {"least_bytes": 0} if activations == "swap" else {}
    memory = install(model, scratch, activations, **options) if activations else None
    traces: list[str] = []

    def batch() -> Tensor:
        traces.append(repr(model.trace()))
        return torch.randn(4, odd.WIDTH)

    def loss(model: nn.Module, inputs: Tensor) -> Tensor:
        return summed(model(inputs))

    made = trained(model, batch, memory, steps=STEPS, loss=loss)
    traces.append(repr(model.trace()))
    if memory is not None:
        memory.close()
    return made, traces


@pytest.mark.parametrize("activations", MOVED)
@pytest.mark.parametrize("name", MODELS)
def test_an_odd_model_trains_as_without(name: str, activations: str, tmp_path: Path) -> None:
    plain, before = seen(MODELS[name], tmp_path, None)
    moved, after = seen(MODELS[name], tmp_path, activations)
    assert before == after
    assert len(plain) == len(moved)
    assert all(torch.equal(a, b) for a, b in zip(plain, moved, strict=True))
