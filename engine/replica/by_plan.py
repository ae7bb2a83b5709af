"""One worker's replica under a plan: forward waits for versions, gradients leave as they become ready.

The trainer calls the methods in the order of a step:
    begin_step -> [begin_forward, model(...), end_forward, begin_backward(last), loss.backward(), end_backward] per
    micro-batch -> next step ... -> settle
Hooks do the rest: each parameter's accumulate hook counts its unit towards departure; from then on `Gate` stands before
it, and whoever reads it next waits for its version; in backward it is what forward saw (`engine/state/landing.py`).
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from functools import partial
from itertools import takewhile

from torch import Tensor, nn

from engine.axes.order import DEPART
from engine.consistency.policy import Policy
from engine.exchange.base import Exchange
from engine.inputs.loader import StepBatch
from engine.inputs.task import BatchLoss, Task
from engine.instrumentation.entries import Entries, Parameters
from engine.instrumentation.gate import past_gates
from engine.instrumentation.undisturbed import undisturbed
from engine.plan.units import Unit
from engine.replica.contributions import Contributions, Gradients, Holder
from engine.replica.layer import Layer, before_modules, forget_gradients, update_here
from engine.replica.outside import Outside
from engine.replica.reads import Reads, never_outstanding, stays
from engine.replica.watch import Watch
from engine.state.capture import Capture
from engine.state.choice import Choice
from engine.state.gradient_hooks import GradientHooks, in_parts
from engine.state.host_memory import HostMemory
from engine.state.recording import Recording
from engine.state.updates import Hyper, clip_gradients
from engine.state.versions import Versions


class PlanReplica:
    """A model whose layers are exchanged as the plan says."""

    def __init__(
        self,
        *,
        model: nn.Module,
        layers: Sequence[Layer],
        choices: Mapping[int, Choice],
        exchanges: Mapping[int, Exchange],
        captures: Mapping[int, Capture],
        memory: HostMemory,
        versions: Versions,
        recording: Recording,
        hyper: Callable[[int], Hyper],
        policy: Policy,
        clip_norm: float | None,
        watch: Watch | None,
        together: bool,
        contributions: Callable[[Holder], Contributions] = Gradients,
    ) -> None:
        """`choices`, `exchanges` and `captures` by unit index. `watch`: where somebody else has to know what a model
        writes. `together`: whether layers that have come are updated in one go; otherwise each when it is read.
        `contributions`: what units carry."""
        self.model = model
        self._outside = Outside(model)
        self._layers = layers
        self._choices = choices
        self._exchanges = exchanges
        self._distinct = list(dict.fromkeys(exchanges.values()))
        self._memory = memory
        self._versions = versions
        self._recording = recording
        self._hyper = hyper
        self._clip_norm = clip_norm
        self._watch = watch
        self._together = together
        self._policy = policy
        self._step = 0
        self._forward = self._departing = False
        """A backward pass runs after which gradients are final."""
        self._lock = threading.RLock()
        """Around bringing a layer up to date: a thread of the user's own may read, too."""
        self._layer_of = {name: layer for layer in layers for name in layer.parameters}
        self._parameters = {name: p for layer in layers for name, p in layer.parameters.items()}
        self._as_registered = {n: p for n, p in model.named_parameters() if n in self._parameters}
        """In the order in which plain PyTorch takes them: the last bit of a norm depends on it."""
        self._units_of: dict[str, list[Unit]] = defaultdict(list)
        for choice in choices.values():
            for name in dict.fromkeys(s.parameter for s in choice.unit.segments):
                self._units_of[name].append(choice.unit)
        self._contributions = contributions(
            Holder(
                layers=layers,
                choices=choices,
                recording=recording,
                hyper=hyper,
                depart=self._depart,
                close=lambda layer: self._close(layer.parameters),
                may_be_read=lambda layer: self._reads.may_be_read(layer),  # noqa: PLW0108 (made below)
                clip=None if clip_norm is None else self._clip,
            )
        )
        self._reads = Reads(
            layers,
            units_of=self._units_of,
            memory=memory,
            wait=self._wait_for_reader,
            lost=self._contributions.updated,
            gradient_stays=lambda layer: stays(self._choices[layer.units[0].index]),
            in_place=policy.in_place,
        )
        here = together and not self._contributions.outstanding
        never = never_outstanding(choices, self._units_of) if here else set()
        self._guarded = self._parameters.keys() - never
        """Parameters whose next version may be outstanding."""
        self._owner_of = {id(p): layer for layer in layers for p in layer.parameters.values()}
        self._told = before_modules(model, self._owner_of, self._before_module)
        """When it is closed, nobody tells of calls any more."""
        self._entries = self._told.enter_context(closing(Entries(model, self._before_compiled)))
        self._layer_gradients: dict[str, int] = {}
        self._unit_gradients: dict[int, int] = {}
        self._accumulated: set[str] = set()
        """Parameters whose gradient of the step is final."""
        self._started: set[int] = set()
        self._departures = {
            name: DEPART[name].load()(self._start)
            for name in {c.layer.order.depart for c in choices.values()}
        }
        self._captures = list(captures.values())
        captured = {s.parameter: capture for i, capture in captures.items() for s in choices[i].unit.segments}
        self._hooks = GradientHooks(self._parameters, captured, self._on_gradient)

    # --- what the trainer calls ---

    def passing(self, task: Task) -> Callable[[Tensor, Tensor], BatchLoss]:
        return partial(task, self.model)

    def begin_step(self, step: int, batch: StepBatch) -> None:
        self._step = step
        self._contributions.begin_step(step, batch)
        self._tell_exchanges(step)
        if self._watch is not None:
            there = [layer for layer in self._layers if layer.version >= self._policy.needs(step)]
            here = [name for layer in there for name in layer.parameters]
            self._watch.begin_step(step, here)

    def begin_forward(self) -> None:
        if self._entries.watch():
            self._reads.compiler_is_there()
        self._recording.begin_pass()
        self._forward = True
        while self._reads.before_forward:  # a thread of the user's own may add to them
            name, layer = self._reads.before_forward.popitem()
            self._wait(layer)
            if self._watch is not None:
                self._watch.handed_out(name)
        if not self._policy.in_place:  # no gate is closed, so that who reads does not wait
            self._wait_for_all()

    def end_forward(self) -> None:
        """Wait for the layers that this pass did not use, too: their gradients are about to be due again."""
        self._recording.end_forward()
        self._wait_for_all()
        self._forward = False

    def begin_backward(self, last: bool) -> None:
        """`last`: the step's last micro-batch, after which gradients are final."""
        self._outside.check(self._step)
        self._departing = last
        for capture in self._captures:
            capture.begin_backward()
        if last:
            self._accumulated.clear()
            self._started.clear()
            self._contributions.begin_backward()
            if self._watch is not None:
                self._watch.tell()
            self._reads.begin_backward()
            self._hooks.keep_last()
            self._layer_gradients = {layer.name: len(layer.parameters) for layer in self._layers}
            self._unit_gradients = {
                index: len({s.parameter for s in choice.unit.segments}) + self._reads.late(choice.unit)
                for index, choice in self._choices.items()
            }
        self._recording.begin_pass(backward=True)

    def end_backward(self) -> None:
        """Units whose parameters were not all used leave now, with what they have or as absent."""
        self._recording.end_backward()
        for capture in self._captures:
            capture.end_backward()
        if not self._departing:
            return
        self._departing = False
        self._contributions.backward_ended(
            [choice.unit for index, choice in self._choices.items() if self._unit_gradients[index] > 0]
        )
        for departure in self._departures.values():
            departure.backward_ended()
        for exchange in self._distinct:
            exchange.backward_ended()
        self._close(self._parameters)
        if not self._policy.in_place:  # the next step's gradients may come before the answer to these
            forget_gradients(self._layers)
        if self._watch is not None:
            self._watch.end_backward(self._step, set(self._reads.in_backward))
        self._step += 1
        self._reads.end_backward(ran=bool(self._accumulated))
        if self._together:
            self._bring_what_has_come()

    def accumulating(self) -> AbstractContextManager[None]:
        """Around a micro-batch that is not the last: its gradients stay here."""
        return nullcontext()

    def settle(self) -> None:
        self._tell_exchanges(self._step)
        self._wait_for_all()

    def ends(self, steps: int) -> None:
        self._step = steps  # an attempt may go on behind the last one
        self.settle()
        for exchange in () if self._policy.lockstep else self._distinct:
            exchange.finished(self._step)

    def finish(self) -> None:
        if self._policy.lockstep:
            return
        for layer in (each for each in self._layers if each.units):
            self._bring_once(layer, self._step + 1)
        if self._watch is not None:
            self._watch.finished(self._step)

    def common(self) -> AbstractContextManager[None]:
        """See Replica.common; where all workers should hold the same parameters and do not, it ends here."""
        if self._watch is not None:
            self._watch.check()
        return self._contributions.common()

    def close(self) -> None:
        self._told.close()
        for exchange in self._distinct:
            exchange.close()

    def _tell_exchanges(self, step: int) -> None:
        """The forward pass of `step` is about to need what they bring."""
        if not self._contributions.asks(step):
            return
        with self._lock:
            for exchange in self._distinct:
                exchange.begin_step(step)

    # --- forward ---

    def _before_module(self, path: str, layers: list[Layer]) -> None:
        if not self._forward:
            return  # evaluation, or recomputation during backward
        if path or layers[0].name == path:  # the root may hold what is another's
            self._recording.entering(layers[0].index)
        for layer in layers:
            self._wait(layer)

    def _before_compiled(self, parameters: Parameters | None) -> None:
        """Compiled code that may read these is about to be entered, anywhere."""
        layers = [self._owner_of[each].index for each in parameters or () if each in self._owner_of]
        if self._forward and layers:
            self._recording.entering(min(layers))
        self._reads.before_compiled(parameters)

    def _wait_for_reader(self, layer: Layer) -> None:
        """Somebody reads a parameter of the layer, anywhere but in backward."""
        if not self._forward:  # between two steps
            self._tell_exchanges(self._step)
        self._wait(layer)

    def _wait_for_all(self) -> None:
        for layer in self._layers:
            self._wait(layer)

    def _wait(self, layer: Layer) -> None:
        if layer.version < (needed := self._policy.needs(self._step)):
            self._bring_once(layer, needed)

    @undisturbed
    @past_gates
    def _bring_once(self, layer: Layer, needed: int) -> None:
        """Whichever thread comes first brings it."""
        with self._lock:
            if layer.version < needed:
                self._wait_for_units(layer, needed)
                self._bring(self._come_with(layer, needed), needed)

    def _come_with(self, layer: Layer, needed: int) -> list[Layer]:
        """The layer, which has come, and those behind it up to the first that has not: in one go they cost less."""
        if self._clips():
            return list(self._layers)
        if not self._together:
            return [layer]
        following = self._layers[self._layers.index(layer) + 1 :]
        return [layer, *takewhile(partial(self._has_come, needed), following)]

    def _has_come(self, needed: int, layer: Layer) -> bool:
        """Whether what has been exchanged for the layer is there, and it does not hold it yet."""
        rests_on = self._contributions.needs(layer, needed)
        return layer.version < needed and self._versions.reached(layer.units, rests_on)

    @past_gates
    def _bring_what_has_come(self) -> None:
        """A part of the exchange has ended by the end of backward; for a single worker, all of it."""
        needed = self._policy.needs(self._step)
        with self._lock:
            come = [layer for layer in self._layers if self._has_come(needed, layer)]
            if come and (not self._clips() or len(come) == len(self._layers)):
                self._bring(come, needed)

    def _bring(self, layers: Sequence[Layer], needed: int) -> None:
        """Block until the layers' versions have come, let them hold them, and only then let other threads read."""
        for layer in layers:
            self._take_units(layer, needed)
        if self._clips():
            self._clip()
        updated = self._contributions.updated
        update_here([one for one in layers if not updated(one)], self._hyper(needed - 1), self._recording)
        for layer in layers:
            self._contributions.take(layer, needed)
            forget_gradients([layer])
            self._reads.open(layer)
            layer.version = needed  # who sees it finds the gate open
            if self._watch is not None:
                self._watch.came(layer.parameters)

    def _take_units(self, layer: Layer, needed: int) -> None:
        """Block until what has been exchanged for the layer is in its place."""
        self._wait_for_units(layer, needed)
        if version := self._contributions.needs(layer, needed):
            self._memory.before_use(layer.units)
            if layer.updater is not None:
                for unit in layer.units:
                    self._exchanges[unit.index].finish(unit, version - 1)
        self._memory.kept.summed(layer.parameters)

    def _wait_for_units(self, layer: Layer, needed: int) -> None:
        version = self._contributions.needs(layer, needed)
        if self._versions.reached(layer.units, version):
            return
        start_ns = self._recording.now_ns()
        last = self._versions.wait(layer.units, version, lambda u: self._exchanges[u.index].missing(u))
        self._recording.waited(layer.index, last, start_ns)

    def _clips(self) -> bool:
        """Whether the next versions take the norm of all gradients, and so come together."""
        return self._clip_norm is not None and not self._contributions.clipped

    def _clip(self) -> None:
        """Scale all summed gradients so that their global norm is at most the limit."""
        assert self._clip_norm is not None
        clip_gradients(self._as_registered, self._clip_norm)

    # --- backward ---

    def _on_gradient(self, name: str) -> Callable[[Tensor], None]:
        layer, units = self._layer_of[name], self._units_of[name]

        def hook(parameter: Tensor) -> None:
            if not self._departing:
                return
            if name in self._accumulated:
                raise in_parts(name)
            self._accumulated.add(name)
            self._layer_gradients[layer.name] -= 1
            if self._layer_gradients[layer.name] == 0:
                self._recording.gradient(layer.index)
                self._contributions.layer_is_final(layer)
            for unit in units:
                self._unit_gradients[unit.index] -= 1
                if self._unit_gradients[unit.index] == 0:
                    self._contributions.unit_is_final(unit)

        return hook

    def _depart(self, unit: Unit) -> None:
        self._departures[self._choices[unit.index].layer.order.depart].ready(unit)

    @past_gates
    def _start(self, unit: Unit) -> None:
        assert unit.index not in self._started, f"unit {unit.index} left twice in step {self._step}"
        self._started.add(unit.index)
        self._close(segment.parameter for segment in unit.segments)
        self._exchanges[unit.index].start(unit, self._step)

    def _close(self, names: Iterable[str]) -> None:
        """The parameters' next version is outstanding. Other names are of what travels beside parameters."""
        leaving = [name for name in names if name in self._guarded and not self._reads.is_closed(name)]
        if self._watch is not None:
            self._watch.leaves(leaving)
        self._reads.close(leaving)
