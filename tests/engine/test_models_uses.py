"""Where parameters are used: what the owner of a parameter does not tell."""

import pytest
import torch
from torch import nn

from engine.instrumentation.uses import UseFinder, find_uses
from engine.models.registry import MODELS, build


def watch(model: nn.Module, *shape: int):
    with torch.device(next(model.parameters()).device):
        batch = torch.randn(*shape)
    return find_uses(model, lambda: model(batch))


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("entry", [m for m in MODELS if m.purpose == "testing"], ids=lambda entry: entry.name)
def test_every_parameter_is_waited_for_by_a_module_that_is_called(entry, device):
    with torch.device(device):
        model = entry.build()
    called: set[str] = set()
    for name, module in model.named_modules():
        module.register_forward_pre_hook(lambda *_, name=name: called.add(name))
    uses = watch(model, 2, *entry.input_shape)
    names = {name for name, _ in model.named_parameters()}
    assert set(uses.waits) <= called
    assert {p for waits in uses.waits.values() for p in waits} == names
    assert set(uses.order) | set(uses.unseen) == names
    assert not uses.before_forward


def test_a_projection_that_is_never_called_is_waited_for_by_its_attention():
    uses = watch(build("attention"), 2, 1, 8, 8)
    assert "attend.out_proj" not in uses.waits
    assert "attend.out_proj.weight" in uses.waits["attend"]


def test_order_is_the_order_in_which_forward_must_wait():
    uses = watch(build("attention"), 2, 1, 8, 8)
    # The root uses `position` after `embed` ran, but has to wait for it before.
    assert uses.order[:3] == ("position", "embed.weight", "embed.bias")


def test_a_tied_weight_is_waited_for_by_both_users():
    uses = watch(build("tied"), 2, 1, 8, 8)
    assert "encode.weight" in uses.waits["encode"]
    assert "encode.weight" in uses.waits["decode"]
    assert uses.order.count("encode.weight") == 1


def test_parameters_that_were_not_seen_are_waited_for_by_the_root():
    uses = watch(build("sometimes"), 2, 1, 8, 8)
    assert set(uses.unseen) >= {"never.weight", "never.bias"}
    assert set(uses.waits[""]) == set(uses.unseen)


def test_parameters_inside_lists_are_seen():
    lstm = nn.LSTM(4, 5, 2, device="meta")
    uses = watch(lstm, 3, 2, 4)
    assert set(uses.waits[""]) == {name for name, _ in lstm.named_parameters()}
    assert not uses.unseen


class Careless(nn.Module):
    """Reads metadata and gradients, and is used in parts from outside."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(2, 2)
        self.read = nn.Parameter(torch.ones(2, 2))
        self.outside = nn.Parameter(torch.ones(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        assert self.read.shape == (2, 2)
        assert self.read.grad is None
        assert self.read.dtype == x.dtype
        return self.inner(x)


def test_reading_metadata_is_no_use():
    assert "read" in watch(Careless(), 1, 2).unseen


def test_uses_that_no_hook_precedes_must_be_waited_for_before():
    model = Careless()
    uses = find_uses(model, lambda: model(torch.ones(1, 2)) * model.outside.item())
    assert uses.before_forward == ("outside",)
    parts = find_uses(model, lambda: model.inner(torch.ones(1, 2)))
    assert set(parts.before_forward) == {"read", "outside"}


def test_the_watched_pass_computes_the_same_and_leaves_no_hooks():
    model = build("attention")
    batch = torch.randn(2, 1, 8, 8)
    expected = torch.autograd.grad(model(batch).sum(), model.position)[0]
    with UseFinder(model):
        found = torch.autograd.grad(model(batch).sum(), model.position)[0]
    assert torch.equal(found, expected)
    assert not any(m._forward_pre_hooks or m._forward_hooks for m in model.modules())


def test_modules_that_raise_do_not_stay_active():
    class Retry(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fails = nn.Linear(3, 3)
            self.last = nn.Parameter(torch.ones(2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            try:
                return self.fails(x)
            except RuntimeError:
                return x * self.last

    assert "last" in watch(Retry(), 1, 2).waits[""]
