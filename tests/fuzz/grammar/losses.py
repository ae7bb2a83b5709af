"""Losses: the default, and a user's own, with several outputs, penalties, attacks and second derivatives."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from tests.fuzz.grammar.writer import Writer
from tests.fuzz.network import Network

Lines = list[str] | None
"""Of the function `loss`; None: the network has none of its own."""
Loss = Callable[[Writer, Network, str], tuple[str, Lines]]
"""(writer, network, the model's call) -> (kind of targets, lines). The head's input is `h`, of the writer's shape."""

_ENTROPY = 'functional.cross_entropy({}, targets, reduction="sum")'
_CORRECT = "({}.argmax(1) == targets).sum()"


def _entropy(logits: str) -> str:
    return _ENTROPY.format(logits)


def default(w: Writer, n: Network, call: str) -> tuple[str, Lines]:
    return "classes", None


def own_entropy(w: Writer, n: Network, call: str) -> tuple[str, Lines]:
    return "classes", [
        f"logits = {call}",
        f"return {_entropy('logits')}, {_CORRECT.format('logits')}",
    ]


def squares(w: Writer, n: Network, call: str) -> tuple[str, Lines]:
    return "values", [f"return ({call} - targets).square().sum(), None"]


def against_the_batch(w: Writer, n: Network, call: str) -> tuple[str, Lines]:
    """What a sample costs depends on the others of its pass."""
    return "values", [
        f"found = {call}",
        "return (found - 0.5 * found.mean(0) - targets).square().sum(), 0",
    ]


def words(w: Writer, n: Network, call: str) -> tuple[str, Lines]:
    """A target for every position, of which some do not count."""
    w.result = "logits.transpose(1, 2)"
    return "words", None if call == "model(inputs)" else [f"return {_entropy(call)}, None"]


def two_outputs(w: Writer, n: Network, call: str) -> tuple[str, Lines]:
    side = w.linear("side", 2, prod(w.shape))
    w.result = f"(logits, {side}(h.flatten(1)))"
    return "classes", [
        f"logits, side = {call}",
        f"return {_entropy('logits')} + 0.1 * side.square().sum(), {_CORRECT.format('logits')}",
    ]


def named_outputs(w: Writer, n: Network, call: str) -> tuple[str, Lines]:
    side = w.linear("side", 2, prod(w.shape))
    w.result = f'{{"logits": logits, "side": {side}(h.flatten(1))}}'
    return "classes", [
        f"found = {call}",
        f"""return {_entropy('found["logits"]')} + 0.1 * found["side"].square().sum(), None""",
    ]


def temperature(w: Writer, n: Network, call: str) -> tuple[str, Lines]:
    """The loss reads a parameter of the model."""
    name = w.declare("temperature", "nn.Parameter(torch.tensor(1.5))")
    return "classes", [f"return {_entropy(f'{call} / model.{name[5:]}')}, None"]


def penalty(w: Writer, n: Network, call: str) -> tuple[str, Lines]:
    """A penalty on all weights, before or after the model is called; in some networks it sets in late."""
    late = f" if model.{w.calls()[5:]} >= {n.loss_when} else 0.0" if n.loss_when % 2 == 0 else ""
    lines = [f"penalty = sum(p.abs().square().sum() for p in model.parameters()){late}"]
    lines.insert(1 if n.seed % 2 else 0, f"logits = {call}")
    return "classes", [*lines, f"return {_entropy('logits')} + 0.02 * len(targets) * penalty, None"]


def part_by_part(w: Writer, n: Network, call: str) -> tuple[str, Lines]:
    """The loss calls the model's methods and its head, never the model."""
    if call != "model(inputs)":
        return own_entropy(w, n, call)
    w.split = True
    return "classes", [
        "logits = model.head1(model.features(inputs))",
        f"return {_entropy('logits')}, {_CORRECT.format('logits')}",
    ]


def called_twice(w: Writer, n: Network, call: str) -> tuple[str, Lines]:
    return "classes", [
        f"first, second = {call}, {call}",
        f"return {_entropy('first')} + 0.5 * (first - second.detach().flip(0)).square().sum(), None",
    ]


def _by_inputs(feature: str, lines: list[str]) -> Loss:
    """A loss that differentiates by its inputs; where these are no single tensor of numbers, cross-entropy."""

    def loss(w: Writer, n: Network, call: str) -> tuple[str, Lines]:
        if call != "model(inputs)" or w.input_words is not None:
            return own_entropy(w, n, call)
        w.features.add(feature)
        return "classes", lines

    return loss


attack = _by_inputs(
    "loss: gradient by inputs",
    [
        "if torch.is_grad_enabled():",
        "    moved = inputs.detach().clone().requires_grad_()",
        f"    (grad,) = torch.autograd.grad({_entropy('model(moved)')}, moved)",
        "    inputs = inputs + 0.5 * grad.detach()",
        f"return {_entropy('model(inputs)')}, None",
    ],
)
"""The loss moves its inputs along a gradient that it takes itself."""
gradient_penalty = _by_inputs(
    "loss: double backward",
    [
        "if not torch.is_grad_enabled():",
        f"    return {_entropy('model(inputs)')}, None",
        "inputs = inputs.detach().clone().requires_grad_()",
        f"first = {_entropy('model(inputs)')}",
        "(grad,) = torch.autograd.grad(first, inputs, create_graph=True)",
        "return first + 0.1 * grad.square().sum(), None",
    ],
)
"""A gradient is part of the loss, so backward goes through a backward pass."""


def inner_step(w: Writer, n: Network, call: str) -> tuple[str, Lines]:
    """The loss takes a step of its own on the head, and measures what came of it."""
    if call != "model(inputs)":
        return own_entropy(w, n, call)
    w.split = True
    return "classes", [
        "features = model.features(inputs)",
        "weight = model.head1.weight",
        "if torch.is_grad_enabled() and weight.requires_grad:",
        f"    first = {_entropy('functional.linear(features, weight, model.head1.bias)')}",
        "    (grad,) = torch.autograd.grad(first, weight, create_graph=True)",
        "    weight = weight - 0.05 * grad",
        f"return {_entropy('functional.linear(features, weight, model.head1.bias)')}, None",
    ]


def smoothed(w: Writer, n: Network, call: str) -> tuple[str, Lines]:
    found = f'functional.cross_entropy({call}, targets, reduction="sum", label_smoothing=0.1)'
    return "classes", [f"return {found}, torch.tensor(0)"]


LOSSES: dict[str, Loss] = {
    "default": default,
    "cross-entropy": own_entropy,
    "squares": squares,
    "label smoothing": smoothed,
    "against the batch": against_the_batch,
    "words": words,
    "two outputs": two_outputs,
    "named outputs": named_outputs,
    "temperature": temperature,
    "penalty": penalty,
    "part by part": part_by_part,
    "called twice": called_twice,
    "attack": attack,
    "gradient penalty": gradient_penalty,
    "inner step": inner_step,
}
"""Simple ones first."""
