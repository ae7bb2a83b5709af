"""Where a model truly uses its parameters, found by watching one forward pass.

To own a parameter is not to use it: MultiheadAttention hands its projection's weight to a function and never calls the
projection; tied weights and functional calls cross modules. So every torch function of the pass is searched for
parameters, also inside lists and dictionaries (LSTM's), and each find is booked on the innermost active module. A plan
orders layers by this, and knows by it whose gradient is a product of factors. Training does not rely on it: a later
pass may go another way (`engine/instrumentation/gate.py`).

    with UseFinder(model) as finder:
        loss = ...                   # real or meta tensors
    uses = finder.uses()

Cost: one Python call per torch function, for the watched pass only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any

from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils.hooks import RemovableHandle

from engine.instrumentation.own_hook import OwnHook

_READS_VALUES = ("item", "tolist", "numpy", "__bool__", "__float__", "__int__", "equal", "allclose")
"""Functions that need a parameter's values although they return no tensor."""
_READS_NONE = ("requires_grad_", "retain_grad", "register_hook")
"""Functions that need none, although they may return the parameter."""


@dataclass(frozen=True, kw_only=True)
class Uses:
    """What the watched pass used. Names are those of `named_parameters` (the first, where tied)."""

    order: tuple[str, ...]
    """Used parameters in the order in which forward has to wait for them: by the entry of the module that
    first uses them, then by use. So a parameter of the root comes before those of its children."""
    waits: Mapping[str, tuple[str, ...]]
    """Module name -> parameters that its forward pre-hook must wait for, in the order of first use there. A
    parameter is listed under every module that uses it. The root ("") also waits for those not seen."""
    unseen: tuple[str, ...]
    """Parameters that the pass did not use, as the model registers them. A later pass may use them anywhere,
    so the root waits for them."""
    before_forward: tuple[str, ...]
    """Parameters whose use no pre-hook precedes: used while no module was active, or not seen while the root
    itself was never called. Wait for these before the step's first call."""


class UseFinder:
    """Watches what runs inside its `with` block; the model may be called repeatedly, also in parts."""

    def __init__(self, model: nn.Module) -> None:
        self._names = {id(parameter): name for name, parameter in model.named_parameters()}
        self._modules = dict(model.named_modules())
        self._active: list[tuple[str, int]] = []  # module, number of its entry
        self._entries = 0
        self._found: dict[str, dict[str, None]] = {}  # module -> parameters, as ordered sets
        self._outside: dict[str, None] = {}
        self._first: dict[str, int] = {}  # parameter -> entry of the module that first used it
        self._root_called = False
        self._handles: list[RemovableHandle] = []
        self._mode = _Watch(self)

    @property
    def active(self) -> str | None:
        """The innermost module that is running, or None."""
        return self._active[-1][0] if self._active else None

    def __enter__(self) -> UseFinder:
        for name, module in self._modules.items():
            enter, leave = OwnHook(partial(self._entering, name)), OwnHook(partial(self._leaving, name))
            self._handles.append(module.register_forward_pre_hook(enter, prepend=True))
            self._handles.append(module.register_forward_hook(leave, always_call=True))
        self._mode.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._mode.__exit__(kind, error, trace)
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._active.clear()

    def uses(self) -> Uses:
        """What was found so far."""
        unseen = tuple(name for name in self._names.values() if name not in self._first)
        waits = {module: tuple(parameters) for module, parameters in self._found.items()}
        before = tuple(self._outside)
        if not self._root_called:
            before += unseen
        elif unseen:
            waits[""] = (*waits.get("", ()), *unseen)
        order = tuple(sorted(self._first, key=self._first.__getitem__))  # stable: then by use
        return Uses(order=order, waits=waits, unseen=unseen, before_forward=before)

    def book(self, parameter: str) -> None:
        """Note a use of `parameter` by the active module."""
        module, entry = self._active[-1] if self._active else (None, self._entries)
        self._first.setdefault(parameter, entry)
        if module is None:
            self._outside[parameter] = None
        else:
            self._found.setdefault(module, {})[parameter] = None

    def parameters_in(self, values: Any) -> Iterator[str]:
        """Names of the parameters in nested arguments, in their order."""
        return (self._names[id(tensor)] for tensor in tensors_in(values) if id(tensor) in self._names)

    def _entering(self, name: str, module: nn.Module, inputs: Any) -> None:
        self._entries += 1
        self._active.append((name, self._entries))
        self._root_called |= not name

    def _leaving(self, name: str, module: nn.Module, inputs: Any, output: Any) -> None:
        # An exception that the model itself caught may have left modules behind.
        while self._active and self._active.pop()[0] != name:
            pass


def find_uses(model: nn.Module, run: Callable[[], Any]) -> Uses:
    """Watch one call of `run`, which runs a forward pass of `model`."""
    with UseFinder(model) as finder:
        run()
    return finder.uses()


def tensors_in(values: Any) -> Iterator[Tensor]:
    """Tensors in nested tuples, lists and mappings, in their order."""
    if isinstance(values, Tensor):
        yield values
    elif isinstance(values, (tuple, list)):
        for value in values:
            yield from tensors_in(value)
    elif isinstance(values, Mapping):
        yield from tensors_in(list(values.values()))


class _Watch(TorchFunctionMode):
    """Shows every torch function to the finder before it runs."""

    def __init__(self, finder: UseFinder) -> None:
        super().__init__()
        self._finder = finder

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        seen = [*self._finder.parameters_in(args), *self._finder.parameters_in(kwargs)]
        result = func(*args, **kwargs)
        if seen and _needs_values(func, result):
            for parameter in seen:
                self._finder.book(parameter)
        return result


def _needs_values(func: Any, result: Any) -> bool:
    """Whether a call is a use: reading a shape, a type or the gradient is not."""
    name = getattr(func, "__name__", "")
    if name == "__get__":  # an attribute: transposed views are uses, metadata and .grad are not
        return getattr(func, "__self__", None) is not Tensor.grad and isinstance(result, Tensor)
    if name in _READS_NONE:
        return False
    return name in _READS_VALUES or next(tensors_in(result), None) is not None
