"""Who is told of a module's calls, and what asks for hooks and classes, notices nothing else."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from operator import attrgetter

import pytest
import torch
from torch import Tensor, nn

from engine.instrumentation import unasked
from engine.instrumentation.module_calls import before_forward


def _nothing() -> None:
    pass


class _Halves:
    """A user's hook, which can take itself away."""

    def __init__(self, module: nn.Module) -> None:
        self.handle = module.register_forward_pre_hook(self)

    def __call__(self, module: nn.Module, inputs: tuple[Tensor]) -> Tensor:
        return inputs[0] / 2


def test_who_is_to_be_told_is_before_hooks_and_forward_until_he_is_removed() -> None:
    module, called = nn.Linear(2, 2), []
    module.register_forward_pre_hook(lambda module, inputs: called.append("hook"))
    before_forward(module, lambda: called.append("first"))
    second = before_forward(module, lambda: called.append("second"))
    module(torch.ones(1, 2))
    assert called == ["second", "first", "hook"]
    second.remove()
    nn.Linear(2, 2)(module(torch.ones(1, 2)))
    assert called == ["second", "first", "hook", "first", "hook"]


def _cloned(module: nn.Module) -> nn.Module:
    clone = type(module).__new__(type(module))
    vars(clone).update(vars(module))
    return clone


@pytest.mark.parametrize(
    "copied",
    [copy.copy, copy.deepcopy, _cloned, lambda module: pickle.loads(pickle.dumps(module))],
    ids=["copy", "deepcopy", "clone", "pickle"],
)
def test_a_copy_is_another_module(copied: Callable[[nn.Module], nn.Module]) -> None:
    module, called, x = nn.Linear(2, 2), [], torch.ones(1, 2)
    before_forward(module, lambda: called.append("told"))
    another = copied(module)
    vars(another)["_parameters"] = {**another._parameters, "weight": nn.Parameter(torch.zeros(2, 2))}
    assert torch.equal(another(x), another.bias.expand(1, 2))  # type: ignore[union-attr, operator]
    assert not torch.equal(module(x), another(x))
    assert called == ["told"]
    assert vars(module).keys() == vars(nn.Linear(2, 2)).keys()


def test_a_module_that_is_compiled_later_has_its_call() -> None:
    module, called, x = nn.Linear(2, 2), [], torch.ones(1, 2)
    before_forward(module, lambda: called.append("told"))
    right = module(x)
    module.compile(backend="eager")
    torch.testing.assert_close(module(x), right)
    assert called == ["told"]


@pytest.mark.parametrize("hooked", [False, True])
def test_the_compiler_finds_nobody_who_is_told(hooked: bool) -> None:
    """With hooks of the user's it looks into the module's call; what it has compiled sees that one was taken away."""
    torch._dynamo.reset()  # what was compiled without a hook is not guarded against one
    module, called, x = nn.Sequential(nn.Linear(2, 2), nn.ReLU()), [], torch.ones(1, 2)
    before_forward(module[0], lambda: called.append("told"))
    halves = _Halves(module[0]) if hooked else None
    compiled = torch.compile(lambda x: module(x) + 1, backend="eager", fullgraph=True)
    found = compiled(x)
    assert not called
    torch.testing.assert_close(found, module(x) + 1)
    if halves is not None:
        halves.handle.remove()
    torch.testing.assert_close(compiled(x), module(x) + 1)


class _Breaks(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(x)
        torch._dynamo.graph_break()
        return torch.tanh(x)


def test_where_the_compiler_falls_back_nothing_of_ours_is_compiled_and_what_is_below_is() -> None:
    module, called, graphs, x = _Breaks(), [], [], torch.ones(1, 2)

    def backend(graph: torch.fx.GraphModule, inputs: object) -> Callable[..., object]:
        graphs.append(graph.code)
        return graph.forward

    before_forward(module, lambda: called.append(torch.ones(1).sigmoid().item()))
    compiled = torch.compile(lambda x: module(x + 1), backend=backend)
    torch.testing.assert_close(compiled(x), module(x + 1))
    assert "relu" in "".join(graphs)
    assert "tanh" in "".join(graphs)
    assert "sigmoid" not in "".join(graphs)
    assert called


def test_torchscript_takes_what_has_our_hooks_and_transformers() -> None:
    unasked.ask()
    module = nn.Linear(2, 2)
    before_forward(module, _nothing)
    x = torch.ones(1, 2)
    assert torch.equal(torch.jit.script(module)(x), module(x))
    words = torch.randn(2, 3, 8)
    for transformer in (
        nn.MultiheadAttention(8, 2, batch_first=True),
        nn.TransformerEncoderLayer(8, 2, 16, batch_first=True),
    ):
        transformer.eval()
        inputs = (words, words, words) if isinstance(transformer, nn.MultiheadAttention) else (words,)
        with torch.no_grad():
            found, right = torch.jit.script(transformer)(*inputs), transformer(*inputs)
        torch.testing.assert_close(found, right)


def test_a_compiled_transformer_is_compiled_as_a_whole() -> None:
    """The compiler looks into the question for a `__torch_function__`."""
    unasked.ask()
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 1).eval()
    words = torch.randn(2, 3, 8)
    with torch.no_grad():
        found: Tensor = torch.compile(encoder, backend="eager", fullgraph=True)(words)
        torch.testing.assert_close(found, encoder(words))


class _Own(Tensor):
    """A tensor that decides itself."""


@pytest.mark.parametrize(
    ("relevant", "answer"),
    [
        ((), False),
        ((torch.ones(1), None), False),
        ((nn.Parameter(torch.ones(1)),), False),
        ((torch.ones(1), _Own()), True),
        ([_Own()], True),
    ],
)
def test_the_question_has_pytorchs_answer(relevant: object, answer: bool) -> None:
    unasked.ask()
    # By a name that own_dispatch.py does not read: it would find these tests in every process that has them.
    assert attrgetter("overrides.has_torch_function")(torch)(relevant) is answer
