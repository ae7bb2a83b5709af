"""What an outer optimizer is. A new one is one file with a class of this shape and one line in `__init__.py`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from torch import Tensor


class OuterOptimizer(ABC):
    """Moves the common parameters by the step that the workers have averaged.

    Every worker has its own and gives it the same steps, so all stay equal and its state never travels.
    Memory: one copy of the parameters where it has momentum.
    """

    def __init__(self, learning_rate: float, momentum: float) -> None:
        self._learning_rate = learning_rate
        self._momentum = momentum
        self._velocity: dict[str, Tensor] = {}

    @abstractmethod
    def step(self, name: str, common: Tensor, delta: Tensor) -> None:
        """Change `common`, the parameter called `name` as it was after the last average, in place; `delta` is how far
        the workers have come from it on average. Both have the parameter's shape."""

    def state(self) -> dict[str, Tensor]:
        """Views of what the next step needs of the earlier ones, by parameter."""
        return dict(self._velocity)

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Go on from copies of `state()`, on the device that steps come from."""
        self._velocity = {name: velocity.clone() for name, velocity in state.items()}

    def _accelerated(self, name: str, delta: Tensor) -> Tensor:
        """v <- momentum v + delta, from v = 0; answers v."""
        velocity = self._velocity.get(name)
        if velocity is None:
            velocity = self._velocity[name] = delta.clone()
        else:
            if velocity.device != delta.device:  # it was loaded
                velocity = self._velocity[name] = velocity.to(delta.device)
            velocity.mul_(self._momentum).add_(delta)
        return velocity
