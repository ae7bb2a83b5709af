"""Profiles from FLOPs: what a layer costs on a device that nobody has at hand.

Per sample, at a batch of B samples, a layer's forward pass takes the longer of

    FLOPs / (peak x efficiency)                          computing
    (output bytes + parameter bytes / B) / bandwidth     writing its output, reading its parameters

where multiplication and addition are two FLOPs, as the description counts them. Its backward pass takes twice
that: one product for the gradient of its input, one for that of its parameters. The first layer's takes it once,
because nobody asks for the gradient of the data. Layers without parameters take no time.
"""

from __future__ import annotations

from engine.plan.description import LayerDescription, ModelDescription
from engine.plan.devices import DeviceEntry, device
from engine.profile.profile import LayerTime, Profile


def derive(model: ModelDescription, name: str, efficiency: float, batch: int = 1) -> Profile:
    """The profile of `model` on the device called `name` that reaches `efficiency` of its peak, for passes of `batch`
    samples. Raises UnknownNameError for a device that the table lacks."""
    entry = device(name)
    layers = []
    for layer in model.layers:
        forward_s = _forward_s(layer, entry, efficiency, batch)
        layers.append(
            LayerTime(
                layer=layer.name,
                forward_s=forward_s,
                backward_s=forward_s if layer.index == 0 else 2 * forward_s,
            )
        )
    return Profile(
        model=model.name,
        checksum=model.checksum,
        source="derived",
        device=entry.title,
        hardware=entry.source,
        efficiency=efficiency,
        batch=batch,
        layers=tuple(layers),
    )


def _forward_s(layer: LayerDescription, entry: DeviceEntry, efficiency: float, batch: int) -> float:
    computing = layer.forward_flops / (entry.flops * efficiency)
    moving = (layer.output_bytes + layer.parameter_bytes / batch) / entry.bandwidth
    return max(computing, moving)
