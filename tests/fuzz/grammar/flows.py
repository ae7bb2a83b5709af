"""How a layer is called: twice, sometimes, from a step on, recomputed, frozen, without its hooks, as a function."""

from __future__ import annotations

from collections.abc import Callable

from tests.fuzz.grammar import hooks
from tests.fuzz.grammar.writer import Part, Writer, fit
from tests.fuzz.network import Block

Flow = Callable[[Writer, Block, Part, Callable[[], Part]], None]
"""(writer, block, its layer, what declares another one of the same form): writes the lines of forward."""


def plain(w: Writer, b: Block, part: Part, another: Callable[[], Part]) -> None:
    w.take(part, part.call("h"))


def residual(w: Writer, b: Block, part: Part, another: Callable[[], Part]) -> None:
    w.body.append(f"h = h + {fit(part.call('h'), part.out, part.into)}")


def twice(w: Writer, b: Block, part: Part, another: Callable[[], Part]) -> None:
    """The same layer, two or three times in a row."""
    for _ in range(2 + b.variant % 2):
        w.body.append(f"h = {fit(part.call('h'), part.out, part.into)}")


def branch_by_data(w: Writer, b: Block, part: Part, another: Callable[[], Part]) -> None:
    """Either this layer or another one, or nothing, as the batch's values are."""
    condition = "h.detach().mean() > 0.1" if b.variant % 2 else hooks.batch_sign(w)
    _either(w, f"bool({condition})", part, another() if b.variant % 4 < 2 else None)


def branch_by_step(w: Writer, b: Block, part: Part, another: Callable[[], Part]) -> None:
    """This layer in every second call of forward, in the others another one, or none."""
    _either(w, f"{w.calls()} % 2 == {b.when % 2}", part, another() if b.variant % 2 else None)


def _either(w: Writer, condition: str, part: Part, other: Part | None) -> None:
    """The layer where the condition holds; elsewhere the other one, or none."""
    w.body.append(f"if {condition}:")
    if other is None:
        w.body.append(f"    h = {fit(part.call('h'), part.out, part.into)}")
    else:
        w.body += [f"    h = {part.call('h')}", "else:", f"    h = {other.call('h')}"]
        w.shape = part.out


def begins_late(w: Writer, b: Block, part: Part, another: Callable[[], Part]) -> None:
    w.body += [
        f"if {w.calls()} > {b.when}:",
        f"    h = {fit(part.call('h'), part.out, part.into)}",
    ]


def ends_early(w: Writer, b: Block, part: Part, another: Callable[[], Part]) -> None:
    w.body += [
        f"if {w.calls()} <= {b.when}:",
        f"    h = {fit(part.call('h'), part.out, part.into)}",
    ]


def other_order(w: Writer, b: Block, part: Part, another: Callable[[], Part]) -> None:
    """Two layers that change places after some calls."""
    other = another()
    first, second = (fit(p.call("h"), p.out, p.into) for p in (part, other))
    w.body += [
        f"if {w.calls()} <= {b.when}:", f"    h = {first}", f"    h = {second}",
        "else:", f"    h = {second}", f"    h = {first}",
    ]  # fmt: skip


def checkpointed(w: Writer, b: Block, part: Part, another: Callable[[], Part]) -> None:
    """Recomputed in backward."""
    w.imports.add("from torch.utils.checkpoint import checkpoint")
    w.take(part, f"checkpoint(lambda h: {part.call('h')}, h, use_reentrant=False)")


def checkpointed_reentrant(w: Writer, b: Block, part: Part, another: Callable[[], Part]) -> None:
    """The older way, which recomputes in a backward pass of its own."""
    w.imports.add("from torch.utils.checkpoint import checkpoint")
    w.features.add("flow: reentrant checkpoint")
    start = "h if h.requires_grad else h.detach().clone().requires_grad_(torch.is_grad_enabled())"
    w.take(part, f"checkpoint(lambda h: {part.call('h')}, {start}, use_reentrant=True)")


def without_gradients(w: Writer, b: Block, part: Part, another: Callable[[], Part]) -> None:
    """Under no_grad, or detached: the layer never has a gradient; and sometimes only from a call on."""
    if b.variant % 2:
        w.body.append(f"with torch.set_grad_enabled(torch.is_grad_enabled() and {w.calls()} <= {b.when}):")
    else:
        w.body.append("with torch.no_grad():")
    w.body.append(f"    h = {part.call('h')}")
    w.shape = part.out


