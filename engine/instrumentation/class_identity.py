"""Class identity: which code asks by `is` of which class a parameter is, as in `type(p) is nn.Parameter`.

A parameter that is watched has another class for a while (`lookalike.py`), of which that says False, and no hook of
Python or PyTorch notices the question. So the sources of what has been imported are read, and where one asks so of a
class, parameters of that class are not watched: what needs them waits early.

A comparison by identity (`is`, or `operator.is_`) counts if one side is the class in question, as the module's names
say, or if one side is a class that was asked for and the other is not known before the code runs. Asked for is
`type(x)`, `x.__class__`, what a function of the same file answers that returns one, and a variable, an attribute or a
collection that was given one in the same function, or anywhere in the file if it is known everywhere. The `id` of a
class that was asked for counts wherever it goes. `type(self)` does not count in a class that is not the parameter's.

Not found: classes that are given to a function of the code's own, that come from another file, that a generator or a
property answers, that are keys, or that pass through `setattr`, `match` or another name of `type`; `operator.is_` as an
argument; the classes that a class inherits from (`type(p).__mro__`). In a user's own files less is asked for
(`users_classes.py`).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from types import ModuleType
from typing import Any

from engine.instrumentation import sources
from engine.instrumentation.class_questions import (
    asks_for_class,
    asks_for_class_of_self,
    bound_in,
    compared,
    in_other_classes,
)

_IDENTITY = re.compile(r"\bis\b|\bis_|\bid\b")
_CLASSES = re.compile(r"\btype\b|__class__")
_PASS = frozenset(
    {
        "chain", "deque", "dict", "enumerate", "filter", "frozenset", "groupby", "iter", "list", "max", "min", "next",
        "reversed", "set", "sorted", "tuple", "zip",
    }
)  # fmt: skip
"""Functions whose answer has what they are given."""
_TAKE = frozenset({"add", "append", "appendleft", "extend", "insert", "setdefault", "update"})
"""Methods of collections by which they are given something."""
_GIVE = frozenset({"copy", "get", "items", "pop", "popleft", "setdefault", "values"})
"""Methods of collections that answer with what is in them."""
_OF_OTHER_THINGS = {
    "accelerate.utils.fsdp_utils": "type(model) is not FSDP",
    "transformers.generation.utils": "type(custom) is type(default)",
    "transformers.trainer_pt_utils": "type(tensors) is type(new_tensors)",
}
"""By module, comparisons that meet no parameter but wrappers, logits processors and predictions, which their sources do
not show. Who trains a language model imports them."""
_UNKNOWN = object()
_LATER = ast.Name("?")
"""Stands for what is known only when the code runs."""

Comparison = tuple[int, tuple[ast.expr, ...], bool]
"""Line; what is compared; whether one side is a class that was asked for, which is left out then."""


@dataclass(frozen=True, kw_only=True)
class _Found:
    """In one module."""

    comparisons: tuple[Comparison, ...]
    names: Mapping[str, Any]
    """What they may be of."""


_READ: dict[tuple[int, type], tuple[ModuleType, str | _Found]] = {}
"""By id of a module, which is kept so that no other one gets it, and by the class in question: what is in it, or why
nothing is known of it."""


def asks(own: type) -> str | None:
    """What the first module that was imported does which compares a class with `own` by identity, e.g. "model.py, line
    12, compares the class of its parameters by identity"; None if none does."""
    for module in sources.imported():
        found = _found(module, own)
        if isinstance(found, str):
            return found
        for line, others, asked in found.comparisons:
            values = [sources.value(other, found.names, _UNKNOWN) for other in others]
            if any(value is own or (asked and value is _UNKNOWN) for value in values):
                return f"{sources.place(module, line)}, compares the class of its parameters by identity"
    return None


def _found(module: ModuleType, own: type) -> str | _Found:
    key = id(module), own
    if key not in _READ:
        try:
            _READ[key] = module, _read(module, own)
        except RecursionError:
            _READ[key] = module, sources.too_deep(module)
    return _READ[key][1]


