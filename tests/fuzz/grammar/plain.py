"""Layers of numbers: fully-connected ones, activations, parameters of every shape, convolutions."""

from __future__ import annotations

from tests.fuzz.grammar.writer import Part, Writer
from tests.fuzz.network import Block


def linear(w: Writer, b: Block) -> Part:
    """On vectors, or on every position of a sequence; with and without a bias."""
    if b.variant % 4 == 3:
        *before, features = w.sequence()
    else:
        before, features = [], w.vector()
    layer = w.linear("linear", b.size, features, ", bias=False" if b.variant % 4 == 1 else "")
    return Part(template=f"{layer}({{}})", into=w.shape, out=(*before, b.size), module=layer)


def lazy(w: Writer, b: Block) -> Part:
    """A layer that takes its shape from its first input: in the builder, or later, when an optimizer comes too soon."""
    features = w.vector()
    layer = w.declare("lazy", f"nn.LazyLinear({b.size})")
    if b.variant % 4 < 3:
        w.init.append(f"{layer}(torch.zeros(1, {features}))")
    return Part(template=f"{layer}({{}})", into=w.shape, out=(b.size,), module=layer)


def perceptron(w: Writer, b: Block) -> Part:
    """Several layers in one nn.Sequential."""
    features = w.vector()
    act = ("nn.ReLU()", "nn.GELU()", "nn.ReLU(inplace=True)", "nn.PReLU()")[b.variant % 4]
    layer = w.declare(
        "stack",
        f"nn.Sequential(nn.Linear({features}, {b.size + 1}), {act}, nn.Linear({b.size + 1}, {b.size}))",
    )
    return Part(template=f"{layer}({{}})", into=w.shape, out=(b.size,), module=layer)


def activation(w: Writer, b: Block) -> Part:
    """Without parameters, or with one (PReLU); some work in place."""
    w.numbers()
    name = ("Tanh()", "ReLU()", "PReLU()", "Softplus()", "LeakyReLU(0.1)", "SiLU()", "Sigmoid()", "GELU()")
    layer = w.declare("act", f"nn.{name[(b.variant + b.size) % len(name)]}")
    return Part(template=f"{layer}({{}})", into=w.shape, out=w.shape, module=layer)


def bilinear(w: Writer, b: Block) -> Part:
    """Of wide inputs the first features only: its weight grows with their square, and is cut into tiny slices."""
    whole = w.vector()
    features = min(whole, 16)
    value = "{0}" if features == whole else f"{{0}}[:, :{features}]"
    layer = w.declare("bilinear", f"nn.Bilinear({features}, {features}, {b.size})")
    return Part(template=f"{layer}({value}, {value})", into=w.shape, out=(b.size,))


def scalar(w: Writer, b: Block) -> Part:
    """Parameters of the root itself: 0-dim, of one element, of none."""
    w.numbers()
    value = ("torch.tensor(0.8)", "torch.full((1,), 0.8)", "torch.tensor(0.8)", "torch.full((1, 1), 0.8)")
    name = w.declare("scale", f"nn.Parameter({value[b.variant % 4]})")
    if b.variant % 4 == 2:
        empty = w.declare("empty", "nn.Parameter(torch.empty(0))")
        return Part(template=f"({{}} * {name} + {empty}.sum())", into=w.shape, out=w.shape)
    if b.variant % 4 == 3:  # one dimension more than a vector has is one too many
        return Part(template=f"({{}} * {name}.squeeze())", into=w.shape, out=w.shape)
    return Part(template=f"({{}} * {name})", into=w.shape, out=w.shape)


def matrix(w: Writer, b: Block) -> Part:
    """A bare matrix: of the root, not contiguous, in a list or a dict."""
    features = w.vector()
    value = f"nn.Parameter(torch.randn({features}, {b.size}) * 0.4)"
    if b.variant % 4 == 0:
        name = w.declare("matrix", value)
    elif b.variant % 4 == 1:
        name = w.declare("matrix", f"nn.Parameter((torch.randn({b.size}, {features}) * 0.4).t())")
    elif b.variant % 4 == 2:
        name = w.declare("matrices", f"nn.ParameterList([{value}])") + "[0]"
    else:
        name = w.declare("matrices", f'nn.ParameterDict({{"only": {value}}})') + '["only"]'
    return Part(template=f"({{}} @ {name})", into=w.shape, out=(b.size,))


def dropout(w: Writer, b: Block) -> Part:
    """Random numbers that differ from worker to worker."""
    w.numbers()
    w.random = True
    share = 0.3 if w.chance else 0.0
    if b.variant % 2:
        template = f"functional.dropout({{}}, {share}, self.training)"
        return Part(template=template, into=w.shape, out=w.shape)
    layer = w.declare("dropout", f"nn.Dropout({share})")
    return Part(template=f"{layer}({{}})", into=w.shape, out=w.shape, module=layer)


def convolution(w: Writer, b: Block) -> Part:
    """Over images or sequences; groups, strides, paddings."""
    if b.variant % 4 == 3:
        channels, length = w.sequence()
        layer = w.declare("conv", f"nn.Conv1d({channels}, {b.size}, 3, padding=1)")
        return Part(template=f"{layer}({{}})", into=w.shape, out=(b.size, length), module=layer)
    channels, height, width = w.image()
    outputs = channels * b.size if b.variant % 4 == 1 else b.size
    more = (
        "padding=1",
        f"padding=1, groups={channels}, bias=False",
        'padding=1, padding_mode="circular"' if min(height, width) > 1 else "padding=1",
    )[b.variant % 4]
    layer = w.declare("conv", f"nn.Conv2d({channels}, {outputs}, 3, {more})")
    return Part(template=f"{layer}({{}})", into=w.shape, out=(outputs, height, width), module=layer)


def transposed_convolution(w: Writer, b: Block) -> Part:
    channels, height, width = w.image()
    layer = w.declare("conv", f"nn.ConvTranspose2d({channels}, {b.size}, 3, padding=1)")
    return Part(template=f"{layer}({{}})", into=w.shape, out=(b.size, height, width), module=layer)


def pool(w: Writer, b: Block) -> Part:
    channels, _, _ = w.image()
    kind = "AdaptiveMaxPool2d" if b.variant % 2 else "AdaptiveAvgPool2d"
    layer = w.declare("pool", f"nn.{kind}(2)")
    return Part(template=f"{layer}({{}})", into=w.shape, out=(channels, 2, 2), module=layer)


LAYERS = {
    "linear": linear,
    "activation": activation,
    "perceptron": perceptron,
    "scalar parameter": scalar,
    "bare matrix": matrix,
    "bilinear": bilinear,
    "dropout": dropout,
    "convolution": convolution,
    "transposed convolution": transposed_convolution,
    "pool": pool,
    "lazy": lazy,
}
