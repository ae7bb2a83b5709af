"""The models, listed once and built by name. Listing imports no torch; building does.

To add one: write its file in this folder, its options in `options.py`, and a line in MODELS.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from engine.errors import UnknownNameError
from engine.models import options as o
from engine.plan.serde import from_plain

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True, kw_only=True)
class ModelEntry:
    """One model of the catalogue."""

    name: str
    """As people name it."""
    summary: str
    """One line for a person who chooses."""
    implementation: str
    """`module:function` that takes the options and returns the module."""
    options: type
    """A frozen dataclass with its options."""
    input_shape: tuple[int, ...]
    """Shape of one input sample, with the default options."""
    classes: int
    """Number of classes, with the default options."""
    input_dtype: str = "float32"
    """Type of its inputs as torch names it; `int64` for words."""
    target_shape: tuple[int, ...] = ()
    """Shape of one sample's targets, with the default options: () is one class per sample."""
    source: str = "Trainyard"
    """Who described the network."""
    purpose: str = "training"
    """`training`, or `testing` for those that exist to exercise the engine."""

    def build(self, values: Mapping[str, Any] | None = None) -> nn.Module:
        """Build the module, initialized from torch's current random state.

        Raises UserError for an unknown or impossible option.
        """
        chosen: Any = from_plain(self.options, dict(values or {}), "model.options")
        module, _, function = self.implementation.partition(":")
        built: nn.Module = getattr(import_module(module), function)(chosen)
        return built


_SMALL = {"options": o.SmallOptions, "input_shape": (1, 8, 8), "classes": 10, "purpose": "testing"}

