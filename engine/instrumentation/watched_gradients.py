"""Watched gradients: who looks at a gradient that is still in factors is told.

From the beginning of a step's first backward pass until its gradient leaves, a late-multiplied layer may have factors
where plain PyTorch has the sum of the gradients so far. A hook may read that, or the forward pass or the loss of a
later micro-batch. For that time the layer's parameters have a subclass of their class whose `grad` is a property:
before it is read, set or deleted, the factors that belong to it are multiplied.

Cost: two assignments of a class for each parameter and step.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor
from torch.nn import Parameter

from engine.instrumentation.lookalike import lookalike, own_class
from engine.instrumentation.unwatched import why_unwatched

_GRADIENT: Any = Tensor.grad


class WatchedGradients:
    """Of the parameters of one layer."""

    def __init__(
        self, parameters: Sequence[Parameter], look: Callable[[], None], lock: threading.RLock
    ) -> None:
        """`look()`: somebody is about to look at a gradient; called under `lock`. It passes the watch by `gradient_of`
        and `set_gradient`."""
        self._parameters = parameters
        self._look = look
        self._lock = lock
        self._watched: dict[type, type] = {}
        """By a parameter's own class."""

    def why_not(self) -> str:
        """Why these cannot be watched; empty where they can."""
        return next(filter(None, map(why_unwatched, dict.fromkeys(map(own_class, self._parameters)))), "")

    def begin(self) -> None:
        """A look is told from now on."""
        for parameter in self._parameters:
            own = own_class(parameter)
            if own not in self._watched:
                self._watched[own] = self._subclass(own)
            parameter.__class__ = self._watched[own]

    def end(self) -> None:
        """What is read from now on is what is there."""
        for parameter in self._parameters:
            own = own_class(parameter)
            if own in self._watched and self._watched[own] is type(parameter):
                parameter.__class__ = own

    def _subclass(self, own: type) -> type:
        def looked_at(access: Callable[..., Any]) -> Callable[..., Any]:
            def after_looking(parameter: Parameter, *value: Any) -> Any:
                with self._lock:
                    self._look()
                return access(parameter, *value)

            return after_looking

        return lookalike(
            own,
            {
                "grad": property(
                    looked_at(_GRADIENT.__get__),
                    looked_at(_GRADIENT.__set__),
                    looked_at(_GRADIENT.__delete__),
                ),
            },
        )


def gradient_of(parameter: Parameter) -> Tensor | None:
    """What is there, watched or not."""
    found: Tensor | None = _GRADIENT.__get__(parameter)
    return found


def set_gradient(parameter: Parameter, gradient: Tensor) -> None:
    """Put it there, watched or not."""
    _GRADIENT.__set__(parameter, gradient)
