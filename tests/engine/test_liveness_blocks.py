"""What each block of a model saves for backward, holds and costs."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from engine.liveness.blocks import blocks_of
from engine.liveness.peak import peak_of
from engine.liveness.request import answer
from engine.models import registry
from engine.plan.description import Amount, BlockDescription, ModelDescription
from engine.plan.updates import OptimizerSpec
from tests.memory import layers_of, training
from tests.plans import described


def blocks(model: nn.Module, inputs: Tensor, targets: Tensor) -> dict[tuple[str, ...], BlockDescription]:
    """By the layers of each."""
    found = blocks_of(training(model, inputs, targets))
    return {block.layers: block for block in found}


def on_meta(make: Any, *shape: int, words: bool = False) -> Any:
    with torch.device("meta"):
        inputs = torch.zeros(2, *shape, dtype=torch.int64 if words else torch.float32)
        return blocks(make(), inputs, torch.zeros(2, dtype=torch.int64))


def net() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(2048, 10),
    )  # fmt: skip


def test_what_a_row_of_convolutions_saves_is_as_counted_by_hand() -> None:
    """Of each sample: what ReLU makes, what pooling makes, and where each of its values came from (int64)."""
    found = on_meta(net, 3, 32, 32)
    relu, pooled, last = 16 * 32 * 32 * 4, 16 * 16 * 16 * 4, 32 * 8 * 8 * 4
    first, second, linear, outside = (found[layers] for layers in (("0",), ("3",), ("7",), ()))
    assert first.inputs == Amount()  # the pass's own
    assert first.outputs == Amount(sample=pooled)
    assert first.saved == Amount(sample=relu + 2 * pooled)  # MaxPool's indices, of 8 bytes each
    assert (first.saved_inputs, first.saved_outputs) == (Amount(), Amount())
    assert second.inputs == second.saved_inputs == Amount(sample=pooled)
    assert second.inner == Amount(sample=32 * 16 * 16 * 4 + 2 * last)
    assert linear.saved == linear.saved_inputs == Amount(sample=last)
    assert outside.saved == Amount(fixed=4, sample=40)  # the loss: its weight, and the logarithms
    products = 2 * 3 * 9 * 16 * 32 * 32
    assert (first.forward_flops, first.backward_flops) == (products, products)  # none of the data
    assert (linear.forward_flops, linear.backward_flops) == (2 * 20480, 4 * 20480)


class Shares(nn.Module):
    """Blocks that are called twice, save one memory as several tensors, and are given what others save, too."""

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.LayerNorm(16)
            self.linear = nn.Linear(16, 16)

        def forward(self, x: Tensor) -> Tensor:
            hidden = torch.tanh(self.linear(self.norm(x)))
            return hidden[:, :8].sin().sum(1, keepdim=True) * x + hidden[:, 8:].cos().sum(1, keepdim=True)

    def __init__(self) -> None:
        super().__init__()
        self.block = self.Block()
        self.twice = nn.Linear(16, 16)

    def forward(self, x: Tensor) -> Tensor:
        return self.twice(self.twice(self.block(x.flatten(1)).relu()).relu())


def test_a_memory_counts_once_and_calls_add_up() -> None:
    found = on_meta(Shares, 4, 4)
    block, twice = found["block.norm", "block.linear"], found["twice",]
    assert (block.calls, twice.calls) == (1, 2)
    # The norm's statistics and result; what tanh makes, of which sin and cos save halves. Of the data nothing.
    assert block.saved == Amount(sample=8 + 64 + 64)
    assert block.by_layer == (Amount(sample=8), Amount(sample=64 + 64))
    assert twice.inputs == twice.outputs == twice.saved_inputs == twice.saved == Amount(sample=128)


WORDS: dict[str, Any] = {"vocabulary": 100, "hidden": 32, "layers": 1}
MODELS: dict[str, tuple[dict[str, Any], tuple[int, ...], tuple[int, ...]]] = {
    "resnet-digits": ({}, (1, 8, 8), ()),
    "vgg-small": ({}, (3, 32, 32), ()),
    "attention": ({}, (1, 8, 8), ()),
    "lstm-lm": (WORDS, (12,), (12,)),
    "attention-nmt": (WORDS, (2, 5), (5,)),
}
"""Options, and the shapes of a sample and of its targets."""


@pytest.mark.parametrize("name", MODELS)
def test_blocks_add_up_to_what_a_pass_saves(name: str) -> None:
    """To what is there when backward begins, but for the loss and what nobody has saved."""
    (options, shape, target), samples = MODELS[name], 2
    with torch.device("meta"):
        model = registry.build(name, options)
        inputs = torch.zeros(samples, *shape, dtype=getattr(torch, registry.model(name).input_dtype))
        targets = torch.zeros(samples, *target, dtype=torch.int64)
    layers = layers_of(model)
    whole = training(model, inputs, targets)
    found = blocks_of(whole)
    assert len(found) <= len(layers.layers) + 1
    optimizer = OptimizerSpec(name="sgd", learning_rate=0.1)
    saved = sum(peak_of(whole, optimizer, {}).saved.values())
    least = sum(block.inner.of(samples) for block in found)
    most = sum(block.saved.of(samples) for block in found)
    assert least <= saved * 1.01 + 64
    assert most >= saved * 0.97
    for block in found[:-1]:
        assert sum(each.of(samples) for each in block.by_layer) <= block.saved.of(samples)
        assert block.forward_peak.of(samples) >= block.inner.of(samples) / block.calls


def test_a_description_with_blocks_is_read_again_and_one_without_as_before() -> None:
    plain = described("mlp")
    with torch.device("meta"):
        model = registry.build("mlp")
        batch = torch.zeros(2, 1, 8, 8), torch.zeros(2, dtype=torch.int64)
    whole = replace(plain, blocks=blocks_of(replace(training(model, *batch), described=plain)))
    assert len(whole.blocks) == 4
    assert ModelDescription.from_dict(json.loads(json.dumps(whole.to_dict()))) == whole
    old = plain.to_dict()
    del old["blocks"]
    assert ModelDescription.from_dict(old) == plain
    assert whole.checksum == plain.checksum
    assert sum(block.forward_flops for block in whole.blocks) == whole.forward_flops


def test_a_request_for_blocks_is_answered_with_the_description_that_has_them() -> None:
    plain = described("mlp")
    request = {
        "model": {"name": "mlp"},
        "data": {"name": "digits"},
        "precision": "float32",
        "described": plain.to_dict(),
        "blocks": True,
    }
    found = ModelDescription.from_dict(answer(request))
    assert [block.layers for block in found.blocks] == [("1",), ("3",), ("5",), ()]
    assert replace(found, blocks=()) == plain


def test_a_model_that_looks_at_values_says_so() -> None:
    class Looks(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x if bool((x > 0).all()) else -x)

    with pytest.raises(RuntimeError, match="meta"):
        on_meta(lambda: Looks(4, 10), 4)
