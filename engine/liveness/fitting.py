"""Fitting: which layers keep, swap or compute again what they save, so that a worker's step is within a budget.

One pass on tensors without values tells what each block saves and costs (`blocks.py`). `engine/budget/frontier.py`
orders the choices for them, `engine/budget/verified.py` looks at some, each as whole steps (`peak.py`), until one is
found that fits. So a budget is kept as far as predicted peaks are right.

Times only order choices. A block's forward takes, where nobody has measured it,

    CALL_NS for each call + the longer of FLOPs / (FLOPS x threads) and bytes given, answered and saved / BYTES

its backward twice that, or as its FLOPs say; a measured profile's times of its layers take the place of both. Copies go
at DISK each way, beside what is computed. `through-time` is not chosen: it sums in another order.

Costs one pass, one look where everything fits as it is, and else 16 at the most; a look costs three steps without
values. Last resorts are two choices that swap *late*: nothing is on its way back while something else is used, which
two tensors at a time are otherwise. It loses where one block is all of the model, and by what times are wrong.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from engine.axes.memory import ACTIVATIONS
from engine.axes.memory_options import RecomputeOptions, SwapOptions
from engine.budget.blocks import Action, BlockCosts, Chosen
from engine.budget.frontier import Assignment, Frontier
from engine.budget.prediction import copy_ns, predict
from engine.budget.verified import Choice, ImpossibleError, thrifty, within
from engine.errors import TrainingError, UserError
from engine.instrumentation.compiled import region_of, regions
from engine.liveness.blocks import ASKED, Pass, Seen
from engine.liveness.training import Training
from engine.memory.blocks import Asked, Finder
from engine.plan.budget import Fitted, LayerChoice, impossible
from engine.plan.peak import Peak
from engine.plan.serde import to_plain
from engine.plan.units_of_measure import format_bytes, format_time

FLOPS: Final = 40 * 10**9
"""Of one thread of a host, a second: some half of what its vector units could."""
BYTES: Final = 8 * 10**9
"""Of memory, a second, for who goes through tensors one operation after another."""
DISK: Final = 10**9
"""Bytes a second, each way."""
CALL_NS: Final = 20_000
_TOGETHER: Final = Asked("recompute", RecomputeOptions(neighbours=10_000))
"""So that all neighbours that could be one block are."""


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What is asked for."""

    beside: int
    """Of a budget, what a worker holds beside the model's step."""
    free: tuple[str, ...]
    """The layers that are left to the budget."""
    threads: int
    """Compute threads of a worker."""
    accumulated: bool
    """Whether a pass finds gradients of the one before it."""
    times: dict[str, list[float]] | None = None
    """Measured seconds of each layer's forward and backward, per sample; None: nobody has."""
    rates: str = ""
    """What they were measured on."""


class Fitter:
    """Fits one job into as many budgets as are asked for; what was looked at for one is known for the next."""

    def __init__(
        self,
        training: Training,
        fixed: Mapping[str, Asked],
        look: Callable[[Mapping[str, Asked]], Peak],
        wanted: Wanted,
    ) -> None:
        """What is trained is on `meta`. `fixed`: what layers ask for that are not left to the budget and do not keep
        their activations. `look`: the peak under choices for all layers. Raises whatever a model raises that looks at
        values."""
        self._blocks = Blocks(training, fixed, wanted)
        self._fixed = fixed
        self._look = look
        self._beside = wanted.beside
        self._known: dict[Choice, int | UserError | TrainingError] = {}
        self.keep: Final = self._blocks.alike(Action.KEEP)

    def fit(self, budget: int, *more: Choice) -> Fitted:
        """The choices for a budget. `more`: some that may hold the least. Raises UserError where none fits, with the
        least peak, and where the model cannot train as it is."""
        blocks, kept = self._blocks, self._held(self.keep)
        assert kept is not None
        if kept + self._beside <= budget:
            return blocks.fitted(budget, self.keep, kept, kept, 0)
        if not blocks.costs:
            raise impossible(budget, kept + self._beside)
        try:
            others = [*self._others, *map(blocks.assigned, more)]
            found, fastest = within(budget - self._beside, self._frontier, self._held, others, self._last)
        except ImpossibleError as error:
            raise impossible(budget, error.least_bytes + self._beside) from None
        extra = found.time_ns - fastest.time_ns
        return blocks.fitted(budget, found.chosen, found.peak_bytes, kept, extra, self._left_out)

    def least(self) -> Choice:
        """Of the choices that are looked at for every budget that is exceeded, the one that holds the least."""
        if not self._blocks.costs:
            return self.keep
        chosen = [
            self.keep,
            *(each.chosen for each in thrifty(self._frontier, [*self._others, *self._last])),
        ]
        held = {choice: peak for choice in chosen if (peak := self._held(choice)) is not None}
        return min(held, key=held.__getitem__)

    def choices(self, chosen: Choice) -> dict[str, Asked]:
        """What layers ask for so that their blocks are treated so; of those that do not keep their activations."""
        return self._blocks.choices(chosen)

    @cached_property
    def _left_out(self) -> str:
        """Why nothing can be computed again, if nothing can."""
        again = self._blocks.alike(Action.RECOMPUTE)
        return "" if self._held(again) is not None else f"nothing is computed again: {self._known[again]}"

    @cached_property
    def _frontier(self) -> Frontier:
        if self._left_out:
            self._blocks.costs = [replace(each, recomputable=False) for each in self._blocks.costs]
        return Frontier(self._blocks.costs, swap_bytes_per_second=DISK)

    @property
    def _others(self) -> list[Assignment]:
        blocks = self._blocks
        chosen = [blocks.alike(Action.SWAP)]
        if not self._left_out:
            chosen += [blocks.alike(Action.RECOMPUTE), blocks.in_groups()]
        return [blocks.assigned(each) for each in chosen]

    @property
    def _last(self) -> list[Assignment]:
        """What is slow, and holds little."""
        swapping = (thrifty(self._frontier)[0].chosen, self._blocks.alike(Action.SWAP))
        return [self._blocks.assigned(late(each)) for each in swapping]

    def _held(self, chosen: Choice) -> int | None:
        """The most that the model's step holds, also while mechanisms learn; None where it cannot train so."""
        if chosen not in self._known:
            try:
                peak = self._look({**self._fixed, **self._blocks.choices(chosen)})
                self._known[chosen] = max(peak.total, peak.first)
            except (UserError, TrainingError) as error:
                if chosen == self.keep:
                    raise
                self._known[chosen] = error
        found = self._known[chosen]
        return found if isinstance(found, int) else None


