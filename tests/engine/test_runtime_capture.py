"""Capture: what a layer hands over in place of its gradient, against nn.Linear's own gradient, in this process."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from engine.errors import TrainingError
from engine.runtime.capture import LinearCapture


def run(capture: LinearCapture | None, loss: Callable[[], Tensor]) -> None:
    """One pass, as a replica runs it."""
    if capture is not None:
        capture.begin_forward()
    total = loss()
    if capture is not None:
        capture.end_forward()
    total.backward()  # type: ignore[no-untyped-call]


def both(shape: tuple[int, ...], loss: Callable[[nn.Linear, Tensor], Tensor], bias: bool = True) -> None:
    """The gradients of two equal layers, and of their equal inputs: one's own, the other's from its factors."""
    torch.manual_seed(1)
    own, late = (nn.Linear(shape[-1], 3, bias=bias, dtype=torch.float64) for _ in range(2))
    late.load_state_dict(own.state_dict())
    x, y = (torch.linspace(-1, 1, 60)[: torch.Size(shape).numel()].double().view(shape) for _ in range(2))
    x.requires_grad_()
    y.requires_grad_()
    complete: list[None] = []
    capture = LinearCapture("late", late, frozenset())
    capture.when_complete(lambda: complete.append(None))
    run(None, lambda: loss(own, x))
    run(capture, lambda: loss(late, y))
    assert len(complete) == 1, "once, when the last use's derivative has come"
    assert all(parameter.grad is None for parameter in late.parameters()), "nothing was multiplied"
    inputs, errors = capture.take()
    capture.multiply(inputs, errors)
    for mine, theirs in zip([*late.parameters(), y], [*own.parameters(), x], strict=True):
        assert mine.grad is not None
        assert theirs.grad is not None
        assert torch.allclose(mine.grad, theirs.grad, rtol=1e-14, atol=1e-14)
    assert [len(factor) for factor in capture.take()] == [0, 0], "handed over once"


@pytest.mark.parametrize("shape", [(4,), (5, 4), (2, 3, 4), (2, 1, 3, 4)])
@pytest.mark.parametrize("bias", [True, False])
def test_a_product_of_factors_is_the_gradient(shape: tuple[int, ...], bias: bool) -> None:
    both(shape, lambda layer, x: layer(x).square().sum(), bias)


def test_uses_are_stacked() -> None:
    """Of unlike numbers of rows; the derivative of a sum is one number spread over memory."""
    both(
        (5, 4),
        lambda layer, x: layer(x).sum() + layer(2 * x[:2]).square().sum() + layer(input=x.t()[:, :4]).sum(),
    )


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_layer_may_be_computed_again_in_backward(reentrant: bool) -> None:
    def loss(layer: nn.Linear, x: Tensor) -> Tensor:
        found: Tensor = checkpoint(lambda z: torch.tanh(layer(torch.sin(z))), x, use_reentrant=reentrant)
        return found.square().sum()

    both((5, 4), loss)


def test_without_gradients_a_layer_computes_as_ever() -> None:
    layer = nn.Linear(4, 3)
    x = torch.ones(2, 4)
    right = layer(x)
    capture = LinearCapture("late", layer, frozenset())
    capture.begin_forward()
    with torch.no_grad():
        assert torch.equal(layer(x), right)
    assert torch.equal(layer(x), right)
    assert list(layer.state_dict()) == ["weight", "bias"]


def test_inputs_that_may_change_are_copied() -> None:
    """Of a parameter, which a server may write to before its factors have left."""
    layer, table = nn.Linear(4, 3), nn.Parameter(torch.ones(2, 4))
    capture = LinearCapture("late", layer, frozenset({table.untyped_storage().data_ptr()}))
    run(capture, lambda: layer(table[:1]).sum())
    with torch.no_grad():
        table.zero_()
    assert torch.equal(capture.take()[0], torch.ones(1, 4))


def test_derivatives_are_not_the_memory_of_another_gradient() -> None:
    """What is added to a layer's one row has the same derivative, and autograd gives it the same memory: a second pass
    adds to that, and whoever exchanges it writes the sum there."""
    layer, other = nn.Linear(4, 3), nn.Parameter(torch.ones(3))
    capture = LinearCapture("late", layer, frozenset())
    weights = torch.arange(1.0, 4)

    def loss() -> Tensor:
        return (weights * (layer(torch.ones(1, 4)) + other.unsqueeze(0))).sum()

    for _ in range(2):
        run(capture, loss)
    assert other.grad is not None
    assert torch.equal(other.grad, 2 * weights)
    other.grad.zero_()
    assert torch.equal(capture.take()[1], weights.expand(2, 3))


def test_under_autocast_factors_have_its_type_and_are_multiplied_in_the_parameters() -> None:
    layer = nn.Linear(4, 3)
    capture = LinearCapture("late", layer, frozenset())

    def loss() -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            found: Tensor = layer(torch.ones(2, 4)).float().sum()
        return found

    run(capture, loss)
    inputs, errors = capture.take()
    assert (inputs.dtype, errors.dtype, capture.dtype) == (torch.bfloat16, torch.bfloat16, torch.float32)
    capture.multiply(inputs.to(capture.dtype), errors.to(capture.dtype))
    assert layer.weight.grad is not None
    assert torch.equal(layer.weight.grad, torch.full((3, 4), 2.0))


def test_nobody_used_it() -> None:
    layer = nn.Linear(4, 3)
    capture = LinearCapture("late", layer, frozenset())
    inputs, errors = capture.take()
    assert (inputs.shape, errors.shape) == ((0, 4), (0, 3))
    capture.multiply(inputs, errors)
    assert layer.weight.grad is None


def test_a_weight_used_by_a_function_is_refused() -> None:
    layer = nn.Linear(4, 3)
    capture = LinearCapture("late", layer, frozenset())
    with pytest.raises(TrainingError, match=r"late travels by factors, .* used outside of its own call"):
        run(capture, lambda: functional.linear(layer(torch.ones(2, 4)), layer.weight.t()).sum())
