"""VGG: stages of 3x3 convolutions, then fully-connected layers that hold most of the bytes.

Simonyan, Zisserman, "Very deep convolutional networks for large-scale image recognition", table 1, column E
(VGG-19: 143,667,240 parameters, 102,764,544 of them in fc6). `vgg-small` keeps these proportions for 32x32
images: the first layers are cheap to send and expensive to compute, fc6 is the opposite and is sent first.
"""

from __future__ import annotations

from collections import OrderedDict
from itertools import pairwise

from torch import nn

from engine.models.options import DenseHeadOptions, VggSmallOptions

_VGG19 = ((64, 64), (128, 128), (256,) * 4, (512,) * 4, (512,) * 4)


def build_vgg19(options: DenseHeadOptions) -> nn.Sequential:
    """(n, 3, 224, 224) -> (n, classes)."""
    return _vgg(_VGG19, side=224, hidden=4096, classes=options.classes, dropout=options.dropout)


def build_vgg_small(options: VggSmallOptions) -> nn.Sequential:
    """(n, 3, 32, 32) -> (n, classes)."""
    width = options.width
    stages = ((width,) * 2, (2 * width,) * 4)
    return _vgg(stages, side=32, hidden=options.hidden, classes=options.classes, dropout=options.dropout)


def _vgg(
    stages: tuple[tuple[int, ...], ...], *, side: int, hidden: int, classes: int, dropout: float
) -> nn.Sequential:
    """Stages of convolutions, each halving `side` at its end, and fc6, fc7, fc8."""
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    channels = 3
    for stage, widths in enumerate(stages, 1):
        for place, width in enumerate(widths, 1):
            convolution = nn.Conv2d(channels, width, 3, padding=1)
            nn.init.kaiming_normal_(convolution.weight, nonlinearity="relu")
            nn.init.zeros_(convolution.bias)  # type: ignore[arg-type]
            layers[f"conv{stage}_{place}"] = convolution
            layers[f"relu{stage}_{place}"] = nn.ReLU(inplace=True)
            channels = width
        layers[f"pool{stage}"] = nn.MaxPool2d(2, 2)
        side //= 2
    layers["flatten"] = nn.Flatten()
    for number, (fan_in, fan_out) in enumerate(
        pairwise((channels * side * side, hidden, hidden, classes)), 6
    ):
        layers[f"fc{number}"] = nn.Linear(fan_in, fan_out)
        if number < 8:
            layers[f"relu{number}"] = nn.ReLU(inplace=True)
            layers[f"drop{number}"] = nn.Dropout(dropout)
    return nn.Sequential(layers)
