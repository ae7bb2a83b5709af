"""Gate: whoever reads a parameter whose next value is outstanding is told, however the read comes.

A closed parameter has another class for the time being: a subclass of its own, with `__torch_function__`. PyTorch asks
that before it runs any function on the parameter, wherever the function found it: as a module's attribute, in
`parameters()` or a state_dict, in a list, in a closure, tied to another module, through `.data` or NumPy. Whoever the
gate tells (`read`) waits for the value and opens the gate, or says that the parameter may be read as it is. An open
parameter has its own class again, and reading it costs nothing.

What does not pass here, and who cares for it:
    a tensor that shares the parameter's memory     `HostMemory.is_shared` counts them; the layer waits before forward
    constructors (torch.tensor), TorchScript        `unasked.py` makes them ask
    C++ extensions                                  the module that owns the parameter waits when it is entered
    torch.func's transforms                         `ask_before_transforms`: all is read when one begins
    what torch.compile has compiled                 `before_compiled`: what it may read is read when it is entered
    a transformer's fast path                       `unasked.py`: its question for `__torch_function__` asks
    torch.DoubleTensor(p) and other typed ones      `typed_constructors.py` finds such code, and all layers wait
    a pointer or a storage that was kept            `raw_memory.py` is told of it, and the layer waits before forward
    `type(p) is Parameter`                          `class_identity.py` and `users_classes.py` find it; layers wait
    who decides what PyTorch's functions do         `own_dispatch.py` finds such code, and all layers wait
    a forked process                                who forks waits first, but in backward; the other waits for none

Cost: two assignments of a class and one Python call, for each parameter and step.
"""

from __future__ import annotations

import functools
import os
import weakref
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from importlib import import_module
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.nn import Parameter

from engine.errors import TrainingError
from engine.instrumentation import unasked
from engine.instrumentation.lookalike import lookalike, own_class
from engine.instrumentation.unwatched import ASKS_NOBODY, why_unwatched
from engine.instrumentation.uses import tensors_in

Read = Callable[[Parameter, Any], bool]
"""(parameter, function that is about to get it) -> whether it is open now; if not, the function gets it as it is."""

Function = TypeVar("Function", bound=Callable[..., Any])

_METADATA = frozenset(
    [
        *(
            getattr(Tensor, name).__get__
            for name in (
                "device", "dtype", "is_cpu", "is_cuda", "is_leaf", "is_meta", "itemsize", "layout", "name",
                "nbytes", "ndim", "requires_grad", "shape", "_backward_hooks", "_post_accumulate_grad_hooks",
            )
        ),
        *(
            getattr(Tensor, name)
            for name in (
                "__len__", "dim", "element_size", "get_device", "is_complex", "is_contiguous", "is_floating_point",
                "ndimension", "nelement", "numel", "register_hook", "register_post_accumulate_grad_hook", "size",
                "stride",
            )
        ),
        torch.is_complex,
        torch.is_floating_point,
        torch.numel,
    ]
)  # fmt: skip
"""What says nothing of a parameter's value or gradient. `requires_grad_` is not among them: the outstanding value is of
a step before it."""


_TRANSFORMS = {
    "torch._functorch.eager_transforms": (
        "_func_increment_nesting",
        "_grad_increment_nesting",
        "_jvp_increment_nesting",
    ),
    "torch._functorch.vmap": ("_vmap_increment_nesting",),
}
"""What begins a transform of torch.func, as its modules call it. Dynamo knows transforms by other names."""


