"""What a step is predicted to hold at the most, beside what the allocator of the host counts on real steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from engine.axes.memory import ACTIVATIONS
from engine.axes.memory_options import ThroughTimeOptions
from engine.liveness.measured import RealSteps, measured_peak
from engine.liveness.peak import peak_of
from engine.memory.blocks import Asked
from engine.models import registry
from engine.plan.mechanism_options import options_of
from engine.plan.peak import PARTS, Peak
from engine.plan.updates import OptimizerSpec
from tests.memory import layers_of, training

SGD = OptimizerSpec(name="sgd", learning_rate=0.1, options={"momentum": 0.9})
ADAM = OptimizerSpec(name="adam", learning_rate=0.1)
EVERY = ("keep", "recompute", "swap")


class Residual(nn.Sequential):
    """Convolutions of every kind that a kernel treats otherwise, and sums of their results."""

    class Block(nn.Module):
        def __init__(self, width: int, kernel: int, groups: int, stride: int = 1) -> None:
            super().__init__()
            self.conv = nn.Conv2d(width, width, kernel, stride, kernel // 2, groups=groups)
            self.norm = nn.BatchNorm2d(width)
            self.down = nn.MaxPool2d(stride, ceil_mode=True)

        def forward(self, x: Tensor) -> Tensor:
            return torch.relu(self.down(x) + self.norm(self.conv(x)))

    def __init__(self) -> None:
        super().__init__(
            nn.Conv2d(3, 24, 7, stride=2, padding=3),
            self.Block(24, 3, 1),
            self.Block(24, 1, 1),
            self.Block(24, 3, 24),
            self.Block(24, 5, 2, stride=2),
            self.Block(24, 1, 1, stride=2),
            nn.Conv2d(24, 40, 3),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(40, 10),
        )


class Transformer(nn.Module):
    """Words in, encoder layers, a class out."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(100, 32)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(32, 4, 64, dropout=0.1, batch_first=True, norm_first=True)
            for _ in range(3)
        )
        self.output = nn.Linear(32, 10)

    def forward(self, words: Tensor) -> Tensor:
        hidden = self.embedding(words)
        for layer in self.layers:
            hidden = layer(hidden)
        return self.output(hidden.mean(1))


