"""gpt: a language model of pre-norm transformer blocks, GPT-2's with the default options.

Radford et al., "Language models are unsupervised multitask learners", 2019, section 2.3: learned positions, the scores
of words by the embedding's own weights, and projections onto the states that begin smaller by the square root of their
number (2 for each block). 12 layers of 768 units are 124.4 M parameters; 4 of 128 over 1,000 words are 1.0 M.

Every layer is a module of its own, so that a plan can choose for each. The embedding is used first and last: its
gradient is whole only when the backward pass has come to the first layer.

Deviations: no dropout unless it is asked for; none within the attention.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from engine.models.options import GptOptions
from engine.models.transformer import Block

SPREAD = 0.02
"""Standard deviation of the weights at the beginning."""


class Positions(nn.Module):
    """Adds what is learned of each position: (n, steps, hidden) -> the same shape, for at most `context` steps."""

    def __init__(self, context: int, hidden: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(SPREAD * torch.randn(context, hidden))

    def forward(self, words: Tensor) -> Tensor:
        """See the class."""
        return words + self.weight[: words.shape[1]]


class Gpt(nn.Module):
    """Words in; for each position, scores of the next word out."""

    def __init__(self, options: GptOptions) -> None:
        super().__init__()
        hidden = options.hidden
        self.embedding = nn.Embedding(options.vocabulary, hidden)
        self.position = Positions(options.context, hidden)
        self.dropout = nn.Dropout(options.dropout)
        blocks = [
            Block(hidden, options.heads, causal=True, dropout=options.dropout, gelu="tanh", epsilon=1e-5)
            for _ in range(options.layers)
        ]
        self.blocks = nn.Sequential(*blocks)
        self.norm = nn.LayerNorm(hidden)
        self.output = nn.Linear(hidden, options.vocabulary, bias=False)
        self.output.weight = self.embedding.weight
        self.apply(_begin)
        for block in blocks:
            for onto in (block.project, block.narrow):
                nn.init.normal_(onto.weight, std=SPREAD / math.sqrt(2 * options.layers))

    @property
    def most_words(self) -> tuple[str, int]:
        """The option that says how many words a sample may have, and how many these are."""
        return "context", len(self.position.weight)

    def forward(self, tokens: Tensor) -> Tensor:
        """(n, steps) int64 -> (n, vocabulary, steps)."""
        states = self.blocks(self.dropout(self.position(self.embedding(tokens))))
        logits: Tensor = self.output(self.norm(states)).transpose(1, 2)
        return logits


def _begin(module: nn.Module) -> None:
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=SPREAD)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)
