"""Fast paths: a transformer of PyTorch's in evaluation mode goes the way that it goes in plain PyTorch.

It goes a faster one where no gradient is wanted, no module below it has a hook, and no parameter below it has a
`__torch_function__`, as a closed one has. The two ways differ in more than time: in padded positions, and in what a
user puts in place of a layer's parts. So before a module that could go the faster way is entered, every parameter below
it has come, and the hooks of ours that are below it are taken away until the next pass begins.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

from engine.models.compiled import outside_regions
from engine.runtime.entries import Hook, Parameters

_HAVE_ONE = (nn.TransformerEncoder, nn.TransformerEncoderLayer, nn.MultiheadAttention)


class FastPaths:
    """The hooks before the modules of one model. In compiled regions there are none: what is compiled looks at them."""

    def __init__(self, model: nn.Module, enter: Callable[[Parameters], None]) -> None:
        """`enter(parameters)`: wait for these, by id."""
        self._enter = enter
        self._below: dict[int, list[nn.Module]] = {}
        """By id of a module below one that has a fast path."""
        self._hooks: dict[int, list[tuple[nn.Module, Hook, RemovableHandle]]] = {}
        """By id of such a module."""
        self._taken: list[tuple[nn.Module, Hook]] = []
        for _, module in outside_regions(model):
            if isinstance(module, _HAVE_ONE):
                for below in module.modules():
                    self._hooks.setdefault(id(below), [])
        for _, module in outside_regions(model):
            if isinstance(module, _HAVE_ONE):
                self.hook(module, Hook(partial(self._entering, module)))

    def hook(self, module: nn.Module, hook: Hook) -> None:
        """Call `hook` before the module's forward."""
        handle = module.register_forward_pre_hook(hook, prepend=True)
        if id(module) in self._hooks:
            self._hooks[id(module)].append((module, hook, handle))

    def begin_forward(self) -> None:
        """What has been taken away comes back."""
        taken, self._taken = self._taken, []
        for module, hook in taken:
            self.hook(module, hook)

    def _entering(self, module: nn.Module) -> None:
        if all(each.training for each in module.modules()):
            return
        if torch.is_grad_enabled() and any(parameter.requires_grad for parameter in module.parameters()):
            return
        self._enter(frozenset(map(id, module.parameters())))
        for below in module.modules():
            taken, self._hooks[id(below)] = self._hooks.get(id(below), []), []
            for holder, hook, handle in taken:
                handle.remove()
                self._taken.append((holder, hook))
