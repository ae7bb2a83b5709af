"""Capture: what a layer hands over in place of its gradient, against nn.Linear's own gradient, in this process."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from engine.state.capture import LinearCapture
from tests.engine.captured import run

Loss = Callable[[nn.Linear, Tensor], Tensor]


def both(
    shape: tuple[int, ...],
    loss: Loss,
    bias: bool = True,
    *,
    whole: str = "",
    prepare: Callable[[nn.Linear], object] = lambda layer: None,
    passes: int = 1,
) -> None:
    """The gradients of two equal layers, and of their equal inputs: one's own, the other's from its factors, or, for
    the reason `whole`, from the gradient that it hands over. `prepare` is done to both before they are used."""
    torch.manual_seed(1)
    own, late = (nn.Linear(shape[-1], 3, bias=bias, dtype=torch.float64) for _ in range(2))
    late.load_state_dict(own.state_dict())
    x, y = (torch.linspace(-1, 1, 60)[: torch.Size(shape).numel()].double().view(shape) for _ in range(2))
    x.requires_grad_()
    y.requires_grad_()
    final: list[None] = []
    running: list[None] = []
    capture = LinearCapture("late", late)
    capture.when_final(late.weight, lambda parameter: final.append(None) if running else None)
    prepare(own)
    prepare(late)
    for _ in range(passes):
        run(None, lambda: loss(own, x))
        total = loss(late, y)
        running.append(None)
        run(capture, lambda total=total: total)
        running.clear()
    assert len(final) <= passes, "once for each pass, when the last use's derivative has come"
    found = capture.take(0)
    assert whole in capture.why
    assert (found.factors is None) == bool(whole)
    assert all(parameter.grad is None for parameter in late.parameters()), "handed over"
    if found.factors is not None:
        if any(found.present):
            capture.multiply(*found.factors, found.present)
    else:
        capture.add([gradient.view(-1) for gradient in found.gradients], found.present)
    for mine, theirs in zip([*late.parameters(), y], [*own.parameters(), x], strict=True):
        if theirs.grad is None:
            assert mine.grad is None
        else:
            assert mine.grad is not None
            assert torch.allclose(mine.grad, theirs.grad, rtol=1e-13, atol=1e-13)
    late.zero_grad()
    assert not any(capture.take(1).present), "handed over once"


@pytest.mark.parametrize("shape", [(4,), (5, 4), (2, 3, 4), (2, 1, 3, 4)])
@pytest.mark.parametrize("bias", [True, False])
def test_a_product_of_factors_is_the_gradient(shape: tuple[int, ...], bias: bool) -> None:
    both(shape, lambda layer, x: layer(x).square().sum(), bias)


def test_uses_and_passes_are_stacked() -> None:
    """Of unlike numbers of rows; the derivative of a sum is one number spread over memory."""
    both(
        (5, 4),
        lambda layer, x: layer(x).sum() + layer(2 * x[:2]).square().sum() + layer(input=x.t()[:, :4]).sum(),
        passes=2,
    )


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_layer_may_be_computed_again_in_backward(reentrant: bool) -> None:
    def loss(layer: nn.Linear, x: Tensor) -> Tensor:
        found: Tensor = checkpoint(lambda z: torch.tanh(layer(torch.sin(z))), x, use_reentrant=reentrant)
        return found.square().sum()

    both((5, 4), loss)


# --- gradients that are not the step's ---


def by_inputs(layer: nn.Linear, x: Tensor) -> Tensor:
    """The fast gradient sign method: a loss on inputs that were moved along the gradient."""
    (slope,) = torch.autograd.grad(layer(x).square().sum(), x)
    return layer(x).square().sum() + layer((x + 0.1 * slope.sign()).detach()).square().sum()


def penalty(layer: nn.Linear, x: Tensor) -> Tensor:
    """A penalty on the gradient by the inputs: that is differentiated again."""
    output = layer(x)
    (slope,) = torch.autograd.grad(output.square().sum(), x, create_graph=True)
    return output.square().sum() + slope.square().sum()


def by_weight(layer: nn.Linear, x: Tensor) -> Tensor:
    """A penalty on the gradient by the weight."""
    output = layer(x)
    (slope,) = torch.autograd.grad(output.square().sum(), layer.weight, create_graph=True)
    return output.square().sum() + slope.square().sum()


def looks_at_weight(layer: nn.Linear, x: Tensor) -> Tensor:
    """The gradient by the weight, of which only the size counts."""
    (slope,) = torch.autograd.grad(layer(x).square().sum(), layer.weight)
    return layer(x).square().sum() / (1 + slope.norm())


def attack_with_backward(layer: nn.Linear, x: Tensor) -> Tensor:
    """Backward inside the loss, and what it left on the parameters thrown away."""
    moved = x.detach().clone().requires_grad_()
    layer(moved).square().sum().backward()
    assert moved.grad is not None
    layer.zero_grad()
    return layer(moved.detach() + 0.1 * moved.grad.sign()).square().sum()


def backward_inside(layer: nn.Linear, x: Tensor) -> Tensor:
    """Backward inside the loss: PyTorch adds both."""
    layer(2 * x.detach()).sum().backward()
    return layer(x).square().sum()


def test_gradients_by_the_inputs_are_not_the_steps() -> None:
    both((5, 4), by_inputs)
    both((5, 4), looks_at_weight)
    both((5, 4), attack_with_backward)


def test_what_was_differentiated_before_travels_whole() -> None:
    both((5, 4), penalty, whole="differentiates")
    both((2, 3, 4), penalty, bias=False, whole="differentiates")
    both((5, 4), by_weight)  # the second derivative comes through the output alone


def test_a_backward_pass_of_the_models_own_is_added() -> None:
    both((5, 4), backward_inside, whole="backward by itself")


def test_a_weight_used_by_a_function_travels_whole() -> None:
    both((5, 4), lambda layer, x: functional.linear(layer(x), layer.weight.t()).sum(), whole="used outside")
    both((5, 4), lambda layer, x: layer(x).sum() + layer.weight.square().sum(), whole="used outside")
    both(
        (5, 4), lambda layer, x: layer(x).sum() + layer.weight.square().sum(), whole="used outside", passes=2
    )


def test_what_runs_with_other_parameters_is_not_the_layers() -> None:
    def loss(layer: nn.Linear, x: Tensor) -> Tensor:
        values = {name: 2 * p for name, p in layer.named_parameters()}
        return layer(x).square().sum() + torch.func.functional_call(layer, values, (x,)).square().sum()

    both((5, 4), loss, whole="other tensors")


def test_a_transformed_function_travels_whole() -> None:
    def loss(layer: nn.Linear, x: Tensor) -> Tensor:
        slopes = torch.func.vmap(torch.func.grad(lambda one: layer(one).square().sum()))(x)
        return layer(x).square().sum() + slopes.square().sum()

    both((5, 4), loss, whole="torch.func")


@pytest.mark.parametrize("kind", ["register_hook", "register_post_accumulate_grad_hook"])
@pytest.mark.parametrize("name", ["weight", "bias"])
def test_a_hooked_parameter_travels_whole(kind: str, name: str) -> None:
    def halve(gradient: Tensor) -> Tensor | None:
        if kind == "register_hook":
            return gradient / 2
        assert gradient.grad is not None
        gradient.grad /= 2
        return None

    both(
        (5, 4),
        lambda layer, x: layer(x).square().sum() + layer(x + 1).sum(),
        whole="hooks",
        prepare=lambda layer: getattr(layer.get_parameter(name), kind)(halve),
    )


def test_hooks_on_outputs_and_modules_change_what_is_handed_over() -> None:
    def loss(layer: nn.Linear, x: Tensor) -> Tensor:
        output = layer(x)
        output.register_hook(lambda gradient: gradient * 3)
        return output.square().sum()

    both((5, 4), loss)
    both(
        (5, 4),
        loss,
        prepare=lambda layer: layer.register_full_backward_hook(
            lambda module, found, errors: (found[0] / 2,)
        ),
    )


# --- freezing ---


@pytest.mark.parametrize(("frozen", "whole"), [("weight", "frozen"), ("bias", "")])
def test_what_is_frozen_has_no_gradient(frozen: str, whole: str) -> None:
    def loss(layer: nn.Linear, x: Tensor) -> Tensor:
        return layer(x).square().sum()

    both((5, 4), loss, whole=whole, prepare=lambda layer: layer.get_parameter(frozen).requires_grad_(False))


def test_a_frozen_layer_has_nothing() -> None:
    both(
        (5, 4),
        lambda layer, x: layer(x).square().sum(),
        prepare=lambda layer: layer.requires_grad_(False),
    )


def test_freezing_between_two_passes_counts_from_then_on() -> None:
    def loss(layer: nn.Linear, x: Tensor) -> Tensor:
        result = layer(x).square().sum()
        layer.bias.requires_grad_(False)
        return result

    both((5, 4), loss, passes=2)


# --- the rest ---


def test_without_gradients_a_layer_computes_as_ever() -> None:
    layer = nn.Linear(4, 3)
    x = torch.ones(2, 4)
    right = layer(x)
    capture = LinearCapture("late", layer)
    with torch.no_grad():
        assert torch.equal(layer(x), right)
    assert torch.equal(layer(x), right)
    assert list(layer.state_dict()) == ["weight", "bias"]
    assert not any(capture.take(0).present)


def test_a_copy_of_the_layer_is_an_ordinary_layer() -> None:
    """An average of the model is a deep copy, which somebody may train by other means."""
    layer = nn.Linear(4, 3)
    capture = LinearCapture("late", layer)
    twin = copy.deepcopy(layer)
    run(capture, lambda: twin(torch.ones(2, 4)).sum())
    assert torch.equal(twin.weight.grad, torch.full((3, 4), 2.0))
    assert not any(capture.take(0).present)


def test_inputs_that_may_change_are_copied() -> None:
    """Of a parameter, which a server may write to before its factors have left, and of what a module holds."""
    layer, table, held = nn.Linear(4, 3), nn.Parameter(torch.ones(2, 4)), torch.ones(1, 4)
    capture = LinearCapture("late", layer)
    run(capture, lambda: layer(table[:1]).sum() + layer(held).sum())
    with torch.no_grad():
        table.zero_()
        held.zero_()
    factors = capture.take(0).factors
    assert factors is not None
    assert torch.equal(factors[0], torch.ones(2, 4))


def test_derivatives_are_not_the_memory_of_another_gradient() -> None:
    """What is added to a layer's one row has the same derivative, and autograd gives it the same memory: a second pass
    adds to that, and whoever exchanges it writes the sum there."""
    layer, other = nn.Linear(4, 3), nn.Parameter(torch.ones(3))
    capture = LinearCapture("late", layer)
    weights = torch.arange(1.0, 4)

    def loss() -> Tensor:
        return (weights * (layer(torch.ones(1, 4)) + other.unsqueeze(0))).sum()

    for _ in range(2):
        run(capture, loss)
    assert other.grad is not None
    assert torch.equal(other.grad, 2 * weights)
    other.grad.zero_()
    factors = capture.take(0).factors
    assert factors is not None
    assert torch.equal(factors[1], weights.expand(2, 3))


def test_a_use_of_no_rows_has_zeros_and_no_use_has_nothing() -> None:
    """An optimizer decays the one, and leaves the other alone."""
    both((5, 4), lambda layer, x: layer(x[:0]).sum() + x.sum())
    both((5, 4), lambda layer, x: x.sum())
    both((5, 4), lambda layer, x: layer(x).sum() * 0 + x.sum())
