"""What evaluation leaves behind: every attribute as it was, whatever holds it."""

from __future__ import annotations

import warnings
from collections import OrderedDict, deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from engine.models.build import build_model
from engine.models.held import Held
from engine.models.modes import evaluating
from engine.plan.job import SourceSpec


class Frozen(dict[str, int]):
    """It refuses the methods of its own class that write, as immutable dictionaries do."""

    def _refuse(self, *_: Any) -> None:
        raise TypeError("immutable")

    clear = update = __setitem__ = _refuse  # type: ignore[assignment]


def holding(value: Any) -> nn.Module:
    model = nn.Sequential(nn.Linear(2, 2))
    model.kept = value
    return model


@pytest.mark.parametrize(
    ("value", "change"),
    [
        ([1, 2], lambda v: v.append(3)),
        ({1, 2}, lambda v: v.add(3)),
        ({"a": 1}, lambda v: v.update(a=2)),
        (deque([1, 2], maxlen=2), lambda v: v.append(3)),
        (OrderedDict(a=1, b=2), lambda v: v.move_to_end("a")),
    ],
    ids=["list", "set", "dict", "deque", "ordered"],
)
def test_what_a_pass_writes_into_a_container_is_undone(value: Any, change: Callable[[Any], Any]) -> None:
    before = value.copy()
    model = holding(value)
    held = Held(model)
    assert held.changed() is None
    change(value)
    assert value != before
    assert held.changed() == "kept"
    held.put_back()
    assert value == before
    assert model.kept is value


def test_a_dictionary_that_refuses_to_be_written_is_left_alone() -> None:
    model = holding(Frozen(a=1))
    with evaluating(model):
        pass
    assert model.kept == {"a": 1}


def test_a_module_that_torchscript_traced_is_evaluated() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TorchScript is deprecated, and used
        traced = torch.jit.trace(nn.Linear(2, 2), torch.zeros(1, 2))
    model = nn.Sequential(nn.Dropout(), traced)
    with evaluating(model):
        assert not any(module.training for module in model.modules())
    assert all(module.training for module in model.modules())


def test_gradients_that_a_builder_leaves_belong_to_no_step(tmp_path: Path) -> None:
    (tmp_path / "tried.py").write_text(
        "from torch import nn, ones\n"
        "def build():\n"
        "    model = nn.Linear(2, 2)\n"
        "    model(ones(1, 2)).sum().backward()\n"
        "    return model\n"
    )
    model = build_model(SourceSpec(entrypoint="tried:build", directory=str(tmp_path)))
    assert [parameter.grad for parameter in model.parameters()] == [None, None]
