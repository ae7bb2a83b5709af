"""The replay device's model cut in two: activations of the true (or scaled) size travel, compute is waited for.

The scalar that carries the chain from layer to layer is the first element of the activation, and every other element
equals it; so losses and gradients are those of the model that is not cut.
"""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from engine.models.cut import Parts
from engine.plan.description import ModelDescription
from engine.profile import Profile
from engine.runtime.replay import Pace, ReplayModel


class _Front(ReplayModel):
    """inputs (samples, ...) -> an activation (samples, elements)."""

    _replay_elements = 1

    def forward(self, inputs: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(inputs).expand(len(inputs), self._replay_elements).contiguous()


class _Back(ReplayModel):
    """An activation (samples, elements) -> a scalar, the loss of each sample."""

    def forward(self, inputs: Tensor) -> Tensor:  # type: ignore[override]
        self._replay_pace.begin()
        return self._replay_layers(inputs.reshape(-1)[0], len(inputs))


def replayed_parts(
    model: ModelDescription, cut: str, profile: Profile, pace: Pace, rank: int, workers: int, *, back: bool
) -> Parts:
    """The two parts of `model`, cut in front of the layer `cut`. `back`: whether that is computed here; else it has no
    layers."""
    behind, place = model.layers_from(cut), model.cut(cut)
    assert place is not None
    front = _Front(
        _only(model, frozenset(x.name for x in model.layers) - behind), profile, pace, rank, workers
    )
    front._replay_elements = place.shape[0] if place.shape else 1
    names = behind if back else frozenset[str]()
    return Parts(front=front, back=_Back(_only(model, names), profile, pace, rank, workers))


def _only(model: ModelDescription, names: frozenset[str]) -> ModelDescription:
    """`model` as if it had only the layers `names`."""
    kept = [layer for layer in model.layers if layer.name in names]
    return replace(model, layers=tuple(replace(layer, index=index) for index, layer in enumerate(kept)))
