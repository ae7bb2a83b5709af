"""Raw memory: who is given a tensor's memory to use past PyTorch is noticed: by `.data`, NumPy, DLPack, a storage, a
pointer. Autograd does not count what is written there (`writes.py` says what that matters for).

These are attributes of `torch.Tensor`, which has them replaced once in each process, before a user's code is imported.
Whether they are asked of a parameter, of a view of it or of what `detach()` gave, the memory is the same. Not noticed:
C++ extensions, TorchScript, and what runs inside a compiled region.

Another tensor that is kept shows in the memory's count of holders (`sharing.py`). A pointer or a storage does not, nor
does what NumPy was asked for, whose arrays tell where they lie: such memory is *given away* for as long as it lives,
because nobody can say when its new holder reads or writes it. PyTorch's own code, and ours, keep none of what they ask
for, but for what PyTorch's hands on.

Cost: 4 µs for each such access, and nothing for all others.
"""

from __future__ import annotations

import functools
import sys
import weakref
from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor

from engine.instrumentation import unasked

_METHODS = ("numpy", "data_ptr", "untyped_storage", "__dlpack__")
"""What else gives memory away (`__array__`, `storage`, `share_memory_`) calls one of them."""
_HAND_ON = ("torch._tensor", "torch.utils.dlpack")
"""PyTorch's modules that give to their caller what they get."""
_MARK = "_trainyard_given_away"
"""An attribute of the storage's Python object, which lives as long as the memory does."""
GIVEN_AWAY = (
    "its memory has been given away (`data_ptr`, a storage, NumPy or DLPack), where nobody sees who reads it"
)
NUMPY: Any = Tensor.numpy
POINTER: Any = Tensor.data_ptr
STORAGE: Any = Tensor.untyped_storage
"""PyTorch's own, for the runtime itself: nobody is told, which costs several times as much."""


class Listener(Protocol):
    """Whoever wants to know."""

    def given_away(self, memory: int) -> None:
        """Somebody has been given the storage at this address."""
        ...


_LISTENERS: list[weakref.ref[Listener]] = []
"""A set of weak references takes longer to go through than all the rest."""


def listen(listener: Listener) -> None:
    """Tell `listener` as long as it lives. What runs past gates (`gate.past_gates`) is the runtime's own: of that it is
    told nothing."""
    if all(reference() is not listener for reference in _LISTENERS):
        _LISTENERS.append(weakref.ref(listener, _LISTENERS.remove))
    notice()


def is_given_away(tensor: Tensor) -> bool:
    """Whether somebody may have kept the tensor's memory in a way that its count of holders does not show."""
    return _MARK in vars(STORAGE(tensor))


def memory_of(tensor: Tensor) -> int:
    """The address of the tensor's storage, of which nobody is told; 0 where it is imagined, as DTensor does."""
    storage = STORAGE(tensor)
    address: int = 0 if storage.device.type == "meta" else storage.data_ptr()
    return address


@functools.cache
def notice() -> None:
    """Replace them all, once in each process, and before a user's code is imported."""
    for name in _METHODS:
        setattr(Tensor, name, _telling(getattr(Tensor, name), for_good=True))
    unasked.ask()  # which replaces `data`, too
    data: Any = Tensor.data
    tells = _telling(data.__get__, for_good=False)  # a tensor, which counts as a holder while it lives
    Tensor.data = property(tells, data.__set__, doc=data.__doc__)  # type: ignore[assignment]
    modules: Any = torch, torch.utils.dlpack
    for module in modules:
        module.to_dlpack = _telling(module.to_dlpack, for_good=True)


def _telling(plain: Callable[..., Any], *, for_good: bool) -> Callable[..., Any]:
    """`for_good`: whoever gets it may keep it without being counted."""

    @functools.wraps(plain)
    def method(tensor: Tensor, *args: Any, **kwargs: Any) -> Any:
        found = plain(tensor, *args, **kwargs)  # who reads a closed parameter has waited now
        if torch._C._is_torch_function_enabled():
            _tell(tensor, for_good and not _asked_by_pytorch_or_us())
        return found

    return method


def _asked_by_pytorch_or_us() -> bool:
    """Whether PyTorch's own code, or ours, asks the method that calls this."""
    frame = sys._getframe(2)
    while (name := frame.f_globals.get("__name__", "")) in _HAND_ON and frame.f_back is not None:
        frame = frame.f_back
    return isinstance(name, str) and name.startswith(("torch.", "engine."))


def _tell(tensor: Tensor, for_good: bool) -> None:
    try:
        with torch._C.DisableTorchFunctionSubclass():
            address = memory_of(tensor)
            if for_good:
                setattr(STORAGE(tensor), _MARK, True)
    except RuntimeError:  # no memory of its own: sparse, inside a transform, while something is compiled
        return
    for reference in tuple(_LISTENERS):
        if (listener := reference()) is not None:
            listener.given_away(address)
