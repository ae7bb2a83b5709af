"""A recurrent layer through time, and the same pieces with everything kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from engine.axes.memory_options import ThroughTimeOptions
from engine.instrumentation.module_calls import around_forward
from engine.memory.mechanism import Block, Passes, Site
from engine.memory.through_time import ThroughTime
from tests.memory import Noting


@contextmanager
def through_time(layer: nn.Module, recording: Any = None, **options: int) -> Iterator[Passes]:
    passes = Passes()
    site = Site(
        part=layer,
        device=torch.device("cpu"),
        passes=passes,
        recording=recording or Noting(),
        repeats=True,
        scratch="",
    )
    block = Block(modules=(layer,), layers=("encoder",), index=4)
    surrounded = around_forward(layer, ThroughTime(site).around(block, ThroughTimeOptions(**options)))
    try:
        yield passes
    finally:
        surrounded.remove()


class _Apart(torch.autograd.Function):
    """Its backward part is a call of its own, so that each piece's gradients are summed before they meet others."""

    @staticmethod
    def forward(ctx: Any, run: Callable[..., Any], *given: Tensor) -> tuple[Tensor, ...]:
        with torch.enable_grad():
            ctx.given = tuple(each.detach().requires_grad_(each.requires_grad) for each in given)
            ctx.made = run(*ctx.given)
        return tuple(each.detach() for each in ctx.made)

    @staticmethod
    def backward(ctx: Any, *of_made: Tensor) -> Any:
        wanted = [each for each in ctx.given if each.requires_grad]
        found = iter(torch.autograd.grad(ctx.made, wanted, of_made, allow_unused=True))
        return None, *(next(found) if each.requires_grad else None for each in ctx.given)


def in_pieces(layer: nn.RNNBase, steps: int) -> Callable[..., tuple[Tensor, Any]]:
    """The layer on so many steps at a time, each of which goes backward by itself."""
    names = [name for name, _ in layer.named_parameters()]
    lstm = isinstance(layer, nn.LSTM)

    def piece(inputs: Tensor, *others: Tensor) -> tuple[Tensor, ...]:
        state, weights = others[: -len(names)], others[-len(names) :]
        hx = (tuple(state) if lstm else state[0]) if state else None
        out, after = torch.func.functional_call(layer, dict(zip(names, weights, strict=True)), (inputs, hx))
        return out, *(after if lstm else (after,))

    def whole(inputs: Tensor, hx: Any = None) -> tuple[Tensor, Any]:
        state = () if hx is None else tuple(hx) if lstm else (hx,)
        found = []
        for each in inputs.split(steps, time_of(layer)):
            out, *after = _Apart.apply(piece, each, *state, *layer.parameters())
            state = tuple(after)
            found.append(out)
        return torch.cat(found, time_of(layer)), state if lstm else state[0]

    return whole


def time_of(layer: nn.RNNBase) -> int:
    return 1 if layer.batch_first else 0


def state_of(layer: nn.RNNBase, batch: int) -> Any:
    hidden = torch.randn(layer.num_layers, batch, layer.proj_size or layer.hidden_size)
    return (
        (hidden, torch.randn(layer.num_layers, batch, layer.hidden_size))
        if isinstance(layer, nn.LSTM)
        else hidden
    )


def gradients(
    layer: nn.Module,
    run: Callable[..., Any],
    inputs: Tensor,
    start: Any,
    uses: str,
    passes: Passes | None = None,
) -> list[Tensor | None]:
    """What comes out, and the gradients of inputs, start and parameters, after two passes."""
    found: list[Tensor | None] = []
    for _ in range(2):
        given = [each.clone().requires_grad_() for each in (inputs, *tensors(start))]
        state = None if start is None else tuple(given[1:]) if isinstance(start, tuple) else given[1]
        if passes:
            passes.forward = True
        out, after = run(given[0], state)
        if passes:
            passes.forward = False
        parts = [out] * (uses != "state") + list(tensors(after)) * (uses != "output")
        sum(part.float().pow(3).sum() for part in parts).backward()
        found += [*parts, *(each.grad for each in given), *(p.grad for p in layer.parameters())]
        for parameter in layer.parameters():
            parameter.grad = None
    return found


def tensors(state: Any) -> tuple[Tensor, ...]:
    return () if state is None else state if isinstance(state, tuple) else (state,)


def assert_same(found: list[Tensor | None], expected: list[Tensor | None]) -> None:
    for one, other in zip(found, expected, strict=True):
        assert (one is None) == (other is None)
        assert one is None or other is None or torch.equal(one, other)
