"""What a user's code keeps from pass to pass outside of the model: globals, closures, attributes of objects.

A replica's model and loss are in one process and run once per pass, so that a counter counts passes, and a hook may
leave something for the loss. Of a cut model some of it is in another process, and runs for other workers' passes, too.
"""

from __future__ import annotations

import io
import itertools
import random
from collections.abc import Iterator
from types import GeneratorType, ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from engine.inputs.batch import Tensors
from engine.inputs.task import Task
from engine.instrumentation.reached import CODE, CONTAINERS, NO_NAMES, PLAIN, has_attributes, is_users, parts
from engine.models.cannot_cut import CannotCutError


def refuse_kept(model: nn.Module, inputs: Tensors, targets: Tensors, task: Task) -> None:
    """Raises CannotCutError where a pass of `model` and its loss changes what their code keeps. What only the first
    pass changes, a cache, may be kept."""
    if not _Kept(model, task).users:
        return
    for training in (True, False):
        model.train(training)
        with torch.set_grad_enabled(training):
            task(model, inputs, targets)
            before = _Kept(model, task)
            task(model, inputs, targets)
        if changed := before.changed(_Kept(model, task)):
            raise CannotCutError(
                f"its forward pass, its hooks or its loss change {changed!r} in every pass, which a cut model would do"
                " in several processes, each with one of its own (keep nothing outside of the model from pass to pass)"
            )


class _Kept:
    """What is reached from the code of a model and its loss at the time when this is made."""

    def __init__(self, model: nn.Module, task: Task) -> None:
        self.users = False
        """Whether any of the code is a user's, and not the engine's or a library's."""
        self._held: dict[str, list[Any]] = {}
        """By the name under which they are reached: what tells values from other ones."""
        self._alive: list[Any] = []
        """So that no other object gets the number of one that is compared."""
        self._seen: set[tuple[int, frozenset[str]]] = set()
        own = {id(held) for held in (*model.parameters(), *model.buffers())}
        waiting: list[tuple[str, Any, frozenset[str]]] = []
        for module in model.modules():
            hooks = (*module._forward_hooks.values(), *module._forward_pre_hooks.values())
            waiting += [("", code, NO_NAMES) for code in (*hooks, type(module))]
            waiting += [(key, held, NO_NAMES) for key, held in _own_attributes(module)]
        waiting += [("", part, NO_NAMES) for part in (task, *getattr(task, "__dict__", {}).values())]
        while waiting:
            name, value, names = waiting.pop()
            if id(value) in own:
                continue
            told_apart = _told_apart(value)
            if told_apart is not None:
                self._held.setdefault(name, []).append(told_apart)
                self._alive.append(value)
                continue
            key = id(value), names if isinstance(value, ModuleType) else NO_NAMES
            if key not in self._seen:
                self._seen.add(key)
                self.users = self.users or is_users(value)
                waiting.extend(parts(name, value, names))

    def changed(self, now: _Kept) -> str | None:
        """The name of something that is another one now; None where there is none."""
        nothing = object()
        return next(
            (
                name
                for name in sorted(self._held.keys() | now._held.keys())
                if self._held.get(name, nothing) != now._held.get(name, nothing)
            ),
            None,
        )


def _told_apart(value: Any) -> Any:
    """What changes when `value` does, or None where it is what its parts are."""
    if isinstance(value, Tensor):
        return id(value), 0 if value.is_inference() else value._version
    if isinstance(value, (*PLAIN, itertools.count)):
        return type(value), repr(value)
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tobytes()
    if isinstance(value, (*CONTAINERS, dict, *CODE, GeneratorType)) or has_attributes(value):
        return None
    return _drawn_from(value) or _read_from(value)


def _drawn_from(value: Any) -> Any:
    """The state of a generator of random numbers; None for all else."""
    if isinstance(value, random.Random):
        return value.getstate()
    if isinstance(value, np.random.RandomState):
        return repr(value.get_state(legacy=False))
    if isinstance(value, np.random.Generator):
        return repr(value.bit_generator.state)
    return value.get_state().numpy().tobytes() if isinstance(value, torch.Generator) else None


def _read_from(value: Any) -> Any:
    """Nobody can see how far an iterator is: it is never the same. All else is the object that it is."""
    return object() if isinstance(value, Iterator) and not isinstance(value, io.IOBase) else id(value)


def _own_attributes(module: nn.Module) -> Iterator[tuple[str, Any]]:
    """What a user's module holds beside what every module has."""
    if is_users(type(module)):
        plain = vars(nn.Module()).keys()
        yield from ((key, held) for key, held in vars(module).items() if key not in plain)
