"""Class identity: which code asks by `is` of which class a parameter is, as in `type(p) is nn.Parameter`.

A parameter that is watched has another class for a while (`lookalike.py`), of which that says False, and no hook of
Python or PyTorch notices the question. So the sources of what has been imported are read, and where one asks so of a
class, parameters of that class are not watched: what needs them waits early.

Read are modules that have anything of PyTorch's among their names, except PyTorch's own, Python's and ours. In a
function that compares two things by identity of which one is a class that was asked for (`type(x)`, `x.__class__`, or a
name that was given one), the other counts if it is the class in question, or is not known before the function runs.
"""

from __future__ import annotations

import ast
import functools
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

_NOT_READ = sys.stdlib_module_names | {"torch", "torchgen", "functorch", "engine", "backend"}
_UNKNOWN = object()


def asks(own: type) -> str | None:
    """Where the first module that was imported compares a class with `own` by identity, e.g. "model.py, line 12"; None
    if none does. A module without a source is not read."""
    for module in list(sys.modules.values()):
        if isinstance(module, ModuleType) and module.__name__.partition(".")[0] not in _NOT_READ:
            for line, others in _comparisons(module):
                values = [_value(other, vars(module)) for other in others]
                if any(value is own or value is _UNKNOWN for value in values):
                    return f"{Path(module.__file__ or '').name}, line {line}"
    return None


@functools.cache
def _comparisons(module: ModuleType) -> tuple[tuple[int, tuple[ast.expr, ...]], ...]:
    """Line, and what a class that was asked for is compared with."""
    if not any(_of_torch(value) for value in list(vars(module).values())):
        return ()
    try:
        source = inspect.getsource(module)
    except (OSError, TypeError):
        return ()
    if "type(" not in source and "__class__" not in source:
        return ()
    tree = ast.parse(source)
    scopes = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    found = {each[0]: each for scope in (tree, *scopes) for each in _in_scope(scope)}
    return tuple(found.values())


def _in_scope(scope: ast.AST) -> Iterator[tuple[int, tuple[ast.expr, ...]]]:
    given = {
        target.id
        for node in ast.walk(scope)
        if isinstance(node, ast.Assign) and _is_asked(node.value, frozenset())
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(scope):
        if isinstance(node, ast.Compare) and any(isinstance(op, ast.Is | ast.IsNot) for op in node.ops):
            sides = [node.left, *node.comparators]
            asked = [side for side in sides if _is_asked(side, given)]
            if asked:
                others = tuple(side for side in sides if side not in asked)
                yield node.lineno, others or (asked[0],)


def _is_asked(node: ast.expr, given: set[str] | frozenset[str]) -> bool:
    """Whether it is the class of something."""
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id == "type" and len(node.args) == 1
    if isinstance(node, ast.Attribute):
        return node.attr == "__class__"
    return isinstance(node, ast.Name) and node.id in given


def _value(node: ast.expr, names: dict[str, Any]) -> Any:
    """What a name in a module stands for, with its attributes; `_UNKNOWN` if that shows only later."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        builtins = names.get("__builtins__", {})
        known = builtins if isinstance(builtins, dict) else vars(builtins)
        return names.get(node.id, known.get(node.id, _UNKNOWN))
    if isinstance(node, ast.Attribute):
        owner = _value(node.value, names)
        return _UNKNOWN if owner is _UNKNOWN else getattr(owner, node.attr, _UNKNOWN)
    return _UNKNOWN


def _of_torch(value: Any) -> bool:
    name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
    return isinstance(name, str) and name.partition(".")[0] == "torch"
