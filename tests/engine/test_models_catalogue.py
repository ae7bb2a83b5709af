"""Every model of the catalogue builds, runs, and has the published number of parameters."""

import subprocess
import sys
from dataclasses import MISSING, fields
from functools import partial

import pytest
import torch

from engine.errors import UnknownNameError, UserError
from engine.inputs.registry import DATASETS
from engine.models.describe import describe_request
from engine.models.registry import MODELS, build, model
from engine.models.transformer import Block
from engine.plan.description import LayerDescription, ModelDescription, ParameterDescription
from engine.plan.serde import from_plain
from tests.words import write_text

PUBLISHED = {
    "alexnet": 60_965_224,
    "vgg19": 143_667_240,
    "resnet50": 25_557_032,
    "inception-v3": 23_834_568,
    "gpt": 124_439_808,
    "vit": 86_567_656,
    "resnet32": 464_154,
    "resnet110": 1_727_962,
}


def count(module: torch.nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


@pytest.mark.parametrize("entry", MODELS, ids=lambda entry: entry.name)
def test_every_model_maps_its_input_to_its_classes(entry):
    with torch.device("meta"):
        inputs = torch.empty(2, *entry.input_shape, dtype=getattr(torch, entry.input_dtype))
        output = entry.build()(inputs)
    assert output.shape == (2, entry.classes, *entry.target_shape)


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameter_counts_are_the_published_ones(name):
    with torch.device("meta"):
        assert count(build(name)) == PUBLISHED[name]


def test_parts_of_alexnet_and_vgg19_have_the_published_sizes():
    with torch.device("meta"):
        alexnet, vgg = build("alexnet"), build("vgg19")
    dense = sum(count(getattr(alexnet, name)) for name in ("fc6", "fc7", "fc8"))
    assert (dense, count(alexnet) - dense) == (58_631_144, 2_334_080)
    assert count(vgg.fc6) == 102_764_544


def test_resnet110_is_as_deep_as_its_name_says():
    with torch.device("meta"):
        counted = [
            m for m in build("resnet110").modules() if isinstance(m, torch.nn.Conv2d | torch.nn.Linear)
        ]
    assert len(counted) == 110


def test_recurrent_models_have_the_sizes_that_their_shapes_give():
    """The paper prints shapes, no counts: 4 gates, each with weights from below and from before, and two biases."""

    def lstm(below: int, hidden: int) -> int:
        return 4 * hidden * (below + hidden) + 2 * 4 * hidden

    with torch.device("meta"):
        language, translation = count(build("lstm-lm")), count(build("attention-nmt"))
    assert language == 10_000 * 2048 + 4 * lstm(2048, 2048) + 2048 * 10_000 + 10_000
    words = 2 * 40_000 * 1000 + 1000 * 40_000 + 40_000
    layers = 4 * lstm(1000, 1000) + lstm(2000, 1000) + 3 * lstm(1000, 1000)
    assert translation == words + layers + 2 * 1000 * 1000 + 1000 + (2000 * 1000 + 1000)


def test_padding_changes_nothing_that_a_translation_model_says_of_words():
    """Behind a shorter sentence may be any amount of padding; sockeye's backward direction does read it."""
    torch.manual_seed(0)
    model = build("attention-nmt", {"vocabulary": 20, "layers": 2, "hidden": 6}).double()
    tokens = torch.randint(0, 20, (3, 2, 5))
    tokens[0, 0, 3:] = -1
    padded = torch.cat([tokens, torch.full((3, 2, 4), -1)], 2)
    with torch.no_grad():
        torch.testing.assert_close(model(padded)[:, :, :5], model(tokens), rtol=0, atol=1e-14)
        alone = model(tokens[:1, :, :3])
        torch.testing.assert_close(model(tokens)[:1, :, :3], alone, rtol=0, atol=1e-14)


def test_gpt_has_a_million_parameters_where_it_is_asked_for_so_many():
    with torch.device("meta"):
        small = build("gpt", {"vocabulary": 1000, "context": 128, "layers": 4, "hidden": 132, "heads": 4})
    assert 0.98e6 < count(small) < 1.02e6


def test_no_word_of_gpt_knows_a_later_one():
    torch.manual_seed(0)
    model = build("gpt", {"vocabulary": 20, "context": 9, "layers": 2, "hidden": 12, "heads": 3}).double()
    tokens = torch.randint(0, 20, (3, 9))
    other = tokens.clone()
    other[:, 5:] = (other[:, 5:] + 1) % 20
    with torch.no_grad():
        ours, theirs, shorter = model(tokens), model(other), model(tokens[:, :5])
    torch.testing.assert_close(theirs[:, :, :5], ours[:, :, :5], rtol=0, atol=1e-14)
    torch.testing.assert_close(shorter, ours[:, :, :5], rtol=0, atol=1e-14)
    assert not torch.allclose(theirs[:, :, 5], ours[:, :, 5])


@pytest.mark.parametrize("causal", [True, False])
def test_a_block_is_pytorchs_own_transformer_layer(causal):
    torch.manual_seed(0)
    gelu = "tanh" if causal else "none"
    ours = Block(12, 3, causal=causal, dropout=0.0, gelu=gelu, epsilon=1e-6).double()
    activation = partial(torch.nn.functional.gelu, approximate=gelu)
    theirs = torch.nn.TransformerEncoderLayer(
        12, 3, 48, dropout=0.0, activation=activation, layer_norm_eps=1e-6, batch_first=True, norm_first=True
    ).double()  # fmt: skip
    names = {
        "self_attn.in_proj_": "attend.", "self_attn.out_proj.": "project.", "linear1.": "widen.",
        "linear2.": "narrow.", "norm1.": "norm1.", "norm2.": "norm2.",
    }  # fmt: skip
    own = ours.state_dict()
    theirs.load_state_dict(
        {their + part: own[name + part] for their, name in names.items() for part in ("weight", "bias")}
    )
    states = torch.randn(2, 7, 12, dtype=torch.float64)
    mask = torch.nn.Transformer.generate_square_subsequent_mask(7, dtype=torch.float64) if causal else None
    torch.testing.assert_close(ours(states), theirs(states, src_mask=mask), rtol=0, atol=1e-12)


def test_sizes_that_do_not_divide_are_refused():
    with pytest.raises(UserError, match=r"hidden = 100: must be a multiple of the 12 heads.*Use 96"):
        build("gpt", {"hidden": 100})
    with pytest.raises(UserError, match=r"image = 30: must be a multiple of the patch, 16.*Use 32"):
        build("vit", {"image": 30})


def test_a_sample_with_more_words_than_gpt_has_positions_for_is_refused(tmp_path):
    write_text(tmp_path / "lines.txt", 120)
    data = {
        "name": "text",
        "options": {"paths": [str(tmp_path / "lines.txt")], "vocabulary": 300, "steps": 9},
    }
    options = {"vocabulary": 300, "layers": 1, "hidden": 8, "heads": 2}
    request = {"model": {"name": "gpt", "options": {**options, "context": 9}}, "data": data}
    assert describe_request(request).layer("position").parameter_count == 9 * 8
    request["model"]["options"]["context"] = 8
    with pytest.raises(
        UserError, match=r"model.options.context = 8: a sample of the data has 9 words. Set it to 9"
    ):
        describe_request(request)


def test_the_width_of_an_image_is_no_number_of_words():
    options = {"vocabulary": 300, "layers": 1, "hidden": 8, "heads": 2, "context": 4}
    request = {"model": {"name": "gpt", "options": options}, "data": {"name": "digits"}}
    with pytest.raises(UserError, match=r"these data give \(1, 8, 8\)") as caught:
        describe_request(request)
    assert "words" not in caught.value.rule


def test_small_vgg_keeps_the_proportions_of_vgg19():
    with torch.device("meta"):
        small = build("vgg-small")
    assert 0.65 < count(small.fc6) / count(small) < 0.9


def test_unknown_names_and_options_list_the_known_ones():
    with pytest.raises(UnknownNameError, match=r"Did you mean 'vgg19'.*resnet-digits"):
        model("vgg18")
    with pytest.raises(UserError, match=r"model.options.clases.*Did you mean 'classes'.*dropout"):
        build("alexnet", {"clases": 10})
    with pytest.raises(UserError, match=r"model.options.classes = 0: must be at least 1"):
        build("alexnet", {"classes": 0})


@pytest.mark.parametrize("entry", [*MODELS, *DATASETS], ids=lambda entry: entry.name)
def test_every_size_has_an_upper_bound(entry):
    """Whoever may submit a job must not be able to hold up the service with one number."""
    for option in fields(entry.options):
        if option.type == "int" and option.name != "seed":
            needed = {f.name: "/" for f in fields(entry.options) if f.default is MISSING}
            with pytest.raises(UserError, match=f"{option.name} = {2**62}: must be at most"):
                from_plain(entry.options, needed | {option.name: 2**62})


def test_listing_models_and_data_sets_imports_no_torch():
    code = (
        "import sys, engine.models.registry, engine.inputs.registry;"
        "import engine.plan.description, engine.inputs.sharding;"
        "sys.exit(any(name.split('.')[0] == 'torch' for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def description(**changes: object) -> ModelDescription:
    values = {"name": "a.weight", "shape": (3, 2), "dtype": "bfloat16", "trainable": True} | changes
    layer = LayerDescription(name="a", kind="Linear", index=0, parameters=(ParameterDescription(**values),))
    return ModelDescription(name="m", layers=(layer,), buffer_bytes=4)


def test_description_counts_and_survives_json():
    found = description()
    assert (found.parameter_count, found.parameter_bytes) == (6, 12)
    assert ModelDescription.from_dict(found.to_dict()) == found
    assert ModelDescription.from_dict(found.to_dict()).checksum == found.checksum


@pytest.mark.parametrize(
    "change", [{"name": "b.weight"}, {"shape": (2, 3)}, {"dtype": "float32"}, {"trainable": False}], ids=str
)
def test_checksum_sees_every_change_that_would_change_what_travels(change):
    assert description(**change).checksum != description().checksum


def test_description_refuses_unknown_types_and_layers():
    with pytest.raises(UnknownNameError, match=r"int8.*Known: bfloat16"):
        description(dtype="int8")
    with pytest.raises(UnknownNameError, match="Known: a"):
        description().layer("b")
