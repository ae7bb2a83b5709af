"""A catalogue: the values of one axis, listed by name without importing what implements them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any, Generic, TypeVar

from engine.errors import UnknownNameError, UserError

STRICT = {"use_attribute_docstrings": True, "extra": "forbid"}
"""Pydantic's settings of options: unknown names are refused, and page and API say what a field means."""


@dataclass(frozen=True, kw_only=True)
class NoOptions:
    """There are no options."""

    __pydantic_config__ = STRICT


@dataclass(frozen=True, kw_only=True)
class Mechanism:
    """One value of one axis: what a plan may say, and where its code is.

    Exactly one of `implementation` and `missing` is set, so that the vocabulary is complete
    from the first day and a value without a mechanism is refused with its reason.
    """

    name: str
    summary: str
    """One line for a person who chooses."""
    implementation: str | None = None
    """`module:attribute` of the code, imported only in the processes that run it."""
    missing: str | None = None
    """Why there is no mechanism yet."""
    options: type = NoOptions
    """A frozen dataclass with its own options."""
    traits: frozenset[str] = frozenset()
    """Capabilities that the compatibility rules ask for (see `engine/plan/layer_rules.py`)."""

    def __post_init__(self) -> None:
        if (self.implementation is None) == (self.missing is None):
            raise ValueError(f"mechanism {self.name!r} needs either an implementation or the reason why not")

    @property
    def available(self) -> bool:
        return self.implementation is not None

    def load(self) -> Any:
        """Import and return the implementation."""
        assert self.implementation is not None, self.missing
        return found(self.implementation)


Kind_co = TypeVar("Kind_co", bound=Mechanism, covariant=True)


@dataclass(frozen=True)
class Axis(Generic[Kind_co]):
    """One axis of the plan: its question and the explicit list of its values."""

    name: str
    question: str
    mechanisms: tuple[Kind_co, ...]

    def __iter__(self) -> Iterator[Kind_co]:
        return iter(self.mechanisms)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(m.name for m in self.mechanisms)

    @cached_property
    def _by_name(self) -> dict[str, Kind_co]:
        return {mechanism.name: mechanism for mechanism in self.mechanisms}

    def __getitem__(self, name: str) -> Kind_co:
        try:
            return self._by_name[name]
        except (KeyError, TypeError):  # also what is no name at all
            raise UnknownNameError(self.name, name, f"value of the axis {self.name}", self.names) from None

    def require(self, name: str, field: str) -> Kind_co:
        """The mechanism called `name`; raises UserError naming `field` where unknown or not built yet."""
        try:
            mechanism = self[name]
        except UnknownNameError as error:
            raise error.at(field) from None
        if mechanism.missing is not None:
            ready = ", ".join(m.name for m in self.mechanisms if m.available)
            raise UserError(field, name, f"not available: {mechanism.missing}", f"Use one of: {ready}")
        return mechanism


def found(name: str) -> Any:
    """What `module:attribute` names, imported now."""
    module, _, attribute = name.partition(":")
    return getattr(import_module(module), attribute)
