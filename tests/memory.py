"""Memory mechanisms on a model in this process."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from engine.axes.memory import ACTIVATIONS
from engine.inputs.task import classification
from engine.liveness.training import Training
from engine.memory.activations import Activations
from engine.memory.blocks import Asked
from engine.memory.mechanism import Passes, Site
from engine.plan.description import LayerDescription, ModelDescription, ParameterDescription
from engine.plan.mechanism_options import options_of
from engine.state.computation import Computation
from engine.state.told import Again, Untold

MOVED = [row.name for row in ACTIVATIONS if row.available and not {"as-is", "sequences"} & row.traits]
"""The mechanisms that do something, and change no bit of any layer."""


class Noting(Untold):
    """In place of a recording: which layers were computed again."""

    def __init__(self) -> None:
        super().__init__()
        self.recomputed: list[int] = []

    @contextlib.contextmanager
    def recomputing(self, layer: int) -> Iterator[Again]:
        self.recomputed.append(layer)
        yield Again()


def layers_of(model: nn.Module) -> ModelDescription:
    """Its layers in the order of its modules: those that own parameters."""
    found: dict[str, list[ParameterDescription]] = {}
    for name, parameter in model.named_parameters():
        found.setdefault(name.rpartition(".")[0], []).append(
            ParameterDescription(
                name=name, shape=tuple(parameter.shape), dtype="float32", trainable=parameter.requires_grad
            )
        )
    modules = dict(model.named_modules())
    return ModelDescription(
        name="model",
        layers=tuple(
            LayerDescription(
                name=path,
                kind=type(modules[path]).__name__,
                index=index,
                parameters=tuple(parameters),
                forward_flops=0,
                output_bytes=0,
            )
            for index, (path, parameters) in enumerate(found.items())
        ),
        buffer_bytes=0,
    )


def install(
    model: nn.Module,
    scratch: Any,
    activations: str | Mapping[str, str],
    recording: Any = None,
    **options: Any,
) -> Activations:
    """The mechanism `activations` for all layers of `model`, or for each layer by name."""
    described = layers_of(model)
    trained = [layer.name for layer in described.layers if any(p.trainable for p in layer.parameters)]
    asked = dict.fromkeys(trained, activations) if isinstance(activations, str) else activations
    site = Site(
        part=model,
        device=torch.device("cpu"),
        passes=Passes(),
        recording=recording or Noting(),
        repeats=True,
        scratch=str(scratch),
    )
    choices = {
        name: Asked(value, options_of(ACTIVATIONS[value], options, "options"))
        for name, value in asked.items()
        if "as-is" not in ACTIVATIONS[value].traits
    }
    return Activations(site, described, choices)


def trained(
    model: nn.Module,
    batch: Callable[[], Any],
    memory: Activations | None,
    *,
    steps: int = 5,
    loss: Callable[[nn.Module, Any], Tensor] | None = None,
) -> list[Tensor]:
    """The gradients of each step and the state after it, as a training loop makes them."""
    torch.manual_seed(1)
    computation = Computation(memory=memory)
    found: list[Tensor] = []
    for _ in range(steps):
        inputs = batch()
        with computation.training(inputs):
            total = loss(model, inputs) if loss is not None else summed(model(inputs))
        with computation.backward():
            total.backward()
        for parameter in model.parameters():
            if parameter.grad is not None:
                found.append(parameter.grad.clone())
                with torch.no_grad():
                    parameter.sub_(parameter.grad, alpha=0.01)
                parameter.grad = None
        found += [buffer.clone() for buffer in model.buffers()]
    found.append(torch.get_rng_state())
    return found


def summed(outputs: Any) -> Tensor:
    """A loss of whatever tensors a model answers with."""
    leaves = [leaf for leaf in torch.utils._pytree.tree_leaves(outputs) if isinstance(leaf, Tensor)]
    return torch.stack([leaf.square().mean() for leaf in leaves]).sum()


def training(model: nn.Module, inputs: Tensor, targets: Tensor) -> Training:
    """A model that classifies, with a batch."""
    return Training(
        model=model, described=layers_of(model), inputs=inputs, targets=targets, task=classification
    )
