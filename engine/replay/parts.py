"""Parts of the replay device's model, where it is cut: activations of the true (or scaled) size travel, and compute is
waited for.

The scalar that carries the chain from layer to layer is the first element of an activation, and every other element
equals it; so losses and gradients are those of the model that is not cut. (A device that serves several workers has one
of their curvatures for all.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from torch import Tensor

from engine.plan.description import ModelDescription
from engine.profile import Profile
from engine.replay.device import Pace, ReplayModel


class ReplayPart(ReplayModel):
    """inputs (samples, ...), or the activation of the part before it (samples, elements) -> its own activation, or,
    of the last part, a scalar: the loss of each sample."""

    _replay_first = True
    _replay_elements: int | None = None
    """Of the activation that it hands on, per sample; None for the last part."""

    def forward(self, inputs: Tensor) -> Tensor:  # type: ignore[override]
        if self._replay_first:
            flow = super().forward(inputs)
        else:
            self._replay_pace.begin()
            flow = self._replay_layers(inputs.reshape(-1)[0], len(inputs))
        if self._replay_elements is None:
            return flow
        return flow.expand(len(inputs), self._replay_elements).contiguous()


def replayed_part(
    model: ModelDescription,
    cuts: Sequence[str],
    number: int,
    profile: Profile,
    pace: Pace,
    rank: int,
    workers: int,
) -> ReplayPart:
    """Part `number` of `model`, cut in front of each of the layers `cuts`. `rank` of `workers`: whose samples come."""
    behind = [model.layers_from(cut) for cut in cuts]
    kept = [layer for layer in model.layers if sum(layer.name in back for back in behind) == number]
    layers = tuple(replace(layer, index=index) for index, layer in enumerate(kept))
    part = ReplayPart(replace(model, layers=layers), profile, pace, rank, workers)
    part._replay_first = number == 0
    if number < len(cuts):
        place = model.cut(cuts[number])
        assert place is not None
        part._replay_elements = math.prod(place.shape)
    return part
