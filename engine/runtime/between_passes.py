"""Between the micro-batches of a step: who looks at a gradient that is still in factors is told.

A late-multiplied layer has factors where plain PyTorch has the sum of the gradients so far. A model may read it in the
next micro-batch's forward pass, or in the loss. For that time its parameters have a subclass of their class whose
`grad` is a property: before it is read, set or deleted, the factors are multiplied.

Cost: two assignments of a class for each parameter and micro-batch but the last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor
from torch.nn import Parameter

_GRADIENT: Any = Tensor.grad


class BetweenPasses:
    """The parameters of one layer."""

    def __init__(self, parameters: Sequence[Parameter], look: Callable[[], None]) -> None:
        """`look()`: somebody is about to look at a gradient; called once, after `end`."""
        self._parameters = parameters
        self._look = look
        self._own: list[type] = []
        """Their classes, while they have others."""
        self._watched: dict[type, type] = {}
        """By a parameter's own class."""

    def begin(self) -> None:
        """A backward pass has ended, and another one of the same step follows."""
        self._own = [type(parameter) for parameter in self._parameters]
        for parameter, own in zip(self._parameters, self._own, strict=True):
            if own not in self._watched:
                self._watched[own] = self._subclass(own)
            parameter.__class__ = self._watched[own]

    def end(self) -> None:
        """What is read from now on is what is there."""
        own, self._own = self._own, []
        for parameter, kind in zip(self._parameters, own, strict=bool(own)):
            parameter.__class__ = kind

    def _subclass(self, own: type) -> type:
        """A subclass of `own` that looks like it."""

        def looked_at(access: Callable[..., Any]) -> Callable[..., Any]:
            def after_looking(parameter: Parameter, *value: Any) -> Any:
                self.end()
                self._look()
                return access(parameter, *value)

            return after_looking

        return type(own)(
            own.__name__,
            (own,),
            {
                "__module__": own.__module__,
                "__qualname__": own.__qualname__,
                "grad": property(
                    looked_at(_GRADIENT.__get__),
                    looked_at(_GRADIENT.__set__),
                    looked_at(_GRADIENT.__delete__),
                ),
            },
        )
