"""A user's models that read parameters at other times and in other ways than a layer's own call, some from the fourth
call on only."""

from __future__ import annotations

import copy
import ctypes
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

LATE = 3


class Body(nn.Module):
    """Three layers, and a count of calls."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(64, 24)
        self.middle = nn.Linear(24, 24)
        self.last = nn.Linear(24, 10)
        self.calls = 0

    def late(self) -> bool:
        """Whether this is the fourth call or a later one."""
        self.calls += 1
        return self.calls > LATE

    def plain(self, x: Tensor) -> Tensor:
        hidden = torch.tanh(self.middle(torch.tanh(self.first(x))))
        logits: Tensor = self.last(hidden)
        return logits


class Early(Body):
    """Averages its last layer's weight before it runs its first one, and reads it in another way in each call; in the
    first calls it does not."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("average", torch.zeros(10, 24))

    def forward(self, x: Tensor) -> Tensor:
        x, factor = x.flatten(1), 1.0
        if self.late():
            ways = (
                self.attribute, self.data, self.array, self.parameter_list, self.state, self.functional, self.copied,
                self.whole_copy, self.vector, self.derivative, self.mapped,
            )  # fmt: skip
            with torch.no_grad():
                self.average.mul_(0.9).add_(ways[self.calls % len(ways)](), alpha=0.1)
            factor = 1.0 + self.average.abs().sum() * 1e-2
        return self.plain(x) * factor

    def attribute(self) -> Tensor:
        return self.last.weight

    def data(self) -> Tensor:
        return self.last.weight.data

    def array(self) -> Tensor:
        return torch.from_numpy(self.last.weight.detach().numpy())

    def parameter_list(self) -> Tensor:
        return next(p for p in self.parameters() if p.shape == (10, 24))

    def state(self) -> Tensor:
        found: Tensor = self.state_dict()["last.weight"]
        return found

    def functional(self) -> Tensor:
        found = torch.func.functional_call(
            self.last, dict(self.last.named_parameters()), torch.eye(24).double()
        )
        return found.t()

    def copied(self) -> Tensor:
        return copy.deepcopy(self.last).weight

    def whole_copy(self) -> Tensor:
        return copy.deepcopy(self).last.weight

    def vector(self) -> Tensor:
        return nn.utils.parameters_to_vector(self.last.parameters())[:240].view(10, 24)

    def derivative(self) -> Tensor:
        """By a transform of torch.func, which asks no tensor whether it may."""
        return torch.func.grad(lambda weight: (weight**2).sum())(self.last.weight)

    def mapped(self) -> Tensor:
        return torch.vmap(lambda row: row + 1.0)(self.last.weight)


def early() -> nn.Module:
    return Early()


@torch.jit.script
def added(x: Tensor, weight: Tensor) -> Tensor:
    """Nothing of it is kept for backward."""
    return x + weight


