"""Errors that a person can act on: each names the value, the rule it breaks and the remedy.

UserError(ValueError)        bad input, found when a specification or a plan is validated
    UnknownNameError         a name that no catalogue lists
TrainingError(RuntimeError)  a running job cannot go on (diverged loss, unsupported use of a parameter)
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any, Self, TypeVar

E = TypeVar("E", bound="UserError")


class UserError(ValueError):
    """Bad input. `field` is a dotted path into the job specification or plan, e.g. `cluster.workers`; empty where
    the value as a whole is meant."""

    def __init__(self, field: str, value: Any, rule: str, remedy: str) -> None:
        self.field = field
        self.value = value
        self.rule = rule
        self.remedy = remedy
        super().__init__(
            f"{field} = {value!r}: {rule}. {remedy}" if field else f"{value!r}: {rule}. {remedy}"
        )

    def at(self, field: str) -> Self:
        """The same error, of the same class, about `field`."""
        return _same(type(self), field, self.value, self.rule, self.remedy)

    def within(self, prefix: str) -> Self:
        """The same error with its field seen from an enclosing object."""
        return self.at(f"{prefix}.{self.field}" if self.field else prefix)

    def __reduce__(self) -> tuple[Any, ...]:
        """Errors travel between processes; what an exception keeps by itself is its message only."""
        return _same, (type(self), self.field, self.value, self.rule, self.remedy)

    def to_dict(self) -> dict[str, Any]:
        return {"field": self.field, "value": self.value, "rule": self.rule, "remedy": self.remedy}


def _same(kind: type[E], field: str, value: Any, rule: str, remedy: str) -> E:
    error = kind.__new__(kind)
    UserError.__init__(error, field, value, rule, remedy)
    return error


class UnknownNameError(UserError):
    """A name that the catalogue of `what` does not list; the message lists those it does."""

    def __init__(self, field: str, name: Any, what: str, known: Iterable[str]) -> None:
        names = sorted(known)
        near = get_close_matches(str(name), names, n=1)
        hint = f"Did you mean {near[0]!r}? " if near else ""
        super().__init__(field, name, f"no such {what}", f"{hint}Known: {', '.join(names)}")


class TrainingError(RuntimeError):
    """A running job cannot go on; the message names what happened, where, and what to change."""
