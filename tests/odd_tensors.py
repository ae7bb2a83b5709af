"""Odd models that write to tensors past autograd's count, or have and answer with tensors of another kind."""

from __future__ import annotations

import contextvars
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from tests.odd_models import WIDTH, Model, Odd

# --- writes that nobody counts ---


class LateData(Odd):
    """From the fourth pass on it writes through `.data`, to a small buffer or to one that is large."""

    def __init__(self, rows: int, seen: bool) -> None:
        super().__init__()
        self.calls = 0
        self.seen = seen
        self.register_buffer("table", torch.zeros(rows, WIDTH))

    def forward(self, x: Tensor, *given: Any) -> Any:
        self.calls += 1
        if self.calls > 3:
            self.table.data[0] += 1
        return torch.tanh(self.linear(x) + (self.table[0] if self.seen else 0))


class Momentum(Odd):
    """A second encoder follows the first one, as in MoCo, and a queue keeps what it computed."""

    def __init__(self) -> None:
        super().__init__()
        self.follower = nn.Linear(WIDTH, WIDTH).requires_grad_(False)
        self.register_buffer("queue", torch.zeros(8, WIDTH))
        self.register_buffer("at", torch.zeros(1, dtype=torch.long))

    @torch.no_grad()
    def follow(self, x: Tensor) -> Tensor:
        for own, other in zip(self.follower.parameters(), self.linear.parameters(), strict=True):
            own.data = own.data * 0.9 + other.data * 0.1
        key = self.follower(x)
        at = int(self.at)
        self.queue[at] = key.mean(0)
        self.at[0] = (at + 1) % 8
        return key

    def forward(self, x: Tensor, *given: Any) -> Any:
        key = self.follow(x)
        return torch.tanh(self.linear(x)) * (key + self.queue.clone().sum(0))


class FirstBatch(Odd):
    """Its parameters are made of the first batch, as ActNorm's."""

    def __init__(self) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(WIDTH))
        self.register_buffer("done", torch.zeros((), dtype=torch.bool))

    def forward(self, x: Tensor, *given: Any) -> Any:
        if not self.done:
            with torch.no_grad():
                self.shift.copy_(-x.mean(0))
                self.done.fill_(True)
        return torch.tanh(self.linear(x + self.shift))


class OwnClass(Tensor):
    """A tensor of a user's own class."""


class OfOwnClass(Odd):
    def __init__(self) -> None:
        super().__init__()
        self.steps = torch.zeros(WIDTH).as_subclass(OwnClass)

    def forward(self, x: Tensor, *given: Any) -> Any:
        self.steps.add_(1)
        return torch.tanh(self.linear(x) * self.steps).as_subclass(Tensor)


# --- what crashed ---


class Mapped(Odd):
    """It is mapped over its rows by torch.func.vmap."""

    def forward(self, x: Tensor, *given: Any) -> Any:
        return torch.func.vmap(lambda row: torch.tanh(self.linear(row)))(x)


class Forward(Odd):
    """It answers with a forward derivative, too."""

    def forward(self, x: Tensor, *given: Any) -> Any:
        hidden, change = torch.func.jvp(self.linear, (x,), (torch.ones_like(x),))
        return torch.tanh(hidden) + change


class SparseGiven(Odd):
    def forward(self, x: Tensor, graph: Any) -> Any:
        return torch.tanh(self.linear(torch.sparse.mm(graph, x)))


class WithSparse(Model):
    def forward(self, x: Tensor) -> Any:
        graph = torch.eye(len(x)).mul(0.5).to_sparse()
        for block in self.blocks:
            x = block(x, graph)
        return x


class SparseHeld(Odd):
    def __init__(self, counts: bool) -> None:
        super().__init__()
        self.graph = torch.eye(WIDTH).to_sparse()
        self.other = torch.eye(WIDTH).to_sparse_csr()
        self.counts = counts

    def forward(self, x: Tensor, *given: Any) -> Any:
        if self.counts:
            self.graph = self.graph * 1.1
        mixed = torch.sparse.mm(self.graph, x.t()) + torch.sparse.mm(self.other, x.t())
        return torch.tanh(self.linear(mixed.t()))


SHARED: dict[str, Any] = {}


class Shares(Odd):
    """Sublayers that have one dictionary among them."""

    class Part(nn.Module):
        def __init__(self, shared: dict[str, Any]) -> None:
            super().__init__()
            self.linear = nn.Linear(WIDTH, WIDTH)
            self.shared = shared

        def forward(self, x: Tensor) -> Tensor:
            self.shared["calls"] = self.shared.get("calls", 0) + 1
            self.shared.setdefault("mean", []).append(float(x.detach().mean()))
            return torch.tanh(self.linear(x) * self.shared["calls"] + len(self.shared["mean"]) / 9)

    def __init__(self) -> None:
        super().__init__()
        self.shared: dict[str, Any] = {}
        self.parts = nn.Sequential(self.Part(self.shared), self.Part(self.shared))
        self.parts[1]._buffers = self.parts[0]._buffers

    def forward(self, x: Tensor, *given: Any) -> Any:
        return self.parts(self.linear(x))

    def trace(self) -> Any:
        return self.shared


class Conjugate(Odd):
    def forward(self, x: Tensor, *given: Any) -> Any:
        hidden = self.linear(x)
        return torch.complex(hidden, hidden.sin()).conj()


class WithConjugate(Model):
    def forward(self, x: Tensor) -> Any:
        for block in self.blocks:
            x = torch.view_as_real(block(x).resolve_conj()).sum(-1)
        return x


class Force(Odd):
    """It answers with the derivative of what it computes by its input, which is differentiated again."""

    def forward(self, x: Tensor, *given: Any) -> Any:
        x = x.detach().requires_grad_() if not x.requires_grad else x
        energy = torch.tanh(self.linear(x)).square().sum()
        (force,) = torch.autograd.grad(energy, x, create_graph=True)
        return force + x * energy


class Tree(Odd):
    """It calls itself for the halves of its input."""

    def forward(self, x: Tensor, *given: Any) -> Any:
        if len(x) == 1:
            return torch.tanh(self.linear(x))
        half = len(x) // 2
        return torch.cat([self(x[:half]), self(x[half:])]) + self.linear(x)


class Older(Odd):
    """A part of it is checkpointed in PyTorch's older way."""

    def forward(self, x: Tensor, *given: Any) -> Any:
        hidden = self.linear(x)
        return torch.tanh(checkpoint(torch.sin, hidden, use_reentrant=True))


TEMPERATURE = contextvars.ContextVar("temperature", default=1.0)


class Contextual(Odd):
    def forward(self, x: Tensor, *given: Any) -> Any:
        TEMPERATURE.set(TEMPERATURE.get() + 1)
        return torch.tanh(self.linear(x) / TEMPERATURE.get())


class WithContext(Model):
    def forward(self, x: Tensor) -> Any:
        TEMPERATURE.set(2.0)
        for block in self.blocks:
            x = block(x)
        self.said.append(TEMPERATURE.get())
        TEMPERATURE.set(9.0)
        return x


@dataclass
class Answer:
    hidden: Tensor
    name: str


class Answers(Odd):
    """It answers with an object, and leaves something in an attribute that its caller uses."""

    def forward(self, x: Tensor, *given: Any) -> Any:
        hidden = torch.tanh(self.linear(x))
        self.last = hidden.sin()
        return Answer(hidden, "answer")


class WithAnswers(Model):
    def forward(self, x: Tensor) -> Any:
        for block in self.blocks:
            x = block(x).hidden + block.last
        return x
