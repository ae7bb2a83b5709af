"""Which code asks by identity of which class a parameter is."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from torch.nn import Parameter

from engine.instrumentation import sources
from engine.instrumentation.class_identity import asks
from tests.engine.conftest import NAME


class Mine(Parameter):
    """Of no other test."""


_ASKING = {
    "a name": "import torch\nfrom {here} import Mine\ndef f(p):\n    return type(p) is Mine",
    "its negation": "import torch\nfrom {here} import Mine\ndef f(p):\n    return Mine is not type(p)",
    "an attribute of a module": "import torch\nimport {here} as t\ndef f(p):\n    return p.__class__ is t.Mine",
    "another name": "import torch\nfrom {here} import Mine as M\ndef f(p):\n    return [q for q in p if type(q) is M]",
    "a variable": "import torch\nfrom {here} import Mine\ndef f(p):\n    k = type(p)\n    return k is Mine",
    "two on a line": (
        "import torch\nfrom {here} import Mine\ndef f(p):\n    return type(p) is Mine or type(p) is torch.Tensor"
    ),
    "an annotated variable": (
        "import torch\nfrom {here} import Mine\ndef f(p):\n    k: type = type(p)\n    return k is Mine"
    ),
    "a class given": "import torch\nfrom {here} import Mine\ndef f(kind):\n    return kind is Mine",
    "a function of identity": (
        "import operator\nimport torch\nfrom {here} import Mine\ndef f(p):\n    return operator.is_(type(p), Mine)"
    ),
    "a function by its name": (
        "from operator import is_not\nimport torch\nfrom {here} import Mine\n"
        "def f(p):\n    return is_not(type(p), Mine)"
    ),
    "a function under a name of one's own": (
        "from operator import is_ as same\nimport torch\nfrom {here} import Mine\n"
        "def f(p):\n    return same(type(p), Mine)"
    ),
    "what a property answers": (
        "import torch\nclass Kinds:\n    @property\n    def own(self): raise SystemExit\n"
        "def f(p):\n    return type(p) is Kinds.own"
    ),
    "by another's help": "from {here} import Mine\ndef f(p):\n    return type(p) is Mine",
    "a class that a function imports": (
        "import torch\ndef f(p):\n    from {here} import Mine as K\n    return type(p) is K"
    ),
    "by another's help and name": "from {here} import Mine as K\ndef f(kind):\n    return kind is K",
    "mapped": "import torch\nfrom {here} import Mine as K\ndef f(ps):\n    return [k is K for k in map(type, ps)]",
    "two classes": "import torch\ndef f(p, q):\n    return type(p) is type(q)",
    "two variables at once": "import torch\ndef f(p, q):\n    a, b = type(p), type(q)\n    return a is b",
    "one after another": "import torch\ndef f(ps, k):\n    for kind in map(type, ps):\n        if kind is k: ...",
    "in a comprehension": "import torch\ndef f(ps, k):\n    return [kind is k for kind in map(type, ps)]",
    "two variables by map": "import torch\ndef f(p, q):\n    a, b = map(type, (p, q))\n    return a is b",
    "two variables of a list": "import torch\ndef f(p, q):\n    a, b = [type(p), type(q)]\n    return a is b",
    "an element": "import torch\ndef f(ps):\n    ks = [type(p) for p in ps]\n    return all(k is ks[0] for k in ks)",
    "an element at once": "import torch\ndef f(ps, k):\n    return list(map(type, ps))[0] is k",
    "with its number": "import torch\ndef f(ps, k):\n    for i, kind in enumerate(map(type, ps)):\n        kind is k",
    "if there is one": "import torch\ndef f(p, k):\n    kind = type(p) if p else None\n    return kind is k",
    "an attribute": "import torch\ndef g(a, p):\n    a.kind = type(p)\ndef f(a, k):\n    return a.kind is k",
    "appended": "import torch\ndef f(ps, k):\n    ks = []\n    for p in ps: ks.append(type(p))\n    return k is ks[0]",
    "in a dictionary": (
        "import torch\ndef f(ps):\n    ks = {{n: type(p) for n, p in ps}}\n    return ks['a'] is ks.get('b')"
    ),
    "added": "import torch\ndef f(p, k):\n    ks = [k]\n    ks += [type(p)]\n    return k is ks[1]",
    "a default": "import torch\ndef f(p, q):\n    def g(k=type(p)):\n        return k is q",
    "a global name": "import torch\nK = None\ndef f(p):\n    global K; K = type(p)\ndef g(k):\n    return K is k",
    "a global collection": (
        "import torch\nKINDS = []\ndef f(p):\n    KINDS.append(type(p))\ndef g(k):\n    return KINDS[0] is k"
    ),
    "a global cache": (
        "import torch\nKINDS = {{}}\ndef f(p):\n    KINDS['a'] = type(p)\ndef g(k):\n    return k is KINDS['a']"
    ),
    "one collection after another": (
        "import torch\nA, B = [], []\ndef f():\n    B.extend(A)\ndef g(p):\n    A.append(type(p))\n"
        "def h(k):\n    return any(each is k for each in B)"
    ),
    "a class's collection": (
        "import torch\nclass A:\n    kinds = []\n    def f(self, p):\n        self.kinds.append(type(p))\n"
        "    def g(self, k):\n        return k is self.kinds[0]"
    ),
    "a collection when it is imported": (
        "import torch\nclass A:\n    kinds = [type(p) for p in ()]\n"
        "    def g(self, k):\n        return k is self.kinds[0]"
    ),
    "an argument named like a class": "import torch\nkind = int\ndef f(p, kind):\n    return type(p) is kind",
    "a variable named like a class": (
        "import torch\nkind = int\ndef f(p, ks):\n    kind = ks[0]\n    return type(p) is kind"
    ),
    "an argument named like a module": "import torch\ndef f(p, torch):\n    return type(p) is torch.Tensor",
    "what a function answers": (
        "import torch\ndef kind(p):\n    return type(p)\ndef f(p, q):\n    return kind(p) is kind(q)"
    ),
    "what a lambda answers": "import torch\nkind = lambda p: type(p)\ndef f(p, q):\n    return kind(p) is kind(q)",
    "what a method answers": (
        "import torch\nclass A:\n    def kind(self, p):\n        return type(p)\n"
        "    def f(self, p, q):\n        return self.kind(p) is self.kind(q)"
    ),
    "mapped by a lambda": "import torch\ndef f(ps, k):\n    return [e is k for e in map(lambda p: type(p), ps)]",
    "mapped by a function": (
        "import torch\ndef kind(p):\n    return p.__class__\ndef f(ps, k):\n    return [e is k for e in map(kind, ps)]"
    ),
    "ids in a set": "import torch\ndef f(ps):\n    return len({{id(type(p)) for p in ps}}) == 1",
    "an id that is kept": "import torch\ndef f(p, q):\n    a = id(type(p))",
    "by an attribute's name": "import torch\ndef f(p, k):\n    return getattr(p, '__class__') is k",
    "its id": "import torch\nfrom {here} import Mine\ndef f(p):\n    return id(type(p)) == id(Mine)",
    "an argument": "import torch\ndef f(p, kind):\n    return type(p) is kind",
    "a method": (
        "import torch\nfrom {here} import Mine\nclass A:\n    async def f(self, p):\n        return type(p) is Mine"
    ),
}
_NOT_ASKING = {
    "a class that a function imports": (
        "import torch\ndef f(p):\n    from torch.nn.parallel import DistributedDataParallel as DDP\n"
        "    import collections.abc as c\n    return type(p) is DDP or type(p) is c.Mapping"
    ),
    "another class": "import torch\ndef f(p):\n    return type(p) is torch.Tensor",
    "none": "import torch\ndef f(p):\n    return type(p) is None",
    "the class of none": "import torch\ndef f(p):\n    return type(p) is type(None)",
    "a class given, of none": "import torch\ndef f(kind):\n    return kind is type(None) or kind is type(...)",
    "equality": "import torch\nfrom {here} import Mine\ndef f(p):\n    return type(p) == Mine",
    "an instance": "import torch\nfrom {here} import Mine\ndef f(p):\n    return isinstance(p, Mine)",
    "another thing of another thing": "import torch\ndef f(p, q):\n    return p.x is q.x",
    "another thing": "import torch\nfrom {here} import Mine\ndef f(p, q):\n    k = type(p)\n    return p is q",
    "its own class, of tensors": (
        "import torch\nclass A(torch.Tensor):\n    def f(self, p):\n        return type(self) is type(p)"
    ),
    "its own class": "import torch\nclass A:\n    def f(self, p):\n        return type(self) is type(p)",
    "another of its attributes": "import torch\ndef f(self, p, k):\n    self.kind = type(p)\n    return self.x is k",
    "a variable of another function": "import torch\ndef g(p):\n    k = type(p)\ndef f(k, q):\n    return k is q",
    "a variable named like a collection": (
        "import torch\nks = []\ndef f(p):\n    ks.append(type(p))\ndef g(ks, k):\n    return ks[0] is k"
    ),
    "what is made by a class that was asked for": (
        "import torch\ndef f(p, q):\n    kind = type(p)\n    return kind(p) is q"
    ),
    "what a function makes of it": "import torch\ndef f(p, q):\n    k = str(type(p))\n    return k is q",
    "another's number": "import torch\ndef f(p, q):\n    return id(p) == id(q)",
    "ids of other things": "import torch\ndef f(ps):\n    k = type(ps)\n    return {{id(p) for p in ps}}",
    "no pytorch": "def f(p, kind):\n    return type(p) is kind",
}


@pytest.mark.parametrize("how", _ASKING)
def test_code_that_asks_by_identity_is_found(how: str, user_module: Callable[[str], Path]) -> None:
    assert asks(Mine) is None
    user_module(_ASKING[how].format(here=__name__))
    line = len(_ASKING[how].splitlines())
    assert asks(Mine) == f"{NAME}.py, line {line}, compares the class of its parameters by identity"


@pytest.mark.parametrize("how", _NOT_ASKING)
def test_other_code_keeps_no_layer_waiting(how: str, user_module: Callable[[str], Path]) -> None:
    user_module(_NOT_ASKING[how].format(here=__name__))
    assert asks(Mine) is None


def test_self_may_be_a_parameter_where_its_class_inherits_from_the_one_that_asks(
    user_module: Callable[[str], Path],
) -> None:
    user_module(
        "import torch\nclass Same:\n    def f(self, p):\n        return type(self) is type(p)\n"
        "class Own(Same, torch.nn.Parameter): ..."
    )
    assert asks(Mine) is None
    assert (
        asks(sys.modules[NAME].Own) == f"{NAME}.py, line 4, compares the class of its parameters by identity"
    )


def test_a_source_that_nests_too_deeply_counts_as_asking(user_module: Callable[[str], Path]) -> None:
    user_module(
        "import torch\ndef f(p, k):\n    x = " + " + ".join(["'line'"] * 900) + "\n    return type(p) is k"
    )
    assert asks(Mine) == f"{NAME}.py, line 1, cannot be read as Python: it nests too deeply"


def test_a_source_that_cannot_be_read_counts_as_asking(user_module: Callable[[str], Path]) -> None:
    user_module("import torch").write_text("import torch\ntype(x) is (")
    assert asks(Mine) == f"{NAME}.py, line 2, is not what was imported"


def test_a_comparison_that_is_known_to_meet_no_parameter_does_not_count(
    user_module: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    user_module("import torch\ndef f(custom, default):\n    return type(custom) is type(default)")
    monkeypatch.setattr(sys.modules[NAME], "__name__", "transformers.generation.utils")
    assert asks(Mine) is None


def test_one_that_such_a_module_gets_later_counts(
    user_module: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    user_module("import torch\ndef f(custom, other):\n    return type(custom) is type(other)")
    monkeypatch.setattr(sys.modules[NAME], "__name__", "transformers.generation.utils")
    assert asks(Mine) == f"{NAME}.py, line 3, compares the class of its parameters by identity"


def test_what_an_object_answers_is_not_asked_of_it(user_module: Callable[[str], Path]) -> None:
    user_module(
        "import torch\nclass Lazy:\n    def __getattr__(self, name):\n        raise SystemExit(name)\n"
        "lazy = Lazy()\ndef f(p):\n    return type(p) is lazy.Mine"
    )
    assert asks(Mine) == f"{NAME}.py, line 7, compares the class of its parameters by identity"


def test_a_module_that_loses_its_source_is_passed_over(user_module: Callable[[str], Path]) -> None:
    user_module("import torch").unlink()
    assert asks(Mine) is None


def test_no_module_of_the_tests_asks_for_the_class_of_all_parameters() -> None:
    """It would disable the gates of this process, and of those that are forked from it."""
    assert asks(Parameter) is None


def test_what_has_nothing_to_do_with_pytorch_is_looked_at_once(user_module: Callable[[str], Path]) -> None:
    """Of what is imported that is nearly all, and workers go through it a dozen times."""
    user_module("kinds = {}\ndef f(p, k):\n    return type(p) is k")
    assert sys.modules[NAME] in list(sources.imported())
    assert asks(Mine) is None
    assert sys.modules[NAME] not in list(sources.imported())


@pytest.mark.parametrize(("more", "once"), [("", True), ("# long\n" * sources._SMALL, False)])
def test_a_users_module_is_parsed_once_for_all_that_is_asked_of_it_unless_it_is_large(
    more: str, once: bool, user_module: Callable[[str], Path]
) -> None:
    user_module(f"import torch\ndef f(p, k):\n    return type(p) == k\n{more}")
    first, second = (sources.tree(sys.modules[NAME], lambda _: True) for _ in range(2))
    assert first is not None
    assert (first is second) == once
