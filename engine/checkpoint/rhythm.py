"""When workers meet for a word about checkpoints, and what worker 0 says there.

No two machines have the same clock, and a cut is after a step that all have agreed on. So the clock is worker 0's
alone: after steps that everybody knows, all wait for its word, which says whether the cut is now, and after which step
they meet again. Between two of these there is a second, or a step where that takes longer: what is asked for by the
clock, or by a person, is at most so late.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Self

LOOK_S = 1.0
"""Between two meetings, about."""


@dataclass(frozen=True, kw_only=True)
class Word:
    """What worker 0 says."""

    cut: bool = False
    """A checkpoint is made of what has been trained by now."""
    ends: bool = False
    """And the attempt ends with it, once it is whole."""
    next: int = 0
    """After so many steps they meet again."""

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, said: bytes) -> Self:
        return cls(**json.loads(said))


def first_meeting(begun: int, period: int) -> int:
    """After the steps that are the first multiple of `period` beyond those made before this attempt."""
    return begun + period - begun % period


class Rhythm:
    """Worker 0's."""

    def __init__(self, *, every_s: float | None, period: int, begun: int, now_s: float) -> None:
        """`every_s`: seconds between two checkpoints, if they are asked for in seconds. `period`: only after multiples
        of so many steps can there be one. `begun`: the steps that had been made at `now_s`, when training began."""
        self._every_s = every_s
        self._period = period
        self._begun = self._met = begun
        self._met_s = self._cut_s = now_s

    def word(self, steps: int, now_s: float, *, asked: bool) -> Word:
        """After so many steps, at a meeting. `asked`: a person wants the attempt to end with a checkpoint."""
        took_s = (now_s - self._met_s) / (steps - self._met)
        # Half a step too early is as near as half a step too late.
        due = self._every_s is not None and now_s - self._cut_s >= self._every_s - took_s * self._period / 2
        if due or asked:
            self._cut_s = now_s
        wait_s = LOOK_S
        if self._every_s is not None:
            wait_s = min(wait_s, max(0.0, self._cut_s + self._every_s - now_s))
        # The first steps take longer than others, and what they take is no measure of many.
        most = min(max(1, steps - self._begun), int(wait_s / took_s) if took_s > 0 else steps)
        self._met, self._met_s = steps, now_s
        distance = max(1, most // self._period) * self._period
        return Word(cut=due or asked, ends=asked, next=steps + distance)

    def cut(self, now_s: float) -> None:
        """A checkpoint is made that was not asked for by the clock."""
        self._cut_s = now_s
