"""AlexNet as trained in 2012: five convolutions, three of them in two groups; 60,965,224 parameters.

Krizhevsky, Sutskever, Hinton, "ImageNet classification with deep convolutional neural networks", section 3.
Input (n, 3, 227, 227): the paper says 224, which its own layer sizes contradict. Nearly all bytes are in
fc6 to fc8, nearly all operations in conv1 to conv5: hybrid parallelism and late-multiply live on that.
"""

from __future__ import annotations

from collections import OrderedDict

from torch import nn

from engine.models.options import DenseHeadOptions


def build(options: DenseHeadOptions) -> nn.Sequential:
    """(n, 3, 227, 227) -> (n, classes). Layers carry the names that the literature uses."""
    return nn.Sequential(
        OrderedDict(
            conv1=nn.Conv2d(3, 96, 11, stride=4),
            relu1=nn.ReLU(inplace=True),
            norm1=nn.LocalResponseNorm(5, alpha=1e-4, beta=0.75, k=2),
            pool1=nn.MaxPool2d(3, 2),
            conv2=nn.Conv2d(96, 256, 5, padding=2, groups=2),
            relu2=nn.ReLU(inplace=True),
            norm2=nn.LocalResponseNorm(5, alpha=1e-4, beta=0.75, k=2),
            pool2=nn.MaxPool2d(3, 2),
            conv3=nn.Conv2d(256, 384, 3, padding=1),
            relu3=nn.ReLU(inplace=True),
            conv4=nn.Conv2d(384, 384, 3, padding=1, groups=2),
            relu4=nn.ReLU(inplace=True),
            conv5=nn.Conv2d(384, 256, 3, padding=1, groups=2),
            relu5=nn.ReLU(inplace=True),
            pool5=nn.MaxPool2d(3, 2),
            flatten=nn.Flatten(),
            fc6=nn.Linear(256 * 6 * 6, 4096),
            relu6=nn.ReLU(inplace=True),
            drop6=nn.Dropout(options.dropout),
            fc7=nn.Linear(4096, 4096),
            relu7=nn.ReLU(inplace=True),
            drop7=nn.Dropout(options.dropout),
            fc8=nn.Linear(4096, options.classes),
        )
    )
