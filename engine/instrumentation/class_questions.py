"""Class questions: the places in a source where somebody asks for the class of something, and compares by identity."""

from __future__ import annotations

import ast
import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from engine.instrumentation import sources

IDENTITY = (operator.is_, operator.is_not)
_NAMES = frozenset(each.__name__ for each in IDENTITY)


def asks_for_class(node: ast.AST) -> bool:
    """Whether it asks for the class of something: `type(x)`, `x.__class__`, `getattr(x, "__class__")`. What is known as
    it is written (`sources.value`) is none, as `type(None)`."""
    if isinstance(node, ast.Attribute):
        return node.attr == "__class__"
    if not isinstance(node, ast.Call) or not node.args:
        return False
    called = getattr(node.func, "id", None)
    if called == "type":
        return len(node.args) == 1 and not isinstance(node.args[0], ast.Constant)
    return called == "getattr" and len(node.args) > 1 and getattr(node.args[1], "value", None) == "__class__"


def asks_for_class_of_self(node: ast.AST) -> bool:
    """Whether it is `type(self)` or `self.__class__`."""
    of = (
        node.value
        if isinstance(node, ast.Attribute)
        else node.args[0]
        if isinstance(node, ast.Call) and node.args
        else None
    )
    return asks_for_class(node) and isinstance(of, ast.Name) and of.id == "self"


def in_other_classes(tree: ast.Module, names: Mapping[str, Any], own: type) -> Iterator[ast.AST]:
    """What stands in classes that `own` does not inherit from, so that `self` is none; of the classes in those nothing
    is known."""
    for node in tree.body:
        known = names.get(node.name) if isinstance(node, ast.ClassDef) else None
        if sources.bases(known) and not any(each is known for each in own.__mro__):
            below: list[ast.AST] = [node]
            while below:
                inner = [
                    each for each in ast.iter_child_nodes(below.pop()) if not isinstance(each, ast.ClassDef)
                ]
                below += inner
                yield from inner


def compared(node: ast.AST, names: Mapping[str, Any]) -> list[ast.expr]:
    """What is compared by identity here; nothing where nothing is."""
    if isinstance(node, ast.Compare):
        is_by_identity = any(isinstance(op, ast.Is | ast.IsNot) for op in node.ops)
        return [node.left, *node.comparators] if is_by_identity else []
    if isinstance(node, ast.Call):
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", None)
        if called in _NAMES or is_identity(node.func, names):
            return node.args
    return []


def is_identity(node: ast.expr, names: Mapping[str, Any]) -> bool:
    """Whether it is one of Python's functions that compare by identity."""
    found = sources.value(node, names, None)
    return any(found is each for each in IDENTITY)


def bound_in(nodes: Sequence[ast.AST]) -> frozenset[str]:
    """The arguments and variables of a function, the first of the nodes, and of those in it."""
    bound: set[str] = set()
    others: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound.add(node.id)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node is not nodes[0]:
            bound.add(node.name)
        elif isinstance(node, ast.Global):
            others.update(node.names)
    return frozenset(bound - others)
