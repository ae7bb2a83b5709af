"""The digits as images of CIFAR's size: a residual network for small images behind what enlarges 8x8 to 32x32."""

from __future__ import annotations

from collections import OrderedDict

from torch import nn

from engine.models.options import ResNetCifarOptions
from engine.models.resnet_cifar import build


def resnet(blocks: int = 1) -> nn.Sequential:
    """(n, 1, 8, 8) -> (n, 10). `blocks`: of each of the three stages."""
    network = build(ResNetCifarOptions(blocks=blocks, channels=1))
    enlarge = nn.Upsample(scale_factor=4, mode="bilinear", align_corners=False)
    return nn.Sequential(OrderedDict([("enlarge", enlarge), *network.named_children()]))
