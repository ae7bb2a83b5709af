"""streaming: fragments of the model's layers are averaged in turn, while training goes on.

Update rule: as `average.py`, for each fragment f by itself, in a step of its own: its period begins f/F of a period
earlier than that of fragment 0, F being the number of fragments. What a worker has changed in the fragment since its
last average leaves after step t. The average is taken `delay` steps later: w <- w + outer(sum_i a_i (w_i - w)), and the
worker goes on from mixing w_i' + (1 - mixing) w, w_i' being what it has made of the fragment meanwhile. No average is
under way when the job ends: the last step is followed by one of all fragments, without delay or mixing, and what would
arrive no sooner is left out. With one fragment, no delay and no mixing this is `average`, bit for bit.
Bytes: those of `average` in one period, but at most about 1/F of them at once, and `delay` steps of time for it.
Memory: as `average`, and what is under way.
Loses where the network is fast enough for whole averages: a delayed average is an older one.
Source: Douillard et al. 2025 (Streaming DiLoCo with overlapping communication), sections 2.2 and 2.3; torchft calls
delay and mixing `fragment_sync_delay` and `fragment_update_alpha`. Deviations: workers are weighed by their samples;
the paper sends four bits for each element, which is a codec's matter.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.consistency.average import Average
from engine.plan.consistency import Alone


@dataclass(frozen=True, kw_only=True)
class StreamingSettings(Alone):
    """Those of streaming."""

    mode: str = "streaming"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.without("optimizer_state", "state")


class Streaming(Average):
    """When each fragment's average leaves and is taken."""

    settings = StreamingSettings

    def __init__(self, consistency: Alone, *, workers: int, total_steps: int) -> None:
        """See Average."""
        super().__init__(consistency, workers=workers, total_steps=total_steps)
        self._mixing = consistency.mixing or 0.0
        self._fragments = consistency.fragments or 1
        self._delay = consistency.delay or 0

    def leaves(self, fragment: int, step: int) -> bool:
        last = self._total_steps - 1
        if step == last:
            return True
        offset = fragment * self._period // self._fragments
        return step >= 0 and (step + 1 + offset) % self._period == 0 and step + self._delay < last

    def arrives(self, fragment: int, step: int) -> int | None:
        left = step if step == self._total_steps - 1 else step - self._delay
        return left if self.leaves(fragment, left) else None

    def mixing(self, step: int) -> float:
        return 0.0 if step == self._total_steps - 1 else self._mixing
