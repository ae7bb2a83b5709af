"""Odd models under memory mechanisms: bitwise what plain training makes, over passes in which all is learnt and later.

What a user may look at after each pass is the same, too: a second run leaves no trace.
"""

from __future__ import annotations

import gc
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import Parameter

from engine.instrumentation.gate import Gate
from engine.memory.recompute import _Call
from engine.memory.rewind import State
from engine.state.computation import Computation
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
    "what it calls": lambda: odd.WithCalls(odd.Calls),
    "a tensor of an own class": lambda: odd.Model(odd_tensors.OfOwnClass),
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
    "jvp": lambda: odd.Model(odd_tensors.Forward),
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


class Unused(odd.Odd):
    """It keeps results with their graph, of which nobody asks for gradients."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.norm = nn.BatchNorm1d(odd.WIDTH)

    def forward(self, x: Tensor, *given: Any) -> Any:
        self.calls += 1
        self.spread = x.exp().sum()
        self.found: list[Tensor] = []
        self.found.append(self.linear(x).exp())
        return torch.tanh(self.norm(self.linear(x))) * self.calls

    def trace(self) -> Any:
        return [self.calls, float(self.spread.detach()) if self.calls else 0]


ORDERS = {"in their order": [0, 1, 2], "the last one first": [2, 1, 0]}


@pytest.mark.parametrize("order", ORDERS)
def test_several_forward_passes_may_come_before_their_backward_passes(order: str, tmp_path: Path) -> None:
    found = []
    for activations in ("keep", "recompute"):
        torch.manual_seed(0)
        model = odd.Model(Unused)
        memory = install(model, tmp_path, activations)
        computation = Computation(memory=memory)
        made: list[Any] = []
        for _ in range(3):
            losses = []
            for _ in ORDERS[order]:
                inputs = torch.randn(4, odd.WIDTH)
                with computation.training(inputs):
                    losses.append(model(inputs).square().sum())
            for number in ORDERS[order]:
                with computation.backward():
                    losses[number].backward()
            made += [p.grad.clone() for p in model.parameters() if p.grad is not None]
            made += [*(buffer.clone() for buffer in model.buffers()), repr(model.trace())]
            made += [buffer._version for buffer in model.buffers()]
        memory.close()
        found.append(made)
    assert len(found[0]) == len(found[1])
    for one, other in zip(*found, strict=True):
        assert torch.equal(one, other) if isinstance(one, Tensor) else one == other


def test_what_a_pass_found_is_let_go_of_when_a_later_one_is_over(tmp_path: Path) -> None:
    """Though parts of their graphs, through which nobody goes backward, are in the next one's state."""
    gc.collect()
    before = {id(each) for each in gc.get_objects() if isinstance(each, _Call)}
    model = odd.Model(Unused)
    memory = install(model, tmp_path, "recompute")
    trained(model, lambda: torch.randn(4, odd.WIDTH), memory, steps=8)
    gc.collect()
    calls = [each for each in gc.get_objects() if isinstance(each, _Call) and id(each) not in before]
    assert 0 < len(calls) <= 2 * len(model.blocks)
    memory.close()


def test_what_is_noted_of_a_frozen_parameter_is_the_version_that_forward_reads() -> None:
    """It is in the plan where it was frozen while training ran, and its version may come when forward waits for it: put
    back to one that was noted before, it is not what the graph has saved."""
    layer = nn.Linear(2, 2)
    frozen = layer.weight.requires_grad_(False)

    def come(parameter: Parameter, function: Any) -> bool:
        gate.open(parameter)
        with torch.no_grad():
            frozen.zero_()
        return True

    state = State("layer", [layer])
    gate = Gate(come)
    assert gate.close(frozen)
    before = state.begin(())
    assert not gate.is_closed(frozen)
    assert not layer(torch.ones(1, 2)).sub(layer.bias).any()
    version = frozen._version
    before.end()
    with before.again():
        assert frozen._version == version
