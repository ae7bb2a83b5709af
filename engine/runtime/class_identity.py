"""Class identity: which code asks by `is` of which class a parameter is, as in `type(p) is nn.Parameter`.

A parameter that is watched has another class for a while (`lookalike.py`), of which that says False, and no hook of
Python or PyTorch notices the question. So the sources of what has been imported are read, and where one asks so of a
class, parameters of that class are not watched: what needs them waits early.

A comparison by identity (`is`, or `operator.is_`) counts if one side is the class in question, as the module's names
say, or if one side is a class that was asked for (`type(x)`, `x.__class__`, or a name that was given one) and the other
is not known before the code runs. Not found: a function of its own that compares any two things.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

from engine.runtime import sources

_WORDS = (" is ", "is_")
_FUNCTIONS = frozenset({"is_", "is_not"})
"""Of the module `operator`."""
_UNKNOWN = object()

Comparison = tuple[int, tuple[ast.expr, ...], bool]
"""Line; what is compared; whether one side is a class that was asked for, which is left out then."""

_READ: dict[int, tuple[ModuleType, tuple[Comparison, ...]]] = {}
"""By id of a module, which is kept so that no other one gets it."""


def asks(own: type) -> str | None:
    """Where the first module that was imported compares a class with `own` by identity, e.g. "model.py, line 12"; None
    if none does."""
    for module in sources.imported():
        for line, others, asked in _comparisons(module):
            values = [_value(other, sources.names(module)) for other in others]
            if any(value is own or (asked and value is _UNKNOWN) for value in values):
                return sources.place(module, line)
    return None


def _comparisons(module: ModuleType) -> tuple[Comparison, ...]:
    if id(module) not in _READ:
        _READ[id(module)] = module, tuple(_read(module))
    return _READ[id(module)][1]


def _read(module: ModuleType) -> Iterator[Comparison]:
    tree = sources.tree(module, _WORDS)
    if tree is None:
        return
    if isinstance(tree, SyntaxError):
        yield tree.lineno or 1, (ast.Name("?"),), True
        return
    scopes = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    for scope in (tree, *scopes):
        yield from _in_scope(scope)


def _in_scope(scope: ast.AST) -> Iterator[Comparison]:
    given = {name for node in ast.walk(scope) for name in _given(node)}
    for node in ast.walk(scope):
        sides = _compared(node)
        if sides:
            asked = [side for side in sides if _is_asked(side, given)]
            others = tuple(side for side in sides if side not in asked)
            yield getattr(node, "lineno", 1), others or (ast.Name("?"),), bool(asked)


def _compared(node: ast.AST) -> list[ast.expr]:
    """What is compared by identity here; nothing where nothing is."""
    if isinstance(node, ast.Compare) and any(isinstance(op, ast.Is | ast.IsNot) for op in node.ops):
        return [node.left, *node.comparators]
    if isinstance(node, ast.Call):
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", None)
        return node.args if called in _FUNCTIONS else []
    return []


def _given(node: ast.AST) -> Iterator[str]:
    """Names that are given a class that was asked for."""
    if isinstance(node, ast.Assign):
        targets: list[ast.expr] = node.targets
    elif isinstance(node, ast.AnnAssign | ast.NamedExpr):
        targets = [node.target]
    else:
        return
    if node.value is not None and _is_asked(node.value, set()):
        yield from (target.id for target in targets if isinstance(target, ast.Name))


def _is_asked(node: ast.expr, given: set[str]) -> bool:
    """Whether it is the class of something."""
    if isinstance(node, ast.NamedExpr):
        node = node.value
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id == "type" and len(node.args) == 1
    if isinstance(node, ast.Attribute):
        return node.attr == "__class__"
    return isinstance(node, ast.Name) and node.id in given


def _value(node: ast.expr, names: Mapping[str, Any]) -> Any:
    """What a name in a module stands for, with its attributes; `_UNKNOWN` if that shows only later."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        builtins = names.get("__builtins__", {})
        known = builtins if isinstance(builtins, dict) else vars(builtins)
        return names.get(node.id, known.get(node.id, _UNKNOWN))
    if isinstance(node, ast.Attribute):
        owner = _value(node.value, names)
        try:
            return _UNKNOWN if owner is _UNKNOWN else getattr(owner, node.attr, _UNKNOWN)
        except Exception:  # a lazy module's, say
            return _UNKNOWN
    return _UNKNOWN
