"""every-step: synchronous SGD. A unit is updated when every worker's contribution of the step is there."""

from __future__ import annotations


class EveryStep:
    """No worker uses parameters of version t before all contributions of step t-1 are in them."""

    def complete(self, arrived: int, workers: int) -> bool:
        """Whether a unit with contributions of `arrived` workers may be updated."""
        return arrived == workers

    def version_needed(self, step: int) -> int:
        """The version that the forward pass of `step` (0 first) reads: all updates before it."""
        return step
