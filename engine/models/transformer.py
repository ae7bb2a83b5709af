"""What the transformers of the catalogue share: a pre-norm block, in which every product is a layer by itself.

Vaswani et al., "Attention is all you need", 2017, sections 3.2 and 3.3, with the normalization before each half of the
block, as GPT-2 and ViT have it: states + attention(norm(states)), then states + perceptron(norm(states)).

Query, key and value come from one product, and the heads from PyTorch's own attention, which never stores the table of
all pairs of positions on devices that can do without.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional

WIDER = 4
"""Units of a perceptron over those of the states."""


class Block(nn.Module):
    """(n, positions, hidden) -> the same shape."""

    def __init__(
        self,
        hidden: int,
        heads: int,
        *,
        causal: bool,
        dropout: float,
        gelu: str,
        epsilon: float,
    ) -> None:
        """`causal`: no position looks at a later one. `gelu`: `tanh` for the approximation, `none` for the function
        itself. `epsilon`: of the normalizations."""
        super().__init__()
        self.heads, self.causal = heads, causal
        self.norm1 = nn.LayerNorm(hidden, eps=epsilon)
        self.attend = nn.Linear(hidden, 3 * hidden)
        self.project = nn.Linear(hidden, hidden)
        self.norm2 = nn.LayerNorm(hidden, eps=epsilon)
        self.widen = nn.Linear(hidden, WIDER * hidden)
        self.gelu = nn.GELU(approximate=gelu)
        self.narrow = nn.Linear(WIDER * hidden, hidden)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states: Tensor) -> Tensor:
        """See the class."""
        states = states + self.dropout(self.project(self._mixed(self.attend(self.norm1(states)))))
        return states + self.dropout(self.narrow(self.gelu(self.widen(self.norm2(states)))))

    def _mixed(self, three: Tensor) -> Tensor:
        """Query, key and value (n, positions, 3 hidden) -> the heads' answers (n, positions, hidden)."""
        parts = three.unflatten(2, (3, self.heads, -1)).permute(
            2, 0, 3, 1, 4
        )  # (3, n, heads, positions, size)
        query, key, value = parts.unbind(0)
        answers = functional.scaled_dot_product_attention(query, key, value, is_causal=self.causal)
        return answers.transpose(1, 2).flatten(2)
