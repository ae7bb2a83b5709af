"""Typed constructors: which code may give a parameter to `torch.DoubleTensor` and its like.

`torch.DoubleTensor(p)` answers a tensor with the parameter's memory. It asks no class, as PyTorch's other constructors
do not, and unlike these (`unasked.py`) it cannot be replaced: it is a type of PyTorch's own, by which tensors are told
apart. So where imported code may call one with a tensor, no layer is read before its version has come.

Whoever calls one with numbers, sizes, lists (whose elements are asked) or NumPy's arrays does not count, nor does who
names one as a type: in an annotation, `isinstance`, `x.type(...)`. Any other use does, wherever the type goes from
there. Types of integers take no parameter that is trained.

Not found: what has one by another name (`getattr(torch, "DoubleTensor")`), and what is imported later.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

import torch

from engine.instrumentation import sources

_NAMES = frozenset({"BFloat16Tensor", "DoubleTensor", "FloatTensor", "HalfTensor"})
_TYPES: frozenset[Any] = frozenset(
    vars(module)[name]
    for module in (torch, torch.cuda, torch.sparse, torch.cuda.sparse)
    for name in _NAMES & vars(module).keys()
)
_ASK_FOR_TYPES = frozenset({"cast", "isinstance", "issubclass", "set_default_tensor_type", "type"})
"""Functions and methods that make nothing of a type that they are given."""
_OF_NUMBERS = frozenset({"float", "int", "len", "list", "range", "size", "tuple"})
"""Functions and methods that answer no tensor."""
_UNKNOWN = object()


def constructs() -> str | None:
    """What the first such code does, as "model.py, line 12, may give a parameter to DoubleTensor"; None where there is
    none."""
    return _SEARCH.first()


def _found(module: ModuleType) -> str | None:
    tree = sources.tree(module, lambda text: any(name in text for name in _NAMES))
    if tree is None or isinstance(tree, str):
        return tree
    names, nodes = sources.known(module, tree), list(ast.walk(tree))
    passed = {below for node in nodes for part in _passed(node, names) for below in ast.walk(part)}
    found = [
        (node.lineno, _name(node))
        for node in nodes
        if isinstance(node, ast.Name | ast.Attribute) and node not in passed and _is_typed(node, names)
    ]
    if not found:
        return None
    line, name = min(found)
    return f"{sources.place(module, line)}, may give a parameter to {name}"


def _is_typed(node: ast.expr, names: Mapping[str, Any]) -> bool:
    """Whether the expression is one of the types, or may be, where it is an attribute of what is known only later."""
    found = sources.value(node, names, _UNKNOWN)
    if found is _UNKNOWN:
        return isinstance(node, ast.Attribute) and node.attr in _NAMES
    return any(found is each for each in _TYPES)


def _passed(node: ast.AST, names: Mapping[str, Any]) -> Iterator[ast.AST]:
    """Parts of a node where a type is only named, or called with no tensor."""
    if isinstance(node, ast.AnnAssign | ast.arg) and node.annotation is not None:
        yield node.annotation
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.returns is not None:
        yield node.returns
    elif isinstance(node, ast.Subscript):
        yield node.slice
    elif isinstance(node, ast.Call):
        if _name(node.func) in _ASK_FOR_TYPES:
            yield from node.args
        elif _is_typed(node.func, names) and all(
            _is_no_tensor(argument, names) for argument in (*node.args, *(k.value for k in node.keywords))
        ):
            yield node.func


def _is_no_tensor(node: ast.expr, names: Mapping[str, Any]) -> bool:
    """As far as the expression shows."""
    if isinstance(node, ast.Starred):
        return _is_no_tensor(node.value, names)
    if isinstance(node, ast.BinOp):
        return _is_no_tensor(node.left, names) and _is_no_tensor(node.right, names)
    if isinstance(node, ast.Attribute):
        return node.attr == "shape"
    if isinstance(node, ast.Subscript):
        return _is_no_tensor(node.value, names)
    if isinstance(node, ast.Call):
        return _name(node.func) in _OF_NUMBERS or _is_numpys(node.func, names)
    return isinstance(node, ast.Constant | ast.List | ast.Tuple | ast.ListComp | ast.UnaryOp)


def _is_numpys(node: ast.expr, names: Mapping[str, Any]) -> bool:
    while isinstance(node, ast.Attribute):
        node = node.value
    return getattr(sources.value(node, names, None), "__name__", None) == "numpy"


def _name(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


_SEARCH = sources.Search(_found)
