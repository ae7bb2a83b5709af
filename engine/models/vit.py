"""vit: a vision transformer, ViT-B/16 with the default options.

Dosovitskiy et al., "An image is worth 16x16 words", 2021, section 3.1: an image's patches are the words, one word of
its own stands before them, and what has become of that one is classified. 86.6 M parameters for 1000 classes.

Every layer is a module of its own, so that a plan can choose for each.

Deviations: no dropout unless it is asked for; the classifier's weights begin small, not at zero, so that the first step
moves all layers.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from engine.models.options import VitOptions
from engine.models.transformer import Block

SPREAD = 0.02
"""Standard deviation of the positions and of the classifier's weights at the beginning."""
EPSILON = 1e-6


class Words(nn.Module):
    """(n, channels, image, image) -> (n, 1 + patches, hidden)."""

    def __init__(self, options: VitOptions) -> None:
        super().__init__()
        patches, hidden = (options.image // options.patch) ** 2, options.hidden
        self.patches = nn.Conv2d(options.channels, hidden, options.patch, stride=options.patch)
        self.first = nn.Parameter(torch.zeros(1, 1, hidden))
        self.position = nn.Parameter(SPREAD * torch.randn(1, 1 + patches, hidden))

    def forward(self, images: Tensor) -> Tensor:
        """See the class."""
        words = self.patches(images).flatten(2).transpose(1, 2)
        return torch.cat([self.first.expand(words.shape[0], -1, -1), words], 1) + self.position


class Vit(nn.Module):
    """Images in, scores of their classes out."""

    def __init__(self, options: VitOptions) -> None:
        super().__init__()
        hidden = options.hidden
        self.words = Words(options)
        self.dropout = nn.Dropout(options.dropout)
        self.blocks = nn.Sequential(
            *(
                Block(
                    hidden, options.heads, causal=False, dropout=options.dropout, gelu="none", epsilon=EPSILON
                )
                for _ in range(options.layers)
            )
        )
        self.norm = nn.LayerNorm(hidden, eps=EPSILON)
        self.classify = nn.Linear(hidden, options.classes)
        for module in self.blocks.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)
        nn.init.normal_(self.classify.weight, std=SPREAD)
        nn.init.zeros_(self.classify.bias)

    def forward(self, images: Tensor) -> Tensor:
        """(n, channels, image, image) -> (n, classes)."""
        states = self.blocks(self.dropout(self.words(images)))
        logits: Tensor = self.classify(self.norm(states[:, 0]))
        return logits
