"""A transformer's fast way, where our hooks and questions must change nothing."""

from __future__ import annotations

import copy
import pickle
from collections import OrderedDict
from collections.abc import Callable
from operator import attrgetter

import pytest
import torch
from torch import Tensor, nn

from engine.runtime import unasked
from engine.runtime.uncounted_hooks import before_forward


def _asked(module: nn.Module, inputs: object) -> None:
    raise AssertionError("a user's hook was called")


def _nothing() -> None:
    pass


def test_our_hooks_are_called_and_neither_counted_listed_nor_copied() -> None:
    module, called = nn.Linear(2, 2), []
    before_forward(module, lambda: called.append("first"))
    ours = before_forward(module, lambda: called.append("second"))
    module(torch.ones(1, 2))
    assert called == ["second", "first"]
    hooks = module._forward_pre_hooks
    assert (
        len(hooks) == len(list(hooks)) == len(hooks.keys()) == len(hooks.values()) == len(hooks.copy()) == 0
    )
    assert type(copy.copy(hooks)) is type(copy.deepcopy(hooks)) is OrderedDict
    for another in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert not another._forward_pre_hooks
        another(torch.ones(1, 2))
    assert len(called) == 2
    ours.remove()
    module(torch.ones(1, 2))
    assert called == ["second", "first", "first"]


def test_a_users_hooks_are_counted_and_copied() -> None:
    module = nn.Linear(2, 2)
    before_forward(module, _nothing)
    module.register_forward_pre_hook(_asked)
    assert len(module._forward_pre_hooks) == 1
    assert list(copy.deepcopy(module)._forward_pre_hooks.values()) == [_asked]


@pytest.mark.parametrize("first", [False, True])
def test_a_users_hook_that_is_taken_away_leaves_ours_uncounted(first: bool) -> None:
    module, called = nn.Linear(2, 2), []
    if first:
        users = module.register_forward_pre_hook(_asked)
    before_forward(module, lambda: called.append("ours"))
    if not first:
        users = module.register_forward_pre_hook(_asked)
    with pytest.raises(AssertionError):
        module(torch.ones(1, 2))
    users.remove()
    module(torch.ones(1, 2))
    assert called == ["ours", "ours"]
    assert len(module._forward_pre_hooks) == 0


class _Halves:
    """A hook that can take itself away."""

    def __init__(self, module: nn.Module) -> None:
        self.handle = module.register_forward_pre_hook(self)

    def __call__(self, module: nn.Module, inputs: tuple[Tensor]) -> Tensor:
        return inputs[0] / 2


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda module: pickle.loads(pickle.dumps(module))])
def test_a_copied_hook_takes_itself_out_of_the_copy(copied: Callable[[nn.Module], nn.Module]) -> None:
    module = nn.Linear(2, 2)
    before_forward(module, _nothing)
    module.halves = _Halves(module)  # type: ignore[assignment]
    another = copied(module)
    another.halves.handle.remove()  # type: ignore[union-attr, operator]
    assert (len(another._forward_pre_hooks), len(module._forward_pre_hooks)) == (0, 1)


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