class Recurrent(nn.Module):
    """LSTMs that oneDNN computes: of several layers, in both directions, of odd sizes, with and without biases, and one
    whose rows would meet in a cache (256)."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.LSTM(20, 36, num_layers=2, dropout=0.3, bidirectional=True)
        self.second = nn.LSTM(72, 256, bias=False, batch_first=True)
        self.third = nn.GRU(256, 24)
        self.output = nn.Linear(24, 10)

    def forward(self, x: Tensor) -> Tensor:
        hidden, _ = self.third(self.second(self.first(x)[0])[0])
        return self.output(hidden).transpose(1, 2)


def of_catalogue(name: str, **options: Any) -> Callable[[], nn.Module]:
    return lambda: registry.build(name, options)


Batch = Callable[[], tuple[Tensor, Tensor]]


def images(count: int, channels: int, side: int) -> Batch:
    return lambda: (torch.zeros(count, channels, side, side), torch.zeros(count, dtype=torch.int64))


def words(*shape: int, targets: tuple[int, ...]) -> Batch:
    return lambda: (torch.zeros(shape, dtype=torch.int64), torch.zeros(targets, dtype=torch.int64))


LM = {"vocabulary": 300, "hidden": 96, "layers": 2}
NMT = {"vocabulary": 60, "hidden": 24, "layers": 1}
MODELS: dict[str, tuple[Callable[[], nn.Module], Batch]] = {
    "residual": (Residual, images(16, 3, 36)),
    "resnet-digits": (of_catalogue("resnet-digits"), images(48, 1, 8)),
    "vgg-small": (of_catalogue("vgg-small", width=16, hidden=128), images(20, 3, 32)),
    "transformer": (Transformer, words(12, 20, targets=(12,))),
    "attention": (of_catalogue("attention"), images(96, 1, 8)),
    "lstm-lm": (of_catalogue("lstm-lm", **LM), words(12, 20, targets=(12, 20))),
    "attention-nmt": (of_catalogue("attention-nmt", **NMT), words(16, 2, 6, targets=(16, 6))),
    "recurrent": (Recurrent, lambda: (torch.zeros(6, 9, 20), torch.zeros(6, 9, dtype=torch.int64))),
    "mixed": (of_catalogue("mixed"), images(64, 1, 8)),
    "frozen": (of_catalogue("frozen"), images(64, 1, 8)),
}


def asked(model: nn.Module, activations: str | Mapping[str, str | Asked]) -> dict[str, Asked]:
    names = [layer.name for layer in layers_of(model).layers if any(p.trainable for p in layer.parameters)]
    chosen = dict.fromkeys(names, activations) if isinstance(activations, str) else activations
    return {
        name: value if isinstance(value, Asked) else Asked(value, options_of(ACTIVATIONS[value], {}, ""))
        for name, value in chosen.items()
        if value != "keep"
    }


def predicted(
    make: Callable[[], nn.Module], batch: Batch, activations: Any, optimizer: OptimizerSpec = SGD, **more: Any
) -> Peak:
    with torch.device("meta"):
        model, (inputs, targets) = make(), batch()
    choices = asked(model, activations)
    return peak_of(training(model, inputs, targets), optimizer, choices, **more)


def compared(
    make: Callable[[], nn.Module],
    batch: Batch,
    activations: Any,
    folder: Path,
    optimizer: OptimizerSpec = SGD,
    **more: Any,
) -> Peak:
    """The prediction, which is within 2 % of what is measured."""
    found = predicted(make, batch, activations, optimizer, **more)
    torch.manual_seed(0)
    model, (inputs, targets) = make(), batch()
    measured = measured_peak(
        RealSteps(
            training(model, inputs, targets),
            optimizer,
            asked(model, activations),
            scratch=str(folder),
            **more,
        )
    )
    print(f"measured {measured:,}, predicted {found.total:,}: {100 * (found.total / measured - 1):+.2f} %")
    assert abs(found.total - measured) <= 0.02 * measured
    return found


@pytest.mark.parametrize("activations", EVERY)
@pytest.mark.parametrize("name", MODELS)
def test_the_peak_is_what_the_allocator_counts(name: str, activations: str, tmp_path: Path) -> None:
    found = compared(*MODELS[name], activations, tmp_path)
    assert set(found.parts) == set(PARTS)
    assert sum(found.parts.values()) == found.total
    assert found.first >= found.total - found.parts["optimizer state"]


def test_each_layer_may_have_its_own_mechanism(tmp_path: Path) -> None:
    make, batch = MODELS["residual"]
    names = list(asked(make(), "swap"))
    mixed = {name: EVERY[at % 3] for at, name in enumerate(dict.fromkeys(n.partition(".")[0] for n in names))}
    activations = {name: mixed[name.partition(".")[0]] for name in names}
    found = compared(make, batch, activations, tmp_path)
    assert found.total < predicted(make, batch, "keep").total


def test_recurrent_layers_in_pieces_of_time_are_counted(tmp_path: Path) -> None:
    make, batch = MODELS["lstm-lm"]
    in_pieces = {
        name: "through-time" if name.startswith("layers.") else "keep" for name in asked(make(), "swap")
    }
    assert set(in_pieces.values()) == {"through-time", "keep"}
    compared(make, batch, in_pieces, tmp_path)


@pytest.mark.parametrize("activations", ["keep", "swap"])
def test_a_norm_has_its_gradient_twice(activations: str, tmp_path: Path) -> None:
    def make() -> nn.Module:
        norms = [nn.Sequential(nn.BatchNorm2d(8), nn.Hardtanh()) for _ in range(3)]
        return nn.Sequential(*norms, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10))

    compared(make, images(16, 8, 24), activations, tmp_path)


class Rows(nn.Module):
    """One recurrent layer of a kind."""

    def __init__(self, kind: Callable[..., nn.Module], **options: Any) -> None:
        super().__init__()
        self.rows = kind(48, 96, **options)
        self.output = nn.Linear(96 * (1 + options.get("bidirectional", False)), 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.output(self.rows(x)[0]).transpose(1, 2)


def steps() -> tuple[Tensor, Tensor]:
    return torch.zeros(24, 16, 48), torch.zeros(24, 16, dtype=torch.int64)


@pytest.mark.parametrize("piece", [1, 6])
@pytest.mark.parametrize("kind", [nn.GRU, nn.RNN])
def test_recurrent_layers_of_other_kinds_are_counted_in_pieces(
    kind: Callable[..., nn.Module], piece: int, tmp_path: Path
) -> None:
    """The host multiplies the inputs of all of a piece's steps at once."""
    options = ThroughTimeOptions(piece_steps=piece, slots=4)
    chosen = {"rows": Asked("through-time", options)}
    compared(lambda: Rows(kind), steps, chosen, tmp_path)


