"""Which code asks by identity of which class a parameter is."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from torch.nn import Parameter

from engine.runtime.class_identity import asks


class Mine(Parameter):
    """Of no other test."""


_ASKING = {
    "a name": "import torch\nfrom {here} import Mine\ndef f(p):\n    return type(p) is Mine",
    "its negation": "import torch\nfrom {here} import Mine\ndef f(p):\n    return Mine is not type(p)",
    "an attribute": "import torch\nimport {here} as t\ndef f(p):\n    return p.__class__ is t.Mine",
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
    "two classes": "import torch\ndef f(p, q):\n    return type(p) is type(q)",
    "an argument": "import torch\ndef f(p, kind):\n    return type(p) is kind",
    "a method": (
        "import torch\nfrom {here} import Mine\nclass A:\n    async def f(self, p):\n        return type(p) is Mine"
    ),
}
_NOT_ASKING = {
    "another class": "import torch\ndef f(p):\n    return type(p) is torch.Tensor",
    "none": "import torch\ndef f(p):\n    return type(p) is None",
    "equality": "import torch\nfrom {here} import Mine\ndef f(p):\n    return type(p) == Mine",
    "an instance": "import torch\nfrom {here} import Mine\ndef f(p):\n    return isinstance(p, Mine)",
    "another thing of another thing": "import torch\ndef f(p, q):\n    return p.x is q.x",
    "another thing": "import torch\nfrom {here} import Mine\ndef f(p, q):\n    k = type(p)\n    return p is q",
    "no pytorch": "def f(p, kind):\n    return type(p) is kind",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop("asking_module", None)


def _imported(source: str, folder: Path) -> None:
    (folder / "asking_module.py").write_text(source.format(here=__name__))
    importlib.invalidate_caches()
    importlib.import_module("asking_module")


@pytest.mark.parametrize("how", _ASKING)
def test_code_that_asks_by_identity_is_found(how: str, folder: Path) -> None:
    assert asks(Mine) is None
    _imported(_ASKING[how], folder)
    line = len(_ASKING[how].splitlines())
    assert asks(Mine) == f"asking_module.py, line {line}"


@pytest.mark.parametrize("how", _NOT_ASKING)
def test_other_code_keeps_no_layer_waiting(how: str, folder: Path) -> None:
    _imported(_NOT_ASKING[how], folder)
    assert asks(Mine) is None


def test_a_source_that_cannot_be_read_counts_as_asking(folder: Path) -> None:
    _imported("import torch", folder)
    (folder / "asking_module.py").write_text("import torch\nx is (")
    assert asks(Mine) == "asking_module.py, line 2"


def test_a_module_whose_attributes_fail_is_read_all_the_same(folder: Path) -> None:
    _imported(
        "import torch\nclass Lazy:\n    def __getattr__(self, name):\n        raise ImportError(name)\n"
        "lazy = Lazy()\ndef f(p):\n    return type(p) is lazy.Mine",
        folder,
    )
    assert asks(Mine) == "asking_module.py, line 7"


def test_a_module_that_loses_its_source_is_passed_over(folder: Path) -> None:
    (folder / "asking_module.py").write_text("import torch")
    module = importlib.import_module("asking_module")
    assert module.__file__
    Path(module.__file__).unlink()
    assert asks(Mine) is None


def test_no_module_of_the_tests_asks_for_the_class_of_all_parameters() -> None:
    """It would disable the gates of this process, and of those that are forked from it."""
    assert asks(Parameter) is None