def frozen(w: Writer, b: Block, part: Part, another: Callable[[], Part]) -> None:
    """Not trained from the start: the whole layer or only what is called bias."""
    if part.module is None:
        return plain(w, b, part, another)
    if b.variant % 2:
        w.init.append(f"for name, parameter in {part.module}.named_parameters():")
        w.init.append('    parameter.requires_grad_("bias" not in name)')
    else:
        w.init.append(f"{part.module}.requires_grad_(False)")
    return w.take(part, part.call("h"))


def functional_call(w: Writer, b: Block, part: Part, another: Callable[[], Part]) -> None:
    """Called with other values than its own parameters, which are made of them."""
    if part.module is None:
        return plain(w, b, part, another)
    values = f"{{name: 0.9 * value for name, value in {part.module}.named_parameters()}}"
    first = "" if part.returns_tensor else "[0]"
    return w.take(part, f"torch.func.functional_call({part.module}, {values}, (h,)){first}")


def without_hooks(w: Writer, b: Block, part: Part, another: Callable[[], Part]) -> None:
    """`module.forward(...)`: no hook of the module fires."""
    if part.module is None:
        return plain(w, b, part, another)
    first = "" if part.returns_tensor else "[0]"
    return w.take(part, f"{part.module}.forward(h){first}")


def mapped(w: Writer, b: Block, part: Part, another: Callable[[], Part]) -> None:
    """One sample at a time, by torch.func.vmap."""
    if part.module is None or "linear" not in part.module or len(part.into) > 1:
        return plain(w, b, part, another)
    return w.take(part, f"torch.func.vmap({part.module})(h)")


def other_type(w: Writer, b: Block, part: Part, another: Callable[[], Part]) -> None:
    """A layer whose parameters have a type of their own, in a network of float32."""
    if part.module is None or w.precision != "float32" or not part.returns_tensor:
        return plain(w, b, part, another)
    kind = ("double", "bfloat16")[b.variant % 2]
    w.init.append(f"{part.module}.{kind}()")
    w.features.add(f"type: {kind}")
    return w.take(part, f"{part.call(f'h.{kind}()')}.float()")


def shared(w: Writer, b: Block, part: Part, another: Callable[[], Part]) -> None:
    """A module that is registered twice, and called under either name."""
    if part.module is None:
        return plain(w, b, part, another)
    name = w.declare("alias", part.module)
    w.body.append(f"h = {fit(part.call('h'), part.out, part.into)}")
    return w.take(part, part.call("h").replace(part.module, name))


def tied(w: Writer, b: Block, part: Part, another: Callable[[], Part]) -> None:
    """After the layer: a product with a weight that an earlier one has, as it is or transposed, or a layer that
    shares it."""
    w.take(part, part.call("h"))
    if not w.weights:
        return
    weight = w.weights[b.when % len(w.weights)]
    features, (outputs, inputs) = w.vector(), weight.shape
    w.features.add("flow: tied weight")
    if b.variant % 4 == 0:
        w.body.append(f"h = functional.linear({fit('h', (features,), (inputs,))}, {weight.value})")
        w.shape = (outputs,)
    elif b.variant % 4 == 1:
        w.body.append(f"h = {fit('h', (features,), (outputs,))} @ {weight.value}")
        w.shape = (inputs,)
    else:
        name = w.declare("tied", f"nn.Linear({inputs}, {outputs})")
        w.init.append(f"{name}.weight = {weight.value}")
        w.body.append(f"h = {name}({fit('h', (features,), (inputs,))})")
        w.shape = (outputs,)


FLOWS: dict[str, Flow] = {
    "plain": plain,
    "residual": residual,
    "twice": twice,
    "branch by data": branch_by_data,
    "branch by step": branch_by_step,
    "begins late": begins_late,
    "ends early": ends_early,
    "other order": other_order,
    "checkpoint": checkpointed,
    "reentrant checkpoint": checkpointed_reentrant,
    "without gradients": without_gradients,
    "frozen": frozen,
    "functional call": functional_call,
    "without hooks": without_hooks,
    "vmap": mapped,
    "type of its own": other_type,
    "module shared": shared,
    "tied": tied,
    **hooks.FLOWS,
}
"""Simple ones first."""
