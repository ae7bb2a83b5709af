"""ResNet-50: bottleneck blocks in stages of 3, 4, 6 and 3; 25,557,032 parameters.

He et al., "Deep residual learning for image recognition", table 1. Deviation, as everywhere today: a stage's
stride is in its 3x3 convolution, not in the first 1x1 (the parameters are the same).
"""

from __future__ import annotations

from torch import Tensor, nn

from engine.models.options import ClassesOptions

_EXPANSION = 4


class Bottleneck(nn.Module):
    """1x1 down, 3x3, 1x1 up, around which the input is added."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride=stride, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, width * _EXPANSION, 1, bias=False)
        self.norm3 = nn.BatchNorm2d(width * _EXPANSION)
        self.relu = nn.ReLU(inplace=True)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or channels != width * _EXPANSION:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels, width * _EXPANSION, 1, stride=stride, bias=False),
                nn.BatchNorm2d(width * _EXPANSION),
            )

    def forward(self, x: Tensor) -> Tensor:
        """(n, channels, h, w) -> (n, 4 width, h / stride, w / stride)."""
        out = self.relu(self.norm1(self.conv1(x)))
        out = self.relu(self.norm2(self.conv2(out)))
        out = self.norm3(self.conv3(out))
        result: Tensor = self.relu(out + self.shortcut(x))
        return result


def build_resnet50(options: ClassesOptions) -> nn.Sequential:
    """(n, 3, 224, 224) -> (n, classes)."""
    model = nn.Sequential()
    model.add_module("conv1", nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False))
    model.add_module("norm1", nn.BatchNorm2d(64))
    model.add_module("relu", nn.ReLU(inplace=True))
    model.add_module("pool", nn.MaxPool2d(3, stride=2, padding=1))
    channels = 64
    for stage, (blocks, width) in enumerate(((3, 64), (4, 128), (6, 256), (3, 512)), 1):
        for block in range(blocks):
            stride = 2 if stage > 1 and block == 0 else 1
            model.add_module(f"stage{stage}_{block + 1}", Bottleneck(channels, width, stride))
            channels = width * _EXPANSION
    model.add_module("average", nn.AdaptiveAvgPool2d(1))
    model.add_module("flatten", nn.Flatten())
    model.add_module("fc", nn.Linear(channels, options.classes))
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    return model
