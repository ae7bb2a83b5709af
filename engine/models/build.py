"""From a job's model specification to a module."""

from __future__ import annotations

from torch import nn

from engine.errors import UserError
from engine.models import registry
from engine.models.compiled import unwrapped
from engine.models.entrypoint import call
from engine.plan.job import SourceSpec


def build_model(source: SourceSpec, precision: str = "float32") -> nn.Module:
    """Build the model that the job names, or call its entry point, on torch's default device.

    `precision` as in TrainingSpec: `float64` converts all floating-point parameters; `bf16` keeps float32
    parameters, because autocast converts them as they are used. Raises UserError (see `entrypoint.load`).
    """
    if source.name is not None:
        model = registry.build(source.name, source.options)
    else:
        model = call(source, "model")
        if not isinstance(model, nn.Module):
            raise UserError(
                "model.entrypoint",
                source.entrypoint,
                f"returned a {type(model).__name__}, not a torch.nn.Module",
                "Return the model itself",
            )
        model = unwrapped(model)
    return model.double() if precision == "float64" else model
