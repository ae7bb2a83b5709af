"""Residual networks for small images: three stages of basic blocks, depth 6n + 2.

He et al., "Deep residual learning for image recognition", section 4.2, with parameter-free shortcuts
(option A): n = 5 is ResNet-32 with 0.46 M parameters, n = 18 ResNet-110 with 1.7 M. `resnet-digits` is the
same function with other numbers.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional

from engine.models.options import ResNetCifarOptions


class BasicBlock(nn.Module):
    """Two 3x3 convolutions, around which the input is added, subsampled and padded with zero channels."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 3, stride=stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.stride = stride
        self.added = width - channels

    def forward(self, x: Tensor) -> Tensor:
        """(n, channels, h, w) -> (n, width, h / stride, w / stride)."""
        out = self.relu(self.norm1(self.conv1(x)))
        out = self.norm2(self.conv2(out))
        if self.stride > 1 or self.added:
            half = self.added // 2
            x = functional.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, half, self.added - half))
        result: Tensor = self.relu(out + x)
        return result


def build(options: ResNetCifarOptions) -> nn.Sequential:
    """(n, channels, h, w) -> (n, classes), for any h and w of at least 4."""
    width = options.width
    model = nn.Sequential()
    model.add_module("conv1", nn.Conv2d(options.channels, width, 3, padding=1, bias=False))
    model.add_module("norm1", nn.BatchNorm2d(width))
    model.add_module("relu", nn.ReLU(inplace=True))
    channels = width
    for stage in range(3):
        for block in range(options.blocks):
            stride = 2 if stage > 0 and block == 0 else 1
            model.add_module(f"stage{stage + 1}_{block + 1}", BasicBlock(channels, width << stage, stride))
            channels = width << stage
    model.add_module("average", nn.AdaptiveAvgPool2d(1))
    model.add_module("flatten", nn.Flatten())
    model.add_module("fc", nn.Linear(channels, options.classes))
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    return model
