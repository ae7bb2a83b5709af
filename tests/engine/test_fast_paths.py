"""A transformer's fast way, where our hooks and questions must change nothing."""

from __future__ import annotations

import copy
import pickle
from operator import attrgetter

import pytest
import torch
from torch import Tensor, nn

from engine.runtime import unasked
from engine.runtime.entries import Hook
from engine.runtime.fast_paths import before_forward


def _asked(module: nn.Module, inputs: object) -> None:
    raise AssertionError("a user's hook was called")


def test_our_hooks_are_called_and_neither_counted_nor_copied() -> None:
    module, called = nn.Linear(2, 2), []
    before_forward(module, Hook(lambda: called.append("first")))
    before_forward(module, Hook(lambda: called.append("second")))
    module(torch.ones(1, 2))
    assert called == ["second", "first"]
    assert len(module._forward_pre_hooks) == 0
    for another in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert not another._forward_pre_hooks
        another(torch.ones(1, 2))
    assert len(called) == 2


def test_a_users_hooks_are_counted_and_copied_and_can_be_taken_away() -> None:
    module = nn.Linear(2, 2)
    before = module.register_forward_pre_hook(_asked)
    before_forward(module, Hook(lambda: None))
    before.remove()
    module(torch.ones(1, 2))
    module = nn.Linear(2, 2)
    before_forward(module, Hook(lambda: None))
    after = module.register_forward_pre_hook(_asked)
    assert len(module._forward_pre_hooks) == 1
    assert list(copy.deepcopy(module)._forward_pre_hooks.values()) == [_asked]
    after.remove()
    module(torch.ones(1, 2))


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
