"""Small networks on 8x8 images, each built around one thing that an engine can get wrong."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from engine.models.options import SmallOptions

_SIDE = 8


class Mlp(nn.Sequential):
    """(batch, channels, 8, 8) -> (batch, classes) through two hidden layers."""

    def __init__(self, options: SmallOptions) -> None:
        pixels = options.channels * _SIDE * _SIDE
        super().__init__(
            nn.Flatten(),
            nn.Linear(pixels, options.hidden),
            nn.ReLU(),
            nn.Linear(options.hidden, options.hidden),
            nn.ReLU(),
            nn.Linear(options.hidden, options.classes),
        )


class Cnn(nn.Sequential):
    """As BatchNormCnn without batch statistics: one big batch is the same function as its parts."""

    def __init__(self, options: SmallOptions) -> None:
        super().__init__(
            nn.Conv2d(options.channels, options.hidden, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(options.hidden, options.hidden, 3, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
            nn.Linear(4 * options.hidden, options.classes),
        )


class BatchNormCnn(nn.Sequential):
    """As Cnn with batch normalization: its buffers are local to each worker."""

    def __init__(self, options: SmallOptions) -> None:
        super().__init__(
            nn.Conv2d(options.channels, options.hidden, 3, padding=1, bias=False),
            nn.BatchNorm2d(options.hidden),
            nn.ReLU(inplace=True),
            nn.Conv2d(options.hidden, options.hidden, 3, padding=1, bias=False),
            nn.BatchNorm2d(options.hidden),
            nn.ReLU(inplace=True),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
            nn.Linear(4 * options.hidden, options.classes),
        )


class Tied(nn.Module):
    """`decode` shares the weight of `encode` (transposed in its forward), and `middle` runs twice."""

    def __init__(self, options: SmallOptions) -> None:
        super().__init__()
        pixels = options.channels * _SIDE * _SIDE
        self.encode = nn.Linear(pixels, options.hidden)
        self.middle = nn.Linear(options.hidden, options.hidden)
        self.decode = TransposedLinear(self.encode.weight)
        self.classify = nn.Linear(pixels, options.classes)

    def forward(self, x: Tensor) -> Tensor:
        hidden = functional.relu(self.encode(x.flatten(1)))
        hidden = functional.relu(self.middle(functional.relu(self.middle(hidden))))
        logits: Tensor = self.classify(functional.relu(self.decode(hidden)))
        return logits


class TransposedLinear(nn.Module):
    """x (batch, out) -> (batch, in) with another layer's weight (out, in), which it owns as well."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.weight = weight
        self.bias = nn.Parameter(torch.zeros(weight.shape[1]))

    def forward(self, x: Tensor) -> Tensor:
        return functional.linear(x, self.weight.t(), self.bias)


class Sometimes(nn.Module):
    """`odd` is used only by batches whose first input's sum is positive, and `never` by none."""

    def __init__(self, options: SmallOptions) -> None:
        super().__init__()
        pixels = options.channels * _SIDE * _SIDE
        self.base = nn.Linear(pixels, options.hidden)
        self.odd = nn.Linear(options.hidden, options.hidden)
        self.never = nn.Linear(options.hidden, options.hidden)
        self.classify = nn.Linear(options.hidden, options.classes)

    def forward(self, x: Tensor) -> Tensor:
        hidden = functional.relu(self.base(x.flatten(1)))
        # Meta tensors have no values to decide by: a description then shows the larger network.
        if x.is_meta or (len(x) > 0 and bool(x[0].sum() > 0)):
            hidden = hidden + functional.relu(self.odd(hidden))
        logits: Tensor = self.classify(hidden)
        return logits


class Frozen(Mlp):
    """As Mlp, with the first layer and the second layer's bias frozen."""

    def __init__(self, options: SmallOptions) -> None:
        super().__init__(options)
        for parameter in (*self[1].parameters(), self[3].bias):
            parameter.requires_grad_(False)


class Attention(nn.Module):
    """Each image row is a token. `attend.out_proj` is used by `attend` itself, never called as a module."""

    def __init__(self, options: SmallOptions) -> None:
        super().__init__()
        width = 4 * (-(-options.hidden // 4))
        self.embed = nn.Linear(options.channels * _SIDE, width)
        self.position = nn.Parameter(0.1 * torch.randn(_SIDE, width))
        self.attend = nn.MultiheadAttention(width, 4, batch_first=True)
        self.norm = nn.LayerNorm(width)
        self.classify = nn.Linear(width, options.classes)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.embed(x.transpose(1, 2).flatten(2)) + self.position
        mixed, _ = self.attend(tokens, tokens, tokens, need_weights=False)
        logits: Tensor = self.classify(self.norm(tokens + mixed).mean(1))
        return logits


class Mixed(nn.Module):
    """A float32 layer followed by float64 ones."""

    def __init__(self, options: SmallOptions) -> None:
        super().__init__()
        pixels = options.channels * _SIDE * _SIDE
        self.narrow = nn.Linear(pixels, options.hidden)
        self.wide = nn.Linear(options.hidden, options.hidden, dtype=torch.float64)
        self.classify = nn.Linear(options.hidden, options.classes, dtype=torch.float64)

    def forward(self, x: Tensor) -> Tensor:
        hidden = functional.relu(self.narrow(x.flatten(1)))
        logits: Tensor = self.classify(functional.relu(self.wide(hidden.double())))
        return logits
