"""A catalogue: the values of one axis, listed by name without importing what implements them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from engine.errors import UnknownNameError, UserError


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
        module, _, attribute = self.implementation.partition(":")
        return getattr(import_module(module), attribute)


@dataclass(frozen=True)
class Axis:
    """One axis of the plan: its question and the explicit list of its values."""

    name: str
    question: str
    mechanisms: tuple[Mechanism, ...]

    def __iter__(self) -> Iterator[Mechanism]:
        return iter(self.mechanisms)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(m.name for m in self.mechanisms)

    def __getitem__(self, name: str) -> Mechanism:
        for mechanism in self.mechanisms:
            if mechanism.name == name:
                return mechanism
        raise UnknownNameError(self.name, name, f"value of the axis {self.name}", self.names)

    def require(self, name: str, field: str) -> Mechanism:
        """The mechanism called `name`; raises UserError naming `field` where unknown or not built yet."""
        try:
            mechanism = self[name]
        except UnknownNameError as error:
            raise error.at(field) from None
        if mechanism.missing is not None:
            ready = ", ".join(m.name for m in self.mechanisms if m.available)
            raise UserError(field, name, f"not available: {mechanism.missing}", f"Use one of: {ready}")
        return mechanism
