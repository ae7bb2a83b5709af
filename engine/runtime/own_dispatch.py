"""Own dispatch: which code of a user's decides itself what PyTorch's functions do with tensors.

A closed parameter (`gate.py`) is asked by `__torch_function__`. A tensor whose class has a method of that name is asked
before it, and as a rule then calls the function with all such methods switched off; so does PyTorch's own nested
tensor, and code may switch them off without any tensor, or do another thing where it finds one. And swapped tensors
take each other's class along. Nothing tells when a parameter is read then, so where imported code uses one of these, no
layer is read before its version has come, and none of its units leave before backward has ended.

Not found: what names these in strings, as `getattr(torch, "nested")` does, and what is imported later.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from engine.runtime import sources

_METHOD = "__torch_function__"
_ASKS_NOBODY = "_disabled_torch_function_impl"
"""What a class has in place of the method where PyTorch is to ask nobody: it may be given, but not called."""
_WORDS = frozenset(
    {
        _METHOD, "DisableTorchFunction", "DisableTorchFunctionSubclass", "has_torch_function",
        "has_torch_function_unary", "has_torch_function_variadic", "swap_tensors",
    }
)  # fmt: skip
_OF_TORCH = frozenset({"jagged", "nested"})
"""Words of everybody's: they count as PyTorch's attributes, and where they are imported from it."""

_READ: dict[int, tuple[ModuleType, str | None]] = {}
"""By id of a module, which is kept so that no other one gets it: what it was found to do."""


def dispatches() -> str | None:
    """What the first such code does, e.g. "model.py, line 12, has its own __torch_function__"; None where there is
    none."""
    for module in sources.imported():
        if id(module) not in _READ:
            _READ[id(module)] = module, _found(module)
        found = _READ[id(module)][1]
        if found is not None:
            return found
    return None


def _found(module: ModuleType) -> str | None:
    tree = sources.tree(
        module, lambda text: any(word in text for word in (*_WORDS, *_OF_TORCH, _ASKS_NOBODY))
    )
    if tree is None:
        return None
    if isinstance(tree, SyntaxError):
        return f"{sources.place(module, tree.lineno or 1)}, is not what was imported"
    names = sources.names(module)
    passed = {member for node in ast.walk(tree) for member in _passed(node, names)}
    found = {
        getattr(node, "lineno", 1): word
        for node in ast.walk(tree)
        if node not in passed
        for word in sorted(_used(node, names))
    }
    if not found:
        return None
    line = min(found)
    does = f"has its own {_METHOD}" if found[line] == _METHOD else f"uses {found[line]}"
    return f"{sources.place(module, line)}, {does}"


def _passed(node: ast.AST, names: Mapping[str, Any]) -> list[ast.AST]:
    """What may have one of the words: a mode's own methods, because what a mode calls asks all tensors again, and the
    name of a method that asks nobody."""
    if isinstance(node, ast.ClassDef) and _is_mode(node, names):
        return list(node.body)
    if isinstance(node, ast.Assign) and _ASKS_NOBODY in _names(node.value):
        return list(node.targets)
    return []


def _is_mode(node: ast.ClassDef, names: Mapping[str, Any]) -> bool:
    bases = sources.bases(names.get(node.name))
    if bases:
        return TorchFunctionMode in bases and Tensor not in bases
    return bool(node.bases) and all("TorchFunctionMode" in _names(base) for base in node.bases)


def _used(node: ast.AST, names: Mapping[str, Any]) -> set[str]:
    """Which of the words the node uses."""
    if isinstance(node, ast.Call):
        return _names(node.func) & {_ASKS_NOBODY}
    if isinstance(node, ast.Attribute):
        return {node.attr} & (_WORDS | _OF_TORCH if _may_be_torch(node.value, names) else _WORDS)
    if isinstance(node, ast.Import):
        return {word for alias in node.names for word in _imported(alias.name)}
    if isinstance(node, ast.ImportFrom):
        return {word for alias in node.names for word in _imported(f"{node.module or ''}.{alias.name}")}
    return _names(node) & _WORDS


def _imported(path: str) -> set[str]:
    """Which of the words an imported path has."""
    parts = path.split(".")
    return set(parts[1:]) & (_WORDS | _OF_TORCH if parts[0] == "torch" else _WORDS)


def _may_be_torch(node: ast.expr, names: Mapping[str, Any]) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr == "torch"
    return isinstance(node, ast.Name) and names.get(node.id, torch) is torch


def _names(node: ast.AST) -> set[str]:
    """The name that a node of the tree gives or uses."""
    if isinstance(node, ast.Name):
        return {node.id}
    if isinstance(node, ast.Attribute):
        return {node.attr}
    return {node.name} if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else set()
