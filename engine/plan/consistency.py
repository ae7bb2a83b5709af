"""Consistency of a plan: how far workers may drift. Each mode has its settings beside its policy
(`engine/consistency/`); what several modes share is here."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, TypeGuard

from engine.axes.consistency import CONSISTENCY
from engine.axes.outer import OUTER
from engine.catalogue import STRICT
from engine.errors import UserError
from engine.plan.units_of_measure import LARGEST

_LARGE = {"period": "steps", "warm_up_steps": "steps", "fragments": "parts of the model", "delay": "steps"}
"""Numbers that have no largest value of their own, and what they count."""
_MOST_OUTER_RATE = 10
"""Ten averaged steps at once; DiLoCo takes 0.7 of one."""


@dataclass(frozen=True, kw_only=True)
class Consistency:
    """How far workers may drift. Chosen for the job; other axes may differ from layer to layer."""

    __pydantic_config__ = STRICT

    KNOWN_BY: ClassVar[str] = "mode"
    """The field that `variant` reads."""
    mode: str = "every-step"
    """A value of the axis `consistency`."""

    def __post_init__(self) -> None:
        settings = CONSISTENCY.require(self.mode, "mode").load().settings
        if type(self) is not settings:
            raise TypeError(f"the settings of {self.mode} are {settings.__name__}, not {type(self).__name__}")

    @classmethod
    def variant(cls, data: dict[str, Any]) -> tuple[type[Consistency], dict[str, Any]]:
        """The settings that plain `data` are of, and their fields. Another mode's that are null are left out: plans
        that were stored when all modes shared one class name them so. Raises UserError."""
        kind = CONSISTENCY.require(data.get("mode", cls.mode), "mode").load().settings
        own = {each.name for each in fields(kind)}
        others = {each.name for mode in CONSISTENCY for each in fields(mode.load().settings)} - own
        return kind, {
            name: value
            for name, value in data.items()
            if not (name in others and (value is None or value == []))
        }

    @property
    def exchange_period(self) -> int:
        """Steps from one exchange to the next."""
        return 1

    @property
    def travelling_state(self) -> tuple[str, ...]:
        """Which tensors of the optimizer's state travel beside each parameter."""
        return ()


@dataclass(frozen=True, kw_only=True)
class Alone(Consistency):
    """Workers train alone, and what they have changed travels: what modes with the trait `alone` share."""

    mode: str
    period: int | None = None
    """Steps between two averages. Null: see `period_epochs`."""
    period_epochs: float | None = None
    """Passes over the training data between two averages, in place of `period`; validation settles it in
    steps."""
    optimizer_state: bool | None = None
    """Whether the optimizer's state is averaged with the parameters."""
    state: tuple[str, ...] = ()
    """Which tensors of the optimizer's state travel beside each parameter. Follows from the job's optimizer
    and `optimizer_state`."""
    learning_rate_rule: Literal["constant", "linear"] | None = None
    """`linear` multiplies the learning rate by the number of workers (papers 002)."""
    warm_up_steps: int | None = None
    """With the linear rule: steps in which the learning rate grows to its multiple. 0 or null: at once."""
    outer: str | None = None
    """The outer optimizer that takes the averaged step, `sgd` or `nesterov`. Null: plain averaging."""
    outer_learning_rate: float | None = None
    """Learning rate of the outer optimizer. Null: 1, which with `sgd` is plain averaging."""
    outer_momentum: float | None = None
    """Momentum of the outer optimizer. Null: 0."""
    fragments: int | None = None
    """Into how many parts, averaged in turn, the layers are divided (each has its `fragment`). Null: 1."""
    delay: int | None = None
    """Steps in which training goes on while an average is under way. Null: 0."""
    mixing: float | None = None
    """The share of its own parameters, from 0 to below 1, that a worker keeps when the average is taken.
    Null: 0."""

    @property
    def exchange_period(self) -> int:
        return self.period or 1

    @property
    def travelling_state(self) -> tuple[str, ...]:
        return self.state

    def without(self, *names: str) -> None:
        """Raises UserError where a setting is given that this mode does not read."""
        for name in names:
            if getattr(self, name) not in (None, ()):
                raise UserError(name, getattr(self, name), f"means nothing for {self.mode}", "Leave it out")

    def __post_init__(self) -> None:
        super().__post_init__()
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


def trains_alone(consistency: Consistency) -> TypeGuard[Alone]:
    """Whether workers train alone, and what they have changed travels."""
    return "alone" in CONSISTENCY[consistency.mode].traits


def averages(consistency: Consistency) -> bool:
    """Whether workers that train alone meet for an average."""
    return trains_alone(consistency) and not drifts(consistency)


def unwaited(consistency: Consistency) -> bool:
    """Whether each worker takes what the others have changed whenever that comes."""
    return drifts(consistency) and trains_alone(consistency)


def drifts(consistency: Consistency) -> bool:
    """Whether workers do not wait for one another in every step."""
    return "drifts" in CONSISTENCY[consistency.mode].traits
