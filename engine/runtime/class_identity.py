"""Class identity: which code asks by `is` of which class a parameter is, as in `type(p) is nn.Parameter`.

A parameter that is watched has another class for a while (`lookalike.py`), of which that says False, and no hook of
Python or PyTorch notices the question. So the sources of what has been imported are read, and where one asks so of a
class, parameters of that class are not watched: what needs them waits early.

Read are modules that have anything of PyTorch's among their names, except PyTorch's own, Python's and ours. A
comparison by identity counts if one side is the class in question, as the module's names say, or if one side is a class
that was asked for (`type(x)`, `x.__class__`, or a name that was given one) and the other is not known before the code
runs. What is imported after a class has been asked for is not read, nor is a module without a source.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

_NOT_READ = sys.stdlib_module_names | {"torch", "torchgen", "functorch", "engine", "backend"}
_UNKNOWN = object()

Comparison = tuple[int, tuple[ast.expr, ...], bool]
"""Line; what is compared; whether one side is a class that was asked for, which is left out then."""

_READ: dict[int, tuple[ModuleType, tuple[Comparison, ...]]] = {}
"""By id of a module, which is kept so that no other one gets it."""


def asks(own: type) -> str | None:
    """Where the first module that was imported compares a class with `own` by identity, e.g. "model.py, line 12"; None
    if none does."""
    for name, module in list(sys.modules.items()):
        if isinstance(module, ModuleType) and name.partition(".")[0] not in _NOT_READ:
            names = _names(module)
            for line, others, asked in _comparisons(module):
                values = [_value(other, names) for other in others]
                if any(value is own or (asked and value is _UNKNOWN) for value in values):
                    return f"{Path(names.get('__file__') or name).name}, line {line}"
    return None


def _names(module: ModuleType) -> Mapping[str, Any]:
    """Without importing what the module imports when it is first used."""
    found: Mapping[str, Any] = object.__getattribute__(module, "__dict__")
    return found


def _comparisons(module: ModuleType) -> tuple[Comparison, ...]:
    if id(module) not in _READ:
        _READ[id(module)] = module, tuple(_read(module))
    return _READ[id(module)][1]


def _read(module: ModuleType) -> Iterator[Comparison]:
    if not any(_of_torch(value) for value in list(_names(module).values())):
        return
    try:
        source = inspect.getsource(module)
    except (OSError, TypeError):
        return
    if " is " not in source:
        return
    try:
        tree = ast.parse(source)
    except SyntaxError as error:  # another one than was imported, of which nothing is known
        yield error.lineno or 1, (ast.Name("?"),), True
        return
    scopes = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    for scope in (tree, *scopes):
        yield from _in_scope(scope)


def _in_scope(scope: ast.AST) -> Iterator[Comparison]:
    given = {name for node in ast.walk(scope) for name in _given(node)}
    for node in ast.walk(scope):
        if isinstance(node, ast.Compare) and any(isinstance(op, ast.Is | ast.IsNot) for op in node.ops):
            sides = [node.left, *node.comparators]
            asked = [side for side in sides if _is_asked(side, given)]
            others = tuple(side for side in sides if side not in asked)
            yield node.lineno, others or (ast.Name("?"),), bool(asked)


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


def _of_torch(value: Any) -> bool:
    try:
        found = _names(value) if isinstance(value, ModuleType) else {"__name__": value.__module__}
    except Exception:
        return False
    name = found.get("__name__")
    return isinstance(name, str) and name.partition(".")[0] == "torch"
