"""A model's forward pass as a graph of torch.fx, and which parameters and buffers its nodes use."""

from __future__ import annotations

import operator
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, fx, nn

from engine.instrumentation.compiled import is_compiled
from engine.models.cannot_cut import CannotCutError
from engine.models.frozen_values import memory_of, nothing_frozen, own_tensors
from engine.models.held import Held
from engine.models.whole_functions import whole_functions

_OPERATORS = {
    getattr(operator, name)
    for name in (
        "iadd",
        "isub",
        "imul",
        "itruediv",
        "ifloordiv",
        "imod",
        "ipow",
        "iand",
        "ior",
        "ixor",
        "setitem",
    )
}
"""Those that write in place."""
_AUTOCASTS = ("cpu", "cuda")


class _Tracer(fx.Tracer):
    """Sees buffers as it sees parameters, and does not compute with what they hold while it traces."""

    proxy_buffer_attributes = True

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self._own = {module: own_tensors(module) for module in model.modules()}
        self._modes: tuple[object, ...] | None = None
        self._thread = threading.get_ident()

    def call_module(self, m: nn.Module, forward: Any, args: Any, kwargs: Any) -> Any:
        """Raises CannotCutError for a module that is called with other tensors than its own."""
        if m in self._own and own_tensors(m) != self._own[m]:
            raise CannotCutError(
                f"its forward pass calls {self.path_of_module(m)!r} with other parameters or buffers than its own"
                " (torch.func.functional_call, or assigned ones), and torch.fx does not note them"
            )
        return super().call_module(m, forward, args, kwargs)

    def create_node(self, *args: Any, **options: Any) -> fx.Node:
        """A graph does not know under which of PyTorch's modes a node was computed: raises CannotCutError where it is
        another one than the pass began with; and what several threads do comes in another order each time."""
        if threading.get_ident() != self._thread:
            raise CannotCutError(
                "its forward pass runs Python threads: every process would trace, and cut, it in an order of its own"
            )
        if self._modes is None:
            self._modes = _modes()
        elif self._modes != _modes():
            raise CannotCutError(
                "its forward pass computes in a mode of its own (torch.no_grad, enable_grad, inference_mode, autocast),"
                " and torch.fx does not note where it begins and ends"
            )
        return super().create_node(*args, **options)

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        """What is compiled stays whole."""
        return is_compiled(m) or super().is_leaf_module(m, module_qualified_name)


def _modes() -> tuple[object, ...]:
    autocast = ((torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) for kind in _AUTOCASTS)
    return torch.is_grad_enabled(), torch.is_inference_mode_enabled(), *autocast


@contextmanager
def _autocasting(wanted: bool) -> Iterator[None]:
    """As `precision: bf16` trains, on whichever device: a block that switches autocast off is noticed under it only.
    (torch.autocast itself refuses a device that this machine lacks.)"""
    if not wanted:
        yield
        return
    before = [(kind, torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) for kind in _AUTOCASTS]
    try:
        for kind in _AUTOCASTS:
            torch.set_autocast_enabled(kind, True)
            torch.set_autocast_dtype(kind, torch.bfloat16)
        yield
    finally:
        for kind, enabled, dtype in before:
            torch.set_autocast_enabled(kind, enabled)
            torch.set_autocast_dtype(kind, dtype)


@contextmanager
def traced(model: nn.Module, *, autocast: bool = False) -> Iterator[fx.Graph]:
    """The model's forward pass as a graph, as it is under autocast or not. Raises CannotCutError."""
    if is_compiled(model):
        raise CannotCutError(
            "it is compiled as a whole, and a part of it would not be (compile its modules one by one instead)"
        )
    if model._forward_hooks or model._forward_pre_hooks:
        raise CannotCutError(
            "the model itself has a hook on its forward pass, which torch.fx does not keep (a module of it may)"
        )
    if hooked := _hooked_backward(model):
        raise CannotCutError(f"{hooked} has a hook on its backward pass, which torch.fx does not keep")
    settings, held = _settings(model), Held(model)
    try:
        graphs = []
        for training in (True, False):
            held.put_back()  # fx's own constants: the same names in both passes
            model.train(training)
            before = _settings(model)
            with _autocasting(autocast):
                graphs.append(_trace(model))
            _refuse_writing(model, graphs[-1])
            if changed := held.changed() or _first_other(before, _settings(model)):
                raise CannotCutError(
                    f"its forward pass sets {changed!r}, and a cut model would do so once only, as it is traced"
                )
            _refuse_shared_memory(model, graphs[-1])
        if graphs[0].python_code("self").src != graphs[1].python_code("self").src:
            raise CannotCutError(
                "its forward pass does other things in training than in evaluation (it looks at `self.training`;"
                " modules such as torch.nn.Dropout may)"
            )
        yield graphs[1]
    finally:
        held.put_back()
        for (owner, _, name), value in settings.items():
            setattr(owner, name, value)


def _hooked_backward(model: nn.Module) -> str | None:
    """A module whose hooks would be lost: PyTorch's own ones stay whole, and keep theirs."""
    tracer = _Tracer(model)
    return next(
        (
            repr(path) if path else "the model"
            for path, module in model.named_modules()
            if (module._backward_hooks or module._backward_pre_hooks)
            and (not path or not tracer.is_leaf_module(module, path))
        ),
        None,
    )


