"""sgd: the averaged step d times a learning rate.

Update rule: w <- w + rate d; with momentum m: v <- m v + d, w <- w + rate v. Rate 1 without momentum is plain
averaging, bit for bit (papers 001). Bytes: none, for every worker takes the same step by itself.
Source: Reddi et al. 2021 (FedAvg's server as an optimizer); Wang et al. 2020 (slow momentum).
"""

from __future__ import annotations

from torch import Tensor

from engine.consistency.outer.base import OuterOptimizer


class OuterSgd(OuterOptimizer):
    """The averaged step, scaled, with heavy-ball momentum where that is not 0."""

    def step(self, name: str, common: Tensor, delta: Tensor) -> None:
        along = self._accelerated(name, delta) if self._momentum else delta
        common.add_(along, alpha=self._learning_rate)
