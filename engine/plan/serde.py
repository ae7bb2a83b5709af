"""Dataclasses from and to plain data: strict, with errors that name the field."""

from __future__ import annotations

import dataclasses
import sys
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from engine.errors import UnknownNameError, UserError

T = TypeVar("T")
CORRECT = "Correct the value"


def to_plain(value: Any) -> Any:
    """Dataclasses to dictionaries, tuples to lists, all the way down."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {name: to_plain(getattr(value, name)) for name in given_fields(type(value))}
    if isinstance(value, dict):
        return {key: to_plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_plain(item) for item in value]
    return value


def only_set(value: Any) -> Any:
    """As `to_plain`, without the fields that have their defaults: reading it again makes an equal dataclass. The field
    by which a class's `variant` knows it (`KNOWN_BY`) stays."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            f.name: only_set(getattr(value, f.name))
            for f in dataclasses.fields(value)
            if f.init
            and (getattr(value, f.name) != _default(f) or f.name == getattr(value, "KNOWN_BY", None))
        }
    if isinstance(value, dict):
        return {key: only_set(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [only_set(item) for item in value]
    return value


def _default(field: dataclasses.Field[Any]) -> Any:
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def from_plain(cls: type[T], data: Any, field: str = "") -> T:
    """Build `cls` from plain data, or what its `variant(data)` says, (class, data). Raises UserError naming the dotted
    field, its value, the rule and the remedy."""
    if not isinstance(data, dict):
        raise UserError(
            field, data, f"must be an object with the fields of {cls.__name__}", "See the job's schema"
        )
    if (choose := getattr(cls, "variant", None)) is not None:
        try:
            cls, data = choose(data)
        except UserError as error:
            raise (error.within(field) if field else error) from None
    hints = _hints(cls)  # type: ignore[arg-type]
    known = given_fields(cls)  # type: ignore[arg-type]
    for name in data:
        if name not in known:
            shown = legible(str(name))
            unknown = UnknownNameError(join(field, shown), shown, f"field of {cls.__name__}", known)
            raise unknown.of(data[name])
    values = {}
    for name, spec in known.items():
        if name in data:
            values[name] = _convert(hints[name], data[name], join(field, name))
        elif spec.default is dataclasses.MISSING and spec.default_factory is dataclasses.MISSING:
            raise UserError(join(field, name), None, "is required", f"Add {name}")
    try:
        return cls(**values)
    except UserError as error:
        raise (error.within(field) if field else error) from None


def join(field: str, name: Any) -> str:
    """The dotted path of `name` in `field`."""
    return f"{field}.{name}" if field else str(name)


@cache
def given_fields(cls: Any) -> dict[str, dataclasses.Field[Any]]:
    """The fields of a dataclass that are given when one is made, by name, in their order."""
    return {f.name: f for f in dataclasses.fields(cls) if f.init}


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
        refused = []
        for choice in choices:
            try:
                return _convert(choice, value, field)
            except UserError as error:
                refused.append(error)
        words = [word for choice in choices if get_origin(choice) is Literal for word in get_args(choice)]
        if words:  # a number, or a word in its place
            rule = " or ".join([refused[0].rule, *map(str, words)])
            raise UserError(
                field, value, rule, f"Write one of the two, as {field.rpartition('.')[2]}: {words[0]}"
            )
        raise _neither(field, value, refused)
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
    if hint is str and isinstance(value, str) and not is_unicode(value):
        raise UserError(
            field, legible(value), "holds half of a character (a lone surrogate)", "Write valid text"
        )
    if hint is Any or (isinstance(value, hint) and (hint is bool or not isinstance(value, bool))):
        return value
    names = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}
    unquoted = hint is str and isinstance(value, int | float)  # YAML takes a layer's name 3 for a number
    remedy = f"Put it in quotes: '{value}'" if unquoted else CORRECT
    raise UserError(field, value, f"must be {names.get(hint, hint)}", remedy)


def _neither(field: str, value: Any, refused: list[UserError]) -> UserError:
    """What is said of a value that is none of several types: the rules of all. A value of the right kind with a mistake
    within it is told that."""
    within = [error for error in refused if error.field != field]
    if within:
        return within[0]
    rules = [refused[0].rule, *(error.rule.removeprefix("must be ") for error in refused[1:])]
    remedies = [error.remedy for error in refused if error.remedy != CORRECT]
    return UserError(field, value, " or ".join(rules), remedies[0] if remedies else CORRECT)


def legible(text: str) -> str:
    """The same text for a message, which half of a character would break."""
    return text.encode("utf-8", "backslashreplace").decode()


def is_unicode(text: str) -> bool:
    """False for what holds half of a character (a lone surrogate), which no file and no database takes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
