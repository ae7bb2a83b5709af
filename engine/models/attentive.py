"""What recurrent translation networks with attention share: words in, attention, input feeding, scores out.

The decoder is called once for every word of the target. Its hidden state is compared with every state of the encoder
by a small perceptron (Bahdanau et al. 2015), the states' weighted mean and the hidden state make the attentional
vector, and that is fed to the decoder with the next word (Luong et al., "Effective approaches to attention-based
neural machine translation", 2015, section 3.3).

Samples of one batch may have different lengths: a negative number in place of a word is padding. No decoder looks at
padding of the source; what comes out behind a target's end is the loss's to leave out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import torch
from torch import Tensor, nn


class AttentiveTranslator(nn.Module, ABC):
    """Source tokens and the target's tokens so far in; for each target position, scores of the next token out."""

    WORD_OPTIONS: ClassVar[tuple[str, str]] = ("source_vocabulary", "target_vocabulary")
    """Names of the options that say how many words of the source and of the target there are."""

    def __init__(
        self, *, source_vocabulary: int, target_vocabulary: int, embedding: int, hidden: int
    ) -> None:
        super().__init__()
        self.source_embedding = nn.Embedding(source_vocabulary, embedding)
        self.keys = nn.Linear(hidden, hidden, bias=False)
        self.target_embedding = nn.Embedding(target_vocabulary, embedding)
        self.query = nn.Linear(hidden, hidden, bias=False)
        self.score = nn.Linear(hidden, 1, bias=False)
        self.combine = nn.Linear(2 * hidden, hidden)
        self.output = nn.Linear(hidden, target_vocabulary)

    @property
    def input_words(self) -> tuple[tuple[str, int], ...]:
        """For each row of the input, the option that says how many words it knows, and how many these are."""
        tables = (self.source_embedding, self.target_embedding)
        return tuple(
            (option, table.num_embeddings) for option, table in zip(self.WORD_OPTIONS, tables, strict=True)
        )

    @abstractmethod
    def encode(self, words: Tensor, real: Tensor) -> tuple[Tensor, Any]:
        """Embedded words (n, length, embedding) and which of them are no padding (n, length) bool -> states (n, length,
        hidden), and the state from which the decoder starts."""

    @abstractmethod
    def advance(self, word: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Embedded word with the attentional vector (n, embedding + hidden) -> hidden (n, hidden), the next state."""

    def forward(self, tokens: Tensor) -> Tensor:
        """(n, 2, length) int64 -> (n, target vocabulary, length).

        `tokens[:, 0]` is the source, `tokens[:, 1]` the target moved right by one position (teacher forcing).
        """
        source, target = tokens.unbind(1)
        real = source >= 0
        states, state = self.encode(self.source_embedding(source.clamp(min=0)), real)
        keys = self.keys(states)
        fed = torch.zeros_like(states[:, 0])
        outputs = []
        for word in self.target_embedding(target.clamp(min=0)).unbind(1):
            hidden, state = self.advance(torch.cat([word, fed], 1), state)
            scores = self.score(torch.tanh(keys + self.query(hidden).unsqueeze(1))).squeeze(2)  # (n, length)
            scores = scores.masked_fill(~real, torch.finfo(scores.dtype).min)
            context = (scores.softmax(1).unsqueeze(2) * states).sum(1)
            fed = torch.tanh(self.combine(torch.cat([hidden, context], 1)))
            outputs.append(fed)
        logits: Tensor = self.output(torch.stack(outputs, 1)).transpose(1, 2)
        return logits
