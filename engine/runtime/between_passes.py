"""Between the micro-batches of a step: who looks at a gradient that is still in factors is told.

A late-multiplied layer has factors where plain PyTorch has the sum of the gradients so far. A model may read it in the
next micro-batch's forward pass, or in the loss. For that time its parameters have a subclass of their class whose
`grad` is a property: before it is read, set or deleted, the factors are multiplied. Where code asks for their class by
identity, they keep it, and the factors are multiplied when the pass ends.

Cost: two assignments of a class for each parameter and micro-batch but the last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor
from torch.nn import Parameter

from engine.runtime.class_identity import asks
from engine.runtime.lookalike import lookalike

_GRADIENT: Any = Tensor.grad


class BetweenPasses:
    """The parameters of one layer."""

    def __init__(self, parameters: Sequence[Parameter], look: Callable[[], None]) -> None:
        """`look()`: somebody is about to look at a gradient; called once, after `end`."""
        self._parameters = parameters
        self._look = look
        self._own: list[type] = []
        """Their classes, while they have others."""
        self._watched: dict[type, type | None] = {}
        """By a parameter's own class; None where code asks for it by identity."""

    def begin(self) -> None:
        """A backward pass has ended, and another one of the same step follows."""
        kinds = [type(parameter) for parameter in self._parameters]
        for own in kinds:
            if own not in self._watched:
                self._watched[own] = None if asks(own) else self._subclass(own)
        if any(self._watched[own] is None for own in kinds):
            self._look()
            return
        self._own = kinds
        for parameter, own in zip(self._parameters, kinds, strict=True):
            parameter.__class__ = self._watched[own]  # type: ignore[assignment]

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
