"""Rewind: a block's forward pass runs a second time on what its first run found, whoever has changed that since.

Before the first run is noted what the block can come at (`walk.py`): the attributes, buffers, submodules and hooks of
its modules, containers in containers, objects, arrays, generators of random numbers, what its code names in files and
closures (`places.py`), and the values of tensors (`values.py`). Around the second run all of that is again what it was
found to be; afterwards it is what it was before the second run, so that this leaves no trace.

What is noted is compared, not walked through again, until something else than a number or a text has changed.

Not put back: parameters that are trained, and how far an iterator, a Python generator or a file is. A run that changes
one of these ends the job with the layer's name. Nobody sees what goes past this: a file that forward opens, another
process, a library's globals.

Cost: half a microsecond for each place, five times a pass, and a copy of small tensors and of those that the block
writes to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Self

from torch import Tensor, nn
from torch.nn import Parameter

from engine.errors import TrainingError
from engine.instrumentation.gate import past_gates
from engine.instrumentation.reached import PLAIN
from engine.instrumentation.undisturbed import undisturbed
from engine.memory.places import StatePlace
from engine.memory.values import (
    GIVEN_AWAY,
    SMALL_BYTES,
    Note,
    can_be_copied,
    is_as,
    note,
    put_back,
    version_of,
    was_given_away,
)
from engine.memory.walk import Walk

LEARNING = 2
REMEDY = (
    "Keep the activations of this layer, or swap them, or let the model change nothing but its own attributes"
)


class State:
    """What a block comes at."""

    def __init__(self, block: str, modules: Sequence[nn.Module]) -> None:
        """`block`: its name, for people."""
        self.block = block
        self._modules = modules
        self.written: set[str] = set()
        """Tensors, by name, that forward has been seen to write to."""
        self._below = list(dict.fromkeys(below for module in modules for below in module.modules()))
        self._passes: Counter[tuple[bool, ...]] = Counter()
        """In which it was looked what forward writes to, by the modules' modes."""
        self._walk()

    def begin(self, arguments: Sequence[Any]) -> Before:
        """The block is about to run. `arguments`: those that may change by themselves. In its first passes in these
        modes, all tensors are compared with copies."""
        modes = tuple(module.training for module in self._below)
        self._passes[modes] += 1
        frozen = [each for _, each in self.parameters if not each.requires_grad]
        for parameter in frozen:  # their values are noted: where a version has not come, this waits for it
            parameter.detach()
        given = Walk([("its argument", value) for value in arguments], self.known) if arguments else None
        return Before(self, given, learning=self._passes[modes] <= LEARNING)

    def look(self) -> None:
        """See what has changed since, and what that leads to."""
        entered = True
        for number, place in enumerate(self.places):
            held = self.held[number]
            if not place.same(held):
                self.held[number] = place.read()
                entered = entered and _entered(place, held) == _entered(place, self.held[number])
        if not entered:
            self._walk()

    def refuse(self, rule: str) -> TrainingError:
        """What the block does that cannot be had."""
        return TrainingError(f"{self.block} {rule}. {REMEDY}")

    @past_gates
    def _walk(self) -> None:
        names = [f"{type(module).__name__}" for module in self._modules]
        walk = Walk(zip(names, self._modules, strict=True))
        self.places, self.held, self.known = walk.places, walk.held, walk.seen
        self.parameters, self.tensors = _parted(walk)
        self.copies: dict[int, Tensor] = {}
        """Of tensors, by id, as they were last noted."""


class _Tensor(NamedTuple):
    """A tensor that a block comes at."""

    name: str
    tensor: Tensor
    copied: bool
    """Whether its values can be copied."""
    small: bool

    @classmethod
    def of(cls, name: str, tensor: Tensor, most: int = SMALL_BYTES) -> Self:
        return cls(name, tensor, can_be_copied(tensor), tensor.numel() * tensor.element_size() <= most)


def _parted(walk: Walk) -> tuple[list[tuple[str, Parameter]], list[_Tensor]]:
    """Parameters, with their names, and other tensors."""
    found = walk.tensors.values()
    parameters = [(name, each) for name, each in found if isinstance(each, Parameter)]
    return parameters, [_Tensor.of(name, each) for name, each in found if not isinstance(each, Parameter)]


