"""What a model must be like so that anything can be planned for it; refused before it runs, with what to change."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from engine.errors import UserError


def check_suited(model: nn.Module, title: str) -> None:
    """Raises UserError for a model, called `title`, that cannot be trained here."""
    _is_python(model)
    _has_shapes(model)
    _is_trained(model, title)
    _has_dense_gradients(model)
    _has_dense_buffers(model)


def _is_python(model: nn.Module) -> None:
    for path, module in model.named_modules():
        if isinstance(module, torch.jit.RecursiveScriptModule):
            raise UserError(
                "model",
                path or "the model",
                "is a TorchScript module (torch.jit.script, or load), and takes no hooks that say when a layer begins",
                "Give the nn.Module that it was made from (torch.compile may be used)",
            )


def _has_shapes(model: nn.Module) -> None:
    for path, module in model.named_modules():
        if any(is_lazy(tensor) for tensor in (*module._parameters.values(), *module._buffers.values())):
            raise UserError(
                "model",
                path or "the model",
                f"is a {type(module).__name__}, whose parameters have no shape before it has run: nothing can be"
                " planned for them",
                "Give it its sizes, or run the model on an example once, in the function that builds it",
            )


def _is_trained(model: nn.Module, title: str) -> None:
    parameters = list(model.parameters())
    if not any(parameter.requires_grad for parameter in parameters):
        why = f"all of its {len(parameters)} parameters are frozen" if parameters else "it has no parameters"
        raise UserError(
            "model",
            title,
            f"there is nothing to train: {why}",
            "Leave requires_grad of what is to be trained True where the model is built: what is frozen then is never"
            " trained",
        )


def _has_dense_gradients(model: nn.Module) -> None:
    for path, module in model.named_modules():
        if (
            isinstance(module, (nn.Embedding, nn.EmbeddingBag))
            and module.sparse
            and module.weight.requires_grad
        ):
            raise UserError(
                "model",
                path or "the model",
                f"has sparse gradients ({type(module).__name__} with sparse=True), and only dense ones are exchanged",
                "Build it with sparse=False",
            )


def _has_dense_buffers(model: nn.Module) -> None:
    for name, buffer in model.named_buffers():
        if buffer.layout != torch.strided or buffer.is_quantized:
            kind = "quantized" if buffer.is_quantized else str(buffer.layout)
            raise UserError(
                "model",
                name,
                f"is a {kind} buffer, and only dense ones are handed out and averaged",
                "Register a dense tensor, or keep it as an ordinary attribute, which is each worker's own",
            )
