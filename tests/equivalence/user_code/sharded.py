"""A user's models that do what fully_shard cannot keep up with, and some that it can."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import weight_norm
from torch.utils.checkpoint import checkpoint


class Given(torch.autograd.Function):
    """Is given parameters that it leaves to `module`, as adjoint methods do."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, module: nn.Module, *parameters: Tensor) -> Tensor:
        ctx.module = module
        ctx.save_for_backward(x, *parameters)
        with torch.no_grad():
            return torch.tanh(module(x))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        x, *parameters = ctx.saved_tensors
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            found = torch.autograd.grad(
                torch.tanh(ctx.module(x)), [x, *parameters], gradients[0], allow_unused=True
            )
        return found[0], None, *found[1:]


class Net(nn.Module):
    """Does one thing, `how`, from its third call in training on, or from the start."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how
        self.calls = 0
        self.first = nn.Linear(64, 24)
        self.second = nn.Linear(24, 24)
        self.third = nn.Linear(24, 24) if how in ("order", "rare", "sharpness") else self.second
        self.last = nn.Linear(24, 10)
        self.kept: object = None
        if how == "kept":
            self.kept = [self.second.weight]
        if how == "kept_view":
            self.kept = self.second.weight.detach().numpy()
        if how == "normed":
            self.second = weight_norm(self.second)
            self.third = self.second
        if how == "sizes":
            self.third = nn.Sequential(nn.Linear(24, 96), nn.Linear(96, 24))  # type: ignore[assignment]
        if how == "types":
            self.unused = nn.MultiheadAttention(24, 1)  # which uses its child's parameters without calling it
            self.unused.out_proj.double()
        if how == "hook":
            self.first.weight.register_hook(lambda grad: 0.5 * grad)
        if how == "node":
            self.first.register_forward_pre_hook(self._halve)
        if how == "read_later":
            self.first.register_forward_hook(self._keep)
        if how == "thaw":
            self.first.requires_grad_(False)
        if how in ("write_part_backward", "write_whole_backward"):
            written = self.first if how == "write_part_backward" else self.last
            written.register_full_backward_hook(self._shrink)

    def _halve(self, module: nn.Linear, *_: object) -> None:
        if self.kept is None and torch.is_grad_enabled():
            self.kept = node = torch.autograd.graph.get_gradient_edge(module.weight).node
            node.register_prehook(lambda grads: tuple(0.5 * grad for grad in grads))

    def _keep(self, module: nn.Linear, *_: object) -> None:
        self.kept = module.weight.t()

    def _shrink(self, module: nn.Linear, *_: object) -> None:
        with torch.no_grad():
            module.weight.mul_(0.9)

    def features(self, x: Tensor) -> Tensor:
        late = self.training and self.calls > 2
        if late and self.how == "late_hook":
            self.first.weight.register_hook(lambda grad: 0.5 * grad)
        if late and self.how == "freeze":
            self.first.requires_grad_(False)
        if late and self.how == "thaw":
            self.first.requires_grad_(True)
        if late and self.how == "write":
            with torch.no_grad():
                self.first.weight.mul_(0.9)
        if late and self.how == "data":
            self.second.weight.data = self.second.weight.data * 0.9
        x = torch.tanh(self.first(x.flatten(1)))
        if self.how == "given":
            x = Given.apply(x, self.second, *self.second.parameters())  # type: ignore[no-untyped-call]
        if late and self.how in ("swapped", "swapped_by_parameters"):
            kind = nn.Parameter if self.how == "swapped_by_parameters" else Tensor.clone
            others = {name: kind(0.9 * value) for name, value in self.second.named_parameters()}
            x = torch.func.functional_call(self.second, others, (x,))
        if late and self.how == "read":
            x = x + functional.linear(x, self.second.weight)
        if late and self.how == "numpy":
            self.second.weight.detach().numpy()[...] *= 0.9
        if late and self.how in ("order", "sizes") and int(x.abs().sum() * 1000) % 2:
            return torch.tanh(self.third(x))
        if self.how == "sharpness" or (self.how == "rare" and self.calls % 2):
            x = x + self.third(x)
        if self.how == "reentrant":
            x = checkpoint(self.second, x, use_reentrant=True)
        return torch.tanh(self.second(x))

    def forward(self, x: Tensor) -> Tensor:
        self.calls += self.training
        if self.how == "moved" and self.calls == 3:
            before, self.last = self.last, nn.Linear(24, 10)
            self.last.weight, self.last.bias = before.weight, before.bias
        logits: Tensor = self.last(self.features(x))
        return logits if not isinstance(self.kept, Tensor) else logits * self.kept.square().mean()


def model(how: str) -> nn.Module:
    return Net(how)


def loss(model: Net, inputs: Tensor, targets: Tensor) -> tuple[Tensor, None]:
    if model.how == "parts":
        logits = model.last(model.features(inputs))
    elif model.how == "twice" and torch.is_grad_enabled():
        inputs = inputs.detach().requires_grad_()
        logits = model(inputs)
        (grad,) = torch.autograd.grad(logits.square().sum(), inputs, create_graph=True)
        return functional.cross_entropy(logits, targets, reduction="sum") + grad.square().sum(), None
    else:
        logits = model(inputs)
    found = functional.cross_entropy(logits, targets, reduction="sum")
    if model.how in ("sharpness", "by_hand") and torch.is_grad_enabled():
        parameters = dict(model.named_parameters())
        gradients = torch.autograd.grad(found, list(parameters.values()))
        if model.how == "by_hand":
            return torch.stack(
                [(p * g).sum() for p, g in zip(parameters.values(), gradients, strict=True)]
            ).sum(), None
        others = {n: p + 0.05 * g for (n, p), g in zip(parameters.items(), gradients, strict=True)}
        logits = torch.func.functional_call(model, others, (inputs,))
        found = functional.cross_entropy(logits, targets, reduction="sum")
    return found, None
