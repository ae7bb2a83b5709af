"""From a job's model specification to a module."""

from __future__ import annotations

from torch import nn

from engine.errors import UserError
from engine.inputs.entrypoint import call
from engine.instrumentation.compiled import unwrapped
from engine.models import registry
from engine.plan.job import SourceSpec
from engine.user_code import explain


def build_model(source: SourceSpec, precision: str = "float32") -> nn.Module:
    """Build the model that the job names, or call its entry point, on torch's default device; in training mode.

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
        _to_training(model, source)
        for parameter in model.parameters():
            parameter.grad = None  # of no step of ours: a builder that tries its model out may leave some
    return model.double() if precision == "float64" else model


def _to_training(model: nn.Module, source: SourceSpec) -> None:
    """Call the model's own `train()`, as every training loop does: it may keep batch statistics frozen. What was put
    into evaluation mode inside a model that was not, stays so: it was meant."""
    meant = [module for module in model.modules() if not module.training] if model.training else []
    try:
        model.train()
    except Exception as error:
        assert source.directory is not None
        raise UserError(
            "model.entrypoint",
            source.entrypoint,
            f"the model's train() fails: {explain(error, [source.directory])}",
            "Correct the code and try again",
        ) from error
    for module in meant:
        module.training = False
