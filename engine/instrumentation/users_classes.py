"""Users' classes: whether the files that a user trains with may compare the class of a parameter by identity.

Whatever lies between: in these files, unlike in installed packages (`class_identity.py`), nobody follows where a class
goes. If any of them asks for the class of something, and any of them compares by identity what is not known before the
code runs, or with the class in question, it counts. Who asks only to say it (`print(type(x))`, `type(x).__name__`), to
make another one (`type(x)(...)`) or to compare for equality, does not ask.

Not found: a user's code outside of the folders that the job names, or that is in no module (`exec`), and two `id`s that
are compared (`class_identity.py` finds those of classes).
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from engine import user_code
from engine.instrumentation import sources
from engine.instrumentation.class_questions import (
    asks_for_class,
    asks_for_class_of_self,
    bound_in,
    compared,
    in_other_classes,
    is_identity,
)

_SAYS = frozenset({"format", "isinstance", "issubclass", "print", "repr", "str"})
"""Functions to which the class itself is no matter, or which ask a parameter's class as any other."""
_HAS_BASES = frozenset({"__base__", "__bases__", "__mro__", "mro"})
_NEVER_A_CLASS = (
    ast.Constant, ast.JoinedStr, ast.List, ast.Tuple, ast.Set, ast.Dict, ast.Lambda, ast.Compare, ast.BinOp,
    ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp,
)  # fmt: skip
_UNKNOWN = object()


@dataclass(frozen=True, kw_only=True)
class _Found:
    """In one module. Lines."""

    asks: int | None
    compares: int | None


_READ: dict[tuple[int, type], tuple[ModuleType, str | _Found]] = {}
"""By id of a module, which is kept so that no other one gets it, and by the class in question: what is in it, or why
nothing is known of it."""


def may_compare(own: type) -> str | None:
    """What a user's files do, as "model.py, line 12, may compare the class of its parameters by identity"; None if they
    do not."""
    asks = False
    compares = None
    for module in sources.imported():
        if not user_code.belongs(sources.file_of(module)):
            continue
        found = _found(module, own)
        if isinstance(found, str):
            return found
        asks |= found.asks is not None
        if found.compares is not None and compares is None:
            compares = sources.place(module, found.compares)
    return f"{compares}, may compare the class of its parameters by identity" if asks and compares else None


def _found(module: ModuleType, own: type) -> str | _Found:
    key = id(module), own
    if key not in _READ:
        tree = sources.tree(module, lambda text: True)
        if tree is None or isinstance(tree, str):
            _READ[key] = module, tree or _Found(asks=None, compares=None)
        else:
            nodes, local = _parts(tree)
            names = {name: value for name, value in sources.known(module, tree).items() if name not in local}
            selves = set(in_other_classes(tree, names, own))
            asks = min((_line(node) for node in _askers(nodes, selves)), default=None)
            compares = min((_line(node) for node in nodes if _may(node, names, own, selves)), default=None)
            _READ[key] = module, _Found(asks=asks, compares=compares)
    return _READ[key][1]


@sources.kept_with_tree
def _parts(tree: ast.Module) -> tuple[list[ast.AST], set[str]]:
    """All that runs, and the names that functions have for themselves: what one calls so may be another thing than the
    module does."""
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    functions = (node for node in ast.walk(tree) if isinstance(node, kinds))
    local = {name for function in functions for name in bound_in(list(ast.walk(function)))}
    return list(_read(tree)), local


def _read(tree: ast.AST) -> Iterator[ast.AST]:
    """All that runs: not what is said of types."""
    left = [tree]
    while left:
        node = left.pop()
        yield node
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns"):
                continue
            left += [
                each for each in (value if isinstance(value, list) else [value]) if isinstance(each, ast.AST)
            ]


def _askers(nodes: Iterable[ast.AST], selves: set[ast.AST]) -> Iterator[ast.AST]:
    """Who asks for a class that may go anywhere."""
    harmless: set[ast.AST] = set()
    asking = []
    for node in nodes:
        harmless.update(_only_said(node))
        if _asks(node):
            asking.append(node)
    for node in asking:
        if node not in harmless and not (node in selves and asks_for_class_of_self(node)):
            yield node


def _asks(node: ast.AST) -> bool:
    """Besides asking at once: `type` as a function that somebody is given, and `"__class__"` as a name."""
    if isinstance(node, ast.Constant):
        return node.value == "__class__"
    if isinstance(node, ast.Name):
        return node.id == "type" and isinstance(node.ctx, ast.Load)
    return asks_for_class(node)


def _only_said(node: ast.AST) -> Iterable[ast.AST]:
    """What is asked for, or named, in it and goes no further."""
    said: Iterable[ast.AST] = ()
    match node:
        case ast.Attribute(value=of, attr=name) if name not in _HAS_BASES:
            said = [of]
        case ast.FormattedValue(value=of):
            said = [of]
        case ast.Call(func=ast.Name(id="type") as function, args=[_] | [_, _, _]):
            said = [function]
        case ast.Call(func=ast.Name(id=name), args=args) if name in _SAYS:
            said = args
        case ast.Call(func=function) if asks_for_class(function):
            said = [function]
        case ast.Compare(left=left, ops=ops, comparators=others):
            if all(isinstance(op, ast.Eq | ast.NotEq | ast.In | ast.NotIn) for op in ops):
                said = [left, *others]
        case ast.BinOp(left=ast.Constant(), op=ast.Mod(), right=right):
            said = right.elts if isinstance(right, ast.Tuple) else [right]
    return said


def _may(node: ast.AST, names: Mapping[str, Any], own: type, selves: set[ast.AST]) -> bool:
    """Whether it compares by identity what may be `own`."""
    if isinstance(node, ast.Name | ast.Attribute) and is_identity(node, names):
        return True  # whoever is given it
    sides = compared(node, names)
    if any(side in selves and asks_for_class_of_self(side) for side in sides):
        return False
    return bool(sides) and all(_may_be(side, names, own) for side in sides)


def _may_be(side: ast.expr, names: Mapping[str, Any], own: type) -> bool:
    if isinstance(side, _NEVER_A_CLASS) or (isinstance(side, ast.Name) and side.id == "self"):
        return False
    value = sources.value(side, names, _UNKNOWN)
    return value is own or value is _UNKNOWN


def _line(node: ast.AST) -> int:
    return getattr(node, "lineno", 1)
