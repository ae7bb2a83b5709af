"""Errors from inside of PyTorch get a reason and a remedy; a user's own stay as they are."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch
from torch import nn

from engine.errors import TrainingError
from engine.memory.saving import stays, unmoved
from engine.runtime.refused import refused_by_pytorch
from tests.pieces_of_time import through_time


def test_an_optimizer_that_cannot_update_is_named_with_its_reason() -> None:
    empty = nn.Parameter(torch.empty(0))
    empty.grad = torch.empty(0)
    with pytest.raises(ZeroDivisionError) as caught:
        torch.optim.Adafactor([empty]).step()
    found = refused_by_pytorch(caught.value, 3, sharded=False)
    assert isinstance(found, TrainingError)
    assert (
        "optimizer could not update the parameters in step 3: ZeroDivisionError: float division by zero"
        in str(found)
    )


def test_memory_of_a_part_is_refused_in_one_sentence_after_the_other() -> None:
    said = ".numpy() is not supported for tensor subclasses."
    with pytest.raises(RuntimeError) as caught:
        raise RuntimeError(said)
    found = str(refused_by_pytorch(caught.value, 0, sharded=True))
    assert f"step 0: RuntimeError: {said} It holds a part" in found
    assert "choose ddp" in found


def test_an_error_of_a_users_code_stays_as_it_is() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        1 / 0  # noqa: B018
    assert refused_by_pytorch(caught.value, 3, sharded=False) is None


def test_who_differentiates_by_a_part_is_told_so_and_by_an_unused_tensor_otherwise() -> None:
    unused = torch.ones(1, requires_grad=True)
    with pytest.raises(RuntimeError) as caught:
        torch.autograd.grad((unused * 2).sum(), torch.ones(1, requires_grad=True))
    assert "It holds a part of each parameter" in str(refused_by_pytorch(caught.value, 0, sharded=True))
    assert "in a plain loop" in str(refused_by_pytorch(caught.value, 0, sharded=False))


@pytest.mark.parametrize("sharded", [True, False])
def test_a_collective_that_another_worker_never_joins_is_told_from_one_that_has_gone(sharded: bool) -> None:
    late = (
        "[gloo/transport/tcp/unbound_buffer.cc:129] Timed out waiting 30000ms for send operation to complete"
    )
    with pytest.raises(RuntimeError) as caught:
        raise RuntimeError(late)
    found = str(refused_by_pytorch(caught.value, 4, sharded=sharded))
    assert "in step 4" in found
    assert "workers called different collectives" in found
    with pytest.raises(RuntimeError) as caught:
        raise RuntimeError("[gloo/transport/tcp/pair.cc:547] Connection closed by peer [127.0.0.1]:1")
    assert refused_by_pytorch(caught.value, 4, sharded=sharded) is None


@pytest.mark.parametrize("kept", [False, True])
def test_who_writes_to_what_backward_needs_is_told_so_whoever_has_kept_it(kept: bool) -> None:
    """PyTorch itself, or a memory mechanism."""
    weight, x = torch.ones(2, requires_grad=True), torch.ones(2)
    hooks = torch.autograd.graph.saved_tensors_hooks(stays, unmoved) if kept else nullcontext()
    with hooks:
        y = (weight * x).sum()
    x.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation") as caught:
        y.backward()
    found = refused_by_pytorch(caught.value, 3, sharded=False)
    assert "could not go backward through step 3: RuntimeError: one of the variables" in str(found)
    assert "in a plain loop" in str(found)


def test_so_is_who_does_so_in_what_is_compiled() -> None:
    weight, x = torch.ones(2, requires_grad=True), torch.ones(2)
    y = torch.compile(lambda x: (weight * x).sin().sum(), backend="aot_eager")(x)
    x.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation") as caught:
        y.backward()
    assert "could not go backward" in str(refused_by_pytorch(caught.value, 3, sharded=False))


@pytest.mark.parametrize("why", ["a second time", "modified by an inplace"])
def test_what_pieces_of_time_do_not_find_again_is_told_likewise(why: str) -> None:
    """A state that was carried into the next step with its graph, say."""
    layer = nn.LSTM(3, 3)
    with through_time(layer, slots=1) as passes:
        passes.forward = True
        out = layer(torch.randn(4, 2, 3))[0].sum()
        if why == "a second time":
            out.backward()
        else:
            with torch.no_grad():
                layer.bias_hh_l0.add_(1)
        with pytest.raises(RuntimeError, match=why) as caught:
            out.backward()
    found = str(refused_by_pytorch(caught.value, 1, sharded=False))
    assert "could not go backward through step 1: RuntimeError: " in found
    assert "in a plain loop" in found
