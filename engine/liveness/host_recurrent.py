"""Recurrent layers as ATen composes them on the host (ATen/native/RNN.cpp): GRUs and plain ones.

The inputs of all steps are multiplied at once there, and their derivatives are so, too; on `meta` tensors, as on a
device, each step's are multiplied by themselves. So a layer of many steps makes one gradient of its weights for the
inputs in place of one for each step.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import linear

Cell = Callable[[Tensor, Tensor, Tensor, Tensor | None], Tensor]
"""(what comes of a step's inputs, hidden, weight of the hidden state, its bias) -> the next hidden state."""


def _gru(gates: Tensor, hidden: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    of_input = gates.unsafe_chunk(3, 1)
    of_hidden = linear(hidden, weight, bias).unsafe_chunk(3, 1)
    reset = of_hidden[0].add_(of_input[0]).sigmoid_()
    kept = of_hidden[1].add_(of_input[1]).sigmoid_()
    new = of_input[2].add(of_hidden[2].mul_(reset)).tanh_()
    return (hidden - new).mul_(kept).add_(new)


def _plain(bend: Callable[[Tensor], Tensor], gates: Tensor, hidden: Tensor, *own: Tensor | None) -> Tensor:
    weight, bias = own
    assert weight is not None
    return bend(linear(hidden, weight, bias).add_(gates))


def _layers(
    cell: Cell,
    inputs: Tensor,
    state: Tensor,
    weights: list[Tensor],
    biases: bool,
    layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Tensor, Tensor]:
    """(output, last hidden states) of padded sequences, as torch.gru has it."""
    directions, each = 1 + bidirectional, 4 if biases else 2
    hidden, last = state.unbind(0), []
    steps = inputs.transpose(0, 1) if batch_first else inputs
    for layer in range(layers):
        found = []
        for at in range(layer * directions, (layer + 1) * directions):
            of_input, of_hidden, *others = weights[at * each : (at + 1) * each]
            first, second = others or (None, None)
            rows = linear(steps, of_input, first)
            own = of_hidden, second
            output, final = _direction(cell, rows, hidden[at], own, back=at % directions == 1)
            found.append(output)
            last.append(final)
        steps = found[0] if directions == 1 else torch.cat(found, -1)
        del rows, output, found  # not before, as there
        if dropout and train and layer < layers - 1:
            steps = torch.dropout(steps, dropout, True)
    output = steps.transpose(0, 1) if batch_first else steps
    return output, torch.stack(last, 0)


def _direction(
    cell: Cell, rows: Tensor, hidden: Tensor, own: tuple[Tensor, Tensor | None], *, back: bool
) -> tuple[Tensor, Tensor]:
    """What comes of the inputs (steps, n, gates) -> (steps, n, hidden), and the last state."""
    outputs = []
    for gates in reversed(rows.unbind(0)) if back else rows.unbind(0):
        hidden = cell(gates, hidden, *own)
        outputs.append(hidden)
    return torch.stack(outputs[::-1] if back else outputs, 0), hidden


COMPOSED = {
    torch.ops.aten.gru.input: partial(_layers, _gru),
    torch.ops.aten.rnn_tanh.input: partial(_layers, partial(_plain, torch.tanh)),
    torch.ops.aten.rnn_relu.input: partial(_layers, partial(_plain, torch.relu)),
}
"""In place of the operation on `meta` tensors, with its arguments."""
