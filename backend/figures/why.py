"""Why a worker waited: the wait cut into what happened to the message that ended it, back to front.

From the wait's end backwards: taken in, on the wire, queued at its sender, held there, made (summed, updated) from
the last contribution, which had its own time on the wire and in a queue, and so on until the wait's start. What
each stretch was is read off recorded events of one step and unit; the stretches follow one another without gaps, so
that they add up to the wait exactly.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from engine.telemetry.events import NONE, Kind, Track

Cause = Literal["compute", "queue", "held", "wire", "reduce", "collective", "apply", "unknown"]
MAX_HOPS = 64
"""A ring of as many workers; longer chains end as unknown."""
MAX_AHEAD = 400
"""Messages ahead that are told one by one: the longest."""


def waits_of(spans: np.ndarray) -> np.ndarray:
    """Those of SPAN rows that are exposed waits."""
    return spans[(spans["kind"] == Kind.WAIT) & (spans["track"] == Track.COMPUTE)]


@dataclass(frozen=True, kw_only=True)
class Wait:
    """Which wait: the longest one of a worker and step for a layer."""

    party: int
    step: int
    layer: int
    unit: int = NONE
    """The unit that came last; NONE: whichever."""

    @property
    def text(self) -> str:
        """As in addresses."""
        return f"{self.party},{self.step},{self.layer},{self.unit}"

    @staticmethod
    def parse(text: str) -> Wait:
        """Reads `text`. Raises ValueError for anything else."""
        try:
            party, step, layer, unit = (int(part) for part in text.split(","))
        except ValueError:
            raise ValueError(
                f"why = {text!r}: must be four numbers: worker, step, layer, unit."
                " Take them from a wait of the timeline"
            ) from None
        return Wait(party=party, step=step, layer=layer, unit=unit)

    def find(self, spans: np.ndarray) -> np.void | None:
        """The wait among SPAN rows; None where it was not recorded."""
        own = waits_of(spans)
        for column in ("party", "step", "layer"):
            own = own[own[column] == getattr(self, column)]
        if self.unit != NONE:
            own = own[own["unit"] == self.unit]
        return own[(own["end"] - own["start"]).argmax()] if len(own) else None


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """A part of the wait with one cause, in ns on the attempt's clock."""

    cause: Cause
    from_ns: int
    to_ns: int
    party: int
    """Where it happened; a message's sender."""
    peer: int = NONE
    """A message's receiver."""
    layer: int = NONE
    ahead: tuple[tuple[int, int], ...] = ()
    """While it was queued: `(layer, ns)` of what its sender sent meanwhile, longest first. Sends to several
    peers may overlap, so the sum may exceed the stretch."""

    @property
    def ns(self) -> int:
        return self.to_ns - self.from_ns


@dataclass(frozen=True, kw_only=True)
class Why:
    """One wait explained."""

    wait: np.void
    """Its SPAN."""
    stretches: tuple[Stretch, ...]
    """In order of time, from the wait's start to its end."""
    path: np.ndarray
    """SPAN rows that the message was made of, newest first: the receive that ended the wait, its send, what
    made it, ..."""
    ahead: np.ndarray
    """SPAN rows of what was sent while a message of the path was queued."""
    not_kept: int | None = None
    """The step that sent what was waited for, where only its totals were kept: then nothing says why."""


def explain(spans: np.ndarray, wait: np.void) -> Why:
    """The explanation of a wait from SPAN rows around it (from some time before its start to its end)."""
    walk = _Walk(spans=spans, wait=wait, cursor=int(wait["end"]))
    walk.run()
    ahead = np.concatenate([spans[:0], *walk.ahead])
    ahead = ahead[np.argsort(ahead["start"] - ahead["end"], kind="stable")][:MAX_AHEAD]
    return Why(
        wait=wait,
        stretches=tuple(reversed(walk.stretches)),
        path=np.array(walk.path, spans.dtype) if walk.path else spans[:0],
        ahead=ahead[np.argsort(ahead["start"], kind="stable")],
    )