@pytest.mark.parametrize(
    "options",
    [{"num_layers": 2, "dropout": 0.2}, {"bidirectional": True, "batch_first": True}, {"bias": False}],
)
@pytest.mark.parametrize("kind", [nn.GRU, partial(nn.RNN, nonlinearity="relu")])
def test_recurrent_layers_of_other_kinds_are_counted(
    kind: Callable[..., nn.Module], options: dict[str, Any], tmp_path: Path
) -> None:
    compared(lambda: Rows(kind, **options), steps, "keep", tmp_path)


def test_micro_batches_and_an_optimizer_of_two_states_are_counted(tmp_path: Path) -> None:
    make, batch = MODELS["vgg-small"]
    one = compared(make, batch, "recompute", tmp_path, ADAM)
    two = compared(make, batch, "recompute", tmp_path, ADAM, micro_batches=2)
    assert one.parts["optimizer state"] >= 2 * one.parts["parameters"]
    assert two.total > one.total  # the first one's gradients are there while the second one's are computed


def test_a_prediction_takes_as_long_for_many_micro_batches_as_for_few(tmp_path: Path) -> None:
    """A job of a million of them held the one process that predicts for as long as it may run, and was then refused."""
    make, batch = MODELS["vgg-small"]
    passes = []

    def counted() -> nn.Module:
        model = make()
        model.register_forward_pre_hook(lambda *_: passes.append(1))
        return model

    found = predicted(counted, batch, "recompute", ADAM, micro_batches=50)
    assert len(passes) < 50
    assert found == compared(make, batch, "recompute", tmp_path, ADAM, micro_batches=6)


def test_batches_that_are_read_ahead_are_there_all_the_time() -> None:
    make, batch = MODELS["vgg-small"]
    one, four = predicted(make, batch, "keep"), predicted(make, batch, "keep", batches=4)
    inputs = sum(tensor.nbytes for tensor in batch())
    assert (one.parts["inputs"], four.parts["inputs"]) == (inputs, 4 * inputs)
    assert four.total - one.total == 3 * inputs


def test_a_layer_that_a_server_updates_has_no_optimizer_here() -> None:
    make, batch = MODELS["vgg-small"]
    here = predicted(make, batch, "keep", updated=["fc8"])
    assert 0 < here.parts["optimizer state"] < predicted(make, batch, "keep").parts["optimizer state"] / 10
    assert predicted(make, batch, "keep", updated=[]).parts["optimizer state"] == 0


