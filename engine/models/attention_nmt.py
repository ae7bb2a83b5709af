"""attention-nmt: a deep LSTM encoder and decoder with attention.

Wang et al., "Experiences of deep learning optimization on PAI", 2017, appendix A.1, name the sizes of a network of
theirs: 40k words, 4 LSTM layers of 1000 units, 30 steps. What they do not print is as in Luong et al., 2015, section 3:
as many layers in the decoder as in the encoder, embeddings of the layers' size, each decoder layer starts where the
encoder's layer of that depth ended.

Each layer is a module of its own, so that a plan can choose for each; the decoder's are used once per word, and a
gradient of theirs is there when the backward pass has come to the first word.

Deviations: the decoder's cells start empty (its hidden states do not); one attention, where Wang et al. have two.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from engine.models.attentive import AttentiveTranslator
from engine.models.options import AttentionNmtOptions

State = list[tuple[Tensor, Tensor]]
"""Hidden and cell (n, hidden) of every layer."""


class AttentionNmt(AttentiveTranslator):
    """See AttentiveTranslator.forward: (n, 2, length) int64 -> (n, vocabulary, length)."""

    WORD_OPTIONS = ("vocabulary", "vocabulary")

    def __init__(self, options: AttentionNmtOptions) -> None:
        hidden = options.hidden
        super().__init__(
            source_vocabulary=options.vocabulary,
            target_vocabulary=options.vocabulary,
            embedding=hidden,
            hidden=hidden,
        )
        self.dropout = nn.Dropout(options.dropout)
        self.encoder = nn.ModuleList(nn.LSTM(hidden, hidden, batch_first=True) for _ in range(options.layers))
        self.decoder = nn.ModuleList(
            nn.LSTMCell(hidden if layer else 2 * hidden, hidden) for layer in range(options.layers)
        )

    def encode(self, words: Tensor, real: Tensor) -> tuple[Tensor, State]:
        """See AttentiveTranslator.encode."""
        last = (real.sum(1) - 1).clamp(min=0)  # (n): the position of each sentence's last word
        everyone = torch.arange(len(words), device=words.device)
        state: State = []
        states = words
        for layer in self.encoder:
            states, _ = layer(self.dropout(states))
            hidden = states[everyone, last]
            state.append((hidden, torch.zeros_like(hidden)))
        return states, state

    def advance(self, word: Tensor, state: State) -> tuple[Tensor, State]:
        """See AttentiveTranslator.advance."""
        advanced: State = []
        for layer, before in zip(self.decoder, state, strict=True):
            advanced.append(layer(self.dropout(word), before))
            word = advanced[-1][0]
        return word, advanced
