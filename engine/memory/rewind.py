"""Rewind: a block's forward pass runs a second time on what its first run found in the attributes of its modules.

Before the first run the attributes are noted, their containers and tensors as they are; after it, what has changed is
kept. Around the second run each changed attribute has its old value: another object, a shallow copy of what a list, a
dictionary or a set held, a copy of a buffer or another tensor that was written to (a batch normalization's running
statistics, a spectral norm's vectors). What the second run changes goes into these copies; afterwards every attribute
is again what it was. So the model's state is that of one run.

Not rewound: parameters, generators of random numbers, and what lies deeper (an object's own attributes, a container
in a container) or outside of the model. A parameter, a tensor or a container of an attribute that the second run
changes all the same, as under another name, ends the job.

Cost: some microseconds for each module and run, and copies of the tensors that the block writes to.
"""

from __future__ import annotations

import operator
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from engine.errors import TrainingError
from engine.instrumentation.gate import past_gates

_INTERNAL = frozenset(vars(nn.Module())) - {"training"}
_CONTAINERS = (list, dict, set, deque)
_NOTHING: Any = object()
_LEARNING = 2
REMEDY = (
    "Keep the activations of this layer, or swap them, or let the model change nothing but its own attributes"
)


class _Entry(NamedTuple):
    """An attribute or a buffer."""

    mapping: dict[str, Any]
    """Of a module, in which it is."""
    name: str
    path: str
    """For people."""


class State:
    """The attributes of a block's modules."""

    def __init__(self, block: str, modules: Sequence[nn.Module]) -> None:
        """`block`: its name, for people."""
        self.block = block
        self.modules = list(dict.fromkeys(below for module in modules for below in module.modules()))
        self.written: set[str] = set()
        """Tensors, by path, that forward has been seen to write to."""
        self._passes: Counter[tuple[bool, ...]] = Counter()
        """In which it was looked what forward writes to, by the modules' modes."""

    def begin(self) -> Before:
        """The block is about to run. In its first passes in these modes, all tensors are compared with copies."""
        modes = tuple(module.training for module in self.modules)
        self._passes[modes] += 1
        return Before(self, learning=self._passes[modes] <= _LEARNING)

    def mappings(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Where attributes and buffers are, with the beginning of their paths."""
        for number, module in enumerate(self.modules):
            where = f"{type(module).__name__}({number})."
            yield where, vars(module)
            yield where, module._buffers

    def parameters(self) -> Iterator[tuple[str, Tensor]]:
        """Those of the modules."""
        for module in self.modules:
            for name, parameter in module._parameters.items():
                if parameter is not None:
                    yield f"{type(module).__name__}.{name}", parameter


class Before:
    """What the first run found, and, after `end`, what of it has changed."""

    @past_gates
    def __init__(self, state: State, learning: bool) -> None:
        self._state = state
        self._found = [(where, mapping, mapping.copy()) for where, mapping in state.mappings()]
        self._tensors: list[tuple[_Entry, Tensor, int]] = []
        self._contents: list[tuple[_Entry, Any, Any]] = []
        self._copies: dict[str, Tensor] = {}
        for entry, value in self._entries():
            if isinstance(value, Tensor):
                if value.is_inference():
                    continue
                self._tensors.append((entry, value, value._version))
                if learning or entry.path in state.written:
                    self._copies[entry.path] = value.detach().clone()
            else:
                self._contents.append((entry, value, value.copy()))
        self._old: list[tuple[_Entry, Any]] = []
        """What has changed, with its old value or a copy of its old contents."""

    def _entries(self) -> Iterator[tuple[_Entry, Any]]:
        for where, mapping, held in self._found:
            for name, value in held.items():
                if isinstance(value, (Tensor, *_CONTAINERS)) and name not in _INTERNAL:
                    yield _Entry(mapping, name, where + name), value

    @past_gates
    def end(self) -> None:
        """The first run has ended. Raises TrainingError where it wrote to a tensor of which there is no copy."""
        for where, mapping, held in self._found:
            same = held.keys() == mapping.keys() and all(map(operator.is_, held.values(), mapping.values()))
            if not same:
                for name in held.keys() | mapping.keys():
                    old = held.get(name, _NOTHING)
                    if old is not mapping.get(name, _NOTHING) and name not in _INTERNAL:
                        self._old.append((_Entry(mapping, name, where + name), old))
        for entry, tensor, version in self._tensors:
            copy = self._copies.get(entry.path)
            # Nobody counts that batch normalization writes its running statistics.
            same = tensor._version == version and (copy is None or torch.equal(copy, tensor))
            if not same:
                self._state.written.add(entry.path)
                if copy is None:
                    raise TrainingError(
                        f"the forward pass of {self._state.block} wrote to {entry.path}, which it had not done in its"
                        f" first passes: as it was before, it cannot be computed again. {REMEDY}"
                    )
                self._changed(entry, copy)
        for entry, container, content in self._contents:
            if not _same(container, content):
                self._changed(entry, content)
        self._found, self._tensors, self._contents, self._copies = [], [], [], {}

    def _changed(self, entry: _Entry, old: Any) -> None:
        """Itself, whatever stands in its place now."""
        self._old = [each for each in self._old if each[0].path != entry.path]
        self._old.append((entry, old))

    @contextmanager
    def again(self) -> Iterator[None]:
        """Around the second run. Raises TrainingError where that has changed what is not rewound."""
        now = [(entry, entry.mapping.get(entry.name, _NOTHING)) for entry, _ in self._old]
        fixed = self._fixed()
        for entry, old in self._old:
            _put(entry, _own(old))
        try:
            yield
        finally:
            for entry, value in now:
                _put(entry, value)
        self._check(fixed)

    @past_gates
    def _fixed(self) -> list[tuple[str, Any, Any]]:
        """What a second run must not change, as it is: with a tensor's version, or what a container holds."""
        fixed: list[tuple[str, Any, Any]] = [
            (name, tensor, tensor._version)
            for name, tensor in self._state.parameters()
            if not tensor.is_inference()
        ]
        for where, mapping in self._state.mappings():
            for name, value in mapping.items():
                if isinstance(value, Tensor):
                    if not value.is_inference():
                        fixed.append((where + name, value, value._version))
                elif isinstance(value, _CONTAINERS) and name not in _INTERNAL:
                    fixed.append((where + name, value, value.copy()))
        return fixed

    @past_gates
    def _check(self, fixed: list[tuple[str, Any, Any]]) -> None:
        for name, value, before in fixed:
            same = value._version == before if isinstance(value, Tensor) else _same(value, before)
            if not same:
                raise TrainingError(
                    f"{self._state.block} cannot be computed again in backward: its forward pass changes {name}, which"
                    f" a second pass has changed again. {REMEDY}"
                )


def _same(container: Any, content: Any) -> bool:
    """Whether a container holds the very objects that its copy does."""
    if isinstance(container, dict):
        return container.keys() == content.keys() and all(
            map(operator.is_, container.values(), content.values())
        )
    if isinstance(container, set):
        return bool(container == content)
    return len(container) == len(content) and all(map(operator.is_, container, content))


def _own(old: Any) -> Any:
    """An object that a second run may change."""
    if isinstance(old, Tensor) and not old.requires_grad and old.grad_fn is None:
        with torch.no_grad():
            return old.clone()
    return old.copy() if isinstance(old, _CONTAINERS) else old


def _put(entry: _Entry, value: Any) -> None:
    if value is _NOTHING:
        entry.mapping.pop(entry.name, None)
    else:
        entry.mapping[entry.name] = value
