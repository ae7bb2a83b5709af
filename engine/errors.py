"""Errors that a person can act on: each names the value, the rule it breaks and the remedy.

UserError(ValueError)        bad input, found when a specification or a plan is validated
    UnknownNameError         a name that no catalogue lists
TrainingError(RuntimeError)  a running job cannot go on (diverged loss, unsupported use of a parameter)
    OutOfMemoryError              there is no more memory for one of its processes
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import Any, ParamSpec, Self, TypeVar

E = TypeVar("E", bound="UserError")
P = ParamSpec("P")


class UserError(ValueError):
    """Bad input. `field` is a dotted path into the job specification or plan, e.g. `cluster.workers`; empty where
    the value as a whole is meant."""

    def __init__(self, field: str, value: Any, rule: str, remedy: str) -> None:
        self.field = field
        self.value = value
        self.rule = rule
        self.remedy = remedy
        self.more: tuple[UserError, ...] = ()
        """What else is wrong, where several things were looked at before anything was said."""
        super().__init__(
            f"{field} = {value!r}: {rule}. {remedy}" if field else f"{value!r}: {rule}. {remedy}"
        )

    @property
    def every(self) -> tuple[UserError, ...]:
        """All that is wrong, this one first."""
        return self, *self.more

    def at(self, field: str) -> Self:
        """The same error, of the same class, about `field`."""
        return _same(type(self), field, self.value, self.rule, self.remedy)

    def within(self, prefix: str) -> Self:
        """The same error with its field seen from an enclosing object."""
        return self.at(f"{prefix}.{self.field}" if self.field else prefix)

    def __reduce__(self) -> tuple[Any, ...]:
        """Errors travel between processes; what an exception keeps by itself is its message only."""
        found = (type(self), self.field, self.value, self.rule, self.remedy)
        return _same, found, {"more": self.more}

    def to_dict(self) -> dict[str, Any]:
        return {"field": self.field, "value": self.value, "rule": self.rule, "remedy": self.remedy}


def _same(kind: type[E], field: str, value: Any, rule: str, remedy: str) -> E:
    error = kind.__new__(kind)
    UserError.__init__(error, field, value, rule, remedy)
    return error


class UnknownNameError(UserError):
    """A name that the catalogue of `what` does not list; the message lists those it does."""

    def __init__(self, field: str, name: Any, what: str, known: Iterable[str]) -> None:
        names = sorted(map(str, known))  # states are enumerated
        near = get_close_matches(str(name), names, n=1)
        hint = f"Did you mean {near[0]!r}? " if near else ""
        super().__init__(field, name, f"no such {what}", f"{hint}Known: {', '.join(names)}")

    def of(self, value: Any) -> Self:
        """The same error about what was given under that name: its field says the name already."""
        return _same(type(self), self.field, value, self.rule, self.remedy)


def require_positive(field: str, value: float | None, unit: str) -> None:
    """Raises UserError where a number is given that is zero, negative or not finite."""
    if value is not None and not 0 < value < math.inf:
        raise UserError(field, value, f"must be greater than zero ({unit})", "Give a positive number")


def require_within(field: str, value: int, least: int, most: int) -> None:
    """Raises UserError where a whole number is not from `least` to `most`."""
    if value < least:
        raise UserError(field, value, f"must be at least {least}", f"Give a number from {least} to {most}")
    if value > most:
        raise UserError(field, value, f"must be at most {most:,}", f"Give a number from {least} to {most}")


def require_file(field: str, value: str | None) -> None:
    """Raises UserError where a file is given that has no name: its path would be the folder that the process is in."""
    if value is not None and not value.strip():
        raise UserError(field, value, "names no file", "Name one, or leave it out")


def refusals(rule: Callable[P, object], *given: P.args, **named: P.kwargs) -> tuple[UserError, ...]:
    """What `rule` refuses of what it is given: nothing, one thing or several."""
    try:
        rule(*given, **named)
    except UserError as error:
        return error.every
    return ()


def refuse(errors: Iterable[UserError]) -> None:
    """Raise all of them at once, as the first one with the others in its `more`. Does nothing where there are none."""
    found = tuple(errors)
    if found:
        found[0].more = found[1:]
        raise found[0]


class TrainingError(RuntimeError):
    """A running job cannot go on; the message names what happened, where, and what to change."""


class OutOfMemoryError(TrainingError):
    """There is no more memory for one of a job's processes."""
