"""Which files of a user's may compare the class of a parameter by identity, whatever lies between."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path

import pytest
from torch.nn import Parameter

from engine import user_code
from engine.instrumentation.users_classes import may_compare
from tests.engine.conftest import NAME


class Mine(Parameter):
    """Of no other test."""


@pytest.fixture
def users(
    user_module: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], Path]:
    """Imports a module from a folder that a job names."""
    monkeypatch.setattr(user_code, "FOLDERS", {str(tmp_path)})
    return user_module


_MAY = {
    "a key": "d = dict()\ndef f(p):\n    d[type(p)] = p\ndef g(k):\n    return [v for e, v in d.items() if e is k]",
    "keys": "def f(d, p):\n    d.setdefault(type(p), [])\ndef g(d, k):\n    return [e is k for e in d.keys()]",
    "pairs": "import itertools\ndef f(ps):\n    return all(a is b for a, b in itertools.pairwise(map(type, ps)))",
    "what a generator yields": "def f(p):\n    yield type(p)\ndef g(p, k):\n    return next(f(p)) is k",
    "what a property answers": (
        "class A:\n    @property\n    def kind(self): return type(self.p)\n    def f(self, k): return self.kind is k"
    ),
    "another name of type": "kind = type\ndef f(p, k):\n    return kind(p) is k",
    "type as an argument": "def f(p, k, kind=type):\n    return kind(p) is k",
    "a name of an attribute": "from operator import attrgetter as a\ndef f(p, k):\n    return a('__class__')(p) is k",
    "a field": "from types import SimpleNamespace as S\ndef f(p, k):\n    return S(kind=type(p)).kind is k",
    "the classes that it inherits from": "def f(p, k):\n    return type(p).__mro__[1] is k",
    "the function that compares": "import operator\ndef f(p, ks):\n    return map(operator.is_, ks, [type(p)])",
    "a class given": "from {here} import Mine\ndef f(p, kind):\n    print(kind is Mine)\n    return [type(p)]",
    "an argument named like another class": (
        "kind = int\ndef f(d, p):\n    d[type(p)] = p\ndef g(d, kind):\n    return [e is kind for e in d]"
    ),
    "without pytorch": "def f(a, b):\n    return type(a) is type(b)",
}
_MAY_NOT = {
    "nobody asks": "def f(a, b):\n    return a is b",
    "nobody compares": "def f(a, k):\n    return type(a) == k",
    "with what is no class": "import torch\ndef f(a):\n    k = [type(a)]\n    return a.dtype is torch.half",
    "with another class": "def f(a):\n    k = [type(a)]\n    return k[0] is int",
    "only said": "def f(a, b):\n    print(type(a), f'{{type(a)}}', type(b).__name__, str(type(a)))\n    return a is b",
    "only said in a percent": "def f(a, b):\n    raise TypeError('%s' % type(a)) if a is b else ValueError",
    "another one made": "def f(a, b):\n    c = type(a)(b)\n    return c is b",
    "equal": "def f(a, b, c):\n    return type(a) == type(b) or type(a) in (int, c) or a is b",
    "its own class": "class A:\n    def f(self, b):\n        return type(self) is type(b) or b is self",
    "annotations": "def f(a: type, b: type) -> type:\n    c: type = a\n    return a is b",
    "instances": "def f(a, b):\n    return isinstance(a, type) or a is b",
}


@pytest.mark.parametrize("how", _MAY)
def test_what_may_compare_counts(how: str, users: Callable[[str], Path]) -> None:
    assert may_compare(Mine) is None
    users(_MAY[how].format(here=__name__))
    found = may_compare(Mine)
    assert found is not None
    assert found.startswith(f"{NAME}.py, line ")
    assert found.endswith(", may compare the class of its parameters by identity")


@pytest.mark.parametrize("how", _MAY_NOT)
def test_what_cannot_compare_does_not(how: str, users: Callable[[str], Path]) -> None:
    users(_MAY_NOT[how].format(here=__name__))
    assert may_compare(Mine) is None


def test_one_file_may_ask_and_another_one_compare(users: Callable[[str], Path], tmp_path: Path) -> None:
    (tmp_path / "helper_of_a_test.py").write_text("def same(a, b):\n    return a is b\n")
    users("from helper_of_a_test import same\ndef f(p, k):\n    return same(type(p), k)")
    assert (
        may_compare(Mine)
        == "helper_of_a_test.py, line 2, may compare the class of its parameters by identity"
    )


def test_an_installed_package_is_another_matter(user_module: Callable[[str], Path]) -> None:
    user_module(_MAY["a key"])
    assert may_compare(Mine) is None


def test_a_file_that_cannot_be_read_counts(users: Callable[[str], Path]) -> None:
    users("pass").write_text("type(x) is (")
    importlib.invalidate_caches()
    assert may_compare(Mine) == f"{NAME}.py, line 1, is not what was imported"
