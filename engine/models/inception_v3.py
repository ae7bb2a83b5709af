"""Inception-v3: modules of parallel branches on 299x299 images; 23,834,568 parameters.

Szegedy et al., "Rethinking the inception architecture for computer vision", 2015, figures 5 to 7 and table 1,
with the reference implementation's layer names and details (batch normalization with epsilon 0.001, average
pooling before the pooled branches' 1x1 convolutions).

Deviations: no auxiliary classifier (3,326,696 parameters more), because a task has one output; convolutions
are initialized as in our other networks. `width` scales every channel count, for tests.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from engine.models.options import InceptionOptions

_STEM = 32
"""Channels of the first convolution as published: `width` stands in relation to it."""

Scale = Callable[[int], int]


class BasicConv2d(nn.Sequential):
    """Convolution without bias, batch normalization, ReLU."""

    def __init__(self, channels: int, out: int, kernel: int | tuple[int, int], **where: object) -> None:
        super().__init__()
        convolution = nn.Conv2d(channels, out, kernel, bias=False, **where)  # type: ignore[arg-type]
        nn.init.kaiming_normal_(convolution.weight, mode="fan_out", nonlinearity="relu")
        self.add_module("conv", convolution)
        self.add_module("bn", nn.BatchNorm2d(out, eps=0.001))
        self.add_module("relu", nn.ReLU(inplace=True))


class InceptionA(nn.Module):
    """1x1, 5x5, double 3x3 and pooled branches, on 35x35 (figure 5)."""

    def __init__(self, channels: int, pool_features: int, s: Scale) -> None:
        super().__init__()
        self.branch1x1 = BasicConv2d(channels, s(64), 1)
        self.branch5x5_1 = BasicConv2d(channels, s(48), 1)
        self.branch5x5_2 = BasicConv2d(s(48), s(64), 5, padding=2)
        self.branch3x3dbl_1 = BasicConv2d(channels, s(64), 1)
        self.branch3x3dbl_2 = BasicConv2d(s(64), s(96), 3, padding=1)
        self.branch3x3dbl_3 = BasicConv2d(s(96), s(96), 3, padding=1)
        self.pool = nn.AvgPool2d(3, stride=1, padding=1)
        self.branch_pool = BasicConv2d(channels, s(pool_features), 1)
        self.out_channels = s(64) + s(64) + s(96) + s(pool_features)

    def forward(self, x: Tensor) -> Tensor:
        """(n, channels, h, w) -> (n, out_channels, h, w)."""
        five = self.branch5x5_2(self.branch5x5_1(x))
        double = self.branch3x3dbl_3(self.branch3x3dbl_2(self.branch3x3dbl_1(x)))
        return torch.cat([self.branch1x1(x), five, double, self.branch_pool(self.pool(x))], 1)


class InceptionB(nn.Module):
    """From 35x35 to 17x17: strided 3x3, double 3x3 and pooling (figure 10)."""

    def __init__(self, channels: int, s: Scale) -> None:
        super().__init__()
        self.branch3x3 = BasicConv2d(channels, s(384), 3, stride=2)
        self.branch3x3dbl_1 = BasicConv2d(channels, s(64), 1)
        self.branch3x3dbl_2 = BasicConv2d(s(64), s(96), 3, padding=1)
        self.branch3x3dbl_3 = BasicConv2d(s(96), s(96), 3, stride=2)
        self.pool = nn.MaxPool2d(3, stride=2)
        self.out_channels = s(384) + s(96) + channels

    def forward(self, x: Tensor) -> Tensor:
        """(n, channels, h, w) -> (n, out_channels, (h - 1) // 2, (w - 1) // 2)."""
        double = self.branch3x3dbl_3(self.branch3x3dbl_2(self.branch3x3dbl_1(x)))
        return torch.cat([self.branch3x3(x), double, self.pool(x)], 1)


class InceptionC(nn.Module):
    """7x7 convolutions factorized into 1x7 and 7x1, on 17x17 (figure 6)."""

    def __init__(self, channels: int, inner: int, s: Scale) -> None:
        super().__init__()
        c7, out, wide, tall = s(inner), s(192), {"padding": (0, 3)}, {"padding": (3, 0)}
        self.branch1x1 = BasicConv2d(channels, out, 1)
        self.branch7x7_1 = BasicConv2d(channels, c7, 1)
        self.branch7x7_2 = BasicConv2d(c7, c7, (1, 7), **wide)
        self.branch7x7_3 = BasicConv2d(c7, out, (7, 1), **tall)
        self.branch7x7dbl_1 = BasicConv2d(channels, c7, 1)
        self.branch7x7dbl_2 = BasicConv2d(c7, c7, (7, 1), **tall)
        self.branch7x7dbl_3 = BasicConv2d(c7, c7, (1, 7), **wide)
        self.branch7x7dbl_4 = BasicConv2d(c7, c7, (7, 1), **tall)
        self.branch7x7dbl_5 = BasicConv2d(c7, out, (1, 7), **wide)
        self.pool = nn.AvgPool2d(3, stride=1, padding=1)
        self.branch_pool = BasicConv2d(channels, out, 1)
        self.out_channels = 4 * out

    def forward(self, x: Tensor) -> Tensor:
        """(n, channels, h, w) -> (n, out_channels, h, w)."""
        seven = self.branch7x7_3(self.branch7x7_2(self.branch7x7_1(x)))
        double = self.branch7x7dbl_3(self.branch7x7dbl_2(self.branch7x7dbl_1(x)))
        double = self.branch7x7dbl_5(self.branch7x7dbl_4(double))
        return torch.cat([self.branch1x1(x), seven, double, self.branch_pool(self.pool(x))], 1)


class InceptionD(nn.Module):
    """From 17x17 to 8x8: strided 3x3, 7x7 then strided 3x3, and pooling."""

    def __init__(self, channels: int, s: Scale) -> None:
        super().__init__()
        self.branch3x3_1 = BasicConv2d(channels, s(192), 1)
        self.branch3x3_2 = BasicConv2d(s(192), s(320), 3, stride=2)
        self.branch7x7x3_1 = BasicConv2d(channels, s(192), 1)
        self.branch7x7x3_2 = BasicConv2d(s(192), s(192), (1, 7), padding=(0, 3))
        self.branch7x7x3_3 = BasicConv2d(s(192), s(192), (7, 1), padding=(3, 0))
        self.branch7x7x3_4 = BasicConv2d(s(192), s(192), 3, stride=2)
        self.pool = nn.MaxPool2d(3, stride=2)
        self.out_channels = s(320) + s(192) + channels

    def forward(self, x: Tensor) -> Tensor:
        """(n, channels, h, w) -> (n, out_channels, (h - 1) // 2, (w - 1) // 2)."""
        three = self.branch3x3_2(self.branch3x3_1(x))
        seven = self.branch7x7x3_3(self.branch7x7x3_2(self.branch7x7x3_1(x)))
        return torch.cat([three, self.branch7x7x3_4(seven), self.pool(x)], 1)


class InceptionE(nn.Module):
    """Filter banks that end in 1x3 and 3x1 side by side, on 8x8 (figure 7)."""

    def __init__(self, channels: int, s: Scale) -> None:
        super().__init__()
        bank, wide, tall = s(384), {"padding": (0, 1)}, {"padding": (1, 0)}
        self.branch1x1 = BasicConv2d(channels, s(320), 1)
        self.branch3x3_1 = BasicConv2d(channels, bank, 1)
        self.branch3x3_2a = BasicConv2d(bank, bank, (1, 3), **wide)
        self.branch3x3_2b = BasicConv2d(bank, bank, (3, 1), **tall)
        self.branch3x3dbl_1 = BasicConv2d(channels, s(448), 1)
        self.branch3x3dbl_2 = BasicConv2d(s(448), bank, 3, padding=1)
        self.branch3x3dbl_3a = BasicConv2d(bank, bank, (1, 3), **wide)
        self.branch3x3dbl_3b = BasicConv2d(bank, bank, (3, 1), **tall)
        self.pool = nn.AvgPool2d(3, stride=1, padding=1)
        self.branch_pool = BasicConv2d(channels, s(192), 1)
        self.out_channels = s(320) + 4 * bank + s(192)

    def forward(self, x: Tensor) -> Tensor:
        """(n, channels, h, w) -> (n, out_channels, h, w)."""
        one, three = self.branch1x1(x), self.branch3x3_1(x)
        three = torch.cat([self.branch3x3_2a(three), self.branch3x3_2b(three)], 1)
        double = self.branch3x3dbl_2(self.branch3x3dbl_1(x))
        double = torch.cat([self.branch3x3dbl_3a(double), self.branch3x3dbl_3b(double)], 1)
        return torch.cat([one, three, double, self.branch_pool(self.pool(x))], 1)


def build(options: InceptionOptions) -> nn.Sequential:
    """(n, 3, 299, 299) -> (n, classes); smaller images work down to 75x75."""

    def s(channels: int) -> int:
        return max(1, channels * options.width // _STEM)

    model = nn.Sequential()
    model.add_module("Conv2d_1a_3x3", BasicConv2d(3, s(32), 3, stride=2))
    model.add_module("Conv2d_2a_3x3", BasicConv2d(s(32), s(32), 3))
    model.add_module("Conv2d_2b_3x3", BasicConv2d(s(32), s(64), 3, padding=1))
    model.add_module("maxpool1", nn.MaxPool2d(3, stride=2))
    model.add_module("Conv2d_3b_1x1", BasicConv2d(s(64), s(80), 1))
    model.add_module("Conv2d_4a_3x3", BasicConv2d(s(80), s(192), 3))
    model.add_module("maxpool2", nn.MaxPool2d(3, stride=2))
    channels = s(192)
    stages: tuple[
        tuple[str, Callable[[int], InceptionA | InceptionB | InceptionC | InceptionD | InceptionE]], ...
    ]
    stages = (
        ("Mixed_5b", lambda c: InceptionA(c, 32, s)),
        ("Mixed_5c", lambda c: InceptionA(c, 64, s)),
        ("Mixed_5d", lambda c: InceptionA(c, 64, s)),
        ("Mixed_6a", lambda c: InceptionB(c, s)),
        ("Mixed_6b", lambda c: InceptionC(c, 128, s)),
        ("Mixed_6c", lambda c: InceptionC(c, 160, s)),
        ("Mixed_6d", lambda c: InceptionC(c, 160, s)),
        ("Mixed_6e", lambda c: InceptionC(c, 192, s)),
        ("Mixed_7a", lambda c: InceptionD(c, s)),
        ("Mixed_7b", lambda c: InceptionE(c, s)),
        ("Mixed_7c", lambda c: InceptionE(c, s)),
    )
    for name, stage in stages:
        mixed = stage(channels)
        model.add_module(name, mixed)
        channels = mixed.out_channels
    model.add_module("avgpool", nn.AdaptiveAvgPool2d(1))
    model.add_module("dropout", nn.Dropout(options.dropout))
    model.add_module("flatten", nn.Flatten())
    model.add_module("fc", nn.Linear(channels, options.classes))
    return model
