"""Every pair of mechanisms that one plan may hold, from the registered catalogues: which combine, and what refuses the
others. Pairs within one layer are found here; pairs across layers are whatever stands in one job's plan."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import combinations, product
from pathlib import Path
from typing import Literal, get_args, get_origin, get_type_hints

from engine.axes.codec import CODEC
from engine.axes.consistency import CONSISTENCY
from engine.axes.exchange import EXCHANGE
from engine.axes.memory import ACTIVATIONS
from engine.axes.order import DEPART, RANK, RETURNS, UNIT
from engine.errors import UserError
from engine.plan.consistency import Consistency
from engine.plan.description import ModelDescription
from engine.plan.plan import LayerPlan, Order, Servers
from engine.strategies.base import Strategy
from tests.arrays import cover
from tests.plans import resolved

AXES: dict[str, tuple[str, ...]] = {
    **{
        field: tuple(row.name for row in axis if row.available and "sequences" not in row.traits)
        for field, axis in (
            ("exchange", EXCHANGE), ("codec", CODEC), ("unit", UNIT), ("depart", DEPART), ("rank", RANK),
            ("returns", RETURNS), ("activations", ACTIVATIONS),
        )
    },
    "update": ("worker", "server"),
}  # fmt: skip
"""An override's field -> its values whose mechanism is built, but for what only recurrent layers can have
(`tests/equivalence/test_through_time.py`). Placement is no layer's own: its edges are the plan's."""
IN_TURN = "activations"
MOVES: dict[str, dict[str, int]] = {"swap": {"least_bytes": 0}}
"""Options with which a mechanism of memory moves even what a small layer saves."""
SIZES = {"layer": None, "slice": 30, "bucket": 1000}
"""So small that a layer of 110 elements has several slices, and a bucket of float64 two such layers."""

Value = tuple[str, str]
"""(axis, value)."""
Pair = frozenset[Value]
Choices = dict[str, str]
"""One layer's: a value on every axis."""
Verdict = tuple[Choices, UserError | None]
"""Choices, and why no layer can have them; None: one can."""


KINDS = {"lossless": 0.0, "rounded": 1e-3, "remembered": 0.05, "factored": 0.1, "random": 0.5}
"""Of codecs: how far a few steps may lead. Of those that keep what they lose, down to one bit, or draw at random,
`test_error_feedback.py` proves every message; here they come to the end in company of any other choice."""


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """A pair that no layer can hold."""

    rule: str
    """The function that refuses it."""
    error: UserError


def every_choice() -> Iterator[Choices]:
    """Every combination of values, possible or not. No rule of a layer asks what happens to its activations, so the
    values of that take turns."""
    others = {axis: values for axis, values in AXES.items() if axis != IN_TURN}
    for number, values in enumerate(product(*others.values())):
        chosen = dict(zip(others, values, strict=True))
        yield {axis: chosen.get(axis, AXES[IN_TURN][number % len(AXES[IN_TURN])]) for axis in AXES}


def _beside(choices: Choices) -> tuple[Value, ...]:
    """The choices but for what takes turns."""
    return tuple((axis, value) for axis, value in choices.items() if axis != IN_TURN)


def unwaited(choices: Choices) -> bool:
    """Whether nobody waits for what travels so, which is a whole job's consistency."""
    return "unwaited" in EXCHANGE[choices["exchange"]].traits


def own_pace() -> Consistency:
    """The mode that such layers have."""
    (mode,) = [mode for mode in CONSISTENCY if {"drifts", "alone"} <= mode.traits]
    found: Consistency = mode.load().settings()
    return found


def pairs_of(choices: Choices) -> Iterator[Pair]:
    return map(frozenset, combinations(choices.items(), 2))


def refused(choices: Choices, model: ModelDescription, workers: int) -> UserError | None:
    """Why a model's layers cannot all have these choices; None: they can."""
    served = "server" in EXCHANGE[choices["exchange"]].traits
    consistency = own_pace() if unwaited(choices) else None
    try:
        order = Order(
            unit=choices["unit"], size=SIZES[choices["unit"]], depart=choices["depart"], rank=choices["rank"],
            returns=choices["returns"],
        )  # fmt: skip
        rest = {axis: choices[axis] for axis in ("exchange", "codec", "activations", "update")}
        layers = [LayerPlan(layer=layer.name, order=order, **rest) for layer in model.layers]  # type: ignore[arg-type]
        resolved(
            model,
            *layers,
            workers=workers,
            servers=Servers(count=1) if served else None,
            consistency=consistency,
        )
    except UserError as error:
        return error
    return None


