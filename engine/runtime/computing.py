"""What surrounds a party's part of the model, made of its launch."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial

import torch
from torch import nn

from engine.axes.memory import ACTIVATIONS
from engine.launch import Launch
from engine.memory.activations import Activations
from engine.memory.blocks import Asked
from engine.memory.mechanism import Passes, Site
from engine.plan.plan import Plan
from engine.runtime.party import PartyBase
from engine.state.computation import Autocast, Computation, Memory


def computing(launch: Launch, base: PartyBase, part: nn.Module, device: torch.device) -> Computation:
    """Around every computation of `part` of the job's model on `device`, until the party has ended. Raises UserError
    for what a layer's activations cannot have."""
    autocast: Autocast = nullcontext
    if launch.job.training.precision == "bf16":
        autocast = partial(torch.autocast, device.type, dtype=torch.bfloat16)
    computation = Computation(autocast, _memory(launch, base, part, device))
    base.at_the_end.callback(computation.close)
    return computation


def _memory(launch: Launch, base: PartyBase, part: nn.Module, device: torch.device) -> Memory | None:
    choices = {
        layer.layer: Asked(layer.activations, layer.memory)
        for layer in (launch.plan.layers if isinstance(launch.plan, Plan) else ())
        if "as-is" not in ACTIVATIONS[layer.activations].traits
    }
    if not choices:
        return None
    site = Site(
        part=part,
        device=device,
        passes=Passes(),
        recording=base.recording.memory,
        repeats=device.type == "cpu" or launch.job.training.deterministic,
        scratch=str(launch.directory),
    )
    return Activations(site, launch.model, choices)
