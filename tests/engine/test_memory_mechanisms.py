"""Memory mechanisms: gradients and states are bitwise those of plain training, whatever a model does."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import parametrizations
from torch.utils.checkpoint import checkpoint

from tests.memory import MOVED, install, summed, trained


def numbers() -> Tensor:
    return torch.randn(6, 12)


def images() -> Tensor:
    return torch.randn(4, 3, 8, 8)


def sentences() -> Tensor:
    return torch.randint(0, 9, (5, 7))


def row(**made: Any) -> nn.Module:
    """Convolutions in an nn.Sequential, with what comes between them."""
    return nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(inplace=True), nn.Dropout(0.4),
        nn.Conv2d(6, 6, 3, padding=1), nn.BatchNorm2d(6, momentum=None), nn.ReLU(inplace=True), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(96, 10), nn.Tanh(), nn.Linear(10, 4),
    )  # fmt: skip


class Deep(nn.Module):
    """Blocks in blocks; answers with a dictionary of tuples, and takes keywords."""

    class Block(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.inner = nn.Sequential(nn.Linear(width, width), nn.LayerNorm(width), nn.GELU())
            self.out = nn.Linear(width, width)

        def forward(self, pair: tuple[Tensor, Tensor], *, scale: float, more: dict[str, Tensor]) -> Any:
            left, right = pair
            hidden = self.out(self.inner(left)) * scale + more["shift"]
            return {"pair": (left + hidden, right * hidden), "count": 3}

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(self.Block(12) for _ in range(3))

    def forward(self, x: Tensor) -> Any:
        pair = x, x + 1
        for block in self.blocks:
            pair = block(pair, scale=0.5, more={"shift": x.mean(1, keepdim=True)})["pair"]
        return pair


class Words(nn.Module):
    """A language model whose output is tied to its embedding, with an LSTM between them, called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(9, 8)
        self.lstm = nn.LSTM(8, 8, num_layers=2, batch_first=True, dropout=0.3)
        self.output = nn.Linear(8, 9)
        self.output.weight = self.embedding.weight

    def forward(self, tokens: Tensor) -> Tensor:
        states, state = self.lstm(self.embedding(tokens))
        states, _ = self.lstm(states, state)
        return self.output(states)


class Cells(nn.Module):
    """Recurrent cells, whose gates share a storage and count their writes each by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.LSTMCell(12, 12), nn.GRUCell(12, 12)
        self.third = nn.LSTM(12, 12, proj_size=6, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        state = self.first(x)
        for _ in range(2):
            state = self.first(x, state)
        hidden = self.second(state[1], self.second(state[0]))
        upper, middle, lower = hidden.unsafe_chunk(3, dim=1)
        upper.sigmoid_()
        gated = upper * torch.cat([lower.tanh(), middle.sigmoid_()], 1).sum(1, keepdim=True)
        return self.third(torch.cat([hidden, gated, gated, gated], 1).view(len(x), -1, 12))[0]


class Twice(nn.Module):
    """One module at two places, views of one memory, and writes to what was computed."""

    def __init__(self) -> None:
        super().__init__()
        self.shared = nn.Sequential(nn.Linear(12, 12), nn.Dropout(0.2))
        self.halves = nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.shared(self.shared(x))
        left, right = hidden.chunk(2, dim=1)
        both = torch.cat([self.halves(left).exp(), torch.sigmoid(self.halves(right.t().contiguous().t()))], 1)
        both.mul_(2).relu_()
        return both


class WritesInput(nn.Module):
    """Every block writes to what it is given."""

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(12, 12)

        def forward(self, x: Tensor) -> Tensor:
            return self.linear(x.add_(1).sin())

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([self.Block(), self.Block()])

    def forward(self, x: Tensor) -> Tensor:
        x = x * 1
        for block in self.blocks:
            x = block(x)
        return x


class OwnState(nn.Module):
    """A block that keeps what it computed, counts, collects, and caches; and one with a spectral norm."""

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(12, 12)
            self.state: Tensor | None = None
            self.calls = 0
            self.seen: list[float] = []
            self.cache: dict[str, Tensor] = {}
            self.register_buffer("mean", torch.zeros(12))

        def forward(self, x: Tensor) -> Tensor:
            self.calls += 1
            self.seen.append(float(self.calls))
            scale = self.cache.setdefault("scale", torch.full((12,), 0.5))
            self.mean.mul_(0.9).add_(x.detach().mean(0), alpha=0.1)
            hidden = torch.tanh(self.linear(x) * scale + self.mean + len(self.seen) / 10)
            if self.state is not None:
                hidden = hidden + self.state
            self.state = hidden.detach()
            return hidden

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([self.Block(), self.Block()])
        self.normed = parametrizations.spectral_norm(nn.Linear(12, 6))

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return self.normed(x)


class Chance(nn.Module):
    """Layers that draw from every generator."""

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(12, 12)

        def forward(self, x: Tensor) -> Tensor:
            drawn = random.random() + float(np.random.rand()) + torch.rand(())
            return functional.dropout(self.linear(x), 0.5) * drawn

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(self.Block() for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return x


class Attention(nn.Module):
    """Attention, whose projection's module is never called; a user's checkpoints, and a part without gradients."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(12, 3, dropout=0.2, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(12, 24), nn.GELU(), nn.Linear(24, 12), nn.Dropout(0.1))
        self.teacher = nn.Linear(12, 12)

    def forward(self, x: Tensor) -> Tensor:
        x = x.view(2, 3, 12)
        with torch.no_grad():
            target = self.teacher(x)
        hidden = x + self.attention(x, x, x, need_weights=False)[0] + self.teacher(x)
        hidden = hidden + checkpoint(self.mlp, hidden, use_reentrant=False)
        return hidden - target


