"""Options of the models, apart from the code that builds them: the service lists them without torch."""

from __future__ import annotations

from dataclasses import dataclass

from engine.catalogue import STRICT
from engine.errors import UserError, require_within


def _share(name: str, value: float) -> None:
    if not 0 <= value < 1:
        raise UserError(name, value, "is a share from 0 up to, not including, 1", "0 switches dropout off")


_MOST = {
    "classes": 2**20,
    "vocabulary": 2**20,
    "source_vocabulary": 2**20,
    "target_vocabulary": 2**20,
    "embedding": 2**16,
    "hidden": 2**16,
    "width": 2**12,
    "channels": 2**12,
    "layers": 128,
    "blocks": 200,
    "heads": 2**10,
    "context": 2**17,
    "image": 2**12,
    "patch": 2**12,
}
"""Of every option that says how large a network is: ten times what has been trained, and little to describe. (ResNet's
authors went to 200 blocks.)"""


def _sizes(**sizes: int) -> None:
    for name, value in sizes.items():
        require_within(name, value, 1, _MOST[name])


@dataclass(frozen=True, kw_only=True)
class DenseHeadOptions:
    """Of networks that end in fully-connected layers with dropout."""

    __pydantic_config__ = STRICT

    classes: int = 1000
    """Number of classes."""
    dropout: float = 0.5
    """Share of activations dropped in the fully-connected part."""

    def __post_init__(self) -> None:
        _sizes(classes=self.classes)
        _share("dropout", self.dropout)


@dataclass(frozen=True, kw_only=True)
class ClassesOptions:
    """Of networks in which only the number of classes is free."""

    __pydantic_config__ = STRICT

    classes: int = 1000
    """Number of classes."""

    def __post_init__(self) -> None:
        _sizes(classes=self.classes)


@dataclass(frozen=True, kw_only=True)
class InceptionOptions:
    """Of Inception-v3."""

    __pydantic_config__ = STRICT

    classes: int = 1000
    """Number of classes."""
    width: int = 32
    """Channels of the first convolution, as published 32; all others keep their relation to it."""
    dropout: float = 0.5
    """Share of activations dropped before the classifier."""

    def __post_init__(self) -> None:
        _sizes(classes=self.classes, width=self.width)
        _share("dropout", self.dropout)


@dataclass(frozen=True, kw_only=True)
class Seq2SeqOptions:
    """Of the recurrent translation network."""

    __pydantic_config__ = STRICT

    source_vocabulary: int = 17191
    """Words of the source language."""
    target_vocabulary: int = 7709
    """Words of the target language."""
    embedding: int = 512
    """Size of a word's embedding, on both sides."""
    hidden: int = 512
    """Units of the decoder; the encoder has half as many in each direction, so an even number."""

    def __post_init__(self) -> None:
        _sizes(
            source_vocabulary=self.source_vocabulary,
            target_vocabulary=self.target_vocabulary,
            embedding=self.embedding,
            hidden=self.hidden,
        )
        if self.hidden % 2:
            raise UserError(
                "hidden",
                self.hidden,
                "must be even: the encoder has two directions",
                f"Use {self.hidden + 1}",
            )


@dataclass(frozen=True, kw_only=True)
class RecurrentOptions:
    """Of networks of equal recurrent layers over one vocabulary."""

    __pydantic_config__ = STRICT

    vocabulary: int
    """Words, as many as the data's vocabulary has."""
    layers: int
    """Recurrent layers."""
    hidden: int
    """Units of every recurrent layer, and size of a word's embedding."""
    dropout: float = 0.0
    """Share of activations dropped behind the embedding and every recurrent layer."""

    def __post_init__(self) -> None:
        _sizes(vocabulary=self.vocabulary, layers=self.layers, hidden=self.hidden)
        _share("dropout", self.dropout)


@dataclass(frozen=True, kw_only=True)
class LstmLmOptions(RecurrentOptions):
    """Of the recurrent language model."""

    vocabulary: int = 10_000
    """Words, as many as the data's vocabulary has."""
    layers: int = 4
    """Recurrent layers."""
    hidden: int = 2048
    """Units of every recurrent layer, and size of a word's embedding."""


@dataclass(frozen=True, kw_only=True)
class AttentionNmtOptions(RecurrentOptions):
    """Of the deep translation network with attention."""

    vocabulary: int = 40_000
    """Words of both languages together, as many as the data's vocabulary has."""
    layers: int = 4
    """Recurrent layers of the encoder, and as many of the decoder."""
    hidden: int = 1000
    """Units of every recurrent layer, and size of a word's embedding."""


