"""From a network to the file that a user would have written: `build`, `data` and, where it is their own, `loss`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import indent

from tests.fuzz.grammar.data import CLASSES, input_shape, packing, write_data
from tests.fuzz.grammar.extras import EXTRAS
from tests.fuzz.grammar.flows import FLOWS
from tests.fuzz.grammar.layers import LAYERS
from tests.fuzz.grammar.losses import LOSSES
from tests.fuzz.grammar.writer import Writer
from tests.fuzz.network import Block, Network

_IMPORTS = "import torch\nfrom torch import nn\nfrom torch.nn import functional\n"


@dataclass(frozen=True, kw_only=True)
class File:
    """A user's file, and what is true of it."""

    source: str
    features: frozenset[str]
    """What of the grammar it truly has."""
    least_pass: int
    """Samples that a forward pass in training needs."""
    random: bool
    """Whether forward draws random numbers."""
    counts: bool
    """Whether forward does other things in other calls."""


def write(network: Network, precision: str, *, chance: bool = True) -> File:
    """The file of `network` for a job of this precision. Without `chance` the random numbers that forward draws make no
    difference."""
    shape, words = input_shape(network)
    w = Writer(precision, shape, words)
    w.chance = chance
    w.features.add(f"inputs: {network.inputs}")
    packed = packing(network)
    if packed.own_loss:
        w.body.append("h = h + 0.5 * z")
    for block in network.blocks:
        _write_block(w, block)
    loss = network.loss
    if loss == "words":
        length, features = w.sequence()
    else:
        length, features = 0, w.vector()
    head = w.linear("head", CLASSES, features)
    w.features.add(f"loss: {loss}")
    targets, lines = LOSSES[loss](w, network, packed.call)
    if lines is None and packed.own_loss:
        targets, lines = LOSSES["cross-entropy"](w, network, packed.call)
    for extra in network.extras:
        EXTRAS[extra.kind](w, extra)
        w.features.add(f"extra: {extra.kind}")
    data = write_data(w, network, targets, length)
    parts = [
        _IMPORTS + "".join(f"{line}\n" for line in sorted(w.imports)),
        *w.helpers.values(),
        _network(w, head, packed.arguments),
        "def build():\n    return Net()",
        data,
    ]
    if lines is not None:
        parts.append("def loss(model, inputs, targets):\n" + _indented(lines, 4))
    return File(
        source="\n\n\n".join(part.strip("\n") for part in parts) + "\n",
        features=frozenset(w.features),
        least_pass=w.least_pass,
        random=w.random,
        counts=w.counts,
    )


def _write_block(w: Writer, block: Block) -> None:
    part = LAYERS[block.layer](w, block)
    w.features |= {f"layer: {block.layer}", f"flow: {block.flow}"}
    FLOWS[block.flow](w, block, part, lambda: LAYERS[block.layer](w, block))


def _network(w: Writer, head: str, arguments: str) -> str:
    counted = ["if self.training:", "    self.calls += 1"] if w.counts else []
    init = ["super().__init__()", *(["self.calls = 0"] if w.counts else []), *w.init]
    methods = [("__init__(self)", init)]
    whole = [*counted, *w.writes, *w.start, "h = x", *w.body, *w.end]
    if w.split:
        methods.append((f"features(self, {arguments})", [*whole, "return h"]))
        whole = [f"h = self.features({arguments})"]
    methods.append((f"forward(self, {arguments})", [*whole, f"logits = {head}(h)", f"return {w.result}"]))
    if w.modes:
        methods.append(("train(self, mode=True)", ["super().train(mode)", *w.modes, "return self"]))
    text = "\n\n".join(f"def {name}:\n{_indented(lines, 4)}" for name, lines in methods)
    text += "".join(f"\n\n{method}" for method in w.methods)
    return f"class Net(nn.Module):\n{indent(text, '    ')}\n"


def _indented(lines: Sequence[str], by: int) -> str:
    return indent("\n".join(lines), " " * by)