class Gate:
    """Closes and opens parameters. Any thread may read a closed one."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._closed: dict[int, Parameter] = {}
        self._closed_class: dict[type, type | None] = {}
        """By a parameter's own class; None where its instances take no other one, or may not be watched."""
        self._lifted: list[Parameter] = []
        """Closed parameters that have their own class for the time being."""
        _GATES.add(self)
        _ask_before_transforms()
        _read_before_forks()
        unasked.ask()

    def can_close(self, parameter: Parameter) -> bool:
        """Whether the parameter's class allows it; nearly every one does."""
        own = own_class(parameter)
        if own not in self._closed_class:
            self._closed_class[own] = None if why_unwatched(own) else self._made(parameter)
        return self._closed_class[own] is not None

    def _made(self, parameter: Parameter) -> type | None:
        """The class that it has when it is closed; None if it takes no other one than its own."""
        now = type(parameter)
        closed = _closed_class(own_class(parameter), self)
        try:
            parameter.__class__ = closed
            parameter.__class__ = now
        except TypeError:
            return None
        return closed

    def close(self, parameter: Parameter) -> bool:
        """From now on, who reads the parameter is told. Answers False for one that cannot be closed; it stays open."""
        if not self.can_close(parameter):
            return False
        if id(parameter) not in self._closed:
            closed = self._closed_class[type(parameter)]
            assert closed is not None
            self._closed[id(parameter)] = parameter
            parameter.__class__ = closed
        return True

    def open(self, parameter: Parameter) -> None:
        """The parameter may be read."""
        if self._closed.pop(id(parameter), None) is not None:
            parameter.__class__ = own_class(parameter)

    def is_closed(self, parameter: Parameter) -> bool:
        """Whether who reads the parameter is told."""
        return id(parameter) in self._closed

    def read_all(self) -> None:
        """Something is about to read that does not say what."""
        for parameter in list(self._closed.values()):
            self._read(parameter, None)

    def before_fork(self) -> None:
        """The process is about to fork. Where a wait fails, the next read in this process says so."""
        for parameter in list(self._closed.values()):
            with suppress(TrainingError):
                self._read(parameter, os.fork)

    def forked(self) -> None:
        """In a process that was forked, nothing comes any more, and everything is read as it is."""
        for parameter in list(self._closed.values()):
            self.open(parameter)

    def before_compiled(self, parameters: Collection[int] | None) -> None:
        """Compiled code is about to read these, by id; None: it does not say which. What may be read as it is has its
        own class until `lower`."""
        for key in list(self._closed) if parameters is None else self._closed.keys() & parameters:
            parameter = self._closed.get(key)  # one layer's are opened together
            if parameter is not None and not self._read(parameter, torch.compile):
                parameter.__class__ = own_class(parameter)
                self._lifted.append(parameter)

    def lower(self) -> None:
        """Who reads a parameter that is still closed is told again."""
        for parameter in self._lifted:
            self._close_again(parameter)
        self._lifted.clear()

    def _close_again(self, parameter: Parameter) -> None:
        """Unless another thread has opened it meanwhile."""
        closed = self._closed_class.get(type(parameter))
        if closed is not None and self.is_closed(parameter):
            parameter.__class__ = closed

    def leave_to_python(self, parameters: Iterable[Parameter]) -> None:
        """The compiler is there: let it compile nothing that meets a closed one of `parameters`."""
        self.call = torch.compiler.disable(self.call)  # type: ignore[method-assign]
        for parameter in parameters:
            if self.can_close(parameter):
                untraced: Any = torch._dynamo.config.nontraceable_tensor_subclasses
                untraced.add(self._closed_class[type(parameter)])

    def call(
        self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], *, users: bool = False
    ) -> Any:
        """Run a function that has a closed parameter among its arguments. `users`: it runs code of a user's own, which
        may read others."""
        if function in _METADATA:
            with torch._C.DisableTorchFunctionSubclass():
                return function(*args, **kwargs)
        tensors = list(tensors_in((args, kwargs)))
        found: list[Any] = [t for t in tensors if hasattr(type(t), "_trainyard_gate")]
        as_it_is: list[tuple[Any, Gate]] = []
        # Where none is found, it is in a container of the user's own.
        for parameter in found or list(self._closed.values()):
            gate: Gate | None = getattr(type(parameter), "_trainyard_gate", None)
            if gate is not None and not gate._read(parameter, function):
                as_it_is.append((parameter, gate))
        if not as_it_is:
            return function(*args, **kwargs)  # what has been closed again meanwhile asks again
        if not users and all(map(_asks_nobody, tensors)):
            with torch._C.DisableTorchFunctionSubclass():  # they stay closed to other threads
                return function(*args, **kwargs)
        try:
            for parameter, _ in as_it_is:
                parameter.__class__ = own_class(parameter)
            return function(*args, **kwargs)
        finally:
            for parameter, gate in as_it_is:
                gate._close_again(parameter)


def _asks_nobody(tensor: Tensor) -> bool:
    """Whether the tensor's class has no `__torch_function__` of its own."""
    own: Any = own_class(tensor)
    return own is Tensor or own.__torch_function__ is ASKS_NOBODY


_GATES: weakref.WeakSet[Gate] = weakref.WeakSet()


def _closed_class(own: type, gate: Gate) -> type:
    """A subclass of `own` that looks like it and asks `gate`."""

    def ask(
        cls: type, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return gate.call(function, args, kwargs or {})

    def asking(name: str) -> Callable[..., Any]:
        """These look at the instance's class before they call any torch function."""
        inherited = getattr(own, name)

        def method(self: Parameter, *args: Any) -> Any:
            return gate.call(inherited, (self, *args), {})

        return method

    return lookalike(
        own,
        {
            "__torch_function__": classmethod(ask),
            "__deepcopy__": asking("__deepcopy__"),
            "__reduce_ex__": asking("__reduce_ex__"),
            "_trainyard_gate": gate,
        },
    )


def past_gates(function: Function) -> Function:
    """A function of the runtime's own, which knows what it reads: it passes closed parameters, in its thread only."""

    @functools.wraps(function)
    def passing(*args: Any, **kwargs: Any) -> Any:
        with torch._C.DisableTorchFunctionSubclass():
            return function(*args, **kwargs)

    return passing  # type: ignore[return-value]


@functools.cache
def _ask_before_transforms() -> None:
    """Let every transform of torch.func read all closed parameters first: it takes tensors without asking them."""

    def asking(begin: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(begin)
        def after_asking(*args: Any) -> Any:
            for gate in list(_GATES):
                gate.read_all()
            return begin(*args)

        return after_asking

    for path, names in _TRANSFORMS.items():
        module = import_module(path)
        for name in names:
            if hasattr(module, name):
                setattr(module, name, asking(getattr(module, name)))


@functools.cache
def _read_before_forks() -> None:
    """Let what forks this process wait for all versions first: nobody receives anything in the new one."""

    def before() -> None:
        for gate in list(_GATES):
            gate.before_fork()

    def after() -> None:
        for gate in list(_GATES):
            gate.forked()

    os.register_at_fork(before=before, after_in_child=after)