class Blocks:
    """The blocks of the layers that are left to a budget."""

    def __init__(self, training: Training, fixed: Mapping[str, Asked], wanted: Wanted) -> None:
        self._wanted = wanted
        self._described = training.described
        self._samples = training.samples
        compiled = regions(training.model)
        able = [name for name in wanted.free if region_of(name, compiled) is None]
        self._able = set(able)
        asked = {**fixed, **dict.fromkeys(able, ASKED)}
        seen = Pass(training, asked).run()[:-1]
        self._seen = [each for each in seen if each.calls and self._able.issuperset(each.layers)]
        joined = set[str]()
        together = {**fixed, **dict.fromkeys(able, _TOGETHER)}
        finder = Finder(training.model, training.described, together, lambda name: ACTIVATIONS[name].load())
        for found in finder.find():
            joined.update(found.block.layers[1:] if found.row is not None else ())
        self.costs = list(self._costs(joined))

    def alike(self, action: Action) -> Choice:
        """The same for all blocks."""
        return (Chosen(action),) * len(self._seen)

    def in_groups(self) -> Choice:
        """All are computed again, neighbours together as `recompute` groups them by itself."""
        rows: list[int] = []
        for block in self.costs:
            if block.joins and rows:
                rows[-1] += 1
            else:
                rows.append(1)
        return tuple(
            Chosen(Action.RECOMPUTE, joined=at % round(math.sqrt(count)) > 0)
            for count in rows
            for at in range(count)
        )

    def assigned(self, chosen: Choice) -> Assignment:
        """A choice with what it takes."""
        return Assignment(chosen, predict(self.costs, chosen, swap_bytes_per_second=DISK))

    def chosen(self, choices: Mapping[str, Asked]) -> Choice:
        """What is done with each block, each by itself, where layers ask for this and the others keep."""
        asked = (choices.get(block.layers[0]) for block in self._seen)
        return tuple(map(_chosen, asked))

    def choices(self, chosen: Choice) -> dict[str, Asked]:
        """What layers ask for so that their blocks are treated so; of those that do not keep their activations."""
        found: dict[str, Asked] = {}
        for at, (block, choice) in enumerate(zip(self._seen, chosen, strict=True)):
            if choice.action is Action.KEEP:
                continue
            asked = Asked("swap", SwapOptions(ahead=0) if choice.late else SwapOptions())
            if choice.action is Action.RECOMPUTE:
                asked = Asked("recompute", RecomputeOptions(neighbours=len(_run(chosen, at))))
            found.update(dict.fromkeys(block.layers, asked))
        return found

    def fitted(
        self, budget: int, chosen: Choice, peak: int, kept: int, extra_ns: int, left_out: str = ""
    ) -> Fitted:
        """The answer."""
        wanted, asked = self._wanted, self.choices(chosen)
        why = {layer: self._why(chosen, at) for at, block in enumerate(self._seen) for layer in block.layers}
        alone = "it is in no block of its own, so that what it saves stays"
        compiled = "it is in compiled code, which is called as a whole"
        return Fitted(
            budget=budget,
            peak=peak + wanted.beside,
            kept=kept + wanted.beside,
            pass_ns=sum(block.forward_ns + block.backward_ns for block in self.costs),
            extra_ns=extra_ns,
            rates=rates_of(wanted),
            left_out=left_out,
            layers=tuple(
                LayerChoice(
                    layer=layer,
                    activations=asked[layer].activations if layer in asked else "keep",
                    options=to_plain(asked[layer].options) if layer in asked else {},
                    why=why.get(layer, alone if layer in self._able else compiled),
                )
                for layer in wanted.free
            ),
        )

    def _costs(self, joined: Collection[str]) -> Iterator[BlockCosts]:
        kept = outputs = 0
        gradients = sum(self._gradients(block) for block in self._seen) * self._wanted.accumulated
        for block in self._seen:
            size = block.bytes
            inputs, saved = size["inputs"], size["saved"]
            saved_inputs = min(size["saved_inputs"], inputs, saved)
            shared = min(outputs, inputs)
            kept += saved - min(shared, saved_inputs)
            gradients -= self._gradients(block) * self._wanted.accumulated
            forward_ns, backward_ns = self._times(block)
            yield BlockCosts(
                name=block.layers[0],
                saved_bytes=saved,
                input_bytes=inputs,
                forward_ns=forward_ns,
                backward_ns=backward_ns,
                # With the gradients of all that comes behind it, which are there in any case where they add up.
                working_bytes=max(0, size["highest"] - kept - gradients),
                saved_input_bytes=saved_inputs,
                shared_bytes=shared,
                swapped_bytes=sum(each for each in block.saved.values() if each >= SwapOptions.least_bytes),
                joins=block.layers[0] in joined,
            )
            outputs = size["saved_outputs"]

    def _gradients(self, block: Seen) -> int:
        layers = (self._described.layer(name) for name in block.layers)
        return sum(p.nbytes for layer in layers for p in layer.parameters if p.trainable)

    def _times(self, block: Seen) -> tuple[int, int]:
        """Nanoseconds of its forward and its backward."""
        calls, times = CALL_NS * block.calls, self._wanted.times
        if times is not None:
            measured = [times[layer] for layer in block.layers]
            forward, backward = (self._samples * sum(each[at] for each in measured) for at in (0, 1))
            return calls + round(forward * 1e9), calls + round(backward * 1e9)
        size, rate = block.bytes, FLOPS * self._wanted.threads
        layers = sum(self._described.layer(name).forward_flops for name in block.layers) * self._samples
        moved = 1e9 * (size["inputs"] + size["outputs"] + size["saved"]) / BYTES
        flops = max(block.flops["forward"], layers)  # a library's own recurrent layers have no formula
        forward = max(1e9 * flops / rate, moved)
        backward = max(1e9 * max(block.flops["backward"], 2 * flops) / rate, 2 * moved)
        return calls + round(forward), calls + round(backward)

    def _why(self, chosen: Sequence[Chosen], at: int) -> str:
        """Of one block, in one phrase."""
        block, action = self.costs[at], chosen[at].action
        saved = format_bytes(block.saved_bytes)
        if action is Action.KEEP:
            return f"there is room for the {saved} of its block"
        if action is Action.SWAP:
            moved, copy = block.leaving_bytes, copy_ns(block.leaving_bytes, DISK)
            wanted = ", which is waited for when they are wanted" if chosen[at].late else ""
            return f"{format_bytes(moved)} of its block leave and come back, {format_time(copy)} each way{wanted}"
        run = _run(chosen, at)
        beside = len(run) - 1
        others = f", together with {beside} block{'s' * (beside > 1)} beside it" if beside else ""
        return f"{saved} of its block are computed again in {format_time(block.forward_ns)}{others}"


def late(chosen: Choice) -> Choice:
    """The same, where what is swapped comes back when it is wanted."""
    return tuple(replace(each, late=each.action is Action.SWAP) for each in chosen)


def _chosen(asked: Asked | None) -> Chosen:
    """What is done with a block whose layers ask for this, by itself."""
    if asked is None:
        return Chosen(Action.KEEP)
    action = Action(asked.activations)
    return Chosen(action, late=action is Action.SWAP and asked.options.ahead == 0)


def rates_of(wanted: Wanted) -> str:
    """What times are made from, in words."""
    taken = (
        f"{FLOPS // 10**9} GFLOP/s a thread, {BYTES // 10**9} GB/s and a disk of {DISK // 10**9} GB/s taken"
    )
    return wanted.rates or taken


def _run(chosen: Sequence[Chosen], at: int) -> range:
    """The blocks that are computed again together with this one."""
    start, stop = at, at + 1
    while chosen[start].joined:
        start -= 1
    while stop < len(chosen) and chosen[stop].joined:
        stop += 1
    return range(start, stop)
