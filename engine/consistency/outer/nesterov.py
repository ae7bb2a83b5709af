"""nesterov: the averaged step d with Nesterov's momentum, DiLoCo's outer optimizer (rate 0.7, momentum 0.9).

Update rule: v <- m v + d, w <- w + rate (d + m v): torch.optim.SGD(nesterov=True) with the gradient -d.
Bytes: none, for every worker takes the same step by itself.
Source: Douillard et al. 2023 (DiLoCo).
"""

from __future__ import annotations

from torch import Tensor

from engine.consistency.outer.base import OuterOptimizer


class OuterNesterov(OuterOptimizer):
    """One step ahead along the momentum."""

    def step(self, name: str, common: Tensor, delta: Tensor) -> None:
        velocity = self._accelerated(name, delta)
        common.add_(delta, alpha=self._learning_rate)
        common.add_(velocity, alpha=self._learning_rate * self._momentum)
