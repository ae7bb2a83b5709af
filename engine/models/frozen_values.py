"""What a traced pass would keep as it was when it was traced: refused, because a cut model would not train what was
computed of a parameter, and would draw a random number once only.

torch.fx stands between forward and a parameter that is an attribute of its module. A parameter that comes another
way (`parameters()`, `named_parameters()`, a list) is the tensor itself, and what is computed of it is a constant of the
graph.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, fx, nn
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as tree

from engine.inputs.drawn import drawn
from engine.models.cannot_cut import CannotCutError

_DESCRIBES = {
    "__get__",  # told apart below: which property it is
    "__hash__", "__len__", "__repr__", "dim", "element_size", "get_device", "is_complex", "is_contiguous",
    "is_floating_point", "is_same_size", "ndimension", "nelement", "numel", "requires_grad_", "size", "stride",
    "untyped_storage",
}  # fmt: skip
"""What a tensor is asked that its values have no part in."""
_VALUES = {"data", "grad", "T", "mT", "H", "mH", "real", "imag"}
"""Properties that hold values."""
_DRAWS = {
    "bernoulli", "bernoulli_", "cauchy_", "exponential_", "geometric_", "log_normal_", "multinomial", "normal",
    "normal_", "poisson", "rand", "rand_like", "randint", "randint_like", "randn", "randn_like", "random_", "randperm",
    "uniform_",
}  # fmt: skip


@contextmanager
def nothing_frozen(model: nn.Module) -> Iterator[None]:
    """While the block traces the model's forward pass: raises CannotCutError where the graph would hold a value that
    the model would compute, or draw, again and again."""
    before = drawn()
    with _Watch(model):
        yield
    if drawn() != before:
        raise _draws()


class _Watch(TorchFunctionMode):
    """Sees everything that torch is asked to compute."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self._names = {memory_of(held): name for held, name in reversed(_tensors(model))}
        self._own = {id(held) for held, _ in _tensors(model)}

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        given, name = tree.tree_leaves((args, kwargs)), getattr(function, "__name__", "")
        noted = any(isinstance(value, fx.Proxy) for value in given)
        if not noted and name in _DRAWS:
            raise _draws()
        if _uses_values(function, name):
            for value in given:
                if noted and id(value) in self._own:
                    continue  # torch.fx finds the attribute that it is
                if isinstance(value, Tensor) and (found := self._names.get(memory_of(value))):
                    raise CannotCutError(
                        f"its forward pass computes with {found!r}, which it has not taken from the module's attribute"
                        " (but from parameters(), named_parameters(), a list or a tensor that shares its memory), and"
                        " torch.fx would keep the result of the time when it was traced"
                    )
        return function(*args, **(kwargs or {}))


def memory_of(tensor: Tensor) -> int:
    """A number that tensors have in common which share their memory, views say."""
    try:
        return int(tensor.untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError):  # a sparse tensor: it shares what it has with none
        return -id(tensor)


def own_tensors(module: nn.Module) -> list[int]:
    """Which parameters and buffers a module has: equal lists are the same tensors."""
    return [id(held) for held, _ in _tensors(module)]


def _tensors(module: nn.Module) -> list[tuple[Tensor, str]]:
    names = (*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False))
    return [(held, name) for name, held in names]


def _uses_values(function: Any, name: str) -> bool:
    if name == "__get__":
        return getattr(getattr(function, "__self__", None), "__name__", "") in _VALUES
    return name not in _DESCRIBES


def _draws() -> CannotCutError:
    return CannotCutError(
        "its forward pass draws random numbers that do not take their shape from a value of the pass, and a cut model"
        " would draw them once only, as it is traced (functions such as rand_like and modules such as Dropout may)"
    )
