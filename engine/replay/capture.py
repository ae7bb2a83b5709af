"""Factors on the replay device: matrices of the true rows and the scaled columns, with next to nothing in them.

A replayed layer's gradient is c_r p (see `device.py`). Its factors are X and E with one element each that is
not zero, 1 and the pass's share of c_r, so that their product tells c_r to all workers; a contribution that is
lost, taken twice or mixed up shows in the parameters, as it does with gradients.

The late multiplication is waited for, not executed: as long as the layer's forward pass over all workers' samples (the
product has as many FLOPs, `LayerTime.product_s`), on the device, before the layer is used again. Its backward pass is
shorter by the product that is not computed there.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from engine.models.late_linear import Kept, Present
from engine.plan.description import LayerDescription
from engine.replay.device import Node
from engine.state.capture import Capture, added_to


class ReplayCapture(Capture):
    """Of a replayed layer."""

    def __init__(self, node: Node, layer: LayerDescription, travels: torch.dtype) -> None:
        """`layer`: with the sizes that its tensors have here. `travels`: the factors' type."""
        assert layer.factors is not None
        trained = {n: p for n, p in node.named_parameters(recurse=False) if p.requires_grad}
        super().__init__(layer.name, trained, inputs=layer.factors.inputs, outputs=layer.factors.outputs)
        self._node = node
        self._rows = layer.factors.rows
        self._travels = travels
        self._passes: list[Kept] = []
        node._replay_capture = self._passed

    def begin_backward(self) -> None:
        """A replayed layer has no other gradients."""

    def end_backward(self) -> None:
        """Nothing changes."""

    def multiply(self, inputs: Tensor, errors: Tensor, present: Present) -> None:
        """All workers' shares of the parameters: one pass over them, as a gradient in backward costs."""
        with self._node._replay_multiplying(len(inputs) / self._rows), torch.no_grad():
            share = float(errors[:, 0] @ inputs[:, 0])
            for parameter in self.parameters:
                added_to(parameter, parameter * share)

    def _kept(self) -> Sequence[Kept]:
        kept, self._passes = self._passes, []
        return kept

    def _passed(self, samples: int, share: float) -> None:
        """The layer's backward pass over `samples`, whose gradient would be `share` times the parameters."""
        inputs = torch.zeros(samples * self._rows, self.inputs, dtype=self._travels)
        errors = torch.zeros(samples * self._rows, self.outputs, dtype=self._travels)
        inputs[0, 0], errors[0, 0] = 1, share
        self._passes.append(Kept(inputs, errors, (True,) * len(self.parameters)))