@dataclass
class _Walk:
    """Backwards from the wait's end; `cursor` is where the explanation has got to."""

    spans: np.ndarray
    wait: np.void
    cursor: int
    stretches: list[Stretch] = field(default_factory=list)
    path: list[np.void] = field(default_factory=list)
    ahead: list[np.ndarray] = field(default_factory=list)
    left: np.ndarray = field(init=False)
    """(n) which spans are not on the path yet: none is there twice."""

    def __post_init__(self) -> None:
        self.left = np.ones(len(self.spans), bool)

    @property
    def done(self) -> bool:
        return self.cursor <= self.wait["start"]

    def run(self) -> None:
        party, start = int(self.wait["party"]), int(self.wait["start"])
        came = self._arrival(party)
        if came is None:
            return self._until(start, "unknown", party)
        layer = int(came["layer"])
        mine = self.spans["layer"] == layer
        for column in ("step", "unit"):
            mine &= self.spans[column] == came[column]
        self._until(int(came["end"]), "apply", party, layer=layer)
        for _ in range(MAX_HOPS):
            if self.done:
                return None
            if came["kind"] == Kind.RECEIVE:
                party = self._message(came)
            elif came["kind"] == Kind.BACKWARD:
                return self._until(start, "compute", party, layer=layer)
            else:
                native = came["kind"] == Kind.REDUCE and came["bytes"] > 0
                self._until(int(came["start"]), "collective" if native else "reduce", party, layer=layer)
            before = self._before(mine, party, came)
            if before is None:
                break
            self._until(int(before["end"]), "held", party, layer=layer)
            came = before
        return self._until(start, "unknown", party, layer=layer)

    def _until(self, start: int, cause: Cause, party: int, **more: Any) -> None:
        """What lies between `start` and the cursor has this cause; the cursor moves there."""
        start = min(max(start, int(self.wait["start"])), self.cursor)
        if start < self.cursor:
            self.stretches.append(Stretch(cause=cause, from_ns=start, to_ns=self.cursor, party=party, **more))
        self.cursor = start

    def _take(self, which: np.ndarray) -> np.void | None:
        """The last one to end of the spans that `which` (n) names; it is on the path from now on."""
        found = np.flatnonzero(which & self.left)
        if not len(found):
            return None
        index = found[self.spans["end"][found].argmax()]
        self.left[index] = False
        self.path.append(self.spans[index])
        return self.spans[index]

    def _arrival(self, party: int) -> np.void | None:
        """What ended the wait: the last receive, or native collective, of what was waited for."""
        spans = self.spans
        column = "layer" if self.wait["unit"] == NONE else "unit"
        own = (spans["party"] == party) & (spans["end"] <= self.wait["end"])
        own &= spans[column] == self.wait[column]
        # A native collective says how much it moved; the sum of one contribution does not.
        native = (spans["kind"] == Kind.REDUCE) & (spans["bytes"] > 0)
        return self._take(own & ((spans["kind"] == Kind.RECEIVE) | native))

    def _message(self, receive: np.void) -> int:
        """The wire and the queue of a message; answers its sender."""
        sender, receiver, layer = int(receive["peer"]), int(receive["party"]), int(receive["layer"])
        spans = self.spans
        out = (spans["kind"] == Kind.SEND) & (spans["party"] == sender)
        same = out & (spans["peer"] == receiver)  # both ends know when it was queued
        for column in ("step", "unit", "queued"):
            same &= spans[column] == receive[column]
        others = spans[out & ~same]
        sent = self._take(same)
        self._until(
            int((receive if sent is None else sent)["start"]), "wire", sender, peer=receiver, layer=layer
        )
        queued = int(receive["queued"])
        if queued == NONE:
            return sender
        # A message that stood aside for a more urgent one was sent in several runs.
        while not self.done and (run := self._take(same)) is not None:
            self._stood(others, int(run["end"]), sender, receiver, layer)
            self._until(int(run["start"]), "wire", sender, peer=receiver, layer=layer)
        self._stood(others, queued, sender, receiver, layer)
        return sender

    def _stood(self, others: np.ndarray, since: int, sender: int, receiver: int, layer: int) -> None:
        """From `since` to the cursor the message stood at its sender, which sent `others`: queued behind them, or
        held."""
        if self.done:
            return
        low, high = max(since, int(self.wait["start"])), self.cursor
        ahead = others[(others["end"] > low) & (others["start"] < high)]
        if 2 * _covered(ahead, low, high) >= high - low:
            self.ahead.append(ahead)
            behind = _by_layer(ahead, low, high)
            self._until(since, "queue", sender, peer=receiver, layer=layer, ahead=behind)
        else:
            self._until(since, "held", sender, peer=receiver, layer=layer)

    def _before(self, mine: np.ndarray, party: int, came: np.void) -> np.void | None:
        """What `party` did last for this unit before the cursor: an update, a sum, a receive, or the backward
        pass that computed it."""
        spans = self.spans
        here = (spans["party"] == party) & (spans["end"] <= self.cursor)
        received = here & mine & (spans["kind"] == Kind.RECEIVE)
        if came["kind"] == Kind.REDUCE and came["peer"] not in (NONE, party):  # the sum of one contribution
            contribution = self._take(received & (spans["peer"] == came["peer"]))
            if contribution is not None:
                return contribution
        served = here & mine & (spans["track"] == Track.SERVER)
        computed = here & (spans["kind"] == Kind.BACKWARD)
        for column in ("step", "layer"):
            computed &= spans[column] == came[column]
        return self._take(received | served | computed)


def _covered(rows: np.ndarray, low: int, high: int) -> int:
    """For how long of low to high at least one of the rows was, in ns."""
    covered, reached = 0, low
    order = np.argsort(rows["start"], kind="stable")
    for begins, ends in zip(rows["start"][order].tolist(), rows["end"][order].tolist(), strict=True):
        covered += max(min(ends, high) - max(begins, reached), 0)
        reached = max(reached, ends)
    return covered


def _by_layer(rows: np.ndarray, low: int, high: int) -> tuple[tuple[int, int], ...]:
    overlap = np.minimum(rows["end"], high) - np.maximum(rows["start"], low)
    layers = np.unique(rows["layer"]).tolist()
    found = [(layer, int(overlap[rows["layer"] == layer].sum())) for layer in layers]
    return tuple(sorted(found, key=lambda entry: -entry[1]))