class Inside(nn.Module):
    """A block that checkpoints a part of itself."""

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(12, 12)
            self.second = nn.Linear(12, 12)

        def part(self, x: Tensor) -> Tensor:
            return functional.dropout(self.second(torch.tanh(x)), 0.3)

        def forward(self, x: Tensor) -> Tensor:
            return x + checkpoint(self.part, self.first(x).relu(), use_reentrant=False)

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([self.Block(), self.Block()])

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return x


class Around(nn.Module):
    """A checkpoint around layers, and around what is saved beside them: it compares what it saves both times."""

    def __init__(self) -> None:
        super().__init__()
        self.experts = nn.ModuleList([nn.Linear(12, 12), nn.Linear(12, 12)])
        self.head = nn.Linear(12, 4)

    def routed(self, x: Tensor) -> Tensor:
        first = x.detach().sum(1) > 0
        found = x.new_zeros(x.shape)
        for chosen, expert in zip((first, ~first), self.experts, strict=True):
            found = found.index_put((chosen.nonzero().squeeze(1),), expert(x[chosen]))
        return found

    def forward(self, x: Tensor) -> Tensor:
        return self.head(checkpoint(self.routed, x, use_reentrant=False))


def penalty(model: nn.Module, inputs: Tensor) -> Tensor:
    """The loss differentiates the model by its inputs, and that is differentiated again."""
    inputs = inputs.clone().requires_grad_()
    outputs = summed(model(inputs))
    (gradient,) = torch.autograd.grad(outputs, inputs, create_graph=True)
    return outputs + gradient.square().sum()


MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[], Any]]] = {
    "a row": (row, images),
    "blocks in blocks": (Deep, numbers),
    "tied, recurrent, twice": (Words, sentences),
    "cells": (Cells, numbers),
    "views and writes": (Twice, numbers),
    "writes its input": (WritesInput, numbers),
    "state of its own": (OwnState, numbers),
    "chance": (Chance, numbers),
    "attention": (Attention, numbers),
    "checkpoints inside": (Inside, numbers),
    "a checkpoint around": (Around, numbers),
}


def both(
    build: Callable[[], nn.Module], batch: Callable[[], Any], scratch: Path, activations: Any, **more: Any
) -> tuple[list[Tensor], list[Tensor]]:
    """What plain training makes, and what it makes with a mechanism."""
    results = []
    options = more.pop("options", {})
    for mechanism in (None, activations):
        random.seed(5)
        np.random.seed(5)
        torch.manual_seed(0)
        model = build()
        memory = None if mechanism is None else install(model, scratch, mechanism, **options)
        results.append(trained(model, batch, memory, **more))
        if memory is not None:
            memory.close()
    return results[0], results[1]


def assert_same(plain: list[Tensor], moved: list[Tensor]) -> None:
    assert len(plain) == len(moved)
    assert all(one.isfinite().all() for one in plain)
    assert all(torch.equal(a, b) for a, b in zip(plain, moved, strict=True))


@pytest.mark.parametrize("activations", MOVED)
@pytest.mark.parametrize("name", MODELS)
def test_gradients_and_states_are_bitwise_those_of_plain_training(
    name: str, activations: str, tmp_path: Path
) -> None:
    options = {"least_bytes": 0} if activations == "swap" else {}
    assert_same(*both(*MODELS[name], tmp_path, activations, options=options))


@pytest.mark.parametrize("activations", MOVED)
def test_what_is_differentiated_twice_is_the_same(activations: str, tmp_path: Path) -> None:
    def build() -> nn.Module:
        return nn.Sequential(nn.Linear(12, 12), nn.Tanh(), nn.Linear(12, 12), nn.Sigmoid(), nn.Linear(12, 3))

    assert_same(*both(build, numbers, tmp_path, activations, loss=penalty))


@pytest.mark.parametrize("activations", MOVED)
def test_under_autocast_it_is_the_same(activations: str, tmp_path: Path) -> None:
    def loss(model: nn.Module, inputs: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return summed(model(inputs)).float()

    assert_same(*both(row, images, tmp_path, activations, loss=loss))


def test_layers_of_one_model_may_ask_for_different_things(tmp_path: Path) -> None:
    asked = {"0": "recompute", "1": "recompute", "4": "swap", "5": "keep", "9": "swap", "11": "recompute"}
    assert_same(*both(row, images, tmp_path, asked))


@pytest.mark.parametrize("activations", MOVED)
def test_an_evaluation_and_what_has_no_gradients_run_as_ever(activations: str, tmp_path: Path) -> None:
    model = row().eval()
    inputs = images()
    expected = model(inputs)
    memory = install(model, tmp_path, activations)
    assert torch.equal(model(inputs), expected)
    with memory.training(inputs), torch.no_grad():
        assert torch.equal(model(inputs), expected)
    with memory.training(inputs):
        assert torch.allclose(torch.func.vmap(model)(inputs.unsqueeze(1)).squeeze(1), expected, atol=1e-5)
    memory.close()
    assert "_compiled_call_impl" not in vars(model[0])


@pytest.mark.parametrize("activations", MOVED)
def test_a_graph_that_is_kept_goes_backward_again(activations: str, tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(12, 12), nn.Tanh(), nn.Dropout(0.5), nn.Linear(12, 3))
    memory = install(model, tmp_path, activations)
    inputs = numbers()
    with memory.training(inputs):
        loss = model(inputs).square().sum()
    loss.backward(retain_graph=True)
    first = [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]
    loss.backward()
    for parameter, once in zip(model.parameters(), first, strict=True):
        assert parameter.grad is not None
        assert torch.equal(parameter.grad, once + once)
    memory.close()
