"""Every model of the catalogue builds, runs, and has the published number of parameters."""

import subprocess
import sys

import pytest
import torch

from engine.errors import UnknownNameError, UserError
from engine.models.registry import MODELS, build, model
from engine.plan.description import LayerDescription, ModelDescription, ParameterDescription

PUBLISHED = {"alexnet": 60_965_224, "vgg19": 143_667_240, "resnet50": 25_557_032, "inception-v3": 23_834_568}


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


def test_resnets_for_cifar_have_about_the_published_sizes():
    with torch.device("meta"):
        assert round(count(build("resnet32")) / 1e6, 2) == 0.46
        assert round(count(build("resnet32", {"blocks": 18})) / 1e6, 1) == 1.7


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
