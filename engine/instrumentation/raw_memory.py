"""Raw memory: who is given a tensor's memory to use past PyTorch is noticed: by `.data`, NumPy, DLPack, a storage, a
pointer. Autograd does not count what is written there (`writes.py` says what that matters for).

These are attributes of `torch.Tensor`, which has them replaced once in each process. Whether they are asked of a
parameter, of a view of it or of what `detach()` gave, the memory is the same. Not noticed: C++ extensions, TorchScript,
and what runs inside a compiled region.

Cost: 0.3 µs for each such access, and nothing for all others.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor

from engine.instrumentation import unasked

_METHODS = ("numpy", "data_ptr", "untyped_storage", "__dlpack__")
"""What else gives memory away (`__array__`, `storage`, `share_memory_`) calls one of them."""
NUMPY: Any = Tensor.numpy
POINTER: Any = Tensor.data_ptr
STORAGE: Any = Tensor.untyped_storage
"""PyTorch's own, for the runtime itself: nobody is told, which costs several times as much."""


class Listener(Protocol):
    """Whoever wants to know."""

    def given_away(self, memory: int) -> None:
        """Somebody has been given the storage at this address."""
        ...


_LISTENERS: weakref.WeakSet[Listener] = weakref.WeakSet()


def listen(listener: Listener) -> None:
    """Tell `listener` as long as it lives. What runs past gates (`gate.past_gates`) is the runtime's own: of that it is
    told nothing."""
    _LISTENERS.add(listener)
    _replace()


def memory_of(tensor: Tensor) -> int:
    """The address of the tensor's storage, of which nobody is told; 0 where it is imagined, as DTensor does."""
    storage = STORAGE(tensor)
    address: int = 0 if storage.device.type == "meta" else storage.data_ptr()
    return address


@functools.cache
def _replace() -> None:
    for name in _METHODS:
        setattr(Tensor, name, _telling(getattr(Tensor, name)))
    unasked.ask()  # which replaces `data`, too
    data: Any = Tensor.data
    Tensor.data = property(_telling(data.__get__), data.__set__, doc=data.__doc__)  # type: ignore[assignment]


def _telling(plain: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(plain)
    def method(tensor: Tensor, *args: Any, **kwargs: Any) -> Any:
        found = plain(tensor, *args, **kwargs)  # who reads a closed parameter has waited now
        if torch._C._is_torch_function_enabled():
            _tell(tensor)
        return found

    return method


def _tell(tensor: Tensor) -> None:
    try:
        with torch._C.DisableTorchFunctionSubclass():
            address = memory_of(tensor)
    except RuntimeError:  # no memory of its own: sparse, inside a transform, while something is compiled
        return
    for listener in list(_LISTENERS):
        listener.given_away(address)
