"""sockeye-shape: an LSTM encoder and decoder with attention, whose heaviest layer is the first.

After Hieber et al., "Sockeye: a toolkit for neural machine translation", 2017, sections 3.1 and 3.2 (recurrent
model, multi-layer-perceptron attention, input feeding), in the shape that Priority-based Parameter Propagation
calls a special case (section 5.2, figure 5d): the source embedding is needed first, gets its gradient last, and
is the largest tensor. That paper prints no sizes. Ours are its stated data set's usual vocabularies (IWSLT 2015,
17,191 English and 7,709 Vietnamese words), embeddings of 512 and 512 hidden units: 22.7 M parameters, 39 % of
them in the source embedding.

Deviations: one layer each way, one fixed length, the decoder's state starts from the mean of the encoder's.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from engine.models.options import Seq2SeqOptions


class Seq2Seq(nn.Module):
    """Source tokens and the target's tokens so far in; for each target position, scores of the next token out."""

    def __init__(self, options: Seq2SeqOptions) -> None:
        super().__init__()
        embedding, hidden = options.embedding, options.hidden
        self.source_length = options.source_length
        self.source_embedding = nn.Embedding(options.source_vocabulary, embedding)
        self.encoder = nn.LSTM(embedding, hidden // 2, batch_first=True, bidirectional=True)
        self.keys = nn.Linear(hidden, hidden, bias=False)
        self.initial = nn.Linear(hidden, hidden)
        self.target_embedding = nn.Embedding(options.target_vocabulary, embedding)
        self.decoder = nn.LSTMCell(embedding + hidden, hidden)
        self.query = nn.Linear(hidden, hidden, bias=False)
        self.score = nn.Linear(hidden, 1, bias=False)
        self.combine = nn.Linear(2 * hidden, hidden)
        self.output = nn.Linear(hidden, options.target_vocabulary)

    def forward(self, tokens: Tensor) -> Tensor:
        """(n, source length + target length) int64 -> (n, target vocabulary, target length).

        The second part of `tokens` is the target moved right by one position (teacher forcing).
        """
        source, target = tokens[:, : self.source_length], tokens[:, self.source_length :]
        states, _ = self.encoder(self.source_embedding(source))  # (n, source length, hidden)
        keys = self.keys(states)
        hidden = torch.tanh(self.initial(states.mean(1)))
        cell, fed = torch.zeros_like(hidden), torch.zeros_like(hidden)
        outputs = []
        for word in self.target_embedding(target).unbind(1):
            hidden, cell = self.decoder(torch.cat([word, fed], 1), (hidden, cell))
            scores = self.score(torch.tanh(keys + self.query(hidden).unsqueeze(1)))  # (n, source length, 1)
            context = (scores.softmax(1) * states).sum(1)
            fed = torch.tanh(self.combine(torch.cat([hidden, context], 1)))
            outputs.append(fed)
        logits: Tensor = self.output(torch.stack(outputs, 1)).transpose(1, 2)
        return logits
