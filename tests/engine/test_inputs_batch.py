"""Batches of several tensors, and what is said of data and losses that answer odd things."""

from __future__ import annotations

from functools import wraps
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from engine.errors import TrainingError, UserError
from engine.inputs.batch import count, first, of_type, repeated, shape, shown
from engine.inputs.build import MapStyleSource
from engine.inputs.entrypoint import load_module
from engine.inputs.reading import read
from engine.inputs.source import TensorSource
from engine.inputs.task import UserLoss, classification, weight
from engine.runtime.trainer import differentiable

BATCH = {"a": torch.ones(3, 2), "b": (torch.zeros(3, dtype=torch.int64), torch.ones(3, 1, 1))}


def test_several_tensors_are_handled_as_one() -> None:
    assert (count(BATCH), shape(BATCH), weight(BATCH)) == (3, (2,), 3)
    assert shown(BATCH) == "{'a': (3, 2), 'b': ((3,), (3, 1, 1))}"
    assert shown(first(BATCH, 1)) == "{'a': (1, 2), 'b': ((1,), (1, 1, 1))}"
    assert shown(repeated(BATCH, 2)) == "{'a': (6, 2), 'b': ((6,), (6, 1, 1))}"
    doubled = of_type(torch.float64, BATCH)
    assert [t.dtype for t in (doubled["a"], *doubled["b"])] == [torch.float64, torch.int64, torch.float64]
    assert of_type(None, BATCH) is BATCH


def test_sources_of_several_tensors_may_be_asked_for_none() -> None:
    whole = TensorSource(BATCH, torch.arange(3))
    items = MapStyleSource([({"a": torch.ones(2)}, 1), ({"a": torch.ones(2)}, 0)])
    for source, asked in ((whole, [0, 2]), (whole, []), (items, [1, 0]), (items, [])):
        inputs, targets = read(source, np.array(asked, dtype=np.int64))
        assert count(inputs) == count(targets) == len(asked)
    with pytest.raises(ValueError, match="3 inputs but 2 targets"):
        TensorSource(BATCH, torch.arange(2))


class Answers:
    """A source that answers the same, whatever it is asked for."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def __len__(self) -> int:
        return 3

    def batch(self, indices: np.ndarray) -> Any:
        return self._answer


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (torch.ones(2), r"= 'Answers': answers a Tensor for a batch, not the pair"),
        ((torch.ones(2, 1), [1, 2]), r"answers targets that are no tensors"),
        (({}, torch.ones(2)), r"answers inputs that are no tensors"),
        ((torch.ones(2, 1), torch.ones(3)), r"answers targets of shapes \(3,\) for 2 samples"),
        (
            ({"a": torch.ones(2), "b": torch.ones(())}, torch.ones(2)),
            r"answers inputs of shapes .* for 2 samples",
        ),
    ],
)
def test_data_that_answer_something_else_are_named(answer: Any, message: str) -> None:
    with pytest.raises(UserError, match=message + r".*first dimension"):
        read(Answers(answer), np.arange(2))


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (torch.ones(()), "returned a Tensor, not the pair"),
        ((1.0, None), "the sum of losses is a float, not a real scalar tensor"),
        ((torch.ones(3), None), r"the sum of losses is a tensor of shape \(3,\) and type float32"),
        ((torch.ones((), dtype=torch.int64), None), "and type int64"),
        ((torch.ones((), dtype=torch.complex64), None), "and type complex64"),
        ((torch.ones(()), torch.ones(3)), r"the count of correct predictions is a tensor of shape \(3,\)"),
        ((torch.ones(()), 0.5), "the count of correct predictions is a float"),
    ],
)
def test_a_loss_that_returns_something_else_is_named(answer: Any, message: str) -> None:
    loss = UserLoss(lambda model, inputs, targets: answer, "mine:build")
    with pytest.raises(UserError, match=f"loss beside mine:build.*{message}"):
        loss(nn.Identity(), torch.ones(2), torch.ones(2))


def test_a_loss_that_takes_something_else_is_named() -> None:
    with pytest.raises(
        UserError, match=r"loss\(outputs, targets\)': is called as loss\(model, inputs, targets\)"
    ):
        UserLoss(lambda outputs, targets: outputs, "mine:build")
    UserLoss(lambda *everything, weight=1.0: everything, "mine:build")

    def weighted(model: nn.Module, inputs: Tensor, targets: Tensor, weights: Tensor) -> None: ...

    UserLoss(wraps(weighted)(lambda model, inputs, targets: None), "mine:build")


def test_a_loss_that_returns_something_else_is_named_with_its_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "vector.py").write_text("\n\ndef loss(model, inputs, targets):\n    return inputs, None\n")
    loss = UserLoss(load_module("vector:build", str(tmp_path), "model").loss, "vector:build")
    with pytest.raises(UserError, match=r"not a real scalar tensor \(vector\.py, line 3, in loss\)"):
        loss(nn.Identity(), torch.ones(2), torch.ones(2))


def test_a_loss_of_which_nothing_can_be_learned_is_named() -> None:
    found: Tensor = nn.Linear(1, 1)(torch.ones(1, 1)).sum()
    assert differentiable(found, 4) is found
    with pytest.raises(TrainingError, match=r"loss of step 4 depends on no parameter that is trained then"):
        differentiable(found.detach(), 4)


@pytest.mark.parametrize(
    ("answer", "target", "says"),
    [
        (
            torch.zeros(3),
            0,
            r"forward answered a tensor of shape \(3,\) and type float32.*the targets are a tensor",
        ),
        (torch.zeros(3, 2), 5, r"of shape \(3, 2\).*Target 5 is out of bounds.*as many classes"),
        ([torch.zeros(3, 2)], 0, "forward answered a list"),
    ],
)
def test_an_answer_that_fits_no_targets_is_refused_whenever_it_comes(
    answer: Any, target: int, says: str
) -> None:
    with pytest.raises(UserError, match=says):
        classification(lambda _: answer, torch.zeros(3, 4), torch.full((3,), target))  # type: ignore[arg-type]
