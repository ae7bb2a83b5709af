"""Capture under autocast: a layer computes with copies in autocast's type, and its gradient is that of its own type."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from engine.models.late_linear import LateLinear
from engine.state.capture import LinearCapture
from tests.engine.captured import run


def test_under_autocast_factors_have_its_type_and_are_multiplied_in_the_parameters() -> None:
    layer = nn.Linear(4, 3)
    capture = LinearCapture("late", layer)

    def loss() -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            found: Tensor = layer(torch.ones(2, 4)).float().sum()
        return found

    run(capture, loss)
    found = capture.take(0)
    assert found.factors is not None
    inputs, errors = found.factors
    assert (inputs.dtype, errors.dtype, capture.dtype) == (torch.bfloat16, torch.bfloat16, torch.float32)
    capture.multiply(inputs.to(capture.dtype), errors.to(capture.dtype), found.present)
    assert layer.weight.grad is not None
    assert torch.equal(layer.weight.grad, torch.full((3, 4), 2.0))


@pytest.mark.parametrize("twice", [False, True])
def test_under_autocast_what_is_written_to_after_the_use_is_no_matter(twice: bool) -> None:
    """Autocast computes with copies. Whole numbers are what they are in bfloat16, too. `twice`: the derivatives by the
    inputs are differentiated again."""
    grads = []
    for late in (False, True):
        layer, x = nn.Linear(4, 3), torch.arange(8.0).view(2, 4).requires_grad_()
        layer.load_state_dict({"weight": torch.arange(12.0).view(3, 4), "bias": torch.ones(3)})
        capture = LinearCapture("late", layer) if late else None

        def loss(layer: nn.Linear = layer, x: Tensor = x) -> Tensor:
            with torch.autocast("cpu", torch.bfloat16):
                inputs = x * 2
                outputs = layer(inputs)
                with torch.no_grad():
                    layer.weight.zero_()
                    inputs.zero_()
                total: Tensor = (outputs * torch.tensor([1.0, 2.0, 3.0])).float().sum()
                if twice:
                    (by_x,) = torch.autograd.grad(total, x, create_graph=True)
                    total = total + by_x.sum()
            return total

        run(capture, loss)
        if capture is not None:
            found = capture.take(0)
            assert (found.factors is None) == twice
            if found.factors is not None:
                capture.multiply(*(factor.float() for factor in found.factors), found.present)
            else:
                capture.add([gradient.view(-1) for gradient in found.gradients], found.present)
        grads.append([tensor.grad for tensor in (layer.weight, layer.bias, x)])
    for mine, theirs in zip(*grads, strict=True):
        assert mine is not None
        assert torch.equal(mine, theirs)


@pytest.mark.parametrize("how", ["hook", "twice", "by itself"])
def test_without_a_bias_under_autocast_gradients_come_where_factors_do_not(how: str) -> None:
    grads = []
    for late in (False, True):
        layer, x = nn.Linear(4, 3, bias=False), torch.arange(8.0).view(2, 4).requires_grad_()
        layer.load_state_dict({"weight": torch.arange(12.0).view(3, 4)})
        capture = LinearCapture("late", layer) if late else None
        if how == "hook":
            layer.weight.register_hook(lambda gradient: gradient * 2)
        with torch.autocast("cpu", torch.bfloat16):
            total = layer(x).float().sum()
        if how == "twice":
            (by_x,) = torch.autograd.grad(total, x, create_graph=True)
            total = total + by_x.sum()
        if how == "by itself":
            total.backward()  # type: ignore[no-untyped-call]
        else:
            run(capture, lambda total=total: total)  # type: ignore[misc]
        if capture is not None:
            found = capture.take(0)
            assert found.factors is None
            capture.add([gradient.view(-1) for gradient in found.gradients], found.present)
        grads.append([layer.weight.grad, x.grad])
    for mine, theirs in zip(*grads, strict=True):
        assert mine is not None
        assert torch.equal(mine, theirs)


def test_under_autocast_a_weight_that_is_written_to_uncounted_is_what_it_is() -> None:
    """While an output of the pass before is kept."""
    plain, layer = nn.Linear(4, 3), nn.Linear(4, 3)
    layer.load_state_dict(plain.state_dict())
    late, kept, x = LateLinear(layer), [], torch.ones(2, 4, requires_grad=True)
    for _ in range(3):
        with torch.autocast("cpu", torch.bfloat16):
            kept.append((layer(x), plain(x)))
        assert torch.equal(*kept[-1])
        layer.weight.data.mul_(0.5)
        plain.weight.data.mul_(0.5)
    late.remove()
