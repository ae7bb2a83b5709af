"""sockeye-shape: an LSTM encoder and decoder with attention, whose heaviest layer is the first.

After Hieber et al., "Sockeye: a toolkit for neural machine translation", 2017, sections 3.1 and 3.2 (recurrent
model, multi-layer-perceptron attention, input feeding), in the shape that Priority-based Parameter Propagation
calls a special case (section 5.2, figure 5d): the source embedding is needed first, gets its gradient last, and
is the largest tensor. That paper prints no sizes. Ours are its stated data set's usual vocabularies (IWSLT 2015,
17,191 English and 7,709 Vietnamese words), embeddings of 512 and 512 hidden units: 22.7 M parameters, 39 % of
them in the source embedding.

Deviations: one layer each way; the decoder's state starts from the mean of the encoder's; the encoder's backward
direction reads a shorter sentence's padding before its words.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from engine.models.attentive import AttentiveTranslator
from engine.models.options import Seq2SeqOptions


class Seq2Seq(AttentiveTranslator):
    """See AttentiveTranslator.forward: (n, 2, length) int64 -> (n, target vocabulary, length)."""

    def __init__(self, options: Seq2SeqOptions) -> None:
        embedding, hidden = options.embedding, options.hidden
        super().__init__(
            source_vocabulary=options.source_vocabulary,
            target_vocabulary=options.target_vocabulary,
            embedding=embedding,
            hidden=hidden,
        )
        self.encoder = nn.LSTM(embedding, hidden // 2, batch_first=True, bidirectional=True)
        self.initial = nn.Linear(hidden, hidden)
        self.decoder = nn.LSTMCell(embedding + hidden, hidden)

    def encode(self, words: Tensor, real: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """See AttentiveTranslator.encode."""
        states, _ = self.encoder(words)
        share = real / real.sum(1, keepdim=True).clamp(
            min=1
        )  # (n, length): of each word in its sentence's mean
        hidden = torch.tanh(self.initial((states * share.to(states.dtype).unsqueeze(2)).sum(1)))
        return states, (hidden, torch.zeros_like(hidden))

    def advance(self, word: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """See AttentiveTranslator.advance."""
        hidden, cell = self.decoder(word, state)
        return hidden, (hidden, cell)
