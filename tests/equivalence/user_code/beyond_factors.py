"""A user's model whose fully-connected layers do, sooner or later, what factors cannot express, and a loss that
differentiates by itself. What changes with time goes by a buffer, which every worker has of its own."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import parametrizations
from torch.nn.utils.parametrize import register_parametrization
from torch.utils.checkpoint import checkpoint

_WIDTH = 16


class Doubled(nn.Module):
    """What a bias is made of."""

    def forward(self, x: Tensor) -> Tensor:
        return 2 * x


class Beyond(nn.Module):
    """(n, 1, 8, 8) -> (n, 10). Every layer is added to what came before it."""

    passes: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("passes", torch.zeros((), dtype=torch.int64))

        def layer() -> nn.Linear:
            return nn.Linear(_WIDTH, _WIDTH)

        self.embed = nn.Linear(64, _WIDTH)
        self.hooked = layer()  # a hook on its weight from the beginning
        self.hooked.weight.register_hook(lambda gradient: gradient / 2)
        self.hooked_later = layer()
        self.frozen_for_a_while = layer()
        self.half_frozen = layer()  # its weight in every other step
        self.frozen_by_data = layer()  # on some workers only
        self.used_by_data = layer()
        self.expert = layer()  # of some of the rows, perhaps of none
        self.again = layer()  # also by a function, after a few steps
        self.penalized = layer()  # its weight, by the loss, after a few steps
        self.transformed = layer()  # by torch.func, after a few steps
        self.checkpointed = layer()
        self.normed = parametrizations.weight_norm(layer())
        self.spectral = parametrizations.spectral_norm(layer())
        self.doubled = layer()
        register_parametrization(self.doubled, "bias", Doubled())
        self.twice = layer()  # the loss differentiates its gradient again
        self.head = nn.Linear(_WIDTH, 10)
        self.hook_is_there = False

    @property
    def step(self) -> int:
        """The loss runs the model twice."""
        return int(self.passes) // 2

    def forward(self, x: Tensor) -> Tensor:
        step, sign = self.step, float(x.sum())
        self.passes += 1
        self.frozen_for_a_while.requires_grad_(step not in (2, 3))
        self.half_frozen.weight.requires_grad_(step % 2 == 0)
        self.frozen_by_data.requires_grad_(sign > 0)
        if step >= 4 and not self.hook_is_there:
            self.hooked_later.weight.register_hook(lambda gradient: gradient * 2)
            self.hook_is_there = True
        h = torch.tanh(self.embed(x.flatten(1)))
        h = h + torch.tanh(self.hooked_later(self.hooked(h)))
        h = h + torch.tanh(self.half_frozen(self.frozen_for_a_while(h)))
        h = h + torch.tanh(self.frozen_by_data(h))
        if sign > 0.1:
            h = h + torch.tanh(self.used_by_data(h))
        some = x.flatten(1).sum(1) > 4
        h = h.index_add(0, some.nonzero().flatten(), torch.tanh(self.expert(h[some])))
        h = h + torch.tanh(self.again(h))
        if step >= 2:
            h = h + functional.linear(h, self.again.weight.t())
        h = h + torch.tanh(self.penalized(h))
        if step >= 4:
            h = h + torch.func.vmap(lambda one: torch.tanh(self.transformed(one)))(h)
        else:
            h = h + torch.tanh(self.transformed(h))
        h = h + checkpoint(lambda z: torch.tanh(self.checkpointed(z)), h, use_reentrant=False)
        h = h + torch.tanh(self.doubled(self.spectral(self.normed(h))))
        self.reached = h
        logits: Tensor = self.head(torch.tanh(self.twice(h)))
        return logits


def build() -> nn.Module:
    return Beyond()


def loss(model: nn.Module, inputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """On inputs that were moved along the loss's gradient by them (the fast gradient sign method), with a penalty on
    the gradient by what the last two layers get, which is differentiated twice, and on a weight."""
    inner = getattr(model, "module", model)
    inputs = inputs.detach().requires_grad_()
    with torch.enable_grad():
        there = functional.cross_entropy(model(inputs), targets, reduction="sum")
        (slope,) = torch.autograd.grad(there, inputs)
        logits = model((inputs + 0.01 * slope.sign()).detach())
        total = functional.cross_entropy(logits, targets, reduction="sum")
        (slope,) = torch.autograd.grad(total, inner.reached, create_graph=True)
    total = total + 0.01 * slope.square().sum()
    if inner.step >= 4:
        total = total + 0.001 * len(inputs) * inner.penalized.weight.square().sum()
    return total, (logits.argmax(1) == targets).sum()
