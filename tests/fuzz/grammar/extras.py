"""What forward does besides calling layers: buffers, averages of weights, writes to weights, freezes, memory."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from tests.fuzz.grammar.hooks import HALVE
from tests.fuzz.grammar.writer import Weight, Writer
from tests.fuzz.network import Extra

Write = Callable[[Writer, Extra], None]
"""Runs when all layers are declared; `w.weights` holds at least one."""


def _weight(w: Writer, e: Extra) -> Weight:
    return w.weights[e.target % len(w.weights)]


def counting(w: Writer, e: Extra) -> None:
    """A count in a buffer, of all calls or of those in training."""
    count = w.buffer("count", "torch.tensor(0)", persistent=e.variant % 4 != 3)
    if e.variant % 2:
        w.start += ["if self.training:", f"    {count} += 1"]
    else:
        w.start.append(f"{count}.add_(1)")
    w.end.append(f"h = h * (1 + 0.01 * {count})")


def running_mean(w: Writer, e: Extra) -> None:
    """A mean over batches in a buffer, written in place."""
    mean = w.buffer("mean", ("torch.zeros(())", "torch.zeros(1)")[e.variant % 2])
    w.end += ["if self.training:", f"    {mean}.mul_(0.9).add_(0.1 * h.detach().mean())"]
    w.end.append(f"h = h - {mean}")


def replaced_buffer(w: Writer, e: Extra) -> None:
    """The same in a buffer that is replaced by a new one."""
    level = w.buffer("level", "torch.zeros(())")
    w.end += ["if self.training:", f"    {level} = 0.9 * {level} + 0.1 * h.detach().mean()"]
    w.end.append(f"h = h - {level}")


def weight_average(w: Writer, e: Extra) -> None:
    """A moving average of a weight, read at the start of forward from a call on, however it is reached."""
    weight = _weight(w, e)
    shadow = w.buffer("shadow", f"torch.zeros({weight.shape[0]}, {weight.shape[1]})")
    path = f"{weight.owner[5:]}.weight"
    value = (
        weight.value,
        f'dict(self.named_parameters())["{path}"]',
        f'self.state_dict()["{path}"]',
        f'self.get_parameter("{path}")',
    )[e.variant % 4]
    w.start += [
        f"if self.training and {w.calls()} > {e.when}:",
        f"    {shadow} = 0.8 * {shadow} + 0.2 * {value}.detach()",
    ]
    w.end.append(f"h = h + {shadow}.mean()")


def average_in_place(w: Writer, e: Extra) -> None:
    """The same, in place or kept as an ordinary attribute."""
    weight = _weight(w, e)
    if e.variant % 2:
        shadow = w.declare("kept", "0.0")
        update = f"{shadow} = 0.8 * {shadow} + 0.2 * {weight.value}.detach().mean()"
        use = f"h = h + {shadow}"
    else:
        shadow = w.buffer("shadow", f"torch.zeros({weight.shape[0]}, {weight.shape[1]})")
        update = f"{shadow}.lerp_({weight.value}.detach(), 0.2)"
        use = f"h = h + {shadow}.mean()"
    where = w.end if e.variant % 4 > 1 else w.start
    where += [f"if self.training and {w.calls()} > {e.when}:", f"    {update}"]
    w.end.append(use)


def weights_read(w: Writer, e: Extra) -> None:
    """All parameters are read before any layer is called, from a call on; gradients flow through it."""
    values = ("self.parameters()", "[p for _, p in self.named_parameters()]")[e.variant % 2]
    w.start += [
        "size = 0.0",
        f"if {w.calls()} > {e.when}:",
        f"    size = sum(p.abs().square().sum().real for p in {values})",
    ]
    w.end.append("h = h * (1 + 0.01 * size)")


def clamped(w: Writer, e: Extra) -> None:
    """Forward writes to a weight, from a call on: the same on every worker."""
    value = _weight(w, e).value
    write = (
        f"{value}.clamp_(-0.3, 0.3)",
        f"{value}.copy_({value} / (1 + {value}.norm()))",
        f"{value}.mul_(0.99)",
        f"{value}.sub_({value}.mean())",
    )[e.variant % 4]
    _written(w, e, write)


def written_apart(w: Writer, e: Extra) -> None:
    """Forward writes to a weight what the batch says, from a call on: several workers would no longer agree."""
    value = _weight(w, e).value
    _written(w, e, f"{value}.add_(0.01 * x.to({value}.dtype).mean())")


def _written(w: Writer, e: Extra, write: str) -> None:
    """Autograd counts the write and does not differentiate it."""
    w.writes += [
        f"if self.training and {w.calls()} > {e.when}:",
        "    with torch.no_grad():",
        f"        {write}",
    ]


def escaping_write(w: Writer, e: Extra) -> None:
    """Forward writes to a weight behind autograd's back."""
    value = _weight(w, e).value
    write = (f"{value}.data.mul_(0.95)", f"{value}.detach().numpy()[...] *= 0.95")[e.variant % 2]
    w.writes += [f"if self.training and {w.calls()} > {e.when}:", f"    {write}"]


