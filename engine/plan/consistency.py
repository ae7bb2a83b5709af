"""Consistency of a plan: how far workers may drift, with each mode's own settings."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from engine.axes.consistency import CONSISTENCY
from engine.axes.outer import OUTER
from engine.errors import UserError
from engine.plan.units_of_measure import LARGEST

_ALONE = ("average", "streaming")
_BELONGS: dict[str, tuple[str, ...]] = {
    "period": _ALONE,
    "period_epochs": _ALONE,
    "optimizer_state": ("average",),
    "state": ("average",),
    "learning_rate_rule": _ALONE,
    "warm_up_steps": _ALONE,
    "outer": _ALONE,
    "outer_learning_rate": _ALONE,
    "outer_momentum": _ALONE,
    "fragments": ("streaming",),
    "delay": ("streaming",),
    "mixing": ("streaming",),
    "scaling": ("asynchronous",),
    "own_writes": ("asynchronous",),
    "contributions": ("softsync",),
    "bound": ("bounded-staleness",),
    "apply": ("bounded-staleness",),
}
"""Which modes read which setting."""
_LARGE = {"period": "steps", "warm_up_steps": "steps", "fragments": "parts of the model", "delay": "steps"}
"""Numbers that have no largest value of their own, and what they count."""
_MOST_OUTER_RATE = 10
"""Ten averaged steps at once; DiLoCo takes 0.7 of one."""


@dataclass(frozen=True, kw_only=True)
class Consistency:
    """How far workers may drift. Chosen for the job; other axes may differ from layer to layer."""

    __pydantic_config__ = {"use_attribute_docstrings": True, "extra": "forbid"}

    mode: str = "every-step"
    """A value of the axis `consistency`."""
    period: int | None = None
    """`average`: steps between two averages. Null: see `period_epochs`."""
    period_epochs: float | None = None
    """`average`: passes over the training data between two averages, in place of `period`; validation settles it in
    steps."""
    optimizer_state: bool | None = None
    """`average`: whether the optimizer's state is averaged with the parameters."""
    state: tuple[str, ...] = ()
    """`average`: which tensors of the optimizer's state travel beside each parameter. Follows from the job's optimizer
    and `optimizer_state`."""
    learning_rate_rule: Literal["constant", "linear"] | None = None
    """`average`: `linear` multiplies the learning rate by the number of workers (papers 002)."""
    warm_up_steps: int | None = None
    """`average` with the linear rule: steps in which the learning rate grows to its multiple. 0 or null: at once."""
    outer: str | None = None
    """`average`: the outer optimizer that takes the averaged step, `sgd` or `nesterov`. Null: plain averaging."""
    outer_learning_rate: float | None = None
    """`average`: learning rate of the outer optimizer. Null: 1, which with `sgd` is plain averaging."""
    outer_momentum: float | None = None
    """`average`: momentum of the outer optimizer. Null: 0."""
    fragments: int | None = None
    """`streaming`: into how many parts, averaged in turn, the layers are divided (each has its `fragment`). Null: 1."""
    delay: int | None = None
    """`streaming`: steps in which training goes on while an average is under way. Null: 0."""
    mixing: float | None = None
    """`streaming`: the share of its own parameters, from 0 to below 1, that a worker keeps when the average is taken.
    Null: 0."""
    scaling: str | None = None
    """`asynchronous`: `staleness` divides a contribution's step by its staleness (papers 001)."""
    own_writes: bool | None = None
    """`asynchronous`: whether a worker waits, before a step, until its last contribution is in what it reads (null:
    yes). False: it goes on, one contribution behind, and the network is as slow as a whole step before it waits."""
    contributions: int | None = None
    """`softsync`: contributions that make one update."""
    bound: int | None = None
    """`bounded-staleness`: steps that the fastest worker may be ahead of the slowest."""
    apply: Literal["arrival", "clock"] | None = None
    """`bounded-staleness`: whether a contribution is applied on `arrival` (the default), or all of one clock as one
    update, in the order of clocks."""

    def __post_init__(self) -> None:
        CONSISTENCY.require(self.mode, "mode")
        for name, modes in _BELONGS.items():
            if getattr(self, name) not in (None, ()) and self.mode not in modes:
                raise UserError(
                    name,
                    getattr(self, name),
                    f"means nothing for {self.mode}",
                    f"Leave it out; it belongs to {', '.join(modes)}",
                )
        if trains_alone(self):
            for name, unit in _LARGE.items():
                if (getattr(self, name) or 0) > LARGEST:
                    raise UserError(
                        name,
                        getattr(self, name),
                        f"must be at most {LARGEST} ({unit})",
                        "Use a smaller number",
                    )
            self._check_period()
            self._check_warm_up()
            self._check_outer()
            self._check_fragments()

    def _check_period(self) -> None:
        if (self.period is None) == (self.period_epochs is None):
            both = {"period": self.period, "period_epochs": self.period_epochs}
            raise UserError(
                "period", both, "exactly one of period and period_epochs must be given", "Give one of the two"
            )
        if self.period is not None and self.period < 1:
            raise UserError(
                "period", self.period, "must be at least 1 (steps)", "1 averages after every step"
            )
        if self.period_epochs is not None and not 0 < self.period_epochs < math.inf:
            raise UserError(
                "period_epochs",
                self.period_epochs,
                "must be greater than zero (passes over the data)",
                "1 averages once in an epoch",
            )

    def _check_warm_up(self) -> None:
        if self.warm_up_steps is None:
            return
        if self.warm_up_steps < 0:
            raise UserError(
                "warm_up_steps", self.warm_up_steps, "must not be negative (steps)", "0 is no warm-up"
            )
        if self.warm_up_steps and self.learning_rate_rule != "linear":
            raise UserError(
                "warm_up_steps",
                self.warm_up_steps,
                "there is nothing to warm up to: the learning rate is not multiplied",
                "Use learning_rate_rule: linear, or leave it out",
            )

    def _check_outer(self) -> None:
        if self.outer is None:
            for name in ("outer_learning_rate", "outer_momentum"):
                if getattr(self, name) is not None:
                    raise UserError(
                        name,
                        getattr(self, name),
                        "means nothing without an outer optimizer",
                        f"Leave it out, or give outer: {' or '.join(OUTER.names)}",
                    )
            return
        momentum, rate = self.outer_momentum or 0.0, self.outer_learning_rate
        if "momentum" in OUTER.require(self.outer, "outer").traits and momentum == 0:
            raise UserError(
                "outer_momentum",
                self.outer_momentum,
                f"{self.outer} looks ahead along its momentum and has none",
                "Use 0.9, or outer: sgd",
            )
        if rate is not None and not 0 < rate <= _MOST_OUTER_RATE:
            raise UserError(
                "outer_learning_rate",
                rate,
                f"must be greater than zero and at most {_MOST_OUTER_RATE}: it multiplies the averaged step",
                "1 takes the averaged step as it is",
            )
        if not 0 <= momentum < 1:
            raise UserError("outer_momentum", momentum, "must be from 0 to below 1", "0.9 is usual")

    def _check_fragments(self) -> None:
        for name, least, unit, remedy in (
            ("fragments", 1, "parts of the model", "1 averages the whole model at once"),
            ("delay", 0, "steps", "0 waits for the average"),
        ):
            value = getattr(self, name)
            if value is not None and value < least:
                raise UserError(name, value, f"must be at least {least} ({unit})", remedy)
        if self.mixing is not None and not 0 <= self.mixing < 1:
            raise UserError(
                "mixing", self.mixing, "must be from 0 to below 1", "0 takes the average as it is"
            )


def trains_alone(consistency: Consistency) -> bool:
    """Whether workers train alone and average what they have changed."""
    return "alone" in CONSISTENCY[consistency.mode].traits


def drifts(consistency: Consistency) -> bool:
    """Whether workers do not wait for one another in every step."""
    return "drifts" in CONSISTENCY[consistency.mode].traits
