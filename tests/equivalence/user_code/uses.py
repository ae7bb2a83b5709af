"""A user's models whose parameters are not used when, or in the order in which, simple engines expect."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint


class Backwards(nn.Module):
    """Its two layers of one shape are registered in the reverse of the order in which they run."""

    def __init__(self) -> None:
        super().__init__()
        self.second = nn.Linear(64, 64)
        self.first = nn.Linear(64, 64)
        self.last = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        hidden = functional.relu(self.first(x.flatten(1)))
        logits: Tensor = self.last(functional.relu(self.second(hidden)))
        return logits


def backwards() -> nn.Module:
    return Backwards()


class Twice(nn.Module):
    """One layer, used in two segments that reentrant checkpointing runs backward one after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(64, 64)
        self.middle = nn.Linear(64, 64)
        self.last = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        hidden = functional.relu(self.first(x.flatten(1)))
        for _ in range(2):
            hidden = checkpoint(lambda h: functional.relu(self.middle(h)), hidden, use_reentrant=True)
        logits: Tensor = self.last(hidden)
        return logits


def twice() -> nn.Module:
    return Twice()
