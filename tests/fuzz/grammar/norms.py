"""Every norm, those that reparametrize a weight included."""

from __future__ import annotations

from tests.fuzz.grammar.writer import Part, Writer
from tests.fuzz.network import Block


def batch_norm(w: Writer, b: Block) -> Part:
    """Statistics in buffers: running, cumulative, none; with and without parameters."""
    more = ("", ", momentum=None", ", affine=False", ", track_running_stats=False")[b.variant % 4]
    if len(w.shape) == 3 and w.words is None:
        layer = w.declare("norm", f"nn.BatchNorm2d({w.shape[0]}{more})")
    else:
        layer = w.declare("norm", f"nn.BatchNorm1d({w.vector()}{more})")
        w.least_pass = 2
    return Part(template=f"{layer}({{}})", into=w.shape, out=w.shape, module=layer)


def layer_norm(w: Writer, b: Block) -> Part:
    w.numbers()
    more = ("", ", bias=False", ", elementwise_affine=False", "")[b.variant % 4]
    layer = w.declare("norm", f"nn.LayerNorm({w.shape[-1]}{more})")
    return Part(template=f"{layer}({{}})", into=w.shape, out=w.shape, module=layer)


def group_norm(w: Writer, b: Block) -> Part:
    channels = w.image()[0]
    groups = next(g for g in (3, 2, 1) if channels % g == 0)
    layer = w.declare("norm", f"nn.GroupNorm({groups}, {channels})")
    return Part(template=f"{layer}({{}})", into=w.shape, out=w.shape, module=layer)


def instance_norm(w: Writer, b: Block) -> Part:
    channels, height, width = w.image()
    if height * width == 1:  # it has nothing to take the mean of
        return group_norm(w, b)
    more = ("", ", affine=True", ", affine=True, track_running_stats=True", "")[b.variant % 4]
    layer = w.declare("norm", f"nn.InstanceNorm2d({channels}{more})")
    return Part(template=f"{layer}({{}})", into=w.shape, out=w.shape, module=layer)


def rms_norm(w: Writer, b: Block) -> Part:
    w.numbers()
    layer = w.declare("norm", f"nn.RMSNorm({w.shape[-1]}, eps=1e-5)")
    return Part(template=f"{layer}({{}})", into=w.shape, out=w.shape, module=layer)


def response_norm(w: Writer, b: Block) -> Part:
    w.image()
    layer = w.declare("norm", "nn.LocalResponseNorm(2)")
    return Part(template=f"{layer}({{}})", into=w.shape, out=w.shape, module=layer)


def weight_norm(w: Writer, b: Block) -> Part:
    """A weight made of two parameters, or of one and an estimate that forward keeps in buffers; or of a module."""
    features = w.vector()
    made = (
        "parametrizations.weight_norm",
        "parametrizations.spectral_norm",
        "weight_norm",
        "parametrizations.orthogonal",
    )[b.variant % 4]
    w.imports.add("from torch.nn.utils import parametrizations, weight_norm")
    layer = w.declare("normed", f"{made}(nn.Linear({features}, {b.size}))")
    return Part(template=f"{layer}({{}})", into=w.shape, out=(b.size,), module=layer)


LAYERS = {
    "batch norm": batch_norm,
    "layer norm": layer_norm,
    "group norm": group_norm,
    "instance norm": instance_norm,
    "rms norm": rms_norm,
    "response norm": response_norm,
    "weight norm": weight_norm,
}
