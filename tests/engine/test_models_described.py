"""Every model of the catalogue, described: its layers, how plans cut them, and the bytes that these move.

To describe them all takes half a minute, so the tests that need all of them are together: one process runs a file.
"""

from __future__ import annotations

import pytest
import torch

from engine.models.registry import MODELS, model
from engine.plan.placement_rules import possible_cuts
from engine.plan.units import cut
from engine.simulate.declared import wire_bytes
from tests.plans import PLANNED, SERVED, assert_every_element_once, described, planned

HALVES = ("norm1", "attend", "project", "norm2", "widen", "narrow")
"""The layers of a block."""


@pytest.mark.parametrize("name", [entry.name for entry in MODELS])
def test_every_parameter_belongs_to_exactly_one_layer(name: str) -> None:
    found = described(name)
    with torch.device("meta"):
        expected = dict(model(name).build().named_parameters())
    assert sorted(p.name for p in found.parameters) == sorted(expected)
    assert all(p.shape == tuple(expected[p.name].shape) for p in found.parameters)
    assert all(p.trainable == expected[p.name].requires_grad for p in found.parameters)


@pytest.mark.parametrize("workers", [1, 3, *(pytest.param(n, marks=pytest.mark.soak) for n in (2, 4))])
@pytest.mark.parametrize("strategy", PLANNED)
def test_every_element_of_every_model_is_cut_exactly_once(strategy: str, workers: int) -> None:
    for entry in MODELS:
        model = described(entry.name)
        if strategy == "hybrid" and not possible_cuts(model):
            continue
        plan = planned(strategy, model, workers)
        alone = frozenset(layer.layer for layer in plan.layers if layer.placement == "device")
        assert_every_element_once(cut(plan, model), model, alone)


@pytest.mark.parametrize("name", [entry.name for entry in MODELS])
def test_p3_moves_the_same_bytes_as_the_parameter_server(name: str) -> None:
    model = described(name)
    assert len({wire_bytes(planned(strategy, model, 4), model, 4) for strategy in SERVED}) == 1


def test_flops_and_output_bytes_are_per_sample() -> None:
    conv1 = described("alexnet").layer("conv1")
    assert conv1.forward_flops == 2 * 55 * 55 * 96 * 3 * 11 * 11
    assert conv1.output_bytes == 55 * 55 * 96 * 4
    assert 39e9 < described("vgg19").forward_flops < 40e9
    assert 11.3e9 < described("inception-v3").forward_flops < 11.5e9


def test_the_heaviest_layer_of_the_sockeye_shape_is_the_first() -> None:
    found = described("sockeye-shape")
    heaviest = max(found.layers, key=lambda layer: layer.parameter_count)
    assert (heaviest.name, heaviest.index) == ("source_embedding", 0)
    assert 0.35 < heaviest.parameter_count / found.parameter_count < 0.45
    # A recurrent layer's products count once per word.
    weights = 4 * 512 * (1024 + 512)
    assert found.layer("decoder").forward_flops == 30 * 2 * weights
    assert found.layer("encoder").forward_flops == 30 * 2 * 2 * 4 * 256 * (512 + 256)


def test_layers_that_a_step_uses_several_times_count_every_use() -> None:
    """Per sample, in float32: an LSTM's outputs are its states of every word, and the last hidden state and cell."""
    language, translation = described("lstm-lm"), described("attention-nmt")
    assert [layer.name for layer in language.layers] == [
        "embedding", "layers.0", "layers.1", "layers.2", "layers.3", "output"
    ]  # fmt: skip
    layer = language.layer("layers.2")
    assert layer.forward_flops == 35 * 2 * 4 * 2048 * (2048 + 2048)
    assert layer.output_bytes == (35 + 2) * 2048 * 4
    assert language.layer("output").forward_flops == 35 * 2 * 2048 * 10_000
    assert language.layer("output").output_bytes == 35 * 10_000 * 4
    cell = translation.layer("decoder.1")
    assert (cell.kind, cell.forward_flops) == ("LSTMCell", 30 * 2 * 4 * 1000 * (1000 + 1000))
    assert cell.output_bytes == 30 * 2 * 1000 * 4
    assert translation.layer("query").forward_flops == 30 * 2 * 1000 * 1000
    names = [layer.name for layer in translation.layers]
    assert names.index("encoder.3") < names.index("keys") < names.index("decoder.0") < names.index("query")
    assert names[-1] == "output"


def test_transformers_are_described_product_by_product() -> None:
    """Per sample, in float32. What attention does between its two products is booked on the one before it."""
    language, images = described("gpt"), described("vit")
    names = [layer.name for layer in language.layers]
    assert names[:8] == ["embedding", "position", *(f"blocks.0.{name}" for name in HALVES)]
    assert names[-1] == "norm"
    assert language.layer("embedding").parameters[0].also_used_by == ("output.weight",)
    assert language.layer("blocks.11.widen").forward_flops == 1024 * 2 * 768 * 4 * 768
    assert (
        language.layer("blocks.3.attend").forward_flops
        == 1024 * 2 * 768 * 3 * 768 + 2 * 1024 * 2 * 1024 * 768
    )
    assert language.layer("blocks.3.narrow").output_bytes == 1024 * 768 * 4
    assert [layer.name for layer in images.layers[:3]] == ["words", "words.patches", "blocks.0.norm1"]
    assert images.layer("words.patches").forward_flops == 196 * 2 * 768 * 3 * 16 * 16
    assert images.layer("classify").forward_flops == 2 * 768 * 1000
    # Between blocks a pass has one tensor, so that it can be cut there; a tied table is needed on both sides.
    assert "blocks.6.norm1" in possible_cuts(images)
    assert not possible_cuts(language)
    assert all("embedding is used in front of it and from it on" in cut.refused for cut in language.cuts[1:])


def test_layers_come_in_forward_order_and_a_tied_parameter_once() -> None:
    found = described("tied")
    assert [layer.name for layer in found.layers] == ["encode", "middle", "decode", "classify"]
    weight = found.layer("encode").parameters[0]
    assert weight.also_used_by == ("decode.weight",)
    assert [p.name for p in found.layer("decode").parameters] == ["decode.bias"]
    # `middle` runs twice.
    assert found.layer("middle").forward_flops == 2 * 2 * 32 * 32


def test_work_of_an_uncalled_layer_is_booked_on_the_module_that_does_it() -> None:
    found = described("attention")
    assert found.layer("attend").forward_flops > 0
    assert found.layer("attend.out_proj").forward_flops == 0
