"""Layers that no catalogue has: custom functions, straight-through estimates, complex numbers, parametrizations."""

from __future__ import annotations

from tests.fuzz.grammar.writer import Part, Writer
from tests.fuzz.network import Block

_SCALED = """
class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, h, scale):
        ctx.save_for_backward(h, scale)
        return h * scale

    @staticmethod
    def backward(ctx, grad):
        h, scale = ctx.saved_tensors
        return grad * scale, (grad * h).sum()
"""
_CLIPPED = """
class Clipped(torch.autograd.Function):
    @staticmethod
    def forward(ctx, h):
        return h.clamp(-1, 1)

    @staticmethod
    def backward(ctx, grad):
        return 0.9 * grad
"""
_DOUBLED = """
class Doubled(nn.Module):
    def forward(self, weight):
        return weight + 0.3 * weight.tanh()
"""
_OWN = """
class Own(nn.Linear):
    def forward(self, h):
        return functional.linear(h, self.weight * self.weight.abs().mean(), self.bias)
"""
_LOOKED_UP = """
class LookedUp(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inputs) * 0.4)
        self.gate = nn.Parameter(torch.zeros(inputs, 1))

    def forward(self, h):
        return (torch.sigmoid(h @ self.gate) * h) @ self.weight.t()
"""


def custom_function(w: Writer, b: Block) -> Part:
    w.numbers()
    if b.variant % 2:
        w.helper("Clipped", _CLIPPED)
        return Part(template="Clipped.apply({})", into=w.shape, out=w.shape)
    w.helper("Scaled", _SCALED)
    scale = w.declare("scale", "nn.Parameter(torch.tensor(1.1))")
    return Part(template=f"Scaled.apply({{}}, {scale})", into=w.shape, out=w.shape)


def own_module(w: Writer, b: Block) -> Part:
    """A subclass of Linear with another forward, or a module of bare parameters."""
    features = w.vector()
    if b.variant % 2:
        w.helper("Own", _OWN)
        layer = w.declare("own", f"Own({features}, {b.size})")
    else:
        w.helper("LookedUp", _LOOKED_UP)
        layer = w.declare("own", f"LookedUp({features}, {b.size})")
    return Part(template=f"{layer}({{}})", into=w.shape, out=(b.size,), module=layer)


def parametrized(w: Writer, b: Block) -> Part:
    features = w.vector()
    w.helper("Doubled", _DOUBLED)
    w.imports.add("from torch.nn.utils import parametrize")
    layer = w.declare("linear", f"nn.Linear({features}, {b.size})")
    w.init.append(f'parametrize.register_parametrization({layer}, "weight", Doubled())')
    return Part(template=f"{layer}({{}})", into=w.shape, out=(b.size,), module=layer)


def complex_numbers(w: Writer, b: Block) -> Part:
    """A Fourier transform, or turns by a complex buffer, or a complex parameter."""
    features = w.vector()
    wide = (
        ", dtype=torch.float64" if w.precision == "float64" else ""
    )  # which `double` does not make of complex
    turns = f"torch.polar(torch.ones({features}{wide}), torch.arange({features}{wide}) * 0.5)"
    if b.variant % 2:
        turn = w.declare("turn", f"nn.Parameter({turns})") if b.variant % 4 == 3 else w.buffer("turn", turns)
        template = f"torch.view_as_real({{}} * {turn}).flatten(1)"
        return Part(template=template, into=w.shape, out=(2 * features,))
    cast = "{}.float()" if w.precision == "bf16" else "{}"
    return Part(template=f"torch.fft.fft({cast}).abs()", into=w.shape, out=w.shape)


def low_rank(w: Writer, b: Block) -> Part:
    """A product of two weights that meet before the input does, by einsum."""
    features = w.vector()
    left, right = w.linear("left", b.size, 2), w.linear("right", 2, features)
    template = f'torch.einsum("ni,ri,or->no", {{}}, {right}.weight, {left}.weight)'
    return Part(template=template, into=w.shape, out=(b.size,))


def experts(w: Writer, b: Block) -> Part:
    """Every sample goes to one of two layers, by its own values."""
    features = w.vector()
    one, two = w.linear("expert", b.size, features), w.linear("expert", b.size, features)
    name = w.attribute("route")
    w.methods.append(
        f"def {name[5:]}(self, h):\n"
        f"    first = h.detach().sum(1) > 0.1\n"
        f"    found = h.new_zeros(len(h), {b.size})\n"
        f"    for chosen, expert in ((first, {one}), (~first, {two})):\n"
        f"        if chosen.any():\n"
        f"            found = found.index_put((chosen.nonzero().squeeze(1),), expert(h[chosen]).to(h.dtype))\n"
        f"    return found"
    )
    return Part(template=f"{name}({{}})", into=w.shape, out=(b.size,))


LAYERS = {
    "own module": own_module,
    "custom function": custom_function,
    "parametrized": parametrized,
    "low rank": low_rank,
    "experts": experts,
    "complex numbers": complex_numbers,
}