MODELS: tuple[ModelEntry, ...] = (
    ModelEntry(
        name="alexnet",
        summary="The grouped network of 2012: 61.0 M parameters, 96 % of them fully connected.",
        implementation="engine.models.alexnet:build",
        options=o.DenseHeadOptions,
        input_shape=(3, 227, 227),
        classes=1000,
        source="Krizhevsky, Sutskever, Hinton 2012, section 3",
    ),
    ModelEntry(
        name="vgg19",
        summary="VGG-19: 143.7 M parameters, 72 % of them in the first fully-connected layer.",
        implementation="engine.models.vgg:build_vgg19",
        options=o.DenseHeadOptions,
        input_shape=(3, 224, 224),
        classes=1000,
        source="Simonyan, Zisserman 2014, table 1, column E",
    ),
    ModelEntry(
        name="vgg-small",
        summary="VGG-19's proportions for 32x32 images: 2.0 M parameters, 80 % of them in fc6.",
        implementation="engine.models.vgg:build_vgg_small",
        options=o.VggSmallOptions,
        input_shape=(3, 32, 32),
        classes=10,
    ),
    ModelEntry(
        name="resnet50",
        summary="ResNet-50: 25.6 M parameters in many layers of similar size.",
        implementation="engine.models.resnet:build_resnet50",
        options=o.ClassesOptions,
        input_shape=(3, 224, 224),
        classes=1000,
        source="He et al. 2015, table 1",
    ),
    ModelEntry(
        name="inception-v3",
        summary="Inception-v3 without auxiliary classifier: 23.8 M parameters in many layers.",
        implementation="engine.models.inception_v3:build",
        options=o.InceptionOptions,
        input_shape=(3, 299, 299),
        classes=1000,
        source="Szegedy et al. 2015, table 1",
    ),
    ModelEntry(
        name="sockeye-shape",
        summary="LSTM translation with attention: 22.7 M parameters, 39 % of them in the first layer.",
        implementation="engine.models.seq2seq:Seq2Seq",
        options=o.Seq2SeqOptions,
        input_shape=(2, 30),
        classes=7709,
        input_dtype="int64",
        target_shape=(30,),
        source="Hieber et al. 2017, sections 3.1 and 3.2; sizes are ours",
    ),
    ModelEntry(
        name="attention-nmt",
        summary="Deep LSTM translation with attention: 192 M parameters, 62 % of them in its tables of words.",
        implementation="engine.models.attention_nmt:AttentionNmt",
        options=o.AttentionNmtOptions,
        input_shape=(2, 30),
        classes=40_000,
        input_dtype="int64",
        target_shape=(30,),
        source="Wang et al. 2017, appendix A.1, and Luong et al. 2015, section 3",
    ),
    ModelEntry(
        name="lstm-lm",
        summary="LSTM language model: 175 M parameters, 77 % of them in four equal recurrent layers.",
        implementation="engine.models.lstm_lm:LstmLm",
        options=o.LstmLmOptions,
        input_shape=(35,),
        classes=10_000,
        input_dtype="int64",
        target_shape=(35,),
        source="Wang et al. 2017, appendix A.1",
    ),
    ModelEntry(
        name="gpt",
        summary="GPT-2's language model of transformer blocks: 124.4 M parameters, 31 % of them in its table of words.",
        implementation="engine.models.gpt:Gpt",
        options=o.GptOptions,
        input_shape=(1024,),
        classes=50_257,
        input_dtype="int64",
        target_shape=(1024,),
        source="Radford et al. 2019, section 2.3",
    ),
    ModelEntry(
        name="vit",
        summary="ViT-B/16: 86.6 M parameters in twelve equal transformer blocks.",
        implementation="engine.models.vit:Vit",
        options=o.VitOptions,
        input_shape=(3, 224, 224),
        classes=1000,
        source="Dosovitskiy et al. 2021, section 3.1",
    ),
    ModelEntry(
        name="resnet32",
        summary="ResNet-32 for CIFAR-10: 0.46 M parameters.",
        implementation="engine.models.resnet_cifar:build",
        options=o.ResNetCifarOptions,
        input_shape=(3, 32, 32),
        classes=10,
        source="He et al. 2015, section 4.2 (shortcuts of option A)",
    ),
    ModelEntry(
        name="resnet110",
        summary="ResNet-110 for CIFAR-10: 1.7 M parameters in many small layers.",
        implementation="engine.models.resnet_cifar:build",
        options=o.ResNet110Options,
        input_shape=(3, 32, 32),
        classes=10,
        source="He et al. 2015, section 4.2 (shortcuts of option A)",
    ),
    ModelEntry(
        name="resnet-digits",
        summary="A residual network for 8x8 gray digits that trains in seconds on one core.",
        implementation="engine.models.resnet_cifar:build",
        options=o.ResNetDigitsOptions,
        input_shape=(1, 8, 8),
        classes=10,
    ),
    ModelEntry(
        name="mlp",
        summary="Three fully-connected layers.",
        implementation="engine.models.small:Mlp",
        **_SMALL,  # type: ignore[arg-type]
    ),
    ModelEntry(
        name="cnn",
        summary="Two convolutions and a classifier, without batch normalization.",
        implementation="engine.models.small:Cnn",
        **_SMALL,  # type: ignore[arg-type]
    ),
    ModelEntry(
        name="bn-cnn",
        summary="Two convolutions with batch normalization and a classifier.",
        implementation="engine.models.small:BatchNormCnn",
        **_SMALL,  # type: ignore[arg-type]
    ),
    ModelEntry(
        name="tied",
        summary="Tied weights, and one module that is used twice.",
        implementation="engine.models.small:Tied",
        **_SMALL,  # type: ignore[arg-type]
    ),
    ModelEntry(
        name="sometimes",
        summary="Parameters that some batches use and others do not.",
        implementation="engine.models.small:Sometimes",
        **_SMALL,  # type: ignore[arg-type]
    ),
    ModelEntry(
        name="frozen",
        summary="Frozen parameters: a whole layer and a bias.",
        implementation="engine.models.small:Frozen",
        **_SMALL,  # type: ignore[arg-type]
    ),
    ModelEntry(
        name="attention",
        summary="Self-attention whose output projection is never called as a module.",
        implementation="engine.models.small:Attention",
        **_SMALL,  # type: ignore[arg-type]
    ),
    ModelEntry(
        name="mixed",
        summary="Parameters of two types: float32 and float64.",
        implementation="engine.models.small:Mixed",
        **_SMALL,  # type: ignore[arg-type]
    ),
)


def model(name: str) -> ModelEntry:
    """The model called `name`; raises UnknownNameError listing the known ones."""
    for entry in MODELS:
        if entry.name == name:
            return entry
    raise UnknownNameError("model.name", name, "model", [entry.name for entry in MODELS])


def build(name: str, options: Mapping[str, Any] | None = None) -> nn.Module:
    """Build the model called `name` with `options`; see ModelEntry.build."""
    return model(name).build(options)
