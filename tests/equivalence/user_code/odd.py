"""A user's model with parameters of every shape and type, of several inputs and targets, and a loss that asks for
gradients also where nothing is learned."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

Batch = dict[str, Any]


class Odd(nn.Module):
    """pixels (n, 8), words (n, 3), and a pair of (n, 2) and (n) -> scores (n, 4) and values (n)."""

    def __init__(self) -> None:
        super().__init__()
        self.temperature = nn.Parameter(torch.tensor(1.5))
        self.mixing = nn.Parameter(torch.eye(8, dtype=torch.complex128) * (1 + 0.1j))
        self.levels = nn.Parameter(torch.arange(4, dtype=torch.int8), requires_grad=False)
        self.flags = nn.Parameter(torch.tensor([True, False]), requires_grad=False)
        self.words = nn.Embedding(5, 6)
        self.first = nn.Linear(8 + 6 + 2, 12)
        self.scores = nn.Linear(12, 4)
        self.value = nn.Linear(12, 1)

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        turned = batch["pixels"].to(torch.complex128) @ self.mixing
        point, weight = batch["pair"]
        parts = [turned.real + turned.imag**2, self.words(batch["words"]).mean(1), point * weight[:, None]]
        hidden = torch.tanh(self.first(torch.cat(parts, 1)))
        return self.scores(hidden) / self.temperature + self.levels, self.value(hidden)[:, 0]


class Items:
    """Samples as anybody would write them."""

    def __init__(self, count: int, seed: int) -> None:
        self._made = torch.Generator().manual_seed(seed)
        self._items = [self._item() for _ in range(count)]

    def _item(self) -> tuple[Batch, Batch]:
        def normal(*shape: int) -> Tensor:
            return torch.randn(shape, generator=self._made, dtype=torch.float64)

        words = torch.randint(0, 5, (3,), generator=self._made)
        label = int(torch.randint(0, 4, (), generator=self._made))
        inputs = {"pixels": normal(8), "words": words, "pair": (normal(2), normal())}
        return inputs, {"label": label, "value": normal()}

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index: int) -> tuple[Batch, Batch]:
        return self._items[index]


def build() -> nn.Module:
    return Odd()


def data() -> tuple[Items, Items]:
    return Items(40, 1), Items(5, 2)


def loss(model: nn.Module, inputs: Batch, targets: Batch) -> tuple[Tensor, Tensor]:
    """Virtual adversarial training, more or less: no learning without gradients by the inputs."""
    pixels = inputs["pixels"].clone().requires_grad_()
    scores, value = model({**inputs, "pixels": pixels})
    there = functional.cross_entropy(scores, targets["label"], reduction="sum")
    (slope,) = torch.autograd.grad(there, pixels)
    scores, value = model({**inputs, "pixels": inputs["pixels"] + 0.1 * slope})
    total = functional.cross_entropy(scores, targets["label"], reduction="sum")
    total = total + (value - targets["value"]).square().sum()
    return total, (scores.argmax(1) == targets["label"]).sum()
