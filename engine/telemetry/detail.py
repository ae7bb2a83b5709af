"""Which steps keep every event. Totals exist for all steps; whole timelines only for those worth looking
at."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Literal

import numpy as np


@dataclass(frozen=True, kw_only=True)
class DetailPolicy:
    """What to keep."""

    mode: Literal["chosen", "all"] = "chosen"
    """`all` keeps every event; `chosen` what the fields below say."""
    first: int = 5
    """The first steps: warm-up, and the page's first picture."""
    few: int = 3
    """So many steps in a row, to see how one leads into the next ..."""
    every: int = 100
    """... of every so many."""
    slowest_after: int = 10
    """From this step on, a step slower than all before it since this one is kept as well."""
    last_ns: int = 60_000_000_000
    """Events of the last minute wait in memory and are written when the recorder closes."""
    held: int = 500_000
    """At most so many of them wait (42 bytes each); beyond, the oldest go and count as dropped."""

    def __post_init__(self) -> None:
        if self.mode not in {"chosen", "all"}:
            raise ValueError(f"detail mode = {self.mode!r}: no such mode. Known: all, chosen")
        if self.every < 1:
            raise ValueError(
                f"detail every = {self.every}: must be at least 1. Give few = 0 to keep no such steps"
            )

    def chooses(self, step: np.ndarray) -> np.ndarray:
        """Whether each step is kept whatever happens in it; events outside of steps (step < 0) are."""
        if self.mode == "all":
            return np.ones(len(step), bool)
        return (step < self.first) | (step % self.every < self.few)


class Detail:
    """Sorts events into kept and held, and finds the held ones of a step that turns out slow."""

    def __init__(self, policy: DetailPolicy) -> None:
        self._policy = policy
        self._held: deque[np.ndarray] = deque()
        self._held_rows = 0
        self._slow: list[int] = []
        self._slowest = -1
        self._dropped = 0

    def take(self, events: np.ndarray) -> list[np.ndarray]:
        """The events to keep now; the others are held for a while."""
        if not len(events):
            return []
        keep = self._policy.chooses(events["step"])
        if self._slow:
            keep |= np.isin(events["step"], self._slow)
        self._hold(events[~keep])
        return [events[keep]] if keep.any() else []

    def steps(self, steps: np.ndarray) -> list[np.ndarray]:
        """Told of finished steps (STEP rows): the held events of those that are the slowest so far."""
        found: list[np.ndarray] = []
        for step, start, end in zip(steps["step"], steps["start"], steps["end"], strict=True):
            if step < self._policy.slowest_after or end - start <= self._slowest:
                continue
            is_record = self._slowest >= 0  # the first one only sets the mark
            self._slowest = end - start
            if is_record and not self._policy.chooses(np.array([step]))[0]:
                self._slow = [*self._slow[-8:], int(step)]  # its last receives may still be on the wire
                found.extend(self._release(int(step)))
        return found

    def rest(self) -> list[np.ndarray]:
        """Everything held: the last minute, when the recorder closes."""
        rest, self._held, self._held_rows = list(self._held), deque(), 0
        return rest

    def take_dropped(self) -> int:
        """How many events of the last minute had to go since the last call, for want of room."""
        dropped, self._dropped = self._dropped, 0
        return dropped

    def _hold(self, events: np.ndarray) -> None:
        if not len(events):
            return
        self._held.append(events)
        self._held_rows += len(events)
        horizon = int(events["end"].max()) - self._policy.last_ns
        while self._held and int(self._held[0]["end"].max()) < horizon:
            self._held_rows -= len(self._held.popleft())
        while self._held_rows > self._policy.held:
            oldest = self._held.popleft()
            self._held_rows -= len(oldest)
            self._dropped += len(oldest)

    def _release(self, step: int) -> list[np.ndarray]:
        found = []
        for index, events in enumerate(self._held):
            match = events["step"] == step
            if match.any():
                found.append(events[match])
                self._held[index] = events[~match]
                self._held_rows -= int(match.sum())
        self._held = deque(events for events in self._held if len(events))
        return found
