"""What a traced pass would keep as it was when it was traced is refused."""

from __future__ import annotations

import random

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from engine.models.cannot_cut import CannotCutError
from engine.models.cut import cut
from tests.cuts import INPUTS, Shaped, offered, whole


class Listed(Shaped):
    """A weight that comes from a list, and not from its module's attribute."""

    def forward(self, x: Tensor) -> Tensor:
        weight, bias = self.second.parameters()
        return self.third(functional.linear(self.first(x), 0.9 * weight, bias))


class Swapped(Shaped):
    """A layer that is called with other parameters than its own."""

    def forward(self, x: Tensor) -> Tensor:
        ones = {"weight": torch.ones(4, 4), "bias": torch.zeros(4)}
        return self.third(torch.func.functional_call(self.second, ones, (self.first(x),)))


class Flat(Shaped):
    """Its parameters are views of one tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.flat, at = torch.cat([p.data.flatten() for p in self.parameters()]), 0
        for p in self.parameters():
            p.data = self.flat[at : at + p.numel()].view_as(p)
            at += p.numel()


class FlatNorm(Flat):
    def forward(self, x: Tensor) -> Tensor:
        return self.third(self.second(self.first(x))) / self.flat.norm()


class FlatConstant(Flat):
    def forward(self, x: Tensor) -> Tensor:
        return self.third(self.second(self.first(x))) * self.flat[3]


class FlatOperand(Flat):
    def __init__(self) -> None:
        super().__init__()
        self.level = self.flat[:1]

    def forward(self, x: Tensor) -> Tensor:
        return self.third(self.second(self.first(x))) * self.level


class FlatBeside(Flat):
    """What forward does not use may share what it likes."""

    def forward(self, x: Tensor) -> Tensor:
        return self.third(self.second(self.first(x)))


class Listened(Shaped):
    """What a list of parameters is asked has nothing to do with their values."""

    def forward(self, x: Tensor) -> Tensor:
        width = sum(p.numel() for p in self.second.parameters() if p.dim() == 1 and p.requires_grad)
        return self.third(self.second(self.first(x)).view(-1, width))


class Noisy(Shaped):
    def forward(self, x: Tensor) -> Tensor:
        return self.third(self.second(self.first(x) + torch.randn(4)))


class Tossed(Shaped):
    """A module that a coin of Python's is tossed for."""

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.first(x)
        return self.third(self.second(hidden) if random.random() < 2 else hidden)


class SharedBuffer(Shaped):
    """A buffer that is a view of another layer's parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("level", self.second.bias.data)

    def forward(self, x: Tensor) -> Tensor:
        return self.third(self.second(self.first(x) * self.level))


class Handed(Shaped):
    """A parameter of a list goes straight into a function with a value of the pass: torch.fx finds it."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = [self.second.weight]

    def forward(self, x: Tensor) -> Tensor:
        return self.third(functional.linear(self.first(x), self.weights[0], self.second.bias))


def test_a_parameter_that_is_handed_to_a_function_is_noted() -> None:
    net = Handed()
    assert offered(net, INPUTS)["second"] == ""
    parts = cut(net, "second")
    assert torch.equal(whole(parts, INPUTS), net(INPUTS))
    assert any(p is net.second.weight for p in parts.back.parameters())


@pytest.mark.parametrize(
    ("net", "reason"),
    [
        (Listed, "computes with 'second.weight', which it has not taken from the module's attribute"),
        (Swapped, "calls 'second' with other parameters or buffers than its own"),
        (FlatNorm, "a tensor that shares its memory"),
        (FlatConstant, "a tensor that shares its memory"),
        (FlatOperand, "uses 'level', a tensor that shares its memory with"),
        (SharedBuffer, "uses 'level', a tensor that shares its memory with 'second.bias'"),
        (Noisy, "draws random numbers"),
        (Tossed, "draws random numbers"),
    ],
)
def test_a_value_that_would_be_frozen_is_refused(net: type[nn.Module], reason: str) -> None:
    with pytest.raises(CannotCutError, match=reason):
        offered(net(), INPUTS)


def test_what_parameters_are_beside_their_values_may_be_asked() -> None:
    net = Listened()
    assert torch.equal(whole(cut(net, "second"), INPUTS), net(INPUTS))


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_parameters_that_share_their_memory_may_be_cut(device: str) -> None:
    with torch.device(device):
        net = FlatBeside()
        with pytest.raises(CannotCutError, match="a tensor that shares its memory"):
            cut(FlatOperand(), "second")
    assert offered(net, INPUTS.to(device), lambda net, x, y: (net(x).sum(), None))["second"] == ""