def _read(module: ModuleType, own: type) -> str | _Found:
    def has(text: str) -> bool:
        if not _IDENTITY.search(text):
            return False
        named = own.__name__ in text or any(v is own for v in list(sources.names(module).values()))
        return named or bool(_CLASSES.search(text))

    tree = sources.tree(module, has)
    if tree is None or isinstance(tree, str):
        return tree or _Found(comparisons=(), names={})
    names = sources.known(module, tree)
    others_own = set(in_other_classes(tree, names, own))
    found = []
    scopes = _scopes(tree)
    everywhere = _given_everywhere(scopes)
    for scope in scopes:
        given = scope.given(everywhere)
        for node in scope.nodes:
            sides = _compared(node, names)
            if not sides or (node in others_own and any(map(asks_for_class_of_self, sides))):
                continue
            if ast.unparse(node) == _OF_OTHER_THINGS.get(module.__name__):
                continue
            asked = [side for side in sides if _has_class(side, given)]
            others = tuple(
                _LATER if _first(side) in scope.own else side for side in sides if side not in asked
            )
            found.append((getattr(node, "lineno", 1), others or (_LATER,), bool(asked)))
    return _Found(comparisons=tuple(sorted(found, key=itemgetter(0))), names=names)


class _Scope:
    """What stands in an outermost function, with those in it, or in none of them.

    `gifts` says who is given what there; `own` are the names that mean something else in there than outside.
    """

    def __init__(self, nodes: Sequence[ast.AST], is_function: bool) -> None:
        self.nodes = nodes
        self.is_function = is_function
        self.gifts = [gift for node in nodes for gift in _gifts(node)]
        self.own = bound_in(nodes) if is_function else frozenset()

    def given(self, everywhere: Collection[str]) -> set[str]:
        """Names that are given a class that was asked for, or a collection with one in it; with a dot those of
        attributes, with parentheses those of functions that answer with one. `everywhere` have been given one."""
        given = {name for name in everywhere if _plain(name) not in self.own}
        while (
            more := {n for to, value in self.gifts if _has_class(value, given) for n in _names_in(to)} - given
        ):
            given |= more
        return given


@sources.kept_with_tree
def _scopes(tree: ast.Module) -> list[_Scope]:
    outside: list[ast.AST] = []
    functions: list[ast.AST] = []
    left: list[ast.AST] = [tree]
    while left:
        for node in ast.iter_child_nodes(left.pop()):
            is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            (functions if is_function else left).append(node)
            if not is_function:
                outside.append(node)
    return [_Scope(outside, False), *(_Scope(list(ast.walk(each)), True) for each in functions)]


def _given_everywhere(scopes: Sequence[_Scope]) -> set[str]:
    """Those of the names that are known in more than one of the scopes."""
    everywhere: set[str] = set()
    while True:
        before = len(everywhere)
        for scope in scopes:
            given = {name for name in scope.given(everywhere) if _plain(name) not in scope.own}
            everywhere |= given
            if not scope.is_function:  # a class's names, and a module's, are attributes, too
                everywhere |= {f".{name}" for name in given if not name.startswith(".")}
        if len(everywhere) == before:
            return everywhere


def _plain(name: str) -> str:
    """The variable that a name of `_Scope.given` stands for; an attribute stays one."""
    return name.removesuffix("()")


