"""A user's padded sentences of one shape, with and without a count of the targets that matter."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

IGNORED = -100


class Sentences(torch.utils.data.Dataset[tuple[Tensor, Tensor]]):
    """Sentence i has 1 + i % 6 words of 9; the target of a word is the word."""

    def __init__(self, size: int) -> None:
        draw = torch.Generator().manual_seed(size)
        self.words = torch.randint(0, 9, (size, 6), generator=draw)

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        real = torch.arange(6) <= index % 6
        return self.words[index], torch.where(real, self.words[index], IGNORED)


class Counted(Sentences):
    def target_count(self, indices: np.ndarray) -> int:
        return int((1 + indices % 6).sum())


class Reads(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(9, 5)
        self.output = nn.Linear(5, 9)

    def forward(self, words: Tensor) -> Tensor:
        logits: Tensor = self.output(self.embed(words)).transpose(1, 2)
        return logits


def model() -> nn.Module:
    return Reads()


def counted() -> tuple[Sentences, Sentences]:
    return Counted(40), Counted(4)


def uncounted() -> tuple[Sentences, Sentences]:
    return Sentences(40), Sentences(4)