CONVOLUTIONS = [
    (nn.Conv2d, 2, 24, 24, 1, 1),
    (nn.Conv2d, 16, 24, 24, 1, 1),
    (nn.Conv2d, 16, 3, 40, 3, 1),
    (nn.Conv2d, 2, 64, 256, 3, 1),
    (nn.Conv2d, 8, 16, 16, 3, 16),
    (nn.Conv1d, 16, 24, 24, 1, 1),
    (nn.Conv1d, 2, 64, 128, 3, 1),
    (nn.Conv1d, 8, 32, 32, 5, 2),
    (nn.Conv3d, 16, 3, 40, 3, 1),
    (nn.Conv3d, 2, 64, 128, 3, 1),
    (nn.ConvTranspose1d, 2, 64, 128, 3, 1),
    (nn.ConvTranspose2d, 2, 128, 64, 3, 1),
    (nn.ConvTranspose3d, 8, 32, 32, 5, 2),
]
TRANSPOSED: list[tuple[type[nn.Module], int, int, int, int, dict[str, Any]]] = [
    (nn.ConvTranspose1d, 8, 64, 64, 4, {"stride": 2}),
    (nn.ConvTranspose2d, 8, 64, 64, 4, {"stride": 2}),
    (nn.ConvTranspose2d, 8, 60, 60, 3, {"stride": 2}),
    (nn.ConvTranspose2d, 8, 64, 64, 3, {"stride": 2, "bias": False}),
    (nn.ConvTranspose2d, 4, 512, 512, 3, {"stride": 2}),
    (nn.ConvTranspose2d, 16, 64, 3, 4, {"stride": 2}),
    (nn.ConvTranspose2d, 16, 3, 64, 4, {"stride": 2}),
    (nn.ConvTranspose2d, 16, 64, 2, 3, {}),
    (nn.ConvTranspose2d, 8, 64, 64, 3, {"stride": 2, "groups": 4}),
    (nn.ConvTranspose2d, 8, 64, 64, 4, {"stride": 2, "groups": 64}),
    (nn.ConvTranspose2d, 8, 64, 64, 3, {"dilation": 2}),
    (nn.ConvTranspose2d, 16, 32, 32, 3, {"stride": 2, "dilation": 2}),
    (nn.ConvTranspose3d, 8, 16, 16, 3, {"stride": 2}),
    (nn.ConvTranspose3d, 8, 16, 16, 3, {"stride": 2, "groups": 4}),
    (nn.Conv3d, 8, 64, 64, 3, {"groups": 4}),
    (nn.Conv2d, 16, 48, 48, 5, {"groups": 12}),
    (nn.Conv2d, 16, 64, 64, 3, {"groups": 64, "stride": 2}),
]
SIDES = {1: 400, 2: 10, 3: 6}


@pytest.mark.parametrize(
    ("layer", "samples", "inputs", "outputs", "kernel", "options"),
    [*((*row, {"groups": groups}) for *row, groups in CONVOLUTIONS), *TRANSPOSED],
)
def test_what_a_convolution_holds_while_it_runs_is_counted(
    layer: type[nn.Module],
    samples: int,
    inputs: int,
    outputs: int,
    kernel: int,
    options: dict[str, Any],
    tmp_path: Path,
) -> None:
    """Small and large batches and weights, images and activations, groups, strides: oneDNN copies some of it, or none,
    and PyTorch the result."""
    dimensions = int(layer.__name__[-2])

    def make() -> nn.Module:
        return nn.Sequential(
            getattr(nn, f"Conv{dimensions}d")(inputs, inputs, 1, groups=inputs),
            layer(inputs, outputs, kernel, **options),
            getattr(nn, f"AdaptiveAvgPool{dimensions}d")(1),
            nn.Flatten(),
        )

    def batch() -> tuple[Tensor, Tensor]:
        shape = samples, inputs, *[SIDES[dimensions]] * dimensions
        return torch.zeros(shape), torch.zeros(samples, dtype=torch.int64)

    compared(make, batch, "keep", tmp_path)


class Sums(torch.autograd.Function):
    """Its backward adds two tensors, and goes on with all three."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        (x,) = ctx.saved_tensors
        first, second = gradient * x, gradient * 2
        both = first + second
        return (both * first) * (first * second)


class Summing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(400, 400)
        self.output = nn.Linear(400, 10)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.output(Sums.apply(self.layer(x)))
        return found


def test_a_users_own_sum_in_backward_is_a_tensor_of_its_own(tmp_path: Path) -> None:
    def batch() -> tuple[Tensor, Tensor]:
        return torch.zeros(4000, 400), torch.zeros(4000, dtype=torch.int64)

    compared(Summing, batch, "keep", tmp_path)