def _first(node: ast.expr) -> str:
    """The variable in whose attribute, or attribute's attribute, something is."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return _name(node)


def _compared(node: ast.AST, names: Mapping[str, Any]) -> list[ast.expr]:
    """What is compared by identity here, or is about to be, as its `id`; nothing where nothing is."""
    if isinstance(node, ast.Call) and _name(node.func).lstrip(".") == "id":
        return node.args
    return compared(node, names)


def _gifts(node: ast.AST) -> Iterable[tuple[ast.expr, ast.expr]]:
    """Who is given what: `a, b = c, d` is two. Of a function it is its call that is given what it returns."""
    gifts: list[tuple[ast.expr, ast.expr]] = []
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            values = [each.value for each in ast.walk(node) if isinstance(each, ast.Return) and each.value]
            names = ast.Name(node.name), ast.Attribute(_LATER, node.name)
            gifts = [(_call(name), value) for name in names for value in values]
        case ast.For() | ast.comprehension():
            gifts = [(node.target, node.iter)]
        case ast.Assign(value=ast.Lambda(body=body)):
            gifts = [(_call(target), body) for target in node.targets]
        case ast.Assign():
            gifts = [pair for target in node.targets for pair in _pairs(target, node.value)]
        case ast.AnnAssign() | ast.NamedExpr() | ast.AugAssign():
            gifts = [(node.target, node.value)] if node.value is not None else []
        case ast.Call(func=ast.Attribute(value=owner, attr=name)) if name in _TAKE:
            gifts = [(owner, value) for value in (*node.args, *(each.value for each in node.keywords))]
        case ast.arguments():
            with_defaults = (*node.posonlyargs, *node.args)[-len(node.defaults) :] if node.defaults else ()
            pairs = (
                *zip(with_defaults, node.defaults, strict=True),
                *zip(node.kwonlyargs, node.kw_defaults, strict=True),
            )
            gifts = [(ast.Name(each.arg), value) for each, value in pairs if value is not None]
    return gifts


def _call(function: ast.expr) -> ast.Call:
    return ast.Call(function, [], [])


def _pairs(target: ast.expr, value: ast.expr) -> Iterable[tuple[ast.expr, ast.expr]]:
    both = ast.Tuple | ast.List
    if isinstance(target, both) and isinstance(value, both) and len(target.elts) == len(value.elts):
        return zip(target.elts, value.elts, strict=True)
    return [(target, value)]


def _has_class(node: ast.expr | None, given: Collection[str]) -> bool:
    """Whether it is a class that was asked for, or a collection with one in it."""
    if node is None:
        return False
    if _name(node) in given or asks_for_class(node) or _maps(node, given):
        return True
    return any(_has_class(part, given) for part in _parts(node))


def _maps(node: ast.expr, given: Collection[str]) -> bool:
    """Whether it asks for the classes of many, as in `map(type, x)`."""
    if not isinstance(node, ast.Call) or _name(node.func) not in ("map", "groupby"):
        return False
    return any(
        _has_class(each.body, given)
        if isinstance(each, ast.Lambda)
        else _name(each) == "type" or f"{_name(each)}()" in given
        for each in (*node.args, *(keyword.value for keyword in node.keywords))
    )


def _parts(node: ast.expr) -> Sequence[ast.expr]:
    """What stands for it, or is in it."""
    match node:
        case ast.Tuple() | ast.List() | ast.Set():
            parts: Sequence[ast.expr] = node.elts
        case ast.ListComp() | ast.SetComp() | ast.GeneratorExp():
            parts = [node.elt]
        case ast.DictComp():
            parts = [node.key, node.value]
        case ast.Dict():
            parts = [key for key in node.keys if key is not None] + node.values
        case ast.BinOp():
            parts = [node.left, node.right]
        case ast.IfExp():
            parts = [node.body, node.orelse]
        case ast.BoolOp():
            parts = node.values
        case ast.NamedExpr() | ast.Subscript() | ast.Starred():
            parts = [node.value]
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in _PASS:
            parts = [*node.args, *(each.value for each in node.keywords)]
        case ast.Call(func=ast.Attribute(value=owner, attr=name)) if name in _GIVE:
            parts = [owner]
        case _:
            parts = []
    return parts


def _names_in(target: ast.expr) -> list[str]:
    """Of what is given something: in `self.kind, kinds[0] = ...` it is `kind` and `kinds`."""
    if isinstance(target, ast.Tuple | ast.List):
        return [name for each in target.elts for name in _names_in(each)]
    if isinstance(target, ast.Subscript | ast.Starred):
        return _names_in(target.value)
    name = _name(target)
    return [name] if name else []


def _name(node: ast.AST) -> str:
    """Of a variable, of an attribute with a dot before it, of a call of one with parentheses; empty for all else."""
    if isinstance(node, ast.Attribute):
        return f".{node.attr}"
    if isinstance(node, ast.Call):
        called = _name(node.func)
        return called and f"{called}()"
    return node.id if isinstance(node, ast.Name) else ""
