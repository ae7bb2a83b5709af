"""Dataclasses from and to plain data (JSON, YAML): strict, with errors that name the field."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import sys
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from engine.errors import UnknownNameError, UserError

T = TypeVar("T")

MOST_VALUES = 10_000
"""Of one file, what aliases name counted each time: a few lines of YAML can stand for more than memory holds."""
_EXPONENT = re.compile(r"^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)[eE][-+]?[0-9]+$")


def to_plain(value: Any) -> Any:
    """Dataclasses to dictionaries, tuples to lists, all the way down."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_plain(getattr(value, f.name)) for f in dataclasses.fields(value) if f.init}
    if isinstance(value, dict):
        return {key: to_plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_plain(item) for item in value]
    return value


def from_plain(cls: type[T], data: Any, field: str = "") -> T:
    """Build `cls` from plain data. Raises UserError naming the dotted field, its value, the rule and the remedy."""
    if not isinstance(data, dict):
        raise UserError(
            field, data, f"must be an object with the fields of {cls.__name__}", "See the job's schema"
        )
    hints = _hints(cls)  # type: ignore[arg-type]
    known = {f.name: f for f in dataclasses.fields(cls) if f.init}  # type: ignore[arg-type]
    for name in data:
        if name not in known:
            shown = _legible(str(name))
            raise UnknownNameError(_join(field, shown), shown, f"field of {cls.__name__}", known)
    values = {}
    for name, spec in known.items():
        if name in data:
            values[name] = _convert(hints[name], data[name], _join(field, name))
        elif spec.default is dataclasses.MISSING and spec.default_factory is dataclasses.MISSING:
            raise UserError(_join(field, name), None, "is required", f"Add {name}")
    try:
        return cls(**values)
    except UserError as error:
        raise (error.within(field) if field else error) from None


def load_text(text: str, where: str) -> Any:
    """Parse YAML (and so JSON). Raises UserError with the line of a syntax error."""
    try:
        yaml, loader, _ = _yaml()
    except ModuleNotFoundError:
        try:
            return json.loads(text)
        except json.JSONDecodeError as error:
            raise UserError(
                "", where, f"is not JSON: {error}", "Write JSON, or install PyYAML to read YAML"
            ) from None
    try:
        return yaml.load(text, loader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UserError(
            "", where, f"is neither YAML nor JSON: {_said(error)}", "Correct the syntax"
        ) from None


def load_object(text: str, where: str) -> dict[str, Any]:
    """Parse YAML or JSON that holds one object, of nothing but what JSON has, too (YAML also knows dates, sets and
    aliases). Raises UserError with the line of a syntax error, else at the field."""
    found = load_text(text, where)
    if not isinstance(found, dict):
        raise UserError(
            "", where, "must hold one object", "Write `field: value`; the job's schema has the fields"
        )
    waiting: list[tuple[str, Any]] = [("", found)]
    for _ in range(MOST_VALUES + 1):
        if not waiting:
            return found
        field, value = waiting.pop()
        if isinstance(value, dict):
            for name, item in value.items():
                if not (isinstance(name, str) and _is_unicode(name)):
                    shown = _legible(str(name))
                    raise UserError(field, shown, "is no name of a field", "Name fields by text")
                waiting.append((_join(field, name), item))
        elif isinstance(value, list):
            waiting += [(_join(field, i), item) for i, item in enumerate(value)]
        elif not _is_plain(value):
            shown = _legible(str(value))
            raise UserError(field, shown, "is none of JSON's values", "Give a number, or text (in quotes)")
    raise UserError("", where, f"holds more than {MOST_VALUES:,} values", "Write less, and fewer aliases")


def load_file(cls: type[T], path: Path) -> T:
    """Read one object of `cls` from a YAML or JSON file."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(
            "", str(path), f"cannot be read: {error}", "Name a readable YAML or JSON file"
        ) from None
    return from_plain(cls, load_text(text, str(path)))


def dump_yaml(value: Any) -> str:
    """A dataclass as YAML, fields in their declared order."""
    yaml, _, dumper = _yaml()
    text: str = yaml.dump(to_plain(value), Dumper=dumper, sort_keys=False, allow_unicode=True)
    return text


@cache
def _yaml() -> tuple[Any, Any, Any]:
    """PyYAML with its safe loader and dumper, changed so that `1e-3` is a number, as in YAML 1.2 and JSON, not text."""
    import yaml  # noqa: PLC0415 - an extra: the core needs only JSON

    class Loader(yaml.SafeLoader):
        pass

    class Dumper(yaml.SafeDumper):
        pass

    for kind in (Loader, Dumper):
        kind.add_implicit_resolver("tag:yaml.org,2002:float", _EXPONENT, list("-+0123456789."))
    return yaml, Loader, Dumper


def _said(error: Exception) -> str:
    """A parser's complaint in one line."""
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return " ".join(str(error).split())
    said = ", ".join(filter(None, (getattr(error, "context", None), getattr(error, "problem", None))))
    return f"line {mark.line + 1}, column {mark.column + 1}: {said}"


def _is_plain(value: Any) -> bool:
    if isinstance(value, str):
        return _is_unicode(value)
    return value is None or isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))


def _join(field: str, name: Any) -> str:
    return f"{field}.{name}" if field else str(name)


@cache
def _hints(cls: Any) -> dict[str, Any]:
    return get_type_hints(cls)


def _convert(hint: Any, value: Any, field: str) -> Any:  # noqa: PLR0911, PLR0912 - one branch per kind of type
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        if value is None and NoneType in args:
            return None
        choices = [a for a in args if a is not NoneType]
        if len(choices) == 1:
            return _convert(choices[0], value, field)
        for choice in choices:
            try:
                return _convert(choice, value, field)
            except UserError as error:
                last = error
        raise last
    if origin is Literal:
        if value not in args or isinstance(value, bool) != isinstance(args[0], bool):
            raise UnknownNameError(field, value, "choice", map(str, args))
        return value
    if origin is tuple:
        if not isinstance(value, (list, tuple)):
            raise UserError(field, value, "must be a list", "Write [..., ...]")
        return tuple(_convert(args[0], item, f"{field}.{i}") for i, item in enumerate(value))
    if origin is dict or hint is dict:
        if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
            raise UserError(field, value, "must be an object", "Write {name: value}")
        return dict(value)
    if dataclasses.is_dataclass(hint):
        return value if isinstance(value, hint) else from_plain(hint, value, field)  # type: ignore[arg-type]
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        if abs(value) > sys.float_info.max:
            raise UserError(field, value, "is too large for a number", "Give a smaller one")
        return float(value)
    if hint is str and isinstance(value, str) and not _is_unicode(value):
        raise UserError(
            field, _legible(value), "holds half of a character (a lone surrogate)", "Write valid text"
        )
    if hint is Any or (isinstance(value, hint) and (hint is bool or not isinstance(value, bool))):
        return value
    names = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}
    unquoted = hint is str and isinstance(value, int | float)  # YAML takes a layer's name 3 for a number
    remedy = f"Put it in quotes: '{value}'" if unquoted else "Correct the value"
    raise UserError(field, value, f"must be {names.get(hint, hint)}", remedy)


def _legible(text: str) -> str:
    """The same for a message, which half of a character would break."""
    return text.encode("utf-8", "backslashreplace").decode()


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