_Settings = dict[tuple[nn.Module | nn.Parameter, str, str], bool]
"""By object, its path, and the attribute's name."""


def _settings(model: nn.Module) -> _Settings:
    """Modes, and what is trained."""
    found: _Settings = {(module, path, "training"): module.training for path, module in model.named_modules()}
    return found | {(p, path, "requires_grad"): p.requires_grad for path, p in model.named_parameters()}


def _first_other(before: _Settings, now: _Settings) -> str | None:
    return next(
        (f"{p}.{name}".lstrip(".") for (o, p, name), v in now.items() if before[o, p, name] != v), None
    )


def _refuse_writing(model: nn.Module, graph: fx.Graph) -> None:
    """What is written in place is written in one part, and may be read in the other. PyTorch's own modules stay whole,
    and may write."""
    buffers = {name for name, _ in model.named_buffers(remove_duplicate=False)}
    for node in graph.nodes:
        name = str(getattr(node.target, "__name__", node.target))
        in_place = node.target in _OPERATORS or (name.endswith("_") and not name.endswith("__"))
        if node.op not in ("call_method", "call_function") or not in_place:
            continue
        written = node
        while written.args and isinstance(written.args[0], fx.Node):
            written = written.args[0]
        if written.op == "get_attr" and str(written.target) in buffers:
            raise CannotCutError(f"its forward pass writes to the buffer {written.target!r}")


def _refuse_shared_memory(model: nn.Module, graph: fx.Graph) -> None:
    """A part would not know that what it takes for a constant is trained."""
    buffers = {memory_of(held): name for name, held in model.named_buffers()}
    parameters = {memory_of(held): name for name, held in reversed(list(model.named_parameters()))}
    own = {id(held) for held in model.buffers()}
    for node in graph.nodes:
        held = _attribute(model, str(node.target)) if node.op == "get_attr" else None
        if isinstance(held, Tensor) and not isinstance(held, nn.Parameter):
            of_buffer = None if id(held) in own else buffers.get(memory_of(held))
            if shared := parameters.get(memory_of(held), of_buffer):
                raise CannotCutError(
                    f"its forward pass uses {node.target!r}, a tensor that shares its memory with {shared!r}, and a cut"
                    " model would keep it as it was (use the parameter itself)"
                )


def _trace(model: nn.Module) -> fx.Graph:
    try:
        with whole_functions(), nothing_frozen(model):
            return _Tracer(model).trace(model)
    except CannotCutError:
        raise
    except Exception as error:  # whatever a user's code says to a tensor without values
        lines = str(error).strip().splitlines() or [""]
        raise CannotCutError(
            f"torch.fx cannot trace its forward pass: {type(error).__name__}: {lines[0]}"
        ) from error


def module_of(model: nn.Module, graph: fx.Graph, name: str) -> fx.GraphModule:
    """What computes `graph`, with the model's own modules and under their names."""
    made = fx.GraphModule(model, graph, name)
    _in_order(made, model)
    return made


def _in_order(made: nn.Module, model: nn.Module) -> None:
    """Bring the modules of `made`, which come in the order of their use, into the model's: of a tied parameter's names
    the first one counts."""
    for name, module in model._modules.items():
        mine = made._modules.pop(name, None)
        if mine is not None and module is not None:
            made._modules[name] = mine
            if mine is not module:
                _in_order(mine, module)


def first_uses(model: nn.Module, nodes: Sequence[fx.Node]) -> dict[str, tuple[int, int]]:
    """Layer (the module that owns a parameter first) -> first and last node that uses it."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    position = {node: index for index, node in enumerate(nodes)}
    found: dict[str, tuple[int, int]] = {}
    for at, node in enumerate(nodes):
        if node.op == "call_module":
            used: list[Tensor] = list(model.get_submodule(str(node.target)).parameters())
            last = at
        elif node.op == "get_attr":
            used = [_attribute(model, str(node.target))]
            last = _last_use(node, position)
        else:
            continue
        for parameter in used:
            if id(parameter) in names:
                layer = names[id(parameter)].rpartition(".")[0]
                first, before = found.get(layer, (at, last))
                found[layer] = (first, max(before, last))
    return found


def buffer_uses(model: nn.Module, nodes: Sequence[fx.Node]) -> dict[str, tuple[int, int]]:
    """Module that may write buffers when it is called (batch statistics) -> first and last call."""
    found: dict[str, tuple[int, int]] = {}
    for at, node in enumerate(nodes):
        if node.op == "call_module" and any(True for _ in model.get_submodule(str(node.target)).buffers()):
            path = str(node.target)
            found[path] = (found.get(path, (at, at))[0], at)
    return found


def _last_use(node: fx.Node, position: dict[fx.Node, int]) -> int:
    """Where a parameter meets something else for the last time: what is made of it alone (a transposed view) is still
    the parameter."""
    last = position[node]
    for user in node.users:
        alone = all(source is node for source in user.all_input_nodes)
        last = max(last, _last_use(user, position) if alone else position[user])
    return last


def _attribute(model: nn.Module, path: str) -> Any:
    where, _, name = path.rpartition(".")
    return getattr(model.get_submodule(where), name)


def crossing_values(nodes: Sequence[fx.Node], at: int) -> list[fx.Node]:
    """The values made before node `at` that are used from there on."""
    position = {node: index for index, node in enumerate(nodes)}
    return [node for node in nodes[:at] if any(position[user] >= at for user in node.users)]
