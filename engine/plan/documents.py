"""Texts and files in YAML or JSON, within limits: what a person writes is read here, by service and terminal alike."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

from engine.errors import UserError
from engine.plan.characters import visible
from engine.plan.limits import JOB, Limits
from engine.plan.serde import from_plain, is_unicode, join, legible, to_plain
from engine.regular import read_regular

T = TypeVar("T")
_NO_JSON = object()


def load_text(text: str, where: str, limits: Limits = JOB) -> Any:
    """Parse YAML (and so JSON). Raises UserError with the line of a syntax error, and for what is beyond a limit."""
    check_size(len(text), where, limits)  # characters: bytes are no fewer
    found = _load_json(text, limits)
    if found is not _NO_JSON:
        return found
    try:
        from engine.plan import bounded_yaml  # noqa: PLC0415 - PyYAML is an extra: the core needs only JSON
    except ModuleNotFoundError:
        rule, remedy = (
            "is no JSON within the limits",
            "Correct it, or install PyYAML to read YAML and to see more",
        )
        raise UserError("", where, rule, remedy) from None
    try:
        return bounded_yaml.load(text, limits)
    except bounded_yaml.BeyondLimitError as error:
        raise UserError("", where, error.rule, error.remedy) from None
    except Exception as error:  # PyYAML has errors of its own, and lets others through
        raise UserError(
            "", where, f"is neither YAML nor JSON: {_said(error)}", "Correct the syntax"
        ) from None


def load_object(text: str, where: str) -> dict[str, Any]:
    """Parse YAML or JSON that holds one object, of nothing but what JSON has, too (YAML also knows dates, sets and
    aliases). Raises UserError as `load_text` does, else at the field."""
    found = load_text(text, where)
    if not isinstance(found, dict):
        raise UserError(
            "", where, "must hold one object", "Write `field: value`; the job's schema has the fields"
        )
    waiting: list[tuple[str, Any]] = [("", found)]
    while waiting:
        field, value = waiting.pop()
        if isinstance(value, dict):
            for name, item in value.items():
                if not (isinstance(name, str) and is_unicode(name)):
                    shown = legible(str(name))
                    raise UserError(field, shown, "is no name of a field", "Name fields by text")
                waiting.append((join(field, name), item))
        elif isinstance(value, list):
            waiting += [(join(field, i), item) for i, item in enumerate(value)]
        elif not _is_plain(value):
            shown = legible(str(value))
            raise UserError(field, shown, "is none of JSON's values", "Give a number, or text (in quotes)")
    return found


def load_file(cls: type[T], path: Path, limits: Limits = JOB) -> T:
    """Read one object of `cls` from a YAML or JSON file. Raises UserError."""
    try:
        content = read_regular(path, limits.size + 1)
        check_size(len(content), str(path), limits)
        text = content.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(
            "", str(path), f"cannot be read: {error}", "Name a readable YAML or JSON file"
        ) from None
    return from_plain(cls, load_text(text, str(path), limits))


def check_size(size: int, where: str, limits: Limits = JOB) -> None:
    """Raises UserError for a text that is longer than its limit."""
    if size > limits.size:
        raise UserError("", where, f"is longer than {limits.size:,} bytes, which is the most", "Write less")


def dump_yaml(value: Any) -> str:
    """A dataclass as YAML, fields in their declared order. Where it holds a character that no terminal should get, all
    that are not ASCII are escaped."""
    from engine.plan import bounded_yaml  # noqa: PLC0415 - as above

    plain = to_plain(value)
    text = bounded_yaml.dump(plain)
    return text if visible(text) == text else bounded_yaml.dump(plain, ascii_only=True)


def _load_json(text: str, limits: Limits) -> Any:
    """What JSON says; _NO_JSON for what is none, or may be beyond a limit. (JSON is YAML, too, but for a character that
    is written as two escapes.)"""
    if sum(map(text.count, ",[{")) >= limits.values:  # no text has more values than that
        return _NO_JSON
    try:
        found = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return _NO_JSON
    level = [found]
    for _ in range(limits.levels):
        level = [item for value in level for item in _within(value)]
        if not level:
            return found
    return _NO_JSON


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is a text in YAML")


def _within(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def _said(error: Exception) -> str:
    """A parser's complaint in one line."""
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return " ".join(str(error).split()) or type(error).__name__
    said = ", ".join(filter(None, (getattr(error, "context", None), getattr(error, "problem", None))))
    return f"line {mark.line + 1}, column {mark.column + 1}: {said}"


def _is_plain(value: Any) -> bool:
    if isinstance(value, str):
        return is_unicode(value)
    return value is None or isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))
