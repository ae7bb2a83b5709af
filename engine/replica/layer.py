"""A layer of the plan on a worker."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial

from torch import nn
from torch.nn import Parameter

from engine.instrumentation.compiled import outside_regions
from engine.instrumentation.module_calls import before_forward
from engine.plan.units import Unit
from engine.state.recording import Recording
from engine.state.updates import Hyper, Updater
from engine.telemetry.events import NONE


class Layer:
    """One layer of the plan on this worker."""

    def __init__(
        self, index: int, name: str, parameters: Mapping[str, Parameter], updater: Updater | None
    ) -> None:
        self.index = index
        self.name = name
        self.parameters = parameters
        self.updater = updater
        """This worker's, of all its layers; None where a server updates."""
        self.units: list[Unit] = []
        self.version = 0
        """Steps whose result the parameters hold."""


def update_here(layers: Sequence[Layer], hyper: Hyper, recording: Recording) -> None:
    """Update those of `layers` that this worker updates, in one step of its optimizer."""
    own = [layer for layer in layers if layer.updater is not None]
    if not own:
        return
    updater = own[0].updater
    assert updater is not None
    start = recording.mark()
    updater.update(hyper, [p for layer in own for p in layer.parameters.values()])
    recording.applied(own[0].index if len(own) == 1 else NONE, start)


def forget_gradients(layers: Iterable[Layer]) -> None:
    """Let the next backward pass make gradients of its own."""
    for layer in layers:
        for parameter in layer.parameters.values():
            parameter.grad = None


def before_modules(
    model: nn.Module, owner_of: Mapping[int, Layer], told: Callable[[str, list[Layer]], None]
) -> ExitStack:
    """Tell of a module that is entered, by its path and the layers of its own parameters (`owner_of` their identities):
    its code may read them in ways no gate sees. Until the stack is closed."""
    hooks = ExitStack()
    for path, module in outside_regions(model):
        own = [id(parameter) for parameter in module.parameters(recurse=False)]
        if layers := list(dict.fromkeys(owner_of[each] for each in own if each in owner_of)):
            hooks.callback(before_forward(module, partial(told, path, layers)).remove)
    return hooks
