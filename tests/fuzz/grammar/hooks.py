"""Layers with hooks: on modules, on what passes between them, on their weights."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from tests.fuzz.grammar.writer import Part, Writer
from tests.fuzz.network import Block

HALVE = """
def halve(parameter):
    parameter.grad.mul_(0.5)
"""


def batch_sign(w: Writer) -> str:
    """A condition on the batch's inputs that holds for about every second batch."""
    return "x.sum() % 2 == 0" if w.input_words is not None else f"x.sum() > {0.1 * prod(w.inputs):.1f}"


def output_hook(w: Writer, b: Block, part: Part, another: Callable[[], Part]) -> None:
    """A module's hook changes its output, or its input."""
    if part.module is not None and part.returns_tensor:
        if b.variant % 2:
            w.init.append(f"{part.module}.register_forward_pre_hook(lambda module, args: (0.9 * args[0],))")
        else:
            w.init.append(f"{part.module}.register_forward_hook(lambda module, args, out: 0.9 * out)")
        w.features.add("hook: forward")
    w.take(part, part.call("h"))


def value_hook(w: Writer, b: Block, part: Part, another: Callable[[], Part]) -> None:
    """A hook on a value between two layers changes its gradient."""
    w.take(part, part.call("h"))
    w.body += ["if h.requires_grad:", "    h.register_hook(lambda grad: 0.5 * grad)"]
    w.features.add("hook: value")


def backward_hook(w: Writer, b: Block, part: Part, another: Callable[[], Part]) -> None:
    """A module's full backward hook changes the gradient of its input."""
    if part.module is not None and part.returns_tensor:
        w.init += [
            f"{part.module}.register_full_backward_hook(",
            "    lambda module, into, out: tuple(g if g is None else 0.5 * g for g in into)",
            ")",
        ]
        w.features.add("hook: backward")
    w.take(part, part.call("h"))


def gradient_hook(w: Writer, b: Block, part: Part, another: Callable[[], Part]) -> None:
    """A hook on the weights themselves changes their gradients."""
    if part.module is not None:
        accumulated = b.variant % 2 == 1
        if accumulated:
            w.helper("halve", HALVE)
        kind = (
            "register_post_accumulate_grad_hook(halve)" if accumulated else "register_hook(lambda g: 0.5 * g)"
        )
        w.init += [f"for parameter in {part.module}.parameters():", f"    parameter.{kind}"]
        w.features.add(f"hook: {'accumulated gradient' if accumulated else 'gradient'}")
    w.take(part, part.call("h"))


FLOWS = {
    "output hook": output_hook,
    "value hook": value_hook,
    "backward hook": backward_hook,
    "gradient hook": gradient_hook,
}
