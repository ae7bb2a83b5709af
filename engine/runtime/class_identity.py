"""Class identity: which code asks by `is` of which class a parameter is, as in `type(p) is nn.Parameter`.

A parameter that is watched has another class for a while (`lookalike.py`), of which that says False, and no hook of
Python or PyTorch notices the question. So the sources of what has been imported are read, and where one asks so of a
class, parameters of that class are not watched: what needs them waits early.

A comparison by identity (`is`, or `operator.is_`) counts if one side is the class in question, as the module's names
say, or if one side is a class that was asked for (`type(x)`, `x.__class__`, or a name that was given one) and the other
is not known before the code runs; `type(self)` does not, in a class that is none of the parameter's. Not found: a
function of its own that compares any two things, and the classes that a class inherits from (`type(p).__mro__`).
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Iterable, Iterator, Mapping
from types import ModuleType
from typing import Any

from engine.runtime import sources

_IDENTITY = re.compile(r"\bis\b|\bis_")
_CLASSES = re.compile(r"\btype\b|__class__")
_FUNCTIONS = (operator.is_, operator.is_not)
_NAMES = frozenset(each.__name__ for each in _FUNCTIONS)
_UNKNOWN = object()

Comparison = tuple[int, tuple[ast.expr, ...], bool]
"""Line; what is compared; whether one side is a class that was asked for, which is left out then."""

_READ: dict[tuple[int, type], tuple[ModuleType, str | tuple[Comparison, ...]]] = {}
"""By id of a module, which is kept so that no other one gets it, and by the class in question: its comparisons, or why
nothing is known of them."""


def asks(own: type) -> str | None:
    """What the first module that was imported does which compares a class with `own` by identity, e.g. "model.py, line
    12, compares the class of its parameters by identity"; None if none does."""
    for module in sources.imported():
        comparisons = _comparisons(module, own)
        if isinstance(comparisons, str):
            return comparisons
        for line, others, asked in comparisons:
            values = [sources.value(other, sources.names(module), _UNKNOWN) for other in others]
            if any(value is own or (asked and value is _UNKNOWN) for value in values):
                return f"{sources.place(module, line)}, compares the class of its parameters by identity"
    return None


def _comparisons(module: ModuleType, own: type) -> str | tuple[Comparison, ...]:
    key = id(module), own
    if key not in _READ:
        _READ[key] = module, _read(module, own)
    return _READ[key][1]


def _read(module: ModuleType, own: type) -> str | tuple[Comparison, ...]:
    names = sources.names(module)

    def has(text: str) -> bool:
        if not _IDENTITY.search(text):
            return False
        return (
            bool(_CLASSES.search(text)) or own.__name__ in text or any(v is own for v in list(names.values()))
        )

    tree = sources.tree(module, has)
    if tree is None or isinstance(tree, str):
        return tree or ()
    nodes = list(ast.walk(tree))
    given = {name for node in nodes for name in _given(node)}
    others_own = {below for node in tree.body for below in _of_no_parameter(node, names, own)}
    found = []
    for node in nodes:
        sides = _compared(node, names)
        if not sides or (node in others_own and any(map(_is_of_self, sides))):
            continue
        asked = [side for side in sides if _is_asked(side, given)]
        others = tuple(side for side in sides if side not in asked)
        found.append((getattr(node, "lineno", 1), others or (ast.Name("?"),), bool(asked)))
    return tuple(found)


def _of_no_parameter(node: ast.AST, names: Mapping[str, Any], own: type) -> Iterator[ast.AST]:
    """What stands in a class that the parameter's does not inherit from; of the classes in it nothing is known."""
    known = names.get(node.name) if isinstance(node, ast.ClassDef) else None
    if sources.bases(known) and not any(each is known for each in own.__mro__):
        below: list[ast.AST] = [node]
        while below:
            inner = [each for each in ast.iter_child_nodes(below.pop()) if not isinstance(each, ast.ClassDef)]
            below += inner
            yield from inner


def _is_of_self(node: ast.expr) -> bool:
    """Whether it is `type(self)` or `self.__class__`."""
    if isinstance(node, ast.Call):
        return _is_asked(node, set()) and isinstance(node.args[0], ast.Name) and node.args[0].id == "self"
    return (
        isinstance(node, ast.Attribute)
        and node.attr == "__class__"
        and getattr(node.value, "id", None) == "self"
    )


def _compared(node: ast.AST, names: Mapping[str, Any]) -> list[ast.expr]:
    """What is compared by identity here; nothing where nothing is."""
    if isinstance(node, ast.Compare) and any(isinstance(op, ast.Is | ast.IsNot) for op in node.ops):
        return [node.left, *node.comparators]
    if isinstance(node, ast.Call):
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", None)
        compares = called in _NAMES or any(
            sources.value(node.func, names, None) is each for each in _FUNCTIONS
        )
        return node.args if compares else []
    return []


def _given(node: ast.AST) -> Iterator[str]:
    """Names that are given a class that was asked for."""
    if isinstance(node, ast.For | ast.comprehension):
        given = [node.target] if _asks_each(node.iter) else []
    elif isinstance(node, ast.Assign):
        pairs = [pair for target in node.targets for pair in _pairs(target, node.value)]
        given = [target for target, value in pairs if _is_asked(value, set())]
    elif isinstance(node, ast.AnnAssign | ast.NamedExpr):
        given = [node.target] if node.value is not None and _is_asked(node.value, set()) else []
    else:
        return
    yield from (target.id for target in given if isinstance(target, ast.Name))


def _pairs(target: ast.expr, value: ast.expr) -> Iterable[tuple[ast.expr, ast.expr]]:
    """Who is given what: `a, b = c, d` is two."""
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        return zip(target.elts, value.elts, strict=False)
    return [(target, value)]


def _asks_each(node: ast.expr) -> bool:
    """Whether it is `map(type, values)`."""
    if not isinstance(node, ast.Call) or len(node.args) != 2:
        return False
    return [getattr(each, "id", None) for each in (node.func, node.args[0])] == ["map", "type"]


def _is_asked(node: ast.expr, given: set[str]) -> bool:
    """Whether it is the class of something."""
    if isinstance(node, ast.NamedExpr):
        node = node.value
    if isinstance(node, ast.Call):
        asks = isinstance(node.func, ast.Name) and node.func.id == "type" and len(node.args) == 1
        return asks and not isinstance(node.args[0], ast.Constant)
    if isinstance(node, ast.Attribute):
        return node.attr == "__class__"
    return isinstance(node, ast.Name) and node.id in given