class Unasked(Body):
    """Reads its last layer's weight, before it runs its first layer, by what does not ask a tensor's class."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how

    def forward(self, x: Tensor) -> Tensor:
        x = x.flatten(1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found: Tensor = UNASKED[self.how](self.last.weight, x)
        return self.plain(x) * (1.0 + found.abs().sum() * 1e-2)


def _set(weight: Tensor, x: Tensor) -> Tensor:
    with torch.no_grad():
        return x.new_empty(0).set_(weight).clone()


def _sparse(weight: Tensor, x: Tensor) -> Tensor:
    found = torch.sparse_coo_tensor(torch.arange(10).unsqueeze(0), weight, (10, 24))
    return found.to_dense()


def _compressed(weight: Tensor, x: Tensor) -> Tensor:
    values = weight.detach().flatten()[:0] if x.device.type == "meta" else weight.flatten()
    count = len(values)
    found = torch.sparse_csr_tensor(torch.arange(count + 1), torch.arange(count), values, (count, count))
    return found.detach().values().clone()


def _made_another(weight: Tensor, x: Tensor) -> Tensor:
    found, rest = x.new_empty(0), x.new_empty(0)
    found.data, rest.data = weight, x.new_empty(1)
    return found.clone()


class _Saving(torch.autograd.Function):
    """Needs for backward what forward does not compute with."""

    @staticmethod
    def forward(context: Any, x: Tensor, weight: Tensor) -> Tensor:
        context.save_for_backward(weight)
        return x.clone()

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
        (weight,) = context.saved_tensors
        return gradient * weight.sum(), None


UNASKED: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "tensor": lambda w, x: torch.tensor(w),
    "as_tensor": lambda w, x: torch.as_tensor(w, dtype=torch.float32),
    "asarray": lambda w, x: torch.asarray(w, dtype=torch.float32),
    "new_tensor": lambda w, x: x.new_tensor(w),
    "new": lambda w, x: x.new(w).clone(),
    "set": _set,
    "subclass": lambda w, x: Tensor._make_subclass(nn.Parameter, w).detach().clone(),
    "as_subclass": lambda w, x: w.as_subclass(Tensor) * 2.0,
    "class of another": lambda w, x: (
        x[:10, :24].as_subclass(type(w)).detach() + isinstance(nn.Parameter(x[0]), type(w))
    ),
    "saved": lambda w, x: _Saving.apply(x[:10, :24], w),
    "sparse": _sparse,
    "compressed": _compressed,
    "made another": _made_another,
    "dlpack": lambda w, x: torch.from_dlpack(torch.to_dlpack(w)).clone(),
    "scripted": lambda w, x: added(x.new_zeros(10, 24), w),
    "beside another": lambda w, x: added(nn.Parameter(x.new_zeros(10, 24)), w),
}
"""By name: what PyTorch asks no tensor for."""


def unasked(how: str = "tensor") -> nn.Module:
    return Unasked(how)


class _Scaled(nn.Linear):
    """What stands in a transformer's layer in place of a part: the fast way does not ask it."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * 1.5


class Teacher(nn.Module):
    """Is its own teacher. In evaluation mode, a transformer that goes the fast way answers zeros for what is padded."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how
        self.first, self.last = nn.Linear(64, 24), nn.Linear(24, 10)
        layer = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)
        layer.linear1 = _Scaled(4, 8)
        self.encoder = layer if how in ("layer", "compiled", "hooked") else nn.TransformerEncoder(layer, 1)
        if how == "compiled":
            self.encoder.forward = torch.compile(layer.forward, backend="eager")  # type: ignore[method-assign]
        self.calls = 0
        self.hook = (
            layer.linear2.register_forward_pre_hook(lambda module, inputs: None) if how == "hooked" else None
        )

    def forward(self, x: Tensor) -> Tensor:
        words = torch.tanh(self.first(x.flatten(1))).view(len(x), 6, 4)
        padded = torch.zeros(len(x), 6, dtype=torch.bool, device=x.device)
        padded[:, 4:] = True
        target = words
        if x.device.type != "meta" and self.how == "recomputed":
            # Backward multiplies by what is recomputed.
            target = checkpoint(lambda words: words * self.teach(words, padded), words, use_reentrant=False)
        elif x.device.type != "meta":
            target = self.teach(words, padded)
        found = self.encoder(words, src_key_padding_mask=padded) * (1 + target)
        logits: Tensor = self.last(found.flatten(1))
        return logits

    def teach(self, words: Tensor, padded: Tensor) -> Tensor:
        self.calls += 1
        if self.hook is not None and self.calls == 3:
            self.hook.remove()
        if self.how == "traced":
            with torch.no_grad():
                torch.jit.trace(self.last, words.detach().flatten(1), check_trace=False)
        encoder = copy.deepcopy(self.encoder) if self.how == "copied" else self.encoder
        teaching: Any = encoder.layers if self.how == "layers" else encoder
        call = encoder.forward if self.how == "called" else encoder
        teaching.eval()
        with torch.no_grad():
            target: Tensor = call(words, src_key_padding_mask=padded)
        teaching.train()
        return target


def teacher(how: str) -> nn.Module:
    return Teacher(how)


class Aliased(Body):
    """Keeps what shares memory with its two last layers, and reads that before its first one."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        x = x.flatten(1)
        if self.late() and not self.kept:
            self.kept.append(self.last.weight.detach())
            self.kept.append(torch.from_numpy(self.middle.weight.detach().numpy()))
        factor = 1.0 + sum(float(kept.abs().sum()) for kept in self.kept) * 1e-3
        return self.plain(x) * factor


def aliased() -> nn.Module:
    return Aliased()


