"""YAML that cannot cost more than its limits allow: they are held while the text is parsed, before anything is built.

A few lines of YAML can stand for more than memory holds: an alias, and a merge (`<<: *name`), repeat all that their
anchor names, and may be nested. So what an alias names counts again each time that it is named, in number and in depth.
PyYAML builds a merged mapping by copying, so that a text within the limits costs at most as much as its count.
"""

from __future__ import annotations

import re
from typing import Any

import yaml
from yaml.composer import Composer
from yaml.constructor import SafeConstructor
from yaml.events import AliasEvent
from yaml.nodes import MappingNode, Node, ScalarNode
from yaml.resolver import Resolver

from engine.plan.limits import Limits

if yaml.__with_libyaml__:
    from yaml._yaml import CParser

FLOAT, INT = "tag:yaml.org,2002:float", "tag:yaml.org,2002:int"
EXPONENT = re.compile(r"^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)[eE][-+]?[0-9]+$")
"""`1e-3` is a number in YAML 1.2 and JSON, and a text in PyYAML."""

EXPLAINED = 2**16
"""Characters of a text that is parsed a second time, where it is wrong, by the parser that says so best."""


class BeyondLimitError(ValueError):
    """A limit is broken: `rule` says which, how much it allows and in which line, `remedy` what to do."""

    def __init__(self, line: int, rule: str, remedy: str) -> None:
        self.rule = f"{rule} (line {line + 1})"
        self.remedy = remedy
        super().__init__(self.rule)


class _Bounded(Composer):
    """Of a loader, what holds the limits."""

    def __init__(self, text: str, limits: Limits) -> None:
        super().__init__(text)  # type: ignore[call-arg]  # of the parser that it is joined with
        self._limits = limits
        self._values = 0
        self._level = 0
        self._deepest = 0
        self._whole: dict[Node, tuple[int, int]] = {}
        """Of every node that is complete: how many values and levels it has, with what its aliases name."""

    def compose_node(self, parent: Node | None, index: Any) -> Node | None:
        """A value and all within it. Raises BeyondLimitError as soon as a limit is broken."""
        event = self.peek_event()  # type: ignore[attr-defined]  # the parser's
        line = event.start_mark.line
        is_name = isinstance(parent, MappingNode) and index is None  # and no value
        before, outside = self._values, self._deepest
        self._level += 1
        self._deepest = self._level
        if isinstance(event, AliasEvent):
            node = super().compose_node(parent, index)
            endless = (self._limits.values + 1, 1)  # it is inside of what it names
            values, levels = self._whole.get(node, endless) if node is not None else endless
            self._deepest += levels - 1
            self._count(values, line)
        else:
            self._count(0 if is_name else 1, line)
            node = super().compose_node(parent, index)
            if node is not None:
                self._check_number(node)
                self._whole[node] = (self._values - before, self._deepest - self._level + 1)
        self._level -= 1
        self._deepest = max(outside, self._deepest)
        return node

    def _count(self, values: int, line: int) -> None:
        self._values += values
        if self._values > self._limits.values:
            rule = (
                f"holds more than {self._limits.values:,} values, with what aliases and merges (`<<`) repeat"
            )
            raise BeyondLimitError(line, rule, "Write less, and fewer aliases and merges")
        if self._deepest > self._limits.levels:
            rule = f"is nested deeper than {self._limits.levels} levels, with what aliases name"
            raise BeyondLimitError(line, rule, "Use fewer levels; a job has a few")

    def _check_number(self, node: Node) -> None:
        # To read a number costs as the square of its digits.
        if (
            isinstance(node, ScalarNode)
            and node.tag in {FLOAT, INT}
            and len(node.value) > self._limits.digits
        ):
            rule = f"holds a number of {len(node.value):,} characters, and the most are {self._limits.digits}"
            raise BeyondLimitError(
                node.start_mark.line, rule, "Write it shorter, or in quotes where it is text"
            )


class PlainLoader(_Bounded, yaml.SafeLoader):
    """In Python: it tells best what is wrong with a text."""


if yaml.__with_libyaml__:  # PyYAML may come without

    class _Compiled(Composer, CParser, SafeConstructor, Resolver):
        def __init__(self, text: str) -> None:
            CParser.__init__(self, text)
            for part in (Composer, SafeConstructor, Resolver):
                part.__init__(self)

    class FastLoader(_Bounded, _Compiled):
        """By libyaml: many times as fast."""


class Dumper(yaml.SafeDumper):
    """PyYAML's safe dumper."""


LOADERS: tuple[Any, ...] = (FastLoader, PlainLoader) if yaml.__with_libyaml__ else (PlainLoader,)
for kind in (*LOADERS, Dumper):
    kind.add_implicit_resolver(FLOAT, EXPONENT, list("-+0123456789."))


def load(text: str, limits: Limits) -> Any:
    """The one document in `text`. Raises BeyondLimitError, and for what is no YAML what PyYAML raises: YAMLError, or
    where a tag does not fit its text (`!!int ''`) whatever its constructor happens to."""
    first, *others = LOADERS
    try:
        return _load(first, text, limits)
    except yaml.YAMLError:
        if not others or len(text) > EXPLAINED:
            raise
        return _load(others[0], text, limits)


def _load(kind: Any, text: str, limits: Limits) -> Any:
    loader = kind(text, limits)
    try:
        return loader.get_single_data()
    finally:
        loader.dispose()


def dump(value: Any, *, ascii_only: bool = False) -> str:
    """Plain data as YAML, names in their order; with `ascii_only` all other characters as escapes."""
    text: str = yaml.dump(value, Dumper=Dumper, sort_keys=False, allow_unicode=not ascii_only)
    return text
