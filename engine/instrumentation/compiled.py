"""Compiled regions of a model: modules whose call or forward `torch.compile` has wrapped.

`torch.compile(module)` puts a wrapper around the module, whose parameters then have names with `_orig_mod.` in them.
`module.compile()` compiles the same without a wrapper. So wrappers are taken off, and their modules compiled in place:
layers, plans and checkpoints have the names that they have without compiling.

Nothing here imports the compiler, which takes a second: where it has not been imported, nothing is compiled.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import nn

_WRAPPED = "_orig_mod"
"""The name of what a wrapper wraps."""
_COMPILED = "_torchdynamo_orig_callable"
"""An attribute of every function that torch.compile answers with."""


def compiler() -> Any:
    """The module of torch that enters compiled code; None while nobody has compiled anything."""
    return sys.modules.get("torch._dynamo.eval_frame")


def unwrapped(model: nn.Module) -> nn.Module:
    """The model without the wrappers of `torch.compile`: what they wrap is compiled in place. A wrapper stays where the
    model also has what it wraps, uncompiled."""
    if compiler() is None:
        return model
    root = _in_place(model)
    while True:
        wrapped = {id(m._orig_mod) for m in root.modules() if _is_wrapper(m)}
        also = {
            id(child)
            for module in root.modules()
            if not _is_wrapper(module)
            for child in module.children()
            if id(child) in wrapped
        }
        found = [
            (module, name, child)
            for module in root.modules()
            for name, child in module.named_children()
            if _is_wrapper(child) and id(child._orig_mod) not in also
        ]
        if not found:
            return root
        for module, name, child in found:
            module._modules[name] = _in_place(child)


def _is_wrapper(module: nn.Module) -> bool:
    return compiler() is not None and isinstance(module, compiler().OptimizedModule)


def _in_place(module: nn.Module) -> nn.Module:
    """What a wrapper wraps, compiled by itself; any other module as it is."""
    if not _is_wrapper(module):
        return module
    wrapper: Any = module
    inner: Any = _in_place(wrapper._orig_mod)
    context = wrapper.dynamo_ctx
    if isinstance(context, compiler().DisableContext):  # torch.compiler.disable(module)
        return module
    call = inner._call_impl
    if compiler().trace_rules.check(
        inner.forward
    ):  # of torch.nn's own modules the compiler compiles no call by itself
        call = _framed(call)
    inner._compiled_call_impl = context(call)
    vars(inner)[_WRAPPED] = inner  # for code that unwraps the model by itself
    return inner


def _framed(call: Callable[..., Any]) -> Callable[..., Any]:
    def framed(*args: Any, **kwargs: Any) -> Any:
        return call(*args, **kwargs)

    return framed


def regions(model: nn.Module) -> dict[str, nn.Module]:
    """The compiled modules of a model that are in no other one, by path."""
    found: dict[str, nn.Module] = {}
    for path, module in model.named_modules():
        if region_of(path, found) is None and is_compiled(module):
            found[path] = module
    return found


def outside_regions(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """The modules that are in no compiled one, with their paths. The others should have no hooks: of torch.nn's own
    modules the compiler compiles more where they have some. (Scripted ones it never compiles.)"""
    found = regions(model)
    for path, module in model.named_modules():
        if region_of(path, found) is None or isinstance(module, torch.jit.ScriptModule):
            yield path, module


def is_compiled(module: nn.Module) -> bool:
    """Whether what runs when the module is called is compiled."""
    return compiler() is not None and (compiled_call(module) is not None or compiles_forward(module))


def region_of(path: str, found: Iterable[str]) -> str | None:
    """The region, of those with paths `found`, that the module at `path` is in."""
    return next((r for r in found if not r or path == r or path.startswith(f"{r}.")), None)


def compiles_forward(module: nn.Module) -> bool:
    """Whether the module's forward is compiled; its hooks run outside of that."""
    return hasattr(getattr(module, "forward", None), _COMPILED)  # a scripted module need not have one


def compiled_call(module: nn.Module) -> Any:
    """The compiled function that runs when `module` is called; None where there is none."""
    call: Any = module.forward if _is_wrapper(module) else module._compiled_call_impl
    return call if hasattr(call, _COMPILED) else None


def callback_of(function: Any) -> Any:
    """What the compiler knows a compiled function by."""
    function = getattr(function, "__func__", function)
    cells = dict(zip(function.__code__.co_freevars, function.__closure__, strict=True))
    return cells["callback"].cell_contents


def is_replayed(function: Any) -> bool:
    """Whether a compiled function was asked to run as a CUDA graph, which computes into memory of its own: what it left
    there, gradients too, has to be used before any such graph runs again."""
    backend = compiler().innermost_backend(callback_of(function))
    config = getattr(backend, "config", None) or {}
    return bool(config.get("triton.cudagraphs")) or getattr(backend, "compiler_name", "") == "cudagraphs"


def uncompiled() -> AbstractContextManager[object]:
    """While the block runs, what is compiled runs as it was written."""
    if compiler() is None:
        return nullcontext()
    return torch.compiler.set_stance("force_eager")
