"""Models that cannot be trained are refused before they run, with what to change."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import nn

from engine.errors import UserError
from engine.models.describe import describe
from engine.models.suited import check_suited
from engine.plan.description import ParameterDescription


def frozen() -> nn.Module:
    return nn.Linear(2, 2).requires_grad_(False)


def scripted() -> nn.Module:
    made: nn.Module = torch.jit.script(nn.Sequential(nn.Linear(2, 2), nn.Tanh()))
    return made


def with_buffer(buffer: torch.Tensor) -> nn.Module:
    model = nn.Linear(2, 2)
    model.register_buffer("table", buffer)
    return model


def overlapping() -> nn.Module:
    """`left` and `right` have no element in common, `both` has some of each."""
    model, table = nn.Module(), torch.zeros(4, 6)
    model.left, model.right = nn.Parameter(table[:, :3]), nn.Parameter(table[:, 3:])
    model.both = nn.Parameter(table[1:3, 2:4])
    return model


class Hiding(nn.Linear):
    """An adapter's idiom."""

    def parameters(self, recurse: bool = True) -> Iterator[nn.Parameter]:
        yield self.bias


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (overlapping(), r"= 'both': has elements in the same memory as left.*ties them, or clone"),
        (
            Hiding(2, 2),
            r"= 'weight': is left out by the model's own parameters\(\).*requires_grad_\(False\)",
        ),
        (
            nn.Sequential(nn.LazyLinear(3)),
            r"= '0': is a LazyLinear.*no shape.*run the model on an example once",
        ),
        (nn.LazyBatchNorm1d(affine=False), r"= 'the model': is a LazyBatchNorm1d"),
        (
            nn.Sequential(nn.Linear(2, 2), scripted()),
            r"= '1': is a TorchScript module.*nn.Module that it was",
        ),
        (scripted(), r"= 'the model': is a TorchScript module"),
        (frozen(), r"= 'mine': there is nothing to train: all of its 2 parameters are frozen.*requires_grad"),
        (nn.Flatten(), r"there is nothing to train: it has no parameters"),
        (nn.Sequential(nn.Embedding(3, 2, sparse=True)), r"= '0': has sparse gradients.*sparse=False"),
        (with_buffer(torch.eye(2).to_sparse()), r"= 'table': is a torch.sparse_coo buffer.*dense"),
    ],
)
def test_what_cannot_be_trained_is_refused(model: nn.Module, message: str) -> None:
    with pytest.raises(UserError, match=message):
        check_suited(model, "mine")
    with pytest.raises(UserError, match=message):
        describe(model, torch.zeros(2, 2), torch.zeros(2, dtype=torch.int64), "mine")


def test_a_frozen_sparse_table_has_no_gradient() -> None:
    table = nn.Embedding(3, 2, sparse=True).requires_grad_(False)
    check_suited(nn.Sequential(table, nn.Linear(2, 2)), "mine")


def test_whole_numbers_may_be_parameters_that_are_frozen() -> None:
    assert ParameterDescription(name="levels", shape=(3,), dtype="int8", trainable=False).nbytes == 3
    with pytest.raises(UserError, match="no such parameter type"):
        ParameterDescription(name="levels", shape=(3,), dtype="int8")


def test_what_was_traced_by_torch_jit_is_as_good_as_any() -> None:
    traced = torch.jit.trace(nn.Sequential(nn.Linear(2, 2), nn.Tanh()), torch.zeros(2, 2))
    model = nn.Sequential(nn.Linear(2, 2), traced)
    assert [
        layer.name for layer in describe(model, torch.zeros(2, 2), torch.zeros(2).long(), "m").layers
    ] == ["0", "1.0"]


def test_parameters_may_lie_beside_each_other_and_be_tied() -> None:
    model = overlapping()
    model.both = model.left
    check_suited(model, "a model")
    flat = torch.zeros(6_000, device="meta")
    check_suited(
        nn.ParameterList(nn.Parameter(flat[3 * i : 3 * i + 3]) for i in range(2_000)), "parts of a buffer"
    )
    frozen = overlapping().requires_grad_(False)
    frozen.head = nn.Parameter(torch.zeros(1))
    check_suited(frozen, "nobody updates what overlaps")
