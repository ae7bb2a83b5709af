"""Reads: what happens to who reads a parameter between its departure and its next version.

In forward, and between two steps, a reader waits for the version. In backward, where a hook or a recomputation may read
a parameter whose gradient has left already, it sees what forward saw. Where that can be read without asking the gate,
the layer waits before the next forward pass begins.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NoReturn

from torch import Tensor
from torch.nn import Parameter

from engine.errors import TrainingError
from engine.instrumentation.gate import Gate
from engine.instrumentation.raw_memory import GIVEN_AWAY
from engine.plan.units import Unit
from engine.replica.layer import Layer
from engine.state.choice import Choice
from engine.state.host_memory import HostMemory

_WATCHED = 10
_GRADIENT: Any = Tensor.grad
_OF_GRADIENT = frozenset([_GRADIENT.__get__, _GRADIENT.__set__, _GRADIENT.__delete__])
_REMEDY = (
    "Read it in a hook of the parameter itself, or choose a strategy whose gradients leave after backward, such as"
    " ring-allreduce"
)


class Reads:
    """The gates of one worker's parameters."""

    def __init__(
        self,
        layers: Sequence[Layer],
        *,
        units_of: Mapping[str, Sequence[Unit]],
        memory: HostMemory,
        wait: Callable[[Layer], None],
        lost: Callable[[Layer], bool],
        gradient_stays: Callable[[Layer], bool],
        in_place: bool,
    ) -> None:
        """`units_of`: a parameter's units, by its name. `wait(layer)`: until the layer's parameters hold their version,
        and are open. `lost(layer)`: whether this worker has updated it since backward began. `gradient_stays(layer)`:
        whether nobody but this worker adds to its gradient. `in_place`: whether what comes may overwrite parameters
        before the next step begins."""
        self._layer_of = {name: layer for layer in layers for name in layer.parameters}
        self._parameters = {name: p for layer in layers for name, p in layer.parameters.items()}
        self._name_of = {id(parameter): name for name, parameter in self._parameters.items()}
        self._units_of = units_of
        self._memory = memory
        self._wait = wait
        self._lost = lost
        self._gradient_stays = gradient_stays
        self._in_place = in_place
        self._gate = Gate(self._before_read)
        self._backward = False
        self._watched = 0
        """Backward passes in which it showed whether parameters are read after their gradient has left."""
        self._seen = False
        """One has been."""
        self._watching: set[str] = set()
        """Parameters whose gradient is final and has not left, whose gate is closed only to see who reads them."""
        self._looks: Counter[str] = Counter()
        """By layer: backward passes in which it was. Averages may be hundreds of steps apart."""
        self.before_forward: dict[str, Layer] = {}
        """By parameter: layers that the next forward pass may read without the gate's knowing."""
        self._late: dict[int, bool] = {}
        """By unit."""
        self._said: set[str] = set()
        """Parameters of whose kept gradient it was said that it is a part."""
        self._said_to_wait: set[str] = set()
        """Layers of which it was said that their memory was given away."""
        self._refused: TrainingError | None = None
        """What a reader was told in backward; the reader may have caught it."""
        self.in_backward: set[str] = set()
        """Parameters that have been read since backward began, after their gradient had left."""

    @property
    def expected_in_backward(self) -> bool:
        """Whether any parameter may be read in backward after its gradient has left, as far as is known."""
        return self._seen or self._watched < _WATCHED

    def may_be_read(self, layer: Layer) -> bool:
        """Whether somebody in backward may still look at what the layer's parameters are, whose gradients are final.
        While that is not known, it shows from now on."""
        if self._seen:
            return True
        if self._looks[layer.name] >= _WATCHED:
            return self.shared(layer)
        self._looks[layer.name] += 1
        self._watching.update(n for n in layer.parameters if self._gate.close(self._parameters[n]))
        return True

    def begin_backward(self) -> None:
        """Gradients leave from now on."""
        self._backward = True
        self.in_backward.clear()
        self._memory.landing.begin_backward(holds_all=self.expected_in_backward or not self._in_place)

    def end_backward(self, *, ran: bool) -> None:
        """The step has passed, so that who reads now waits for its version and not for the one before. `ran`: whether
        there was anything to differentiate. Raises TrainingError for what was read or written in it,
        and should not have been."""
        if self._refused is not None:
            raise self._refused
        for name in self._memory.kept.names():
            self._before_kept(name)
        self._backward = False
        self._watched += ran
        self._gate.lower()

    def is_closed(self, name: str) -> bool:
        """Whether the parameter's next version is outstanding."""
        return name not in self._watching and self._gate.is_closed(self._parameters[name])

    def close(self, names: Iterable[str]) -> None:
        """The parameters' next versions are outstanding; where the next step begins without, nobody waits for them."""
        for name in names:
            self._watching.discard(name)
            parameter = self._parameters[name]
            shared = self._memory.sharing.is_shared(name)
            if shared and self._memory.sharing.is_given_away(name):
                self._say_that_it_waits(self._layer_of[name])
            if not self._in_place:
                if shared:  # it is looked at whether somebody writes there
                    self.before_forward[name] = self._layer_of[name]
            elif not self._gate.close(parameter) or shared:
                self.before_forward[name] = self._layer_of[name]
                self._memory.landing.hold(name, self._units_of[name])

    def before_compiled(self, parameters: Collection[int] | None) -> None:
        """See `Gate`."""
        self._gate.before_compiled(parameters)

    def compiler_is_there(self) -> None:
        """Something may be compiled from now on."""
        self._gate.leave_to_python(self._parameters.values())

    def open(self, layer: Layer) -> None:
        """The layer's parameters hold what is to be read."""
        for parameter in layer.parameters.values():
            self._gate.open(parameter)

    def shared(self, layer: Layer) -> bool:
        """Whether other tensors hold the memory of the layer's parameters."""
        return any(self._memory.is_shared(name) for name in layer.parameters)

    def late(self, unit: Unit) -> bool:
        """Whether the unit leaves when backward has ended: nobody would be told who reads its gradients after that."""
        if unit.index not in self._late:
            those = [self._parameters[s.parameter] for s in unit.segments if s.parameter in self._parameters]
            self._late[unit.index] = not all(map(self._gate.can_close, those))
        return self._late[unit.index]

    def _say_that_it_waits(self, layer: Layer) -> None:
        if layer.name not in self._said_to_wait:
            self._said_to_wait.add(layer.name)
            print(
                f"warning: {layer.name} is waited for before every forward pass, because {GIVEN_AWAY}",
                flush=True,
            )

    def _before_kept(self, name: str) -> None:
        """A hook of the user's keeps the parameter's gradient, which is to be the sum in the next forward pass."""
        layer = self._layer_of[name]
        self.before_forward[name] = layer
        if layer.updater is None and name not in self._said:
            self._said.add(name)
            print(
                f"warning: a hook keeps the gradient of {name}. It stays this worker's own part, because a server"
                " updates the parameter, and no worker gets the sum. Under ring-allreduce, workers do",
                flush=True,
            )

    def _before_read(self, parameter: Parameter, function: Any) -> bool:
        """See `gate.Read`."""
        name = self._name_of[id(parameter)]
        layer = self._layer_of[name]
        if self._backward:
            if function is os.fork:  # the new process has its own copy of what is here now
                return False
            self._in_backward(name, layer, function)
            return False
        self._wait(layer)
        return True

    def _in_backward(self, name: str, layer: Layer, function: Any) -> None:
        """Raises TrainingError where what forward saw is no longer there."""
        if name in self._watching:
            self._seen = True
            return
        if function in _OF_GRADIENT and not self._gradient_stays(layer):
            self._refuse(f"the gradient of {name} was read or set in backward after it had left to be summed")
        self._seen = True
        if not self._memory.landing.hold(name, self._units_of[name]) or self._lost(layer):
            self._refuse(
                f"{name} was read in backward when it had been updated already: in the first {_WATCHED} passes in"
                " which that showed nobody read a parameter there whose gradient had left"
            )
        self.in_backward.add(name)
        self.before_forward[name] = layer  # a view of it may have been kept

    def _refuse(self, rule: str) -> NoReturn:
        self._refused = TrainingError(f"{rule}. {_REMEDY}")
        raise self._refused


def stays(choice: Choice) -> bool:
    """Whether nobody but this worker has a part in the sum."""
    return choice.flow.payload == "none"


def never_outstanding(choices: Mapping[int, Choice], units_of: Mapping[str, Sequence[Unit]]) -> set[str]:
    """Parameters whose next version is there when backward ends. Where they wait for the norm of all
    gradients, they are updated with the others, which may not have come by then."""
    own = {index for index, choice in choices.items() if stays(choice)}
    if len(own) < len(choices):
        own -= {index for index, choice in choices.items() if choice.flow.barrier == "all units"}
    return {name for name, units in units_of.items() if all(unit.index in own for unit in units)}
