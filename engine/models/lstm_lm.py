"""lstm-lm: an LSTM language model.

Wang et al., "Experiences of deep learning optimization on PAI", 2017, appendix A.1: 10k words, 4 LSTM layers of 2048
units, 35 steps. What they do not print is as in Zaremba et al., "Recurrent neural network regularization", 2014:
embeddings of the layers' size, no tied weights.
Each layer is a module of its own, so that a plan can choose for each.

Deviation: every sample starts from an empty state; no state is carried from batch to batch, because samples are
drawn in random order.
"""

from __future__ import annotations

from torch import Tensor, nn

from engine.models.options import LstmLmOptions


class LstmLm(nn.Module):
    """Words in; for each position, scores of the next word out."""

    def __init__(self, options: LstmLmOptions) -> None:
        super().__init__()
        self.embedding = nn.Embedding(options.vocabulary, options.hidden)
        self.layers = nn.ModuleList(
            nn.LSTM(options.hidden, options.hidden, batch_first=True) for _ in range(options.layers)
        )
        self.dropout = nn.Dropout(options.dropout)
        self.output = nn.Linear(options.hidden, options.vocabulary)

    def forward(self, tokens: Tensor) -> Tensor:
        """(n, steps) int64 -> (n, vocabulary, steps)."""
        states = self.embedding(tokens)
        for layer in self.layers:
            states, _ = layer(self.dropout(states))
        logits: Tensor = self.output(self.dropout(states)).transpose(1, 2)
        return logits