class InBackward(Body):
    """Backward needs the last layer's weight after that layer's gradient is final."""

    def __init__(self, how: str, when: int) -> None:
        super().__init__()
        self.how = how
        self.when = when

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        x = x.flatten(1)
        if self.calls <= self.when:
            return self.plain(x)
        if self.how != "all":
            return getattr(self, self.how)(x)
        return (self.hook, self.detached, self.recomputed)[self.calls % 3](x)

    def hook(self, x: Tensor) -> Tensor:
        hidden = torch.tanh(self.first(x))
        hidden.register_hook(lambda g: g * (1.0 + self.last.weight.abs().sum() * 1e-2))
        return self.last(torch.tanh(self.middle(hidden)))

    def gradient(self, x: Tensor) -> Tensor:
        """The last layer's gradient, before backward has ended."""

        def scaled(g: Tensor) -> Tensor:
            assert self.last.weight.grad is not None
            return g * (1.0 + self.last.weight.grad.abs().sum() * 1e-2)

        hidden = torch.tanh(self.first(x))
        hidden.register_hook(scaled)
        return self.last(torch.tanh(self.middle(hidden)))

    def module_hook(self, x: Tensor) -> Tensor:
        """The module's own weight, in its backward hook: its gradient is there before that of its inputs."""

        def scaled(
            module: nn.Linear, inputs: tuple[Tensor, ...], outputs: tuple[Tensor, ...]
        ) -> tuple[Tensor, ...]:
            return (inputs[0] * (1.0 + module.weight.abs().sum() * 1e-2),)

        if not self.middle._backward_hooks:
            self.middle.register_full_backward_hook(scaled)
        return self.plain(x)

    def detached(self, x: Tensor) -> Tensor:
        """Saved for backward without autograd's knowing of the weight."""
        hidden = torch.tanh(self.first(x))
        tied = torch.tanh(functional.linear(hidden, self.last.weight.data))
        return self.last(torch.tanh(self.middle(hidden))) * (1.0 + tied)

    def recomputed(self, x: Tensor) -> Tensor:
        def region(h: Tensor) -> Tensor:
            with torch.no_grad():
                factor = 1.0 + self.last.weight.abs().sum() * 1e-2
            return torch.tanh(self.first(h)) * factor

        hidden = checkpoint(region, x, use_reentrant=False)
        return self.last(torch.tanh(self.middle(hidden)))


def in_backward(how: str = "hook", when: int = 0) -> nn.Module:
    return InBackward(how, when)


class Kept(Body):
    """Keeps what leads to its last layer's memory without being a tensor, and reads there before its first layer runs.
    That was taken when it was built, or in its fourth call."""

    def __init__(self, how: str, when: str) -> None:
        super().__init__()
        self.double()  # the memory that is trained
        self.how, self.kept = how, None
        if when == "built":
            self.keep()

    def keep(self) -> None:
        if self.last.weight.is_meta:
            self.last.weight.data_ptr()
        else:
            self.kept = KEPT[self.how](self.last.weight)

    def forward(self, x: Tensor) -> Tensor:
        x = x.flatten(1)
        if self.late() and self.kept is None:
            self.keep()
        factor = 1.0 if self.kept is None else 1.0 + float(self.kept().abs().sum()) * 1e-2
        return self.plain(x) * factor


def _at(address: int) -> Callable[[], Tensor]:
    return lambda: torch.frombuffer((ctypes.c_double * 240).from_address(address), dtype=torch.float64)


def _of(storage: torch.UntypedStorage) -> Callable[[], Tensor]:
    return lambda: torch.empty(0, dtype=torch.float64).set_(storage)  # type: ignore[call-overload,no-any-return]


KEPT: dict[str, Callable[[Tensor], Callable[[], Tensor]]] = {
    "pointer": lambda w: _at(w.data_ptr()),
    "pointer of a view": lambda w: _at(w.detach().view(-1).data_ptr()),
    "pointer of an array": lambda w: _at(w.detach().numpy().ctypes.data),
    "pointer of a storage": lambda w: _at(w.untyped_storage().data_ptr()),
    "storage": lambda w: _of(w.untyped_storage()),
    "typed storage": lambda w: _of(w.storage()._untyped_storage),
}
"""By name: what holds a parameter's memory and is not counted."""


def kept(how: str, when: str) -> nn.Module:
    return Kept(how, when)
