"""Layers of sequences: recurrent, attention, embeddings."""

from __future__ import annotations

from math import prod

from tests.fuzz.grammar.writer import Part, Shape, Weight, Writer
from tests.fuzz.network import Block

_ROUNDED = "(x.flatten(1)[:, :3] * 3).round().long().remainder(5)"
"""Words from inputs that are numbers."""


def recurrent(w: Writer, b: Block) -> Part:
    """Over all positions: both directions, two layers, projections."""
    length, features = w.sequence()
    kind, more, outputs = (
        ("RNN", "", b.size),
        ("GRU", ", bidirectional=True", 2 * b.size),
        ("LSTM", ", num_layers=2", b.size),
        ("LSTM", ", proj_size=2", 2),
    )[b.variant % 4]
    hidden = b.size + 2 if "proj" in more else b.size
    layer = w.declare("recurrent", f"nn.{kind}({features}, {hidden}{more}, batch_first=True)")
    return Part(
        template=f"{layer}({{}})[0]", into=w.shape, out=(length, outputs), module=layer, returns_tensor=False
    )


def cell(w: Writer, b: Block) -> Part:
    """One step's cell in a loop over positions."""
    length, features = w.sequence()
    kind = ("GRUCell", "RNNCell", "LSTMCell", "GRUCell")[b.variant % 4]
    layer = w.declare("cell", f"nn.{kind}({features}, {b.size})")
    name = w.attribute("walk")
    take = f"state = {layer}(h[:, i], state)"
    w.methods.append(
        f"def {name[5:]}(self, h):\n"
        f"    state, found = None, []\n"
        f"    for i in range({length}):\n"
        f"        {take}\n"
        f"        found.append({'state[0]' if kind == 'LSTMCell' else 'state'})\n"
        f"    return torch.stack(found, 1)"
    )
    return Part(template=f"{name}({{}})", into=w.shape, out=(length, b.size))


def attention(w: Writer, b: Block) -> Part:
    """Multi-head attention of a sequence to itself, an encoder layer, or products of projections."""
    length, features = w.sequence()
    if b.variant % 4 in (0, 1):
        heads = 2 if features % 2 == 0 else 1
        more = ", bias=False, add_zero_attn=True" if b.variant % 4 else ""
        layer = w.declare("attention", f"nn.MultiheadAttention({features}, {heads}{more}, batch_first=True)")
        return Part(
            template=f"{layer}({{0}}, {{0}}, {{0}}, need_weights=False)[0]", into=w.shape, out=w.shape
        )
    if b.variant % 4 == 2:
        layer = w.declare(
            "encoder",
            f"nn.TransformerEncoderLayer({features}, 1, {b.size + 1}, dropout=0.0, batch_first=True)",
        )
        return Part(template=f"{layer}({{}})", into=w.shape, out=w.shape, module=layer)
    query, key, value = (w.linear(n, b.size, features) for n in ("query", "key", "value"))
    template = f"functional.scaled_dot_product_attention({query}({{0}}), {key}({{0}}), {value}({{0}}))"
    return Part(template=template, into=w.shape, out=(length, b.size))


def embedding(w: Writer, b: Block) -> Part:
    """Of the words where inputs are words, else of the inputs' rounded numbers: they replace what `h` was."""
    known, words = (5, _ROUNDED) if w.input_words is None else (w.input_words, "x")
    length = min(3, prod(w.inputs)) if w.input_words is None else w.inputs[0]
    more = ("", ", padding_idx=1", ", max_norm=0.7", ", scale_grad_by_freq=True")[b.variant % 4]
    layer = w.declare("embed", f"nn.Embedding({known}, {b.size}{more})")
    w.weights.append(Weight(owner=layer, shape=(known, b.size)))
    if more == ", max_norm=0.7":
        w.features.add("extra: maximal norm of an embedding")
    return _beside(w, b, f"{layer}({words})", (length, b.size))


def sparse(w: Writer, b: Block) -> Part:
    """An embedding whose gradients are sparse."""
    known, words = (5, _ROUNDED) if w.input_words is None else (w.input_words, "x")
    length = min(3, prod(w.inputs)) if w.input_words is None else w.inputs[0]
    layer = w.declare("embed", f"nn.Embedding({known}, {b.size}, sparse=True)")
    return _beside(w, b, f"{layer}({words})", (length, b.size))


def bag(w: Writer, b: Block) -> Part:
    """Sums or means of embeddings."""
    known, words = (5, _ROUNDED) if w.input_words is None else (w.input_words, "x")
    mode = ("sum", "mean", "sum", "max")[b.variant % 4]
    layer = w.declare("bag", f'nn.EmbeddingBag({known}, {b.size}, mode="{mode}")')
    return _beside(w, b, f"{layer}({words})", (b.size,))


def _beside(w: Writer, b: Block, made: str, out: Shape) -> Part:
    """A part whose output has `made` beside what came in; only that where what came in are the words themselves."""
    if w.words is not None and b.flow == "plain":
        w.words = None
        return Part(template=made, into=w.shape, out=out)
    features = w.vector()
    flat = made if len(out) == 1 else f"{made}.flatten(1)"
    return Part(template=f"torch.cat([{{}}, {flat}], 1)", into=w.shape, out=(features + prod(out),))


LAYERS = {
    "recurrent": recurrent,
    "cell": cell,
    "attention": attention,
    "embedding": embedding,
    "embedding bag": bag,
    "sparse embedding": sparse,
}
