"""What a model is besides its values goes on from a checkpoint, too."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize, prune

from engine.checkpoint import model_state
from engine.checkpoint.part import Part
from engine.errors import TrainingError


class Changing(nn.Module):
    """Its first pass changes all that is not a value."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.norm = nn.BatchNorm1d(2)
        self.register_buffer("counted", torch.zeros(()))
        self.register_buffer("grown", torch.zeros(0), persistent=False)
        self.register_buffer("warm", torch.ones(2))
        self.register_buffer("gone", torch.ones(2))
        self.register_buffer("later", None, persistent=False)
        self.register_buffer("one", torch.ones(2))
        self.register_buffer("same", self.one)

    def forward(self) -> None:
        self.counted += 1
        self.grown = torch.ones(3)
        self.warm = None
        del self.gone
        self.later = torch.full((2,), 5.0)
        self.register_buffer("new", torch.full((1,), 6.0), persistent=False)
        self.one = self.same = torch.full((4,), 7.0)
        self.linear.requires_grad_(False)
        self.norm.eval()


def test_what_a_pass_has_changed_for_good_is_gone_on_from() -> None:
    changed, part = Changing(), Part()
    changed()
    said = model_state.described(changed)
    part.put("buffer", dict(changed.named_buffers()))
    fresh = Changing()
    counted = fresh.counted
    model_state.give_buffers(fresh, said, part.under("buffer"))
    model_state.give_modes(fresh, said)
    assert fresh.state_dict().keys() == changed.state_dict().keys()
    assert fresh._buffers.keys() == changed._buffers.keys()
    assert fresh.counted is counted
    assert fresh.one is fresh.same
    assert fresh.warm is None
    for name, held in changed.named_buffers():
        assert torch.equal(dict(fresh.named_buffers())[name], held), name
    assert [p.requires_grad for p in fresh.linear.parameters()] == [False, False]
    assert [module.training for module in (fresh, fresh.linear, fresh.norm)] == [True, True, False]


def test_buffers_that_were_one_and_have_become_two_keep_their_own_values() -> None:
    apart, part = Changing(), Part()
    apart.same = torch.full((2,), 3.0)
    part.put("buffer", dict(apart.named_buffers()))
    fresh = Changing()
    model_state.give_buffers(fresh, model_state.described(apart), part.under("buffer"))
    assert torch.equal(fresh.one, torch.ones(2))
    assert torch.equal(fresh.same, torch.full((2,), 3.0))


def test_what_can_be_gone_on_from_is_not_refused() -> None:
    changed = Changing()
    built = model_state.Built(changed)
    changed()
    changed.activation = nn.Tanh()
    built.check(changed, 4)


def with_statistics(model: Changing) -> None:
    model.linear.seen = nn.BatchNorm1d(2, affine=False)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda m: prune.l1_unstructured(m.linear, "weight", amount=0.5),
            r"has linear\.weight_orig, which it had not",
        ),
        (
            lambda m: parametrize.register_parametrization(m.linear, "weight", nn.Identity()),
            r"has linear\.parametrizations\.weight\.original, which it had not",
        ),
        (lambda m: setattr(m, "linear", nn.Sequential(m.linear)), r"has linear\.0\.bias, which it had not"),
        (lambda m: m.register_parameter("scale", nn.Parameter(torch.ones(2))), "has scale, which it had not"),
        (lambda m: delattr(m, "norm"), r"has no norm\.bias any more, which it had"),
        (with_statistics, r"has linear\.seen\.num_batches_tracked, which it had not"),
    ],
)
def test_what_has_other_names_than_a_model_that_is_built_anew_is_refused(
    change: Callable[[nn.Module], object], said: str
) -> None:
    changed = Changing()
    built = model_state.Built(changed)
    change(changed)
    with pytest.raises(
        TrainingError, match=rf"after step 4 the model {said} when it was built.*every_steps out"
    ):
        built.check(changed, 4)
