"""Traits decide, never names: nobody asks for an exchange, a codec, a mode of consistency or a memory mechanism by its
name but the mechanism itself, its row in `engine/axes/` and the strategies, which choose it.

Read from the source with `ast`: comparisons (`==`, `!=`, `in`, also with a collection that the module has a name for),
cases of `match` and keys of dictionaries. A default, or a value that is handed on, asks nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

import pytest

from engine.axes.codec import CODEC
from engine.axes.consistency import CONSISTENCY
from engine.axes.exchange import EXCHANGE
from engine.axes.memory import ACTIVATIONS
from tests.test_architecture import module_name, parsed, sources, within

ROWS = tuple(row for axis in (EXCHANGE, CODEC, CONSISTENCY, ACTIVATIONS) for row in axis)
NAMES = frozenset(row.name for row in ROWS)
CHOOSE = ("engine.axes", "engine.strategies")
OWN = frozenset((row.implementation.partition(":")[0], row.name) for row in ROWS if row.implementation)
"""Modules and whose they are."""
OTHER_WORDS = {
    "payload": "what a plan's flow derives, `factors` or `none` (engine/plan/flow.py)",
    "returns": "a value of the axis order.returns, `none`",
    "precision": "the type that a job computes in, `bf16`",
}
"""What has values of the same names, and what these are."""
EXCEPTIONS: Mapping[tuple[str, str], str] = {
    ("engine.plan.description", "int8"): "a type of tensors, in the table of their sizes",
    ("engine.replica.ddp_hooks", "powersgd"): "a hook of PyTorch's",
    ("engine.plan.checkpoint_rules", "powersgd"): "the same",
    ("engine.plan.hook_memory", "powersgd"): "the same",
    ("engine.benchmarks.sweep", "parameter-server"): "a strategy, beside which p3 is shown",
    ("engine.benchmarks.stragglers", "parameter-server"): "a strategy, with which the others are compared",
}


def asked(tree: ast.AST) -> Iterator[str]:
    """The mechanisms' names that a module asks for."""
    known = {
        target.id: node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            if not any(_word(side) in OTHER_WORDS for side in sides):
                for side in sides:
                    yield from _names(known.get(side.id, side) if isinstance(side, ast.Name) else side)
        elif isinstance(node, ast.MatchValue):
            yield from _names(node.value)
        elif isinstance(node, ast.Dict):
            for key in node.keys:
                yield from _names(key)


def _word(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _names(node: ast.AST | None) -> Iterator[str]:
    """Those that an expression is, or that a collection written out has."""
    if isinstance(node, ast.Constant) and node.value in NAMES:
        yield str(node.value)
    elif isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        for each in node.elts:
            yield from _names(each)
    elif isinstance(node, ast.Dict):
        for key in node.keys:
            yield from _names(key)
    elif isinstance(node, ast.Call) and _word(node.func) in ("frozenset", "set", "tuple", "list"):
        for each in node.args:
            yield from _names(each)


def test_nobody_asks_for_a_mechanism_by_its_name() -> None:
    found = {
        (module_name(path), name)
        for package in ("engine", "backend")
        for path in sources(package)
        if not within(module_name(path), CHOOSE)
        for name in asked(parsed(path))
    }
    assert found - OWN == set(EXCEPTIONS)


@pytest.mark.parametrize(
    "source",
    [
        'if layer.exchange == "native": ...',
        'if "native" != exchange: ...',
        'if codec not in ("fp32", "fp16"): ...',
        'OWN = ("ring-allreduce", "tree-allreduce")\nif layer.exchange in OWN: ...',
        'OWN = frozenset({"softsync"})\nif mode in OWN: ...',
        'match mode:\n    case "softsync": ...',
        'match mode:\n    case "x" | "softsync": ...',
        'PROGRAMS = {"ring-allreduce": ring}',
    ],
)
def test_asking_is_found(source: str) -> None:
    assert set(asked(ast.parse(source)))


@pytest.mark.parametrize(
    "source",
    ['if flow.payload == "factors": ...', 'mode: str = "every-step"', 'raise UserError(field, "fp32")'],
)
def test_what_asks_nothing_is_not_found(source: str) -> None:
    assert not set(asked(ast.parse(source)))