def freezing(w: Writer, e: Extra) -> None:
    """A layer, or a part of it, is not trained any more from a call on; perhaps it is again later."""
    owner = _weight(w, e).owner
    what = (owner, f"{owner}.weight", owner, owner)[e.variant % 4]
    w.start += [f"if self.training and {w.calls()} == {e.when}:", f"    {what}.requires_grad_(False)"]
    if e.variant % 4 == 2:
        w.start += [f"if self.training and self.calls == {e.when + 2}:", f"    {what}.requires_grad_(True)"]


def thawing(w: Writer, e: Extra) -> None:
    """A layer is not trained until a call."""
    owner = _weight(w, e).owner
    w.init.append(f"{owner}.requires_grad_(False)")
    w.start += [f"if self.training and {w.calls()} == {e.when}:", f"    {owner}.requires_grad_(True)"]


def late_hook(w: Writer, e: Extra) -> None:
    """A weight gets a hook during training, or has one for some calls only."""
    value = _weight(w, e).value
    if e.variant % 2:
        w.helper("halve", HALVE)
        kind = "register_post_accumulate_grad_hook(halve)"
    else:
        kind = "register_hook(lambda grad: 0.5 * grad)"
    w.features.add(f"hook: {'accumulated gradient' if e.variant % 2 else 'gradient'}")
    w.start += [f"if self.training and {w.calls()} == {e.when}:", f"    self.hook = {value}.{kind}"]
    if e.variant % 4 > 1:
        w.start += [f"if self.training and self.calls == {e.when + 2}:", "    self.hook.remove()"]


def target_network(w: Writer, e: Extra) -> None:
    """A copy of a layer that is not trained and follows it slowly."""
    weight = _weight(w, e)
    w.imports.add("import copy")
    target = w.declare("target", f"copy.deepcopy({weight.owner}).requires_grad_(False)")
    pairs = f"zip({target}.parameters(), {weight.owner}.parameters())"
    w.writes += [
        "if self.training:",
        "    with torch.no_grad():",
        f"        for mine, theirs in {pairs}:",
        "            mine.lerp_(theirs, 0.3)",
    ]
    w.end.append(f"h = h + {target}.weight.mean()")


def memory(w: Writer, e: Extra) -> None:
    """Numbers of the last batch in an ordinary attribute."""
    last = w.declare("last", "None")
    w.end += [
        "level = h.detach().mean()",
        f"if {last} is not None:",
        f"    h = h - 0.1 * {last}",
        "if self.training:",
        f"    {last} = level",
    ]


def own_mode(w: Writer, e: Extra) -> None:
    """A norm that stays in evaluation mode while the rest is trained, by its builder or by its own `train`."""
    norm = w.declare("still", f"nn.BatchNorm1d({prod(w.shape)})")
    w.init += [f"{norm}.running_mean.fill_(0.2)", f"{norm}.eval()"]
    w.end.append(f"h = {norm}(h.flatten(1)).reshape(h.shape)")
    if e.variant % 2:
        w.modes.append(f"{norm}.eval()")


def dropping_mode(w: Writer, e: Extra) -> None:
    """Dropout that is switched off, or on, whatever the rest does."""
    name = w.declare("off", "nn.Dropout(0.5)")
    w.init.append(f"{name}.eval()")
    w.end.append(f"h = {name}(h)")


def odd_buffers(w: Writer, e: Extra) -> None:
    """Buffers that nobody averages as numbers: truth values, complex and none, of no element, not in the state."""
    one = w.buffer("flag", "torch.tensor(False)")
    w.buffer("turns", "torch.tensor([0.5 + 1.0j])")
    w.buffer("nothing", "torch.zeros(0, 3)")
    w.buffer("absent", "None")
    hidden = w.buffer("hidden", "torch.zeros(())", persistent=False)
    w.end += ["if self.training:", f"    {one}.fill_(True)", f"    {hidden}.add_(0.1)"]
    w.end.append(f"h = h - {hidden}")


def shared_buffer(w: Writer, e: Extra) -> None:
    """One buffer under two names."""
    name = w.buffer("seen", "torch.zeros(())")
    w.init += ["self.other = nn.Identity()", f'self.other.register_buffer("seen", {name})']
    w.end += ["if self.training:", f"    {name} += 0.1", "h = h + self.other.seen"]


def unused(w: Writer, e: Extra) -> None:
    """Parameters that nobody ever uses: a layer, a vector, none."""
    w.declare("unused", "nn.Linear(3, 2)")
    w.declare("vacant", ("nn.Parameter(torch.ones(2))", "nn.Parameter(torch.empty(0, 2))")[e.variant % 2])


def noise(w: Writer, e: Extra) -> None:
    """Random numbers in training."""
    w.random = True
    w.end += ["if self.training:", f"    h = h + {0.1 if w.chance else 0.0} * torch.randn_like(h)"]


EXTRAS: dict[str, Write] = {
    "count": counting,
    "running mean": running_mean,
    "replaced buffer": replaced_buffer,
    "average of a weight": weight_average,
    "average in place": average_in_place,
    "weights read first": weights_read,
    "write to a weight": clamped,
    "write that differs": written_apart,
    "escaping write": escaping_write,
    "freeze": freezing,
    "thaw": thawing,
    "late hook": late_hook,
    "target network": target_network,
    "memory": memory,
    "norm in its own mode": own_mode,
    "dropout in its own mode": dropping_mode,
    "odd buffers": odd_buffers,
    "shared buffer": shared_buffer,
    "unused": unused,
    "noise": noise,
}
