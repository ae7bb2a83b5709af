"""Training and evaluation: a mode that every module has by itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

from engine.models.held import Held


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """The model is in evaluation mode. Afterwards every module has the mode that it had, which need not be the model's
    (what is frozen keeps its batch statistics), and the attributes: what forward counts or keeps is training's. What is
    trained stays so: where workers drift one of them evaluates, and its model would not be trained as the others'."""
    held, modes = Held(model), {module: module.training for module in model.modules()}
    trained = [(parameter, parameter.requires_grad) for parameter in model.parameters()]
    model.eval()
    try:
        yield
    finally:
        model.train(modes[model])  # a module's own `train` may do more than to set a mode
        held.put_back()
        for module, training in modes.items():
            module.training = training
        for parameter, wanted in trained:
            if parameter.requires_grad != wanted:
                parameter.requires_grad_(wanted)
