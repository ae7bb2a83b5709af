"""Unasked: what reads a tensor's values without asking its class is made to ask a closed parameter (`gate.py`).

PyTorch asks `__torch_function__` of what a function computes with. It does not of what a constructor copies or wraps
(`torch.tensor(p)`, `x.new_tensor(p)`, `x.data = p`), nor of what TorchScript or an autograd.Function of a user's is
given. These were found by calling PyTorch's functions with a closed parameter, and are replaced before a user's code is
imported.

A scripted module reads its own parameters, too. A scripted function has none: what it is given asks, and nothing
else, so that layers that use one wait for no others.

Cost: a look at the types of the arguments in each such call, of a scripted module's parameters in each of its calls,
and nothing for all others.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.utils._device import _device_constructors

from engine.instrumentation.uses import tensors_in

_FUNCTIONS = (
    (
        torch,
        (
            "tensor", "as_tensor", "asarray", "sparse_coo_tensor", "sparse_compressed_tensor", "sparse_csr_tensor",
            "sparse_csc_tensor", "sparse_bsr_tensor", "sparse_bsc_tensor", "to_dlpack",
        ),
    ),
    (torch.utils.dlpack, ("to_dlpack",)),
    (Tensor, ("new_tensor", "new", "set_")),
)  # fmt: skip
_SCRIPTED: Any = torch.jit.ScriptFunction
_METHOD: Any = torch._C.ScriptMethod
_PARAMETERS: Any = torch._C.ParameterDict
_MODULES: Any = torch._C.ModuleDict


@functools.cache
def ask() -> None:
    """Replace them all, once in each process, and before a user's code is imported: what that has imported by name
    stays what it was."""
    _device_constructors()  # `with torch.device(...)` knows functions by what they are, and looks at them once
    for owner, names in _FUNCTIONS:
        for name in names:
            setattr(owner, name, _in_place(owner, name, asking(getattr(owner, name))))
    tensor: Any = Tensor
    tensor.set_.__name__ = "Tensor.set_"  # in the code that torch.compile writes for `x.data = y`
    parameter: Any = Parameter
    tensor.as_subclass = _in_place(Tensor, "as_subclass", asking(_to_own_class(tensor.as_subclass)))
    tensor._make_subclass = staticmethod(asking(_to_own_class(tensor._make_subclass)))
    tensor.data = property(tensor.data.__get__, asking(tensor.data.__set__), doc=tensor.data.__doc__)
    tensor.__new__ = staticmethod(asking(tensor.__new__))
    parameter.__new__ = staticmethod(asking(_of_its_own_class(parameter.__new__)))
    builtins: Any = torch.jit._builtins
    builtins._register_builtin(
        _has_torch_function, builtins._find_builtin(torch.overrides.has_torch_function)
    )
    torch.overrides.has_torch_function = asking(_has_torch_function)
    function: Any = torch.autograd.Function
    function.apply = classmethod(asking(function.apply.__func__, users=True))
    _SCRIPTED.__call__ = asking(_SCRIPTED.__call__)
    _METHOD.__call__ = asking(_METHOD.__call__, _parameters_of)


def _has_torch_function(relevant: Collection[Any]) -> bool:
    """As PyTorch's, which decides which way a transformer goes (`module_calls.py`). The compiler looks into it;
    TorchScript, which cannot, is told that it is PyTorch's."""
    found: bool = torch.overrides.has_torch_function_variadic(*relevant)
    return found


def _of_its_own_class(new: Callable[..., Any]) -> Callable[..., Any]:
    """`Parameter(p)` looks at the class of `p`, which is another one where somebody watches its gradient."""

    @functools.wraps(new)
    def new_of(cls: type, data: Any = None, *args: Any, **kwargs: Any) -> Any:
        return new(cls, data.detach() if hasattr(type(data), "_trainyard_own") else data, *args, **kwargs)

    return new_of


def _to_own_class(plain: Callable[..., Any]) -> Callable[..., Any]:
    """`x.as_subclass(type(p))` gives an ordinary tensor of the class that `p` has when nobody watches it."""

    @functools.wraps(plain)
    def to_own(*args: Any, **kwargs: Any) -> Any:
        return plain(*map(_own, args), **{name: _own(arg) for name, arg in kwargs.items()})

    return to_own


def _own(value: Any) -> Any:
    """The class that a class looks like; all else as it is."""
    return getattr(value, "_trainyard_own", value) if isinstance(value, type) else value


def _in_place(owner: Any, name: str, after_asking: Callable[..., Any]) -> Callable[..., Any]:
    """Under the name by which pickle finds it."""
    module = getattr(owner, "__module__", None)
    after_asking.__qualname__ = f"{owner.__name__}.{name}" if module else name
    after_asking.__module__ = module or owner.__name__
    return after_asking


def asking(
    plain: Callable[..., Any], own: Callable[..., Any] | None = None, *, users: bool = False
) -> Callable[..., Any]:
    """`plain`, which asks what it is given, and what `own(*arguments)` yields besides. `users`: it runs user code."""

    @functools.wraps(plain)
    def after_asking(*args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling() or not torch._C._is_torch_function_enabled():
            return plain(*args, **kwargs)
        besides = list(own(*args)) if own is not None else []
        if not (_hold_closed(args) or _hold_closed(kwargs.values()) or _hold_closed(besides)):
            return plain(*args, **kwargs)
        read = (args, kwargs, besides)
        gates = (getattr(type(tensor), "_trainyard_gate", None) for tensor in tensors_in(read))
        gate: Any = next(filter(None, gates), None)
        if gate is None:  # another thread has opened it meanwhile
            return plain(*args, **kwargs)
        return gate.call(lambda *read: plain(*args, **kwargs), read, {}, users=users)

    operator = torch.jit._builtins._find_builtin(plain)
    if operator is not None:  # TorchScript knows its functions by their ids
        torch.jit._builtins._register_builtin(after_asking, operator)
    return after_asking


def _hold_closed(values: Collection[Any]) -> bool:
    """Whether a closed parameter is among them or in what they contain. Types are looked at, because a million numbers
    have one; by their ids, because the type of a closed parameter equals that of an open one."""
    return any(
        hasattr(kind, "_trainyard_gate")
        or (issubclass(kind, (list, tuple)) and any(_hold_closed(v) for v in values if type(v) is kind))
        or (issubclass(kind, dict) and any(_hold_closed(v.values()) for v in values if type(v) is kind))
        for kind in {id(kind): kind for kind in map(type, values)}.values()
    )


def _parameters_of(method: Any, *inputs: Any) -> Iterator[Any]:
    """What the method of a scripted module may read."""
    modules = [method.owner]
    while modules:
        module = modules.pop()
        for _, parameter in _PARAMETERS(module).items():
            yield parameter
        for _, below in _MODULES(module).items():
            modules.append(below)