class Before:
    """What the first run found."""

    @undisturbed
    @past_gates
    def __init__(self, state: State, given: Walk | None, *, learning: bool) -> None:
        GIVEN_AWAY.addresses.clear()
        self._state = state
        self._learning = learning
        self._places: Sequence[StatePlace] = [*state.places, *given.places] if given else state.places
        self._held = [*state.held, *given.held] if given else [*state.held]
        self._changed: list[int] | None = None
        """Places that are not what was found, by number; None while nobody has looked."""
        parameters, tensors = _parted(given) if given else ([], [])
        self._modes = [(name, each, each.requires_grad) for name, each in (*state.parameters, *parameters)]
        fixed = [_Tensor.of(name, each, most=0) for name, each, trained in self._modes if not trained]
        self._notes = [self._noted(each) for each in (*state.tensors, *tensors, *fixed)]

    def _noted(self, each: _Tensor) -> Note:
        name, tensor, copied, small = each
        copies, state = self._state.copies, self._state
        wanted = copied and (small or self._learning or name in state.written)
        noted = note(name, tensor, copies.get(id(tensor)), copies=wanted)
        if small and noted.copy is not None:
            copies[id(tensor)] = noted.copy
        return noted

    @undisturbed
    @past_gates
    def end(self) -> None:
        """The first run has ended. Raises TrainingError for what it has changed and nobody can put back."""
        self._look()
        for number in self._changed or ():
            place = self._places[number]
            if not place.settable:
                raise self._state.refuse(
                    f"takes from {place.name} in its forward pass, which cannot be put back to where it was, so that it"
                    " cannot be computed again"
                )
        for number, noted in enumerate(self._notes):
            if noted.copy is not None and noted.copy.nbytes <= SMALL_BYTES:
                continue
            if not is_as(noted):
                self._state.written.add(noted.name)
                if noted.copy is None and version_of(noted.alias) != noted.version:
                    raise self._state.refuse(
                        f"wrote to {noted.name} in its forward pass, of which there is no copy: as that was before, it"
                        " cannot be computed again"
                    )
            elif noted.copy is not None:
                self._notes[number] = noted._replace(copy=None)
            if was_given_away(noted):
                self._state.written.add(noted.name)
        if self._changed:
            self._state.look()

    def made(self) -> Iterator[Tensor]:
        """Tensors that a run has put where there were other ones, or none, in what the block comes at."""
        if self._changed is None:
            self._look()
        for number in self._changed or ():
            place = self._places[number]
            old = {id(value) for _, value in place.parts(self._held[number])}
            for _, value in place.parts(place.read()):
                if isinstance(value, Tensor) and id(value) not in old:
                    yield value

    def _look(self) -> None:
        self._changed = [
            number
            for number, (place, held) in enumerate(zip(self._places, self._held, strict=True))
            if not place.same(held)
        ]

    @contextmanager
    def again(self) -> Iterator[None]:
        """Around the second run. Raises TrainingError where that changes what is not put back."""
        now = self._rewind()
        try:
            yield
        except BaseException:
            self._forward(now)
            raise
        if changed := self._forward(now):
            raise self._state.refuse(
                f"cannot be computed again in backward: its forward pass changes {changed}, which a second pass has"
                " changed again"
            )

    @undisturbed
    @past_gates
    def _rewind(self) -> _Now:
        """Let everything be what the first run found. Answers with what it was before."""
        now = _Now(self)
        for number in now.held:
            if self._places[number].settable:
                self._places[number].put(self._held[number])
        self._changed = None
        for number in now.tensors:
            if not put_back(self._notes[number]):
                self._forward(now)
                raise self._state.refuse(
                    f"cannot be computed again in backward: {self._notes[number].name} was written to after its forward"
                )
        for _, parameter, wanted in self._modes:
            if parameter.requires_grad != wanted:
                parameter.requires_grad_(wanted)
        return now

    @undisturbed
    @past_gates
    def _forward(self, now: _Now) -> str:
        """Let everything be what it was before the second run. Answers with the name of what cannot be."""
        changed = ""
        if self._changed is None:
            self._look()
        for number in {*now.held, *(self._changed or ())}:
            place, held = self._places[number], now.held.get(number, self._held[number])
            if place.settable:
                place.put(held)
            elif not place.same(held):
                changed = place.name
        for number, noted in enumerate(self._notes):
            then = now.tensors.get(number)
            if then is not None:
                put_back(then)
            elif not is_as(noted) and not put_back(noted):
                changed = noted.name
        for noted in now.fixed:
            if not is_as(noted):
                same = noted.copy is not None and noted.copy.equal(noted.tensor)
                self._state.written.add(noted.name)
                put_back(noted)
                changed = changed if same else noted.name
        for parameter, wanted in now.modes:
            if parameter.requires_grad != wanted:
                parameter.requires_grad_(wanted)
        return changed


class _Now:
    """What everything is before a second run."""

    def __init__(self, before: Before) -> None:
        self.held = {
            number: place.read()
            for number, (place, held) in enumerate(zip(before._places, before._held, strict=True))
            if not place.same(held)
        }
        """What places hold that are not what was found, by number."""
        self.tensors = {
            number: note(noted.name, noted.tensor, copies=can_be_copied(noted.tensor))
            for number, noted in enumerate(before._notes)
            if not is_as(noted) or (noted.copy is None and noted.name in before._state.written)
        }
        """Those that are not what was found, or may be written to uncounted, by number."""
        self.modes = [(parameter, parameter.requires_grad) for _, parameter, _ in before._modes]
        self.fixed = [
            note(name, parameter, copies=before._learning or name in before._state.written)
            for name, parameter, trained in before._modes
            if trained
        ]
        """Parameters that are trained."""


def _entered(place: StatePlace, held: Any) -> set[int]:
    """What a place leads to."""
    return {id(value) for _, value in place.parts(held) if not isinstance(value, PLAIN)}