def verdicts_of(model: ModelDescription, workers: int, *, waits: bool) -> list[Verdict]:
    """All choices of jobs in which workers wait for what travels, or all others, each with why a layer cannot have
    it."""
    return [
        (choices, refused(choices, model, workers))
        for choices in every_choice()
        if unwaited(choices) != waits
    ]


def refusals_in(verdicts: Sequence[Verdict]) -> dict[Pair, Refusal]:
    """Every pair that no possible choices hold, with the rule that forbids it.

    A rule forbids a pair where it refuses choices that another value in place of one of the two would make possible,
    or better: in place of either. Where several do, that is the one which refuses most.
    """
    possible = [choices for choices, error in verdicts if error is None]
    allowed = pairs_in(possible)
    known = {_beside(choices) for choices in possible}
    reasons: dict[Pair, dict[tuple[int, str], list[UserError]]] = defaultdict(lambda: defaultdict(list))
    for choices, error in verdicts:
        if error is None:
            continue
        broken = [(_rule(one), one) for one in error.every]
        for pair in set(pairs_of(choices)) - allowed:
            cured = sum(
                any(_beside(choices | {axis: other}) in known for other in AXES[axis]) for axis, _ in pair
            )
            if cured:
                for rule, one in broken:
                    reasons[pair][cured, rule].append(one)
    refusals = {}
    for pair, found in reasons.items():
        best = max(found, key=lambda reason: (reason[0], len(found[reason])))
        refusals[pair] = Refusal(rule=best[1], error=found[best][0])
    return refusals


def every_pair() -> set[Pair]:
    return pairs_in(every_choice())


def pairs_in(choices: Iterable[Choices]) -> set[Pair]:
    return {pair for one in choices for pair in pairs_of(one)}


def choices_of(layer: LayerPlan) -> Choices:
    """What a resolved layer answers on every axis."""
    order = {name: getattr(layer.order, name) for name in ("unit", "depart", "rank", "returns")}
    found = order | {name: getattr(layer, name) for name in ("exchange", "codec", "activations", "update")}
    return {axis: found[axis] for axis in AXES}


def every_option(entry: Strategy) -> Iterator[dict[str, object]]:
    """A strategy's options in every combination of those that are chosen from a few values."""
    hints = get_type_hints(entry.options)
    few: dict[str, tuple[object, ...]] = {}
    for name in (field.name for field in fields(entry.options)):
        if get_origin(hints[name]) is Literal:
            few[name] = get_args(hints[name])
        elif hints[name] is bool:
            few[name] = (False, True)
        elif name == "codec":
            few[name] = AXES["codec"]
        elif name == "servers":
            few[name] = (None, 1)
    for values in product(*few.values()):
        yield dict(zip(few, values, strict=True))


def covering(possible: Sequence[Choices], wanted: Iterable[Pair]) -> list[Choices]:
    """A few of the possible choices that hold every wanted pair, found greedily."""
    return [possible[at] for at in cover([set(pairs_of(choices)) for choices in possible], wanted)]


def holding_pairs(possible: Sequence[Choices], kind: str) -> list[Choices]:
    """A few of the possible choices that hold every pair of those whose codecs are of this kind of `KINDS`, `moving`
    and `voting`, or of one before it, but for the pairs that those before it hold."""
    kinds = [*KINDS, "moving", "voting"]
    kinds = kinds[: kinds.index(kind) + 1]
    before = [choices for choices in possible if kind_of(choices) in kinds[:-1]]
    chosen = [choices for choices in possible if kind_of(choices) in kinds]
    return covering(chosen, pairs_in(chosen) - pairs_in(before))


def _rule(error: UserError) -> str:
    """The innermost function of the engine's vocabulary that raised it, e.g. `rules._buckets_have_no_home`."""
    trace = error.__traceback__
    assert trace is not None
    while trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code
    return f"{Path(code.co_filename).stem}.{code.co_name}"


def kind_of(choices: Choices) -> str:
    """How its codec treats what it encodes: `lossless`, `random` (rounded up or down by chance), `remembered` (what
    messages lose is kept), `factored` (the same of matrices in few directions, which are drawn at first), `moving` (it
    has the momentum, which the optimizer has not then), `voting` (signs alone) or `rounded`."""
    traits = CODEC[choices["codec"]].traits
    known = {
        "lossless": "lossless", "random": "random", "matrices": "factored", "feedback": "remembered", "own": "moving",
        "votes": "voting",
    }  # fmt: skip
    return next((kind for trait, kind in known.items() if trait in traits), "rounded")