@dataclass(frozen=True, kw_only=True)
class VggSmallOptions:
    """Of the scaled-down VGG."""

    __pydantic_config__ = STRICT

    classes: int = 10
    """Number of classes."""
    width: int = 48
    """Channels of the first stage's two convolutions; the second stage's four have twice as many."""
    hidden: int = 256
    """Units of the two hidden fully-connected layers."""
    dropout: float = 0.0
    """Share of activations dropped in the fully-connected part."""

    def __post_init__(self) -> None:
        _sizes(classes=self.classes, width=self.width, hidden=self.hidden)
        _share("dropout", self.dropout)


@dataclass(frozen=True, kw_only=True)
class ResNetCifarOptions:
    """Of residual networks for small images."""

    __pydantic_config__ = STRICT

    blocks: int = 5
    """Residual blocks of each of the three stages: depth = 6 blocks + 2."""
    width: int = 16
    """Channels of the first stage; later stages have 2 and 4 times as many."""
    channels: int = 3
    """Channels of the input image: 3 for colour, 1 for gray."""
    classes: int = 10
    """Number of classes."""

    def __post_init__(self) -> None:
        _sizes(blocks=self.blocks, width=self.width, channels=self.channels, classes=self.classes)


@dataclass(frozen=True, kw_only=True)
class ResNet110Options(ResNetCifarOptions):
    """The same network, 110 layers deep."""

    blocks: int = 18
    """Residual blocks of each of the three stages: depth = 6 blocks + 2."""


@dataclass(frozen=True, kw_only=True)
class ResNetDigitsOptions(ResNetCifarOptions):
    """The same network, scaled to 8x8 gray digits."""

    blocks: int = 2
    """Residual blocks of each of the three stages: depth = 6 blocks + 2."""
    width: int = 16
    """Channels of the first stage; later stages have 2 and 4 times as many."""
    channels: int = 1
    """Channels of the input image: 3 for colour, 1 for gray."""


def _of_heads(hidden: int, heads: int) -> None:
    if hidden % heads:
        raise UserError(
            "hidden",
            hidden,
            f"must be a multiple of the {heads} heads, among which it is divided",
            f"Use {heads * max(1, round(hidden / heads))}, or another number of heads",
        )


@dataclass(frozen=True, kw_only=True)
class TransformerOptions:
    """Of networks of transformer blocks."""

    __pydantic_config__ = STRICT

    layers: int = 12
    """Blocks of attention and perceptron."""
    heads: int = 12
    """Heads of every attention."""
    hidden: int = 768
    """Size of an embedding and of the states between blocks: a multiple of the heads."""
    dropout: float = 0.0
    """Share of activations dropped behind the embedding and in every block, before they are added."""

    def __post_init__(self) -> None:
        _sizes(layers=self.layers, heads=self.heads, hidden=self.hidden)
        _of_heads(self.hidden, self.heads)
        _share("dropout", self.dropout)


@dataclass(frozen=True, kw_only=True)
class GptOptions(TransformerOptions):
    """Of the language model of transformer blocks."""

    vocabulary: int = 50_257
    """Words, as many as the data's vocabulary has."""
    context: int = 1024
    """Most words of a sample: so many positions are learned."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _sizes(vocabulary=self.vocabulary, context=self.context)


@dataclass(frozen=True, kw_only=True)
class VitOptions(TransformerOptions):
    """Of the vision transformer."""

    classes: int = 1000
    """Number of classes."""
    image: int = 224
    """Height and width of an image in pixels: a multiple of the patch."""
    patch: int = 16
    """Height and width of a patch in pixels."""
    channels: int = 3
    """Channels of the input image: 3 for colour, 1 for gray."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _sizes(classes=self.classes, image=self.image, patch=self.patch, channels=self.channels)
        if self.image % self.patch:
            raise UserError(
                "image",
                self.image,
                f"must be a multiple of the patch, {self.patch}: patches cover the image and do not overlap",
                f"Use {self.patch * max(1, round(self.image / self.patch))}, or another patch",
            )


@dataclass(frozen=True, kw_only=True)
class SmallOptions:
    """Of the small networks."""

    __pydantic_config__ = STRICT

    channels: int = 1
    """Channels of the 8x8 input image."""
    hidden: int = 32
    """Width of the hidden layers."""
    classes: int = 10
    """Number of classes."""

    def __post_init__(self) -> None:
        _sizes(channels=self.channels, hidden=self.hidden, classes=self.classes)
