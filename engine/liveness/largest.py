"""The largest batch whose step fits, found on tensors without values, and how much longer its passes take.

A slow-down is of the blocks' times as `fitting.py` has them for so many samples: what is computed again takes each
block's forward once more, and what is swapped waits where its copies take longer than the block beside it computes. It
is said where all layers that keep nothing do the same and are blocks, and of a mixture; else it is not.

A *mixture* is what a budget of so much memory chooses. It has its largest batch where the choice that holds the least
still fits; so that choice is looked for first, among those that a budget looks at, on a batch that is known to fit
otherwise. The batch that it allows is then given to the budget, which may have a faster choice for it.

Costs four looks for a way; for a mixture ten, four, and up to 16 more where its batch is another one than was known.
It loses where another choice holds the least with more samples: the batch is then too small by what that would save.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from engine.budget.blocks import Action
from engine.budget.largest import FIRST, largest
from engine.budget.prediction import predict
from engine.liveness.fitting import DISK, Blocks, Fitter, Wanted, rates_of
from engine.liveness.training import Training
from engine.memory.blocks import Asked
from engine.plan.largest import Found, Point
from engine.plan.peak import Peak

Of = Callable[[int], Training]
"""What is trained, on so many samples on `meta`."""
Look = Callable[[Training, Mapping[str, Asked]], Peak]
"""The peak under choices for the layers that do not keep their activations."""


@dataclass(frozen=True, kw_only=True)
class Room:
    """What is asked for."""

    room: int
    """Bytes that the model's step may hold."""
    most: int
    """Samples of a pass that are counted."""
    swap_bytes_per_second: int = DISK
    """To the second tier, each way."""
    first: int = FIRST
    """Samples that are looked at first; for a mixture, some that are known to fit."""


def find(of: Of, choices: Mapping[str, Asked], look: Look, asked: Room, wanted: Wanted) -> Found:
    """The largest batch under `choices`. `wanted`: by which times passes are compared."""
    search = _Search(lambda samples: look(of(samples), choices), asked)
    slow_down = _slow_down(of(search.samples), choices, asked, wanted) if search.samples else None
    return search.found(slow_down, wanted)


def find_mixture(of: Of, look: Look, asked: Room, wanted: Wanted) -> Found:
    """The largest batch under what a budget chooses, and that choice."""

    def fitter(samples: int) -> Fitter:
        training = of(samples)
        return Fitter(training, {}, partial(look, training), wanted)

    first = min(max(asked.first, 1), asked.most)
    begun = fitter(first)
    thrifty = begun.least()
    search = _Search(lambda samples: look(of(samples), begun.choices(thrifty)), asked)
    if not search.samples:
        return search.found(None, wanted)
    at = begun if search.samples == first else fitter(search.samples)
    fitted = at.fit(asked.room + wanted.beside, thrifty)
    slow_down = fitted.extra_ns / fitted.pass_ns if fitted.pass_ns else None
    found = search.found(slow_down, wanted)
    return replace(found, peak=fitted.peak - wanted.beside, layers=fitted.layers)


def curve(
    of: Of, choices: Mapping[str, Asked], look: Look, samples: Sequence[int], asked: Room, wanted: Wanted
) -> tuple[Point, ...]:
    """What passes of so many samples hold and take."""
    found = []
    for count in samples:
        training = of(count)
        peak, pass_ns = look(training, choices), _pass_ns(training, choices, asked, wanted)
        found.append(Point(samples=count, peak=max(peak.total, peak.first), pass_ns=pass_ns))
    return tuple(found)


class _Search:
    """For the largest batch that fits."""

    def __init__(self, look: Callable[[int], Peak], asked: Room) -> None:
        looked: dict[int, Peak] = {}

        def held(samples: int) -> int:
            looked[samples] = peak = look(samples)
            return max(peak.total, peak.first)

        self._room = asked.room
        self.samples = largest(held, asked.room, most=asked.most, first=asked.first)
        over = self.samples + 1
        if not self.samples and over not in looked:
            held(over)
        self._at, self._beyond = looked[max(self.samples, 1)], looked.get(over)

    def found(self, slow_down: float | None, wanted: Wanted) -> Found:
        """The answer."""
        at, beyond = self._at, self._beyond
        first = beyond is not None and beyond.total <= self._room
        return Found(
            samples=self.samples,
            peak=max(at.total, at.first),
            over=None if beyond is None else max(beyond.total, beyond.first),
            when="" if beyond is None else "first" if first else beyond.when,
            layer=None if beyond is None or first else beyond.layer,
            slow_down=slow_down,
            rates=rates_of(wanted),
        )


_ACTIONS = {action.value: action for action in Action}


def _slow_down(training: Training, choices: Mapping[str, Asked], asked: Room, wanted: Wanted) -> float | None:
    if not choices:
        return 0.0
    actions = {_ACTIONS.get(choice.activations) for choice in choices.values()}
    if len(actions) != 1 or None in actions or set(choices) != set(wanted.free):
        return None
    found, kept = (_pass_ns(training, each, asked, wanted) for each in (choices, {}))
    return found / kept - 1 if found and kept else None


def _pass_ns(training: Training, choices: Mapping[str, Asked], asked: Room, wanted: Wanted) -> int | None:
    """What a pass takes; None where nobody predicts it."""
    if not {choice.activations for choice in choices.values()} <= _ACTIONS.keys():
        return None
    blocks = Blocks(training, {}, wanted)
    chosen = blocks.chosen(choices)
    return predict(blocks.costs, chosen, swap_bytes_per_second=asked.swap_bytes_per_second).time_ns
