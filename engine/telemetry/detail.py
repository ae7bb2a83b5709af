"""Which steps keep every event. Totals exist for all steps; whole timelines only for those worth looking
at."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from engine.telemetry.events import NONE

HELD_NS = 10_000_000_000
"""So long every event waits at least, also where less than that is written at the end: a step that somebody asks for
may be over when the recorder hears of it."""


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
    slowest_after: int | None = 10
    """From this step on, a step slower than all before it since this one is kept as well. None: not for that."""
    last_ns: int = 60_000_000_000
    """Events of the last minute wait in memory and are written when the recorder closes."""
    held: int = 500_000
    """At most so many of them wait (43 bytes each); beyond, the oldest go and count as dropped."""

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


@dataclass(kw_only=True)
class Dropped:
    """Detail that should have been kept, and was given up for want of room."""

    events: int = 0
    first_step: int = NONE
    last_step: int = NONE
    """-1 where no step had events among them; so is `first_step`."""
    until_ns: int = 0
    """End of the last event."""

    def add(self, other: Dropped) -> None:
        steps = [step for step in (self.first_step, other.first_step) if step != NONE]
        self.events += other.events
        self.first_step = min(steps, default=NONE)
        self.last_step = max(self.last_step, other.last_step)
        self.until_ns = max(self.until_ns, other.until_ns)

    @staticmethod
    def of(events: np.ndarray) -> Dropped:
        if not len(events):
            return Dropped()
        step = events["step"][events["step"] >= 0]
        first, last = (int(step.min()), int(step.max())) if len(step) else (NONE, NONE)
        return Dropped(
            events=len(events), first_step=first, last_step=last, until_ns=int(events["end"].max())
        )


class Detail:
    """Sorts events into kept and held, and finds the held ones of a step that turns out to be wanted."""

    def __init__(self, policy: DetailPolicy) -> None:
        self._policy = policy
        self._held: deque[np.ndarray] = deque()
        self._held_rows = 0
        self._newest = 0
        """End of the last event that was held."""
        self._cut: deque[Dropped] = deque()
        """Of the last minute, what there was no room for: it is missing only where it still is the last minute
        when the recorder closes."""
        self._slow: list[int] = []
        self._slowest = -1
        self._asked: list[tuple[int, int]] = []
        self._dropped = Dropped()

    def take(self, events: np.ndarray) -> list[np.ndarray]:
        """The events to keep now; the others are held for a while."""
        if not len(events):
            return []
        keep = self._wanted(events["step"])
        self._hold(events[~keep])
        return [events[keep]] if keep.any() else []

    def give_up(self, events: np.ndarray) -> None:
        """There is no room for these: what would have been kept counts as dropped."""
        keep = self._wanted(events["step"])
        self._dropped.add(Dropped.of(events[keep]))
        self._miss(events[~keep])

    def steps(self, steps: np.ndarray) -> list[np.ndarray]:
        """Told of finished steps (STEP rows): the held events of those that are the slowest so far."""
        found: list[np.ndarray] = []
        if self._policy.slowest_after is None:
            return found
        for step, start, end in zip(steps["step"], steps["start"], steps["end"], strict=True):
            if step < self._policy.slowest_after or end - start <= self._slowest:
                continue
            is_record = self._slowest >= 0  # the first one only sets the mark
            self._slowest = end - start
            if is_record and not self._wanted(np.array([step]))[0]:
                self._slow = [*self._slow[-8:], int(step)]  # its last receives may still be on the wire
                found.extend(self._release(int(step), int(step)))
        return found

    def ask(self, ranges: Iterable[tuple[int, int]]) -> list[np.ndarray]:
        """A person wants steps `first` to `last` of each range: those still held are kept now, others as they
        come."""
        found = []
        for first, last in ranges:
            self._asked.append((first, last))
            found.extend(self._release(first, last))
        return found

    def rest(self) -> list[np.ndarray]:
        """The last minute, when the recorder closes."""
        rest = [events for events in self._held if _last(events) >= self._newest - self._policy.last_ns]
        self._held, self._held_rows = deque(), 0
        for cut in self._cut:
            self._dropped.add(cut)
        self._cut.clear()
        return rest

    def take_dropped(self) -> Dropped:
        """What was given up since the last call."""
        dropped, self._dropped = self._dropped, Dropped()
        return dropped

    def _wanted(self, step: np.ndarray) -> np.ndarray:
        keep = self._policy.chooses(step)
        if self._slow:
            keep |= np.isin(step, self._slow)
        for first, last in self._asked:
            keep |= (step >= first) & (step <= last)
        return keep

    def _hold(self, events: np.ndarray) -> None:
        if not len(events):
            return
        self._held.append(events)
        self._held_rows += len(events)
        self._newest = max(self._newest, _last(events))
        while self._held and _last(self._held[0]) < self._newest - max(self._policy.last_ns, HELD_NS):
            self._held_rows -= len(self._held.popleft())
        while self._held_rows > self._policy.held:
            oldest = self._held.popleft()
            self._held_rows -= len(oldest)
            self._miss(oldest)
        while self._cut and self._cut[0].until_ns < self._newest - self._policy.last_ns:
            self._cut.popleft()

    def _miss(self, events: np.ndarray) -> None:
        if len(events) and self._policy.last_ns:
            self._cut.append(Dropped.of(events))

    def _release(self, first: int, last: int) -> list[np.ndarray]:
        found = []
        for index, events in enumerate(self._held):
            match = (events["step"] >= first) & (events["step"] <= last)
            if match.any():
                found.append(events[match])
                self._held[index] = events[~match]
                self._held_rows -= int(match.sum())
        self._held = deque(events for events in self._held if len(events))
        return found


def _last(events: np.ndarray) -> int:
    """End of the last one, of one at least."""
    return int(events["end"].max())
