"""What a model must be like so that anything can be planned for it; refused before it runs, with what to change."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import Parameter
from torch.nn.parameter import is_lazy

from engine.errors import UserError
from engine.instrumentation.sharing import memory_of


def check_suited(model: nn.Module, title: str) -> None:
    """Raises UserError for a model, called `title`, that cannot be trained here."""
    _is_python(model)
    _has_shapes(model)
    _names_its_parameters(model)
    _is_trained(model, title)
    _has_no_overlaps(model)
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


def _names_its_parameters(model: nn.Module) -> None:
    every = dict(nn.Module.named_parameters(model))
    given, named = {*map(id, model.parameters())}, dict(model.named_parameters())
    for name, parameter in every.items():
        if id(parameter) not in given:
            rule = "is left out by the model's own parameters() or named_parameters()"
        elif named.get(name) is not parameter:
            rule = "has another name in the model's own named_parameters()"
        else:
            continue
        raise UserError(
            "model",
            name,
            f"{rule}, and what is planned, exchanged and saved goes by nn.Module's",
            "Remove that method, and call requires_grad_(False) on what is not to be trained",
        )


def _has_no_overlaps(model: nn.Module) -> None:
    """Each would be updated by itself, and sent to another place."""
    by_memory: dict[int, list[tuple[int, int, str, Parameter]]] = {}
    for name, parameter in model.named_parameters():
        if parameter.layout == torch.strided and parameter.numel():
            start = parameter.storage_offset() * parameter.element_size()
            steps = zip(parameter.shape, parameter.stride(), strict=True)
            end = start + parameter.element_size() * (1 + sum((n - 1) * stride for n, stride in steps))
            by_memory.setdefault(memory_of(parameter), []).append((int(start), int(end), name, parameter))
    for together in by_memory.values():
        reaching: list[tuple[int, int, str, Parameter]] = []
        for one in sorted(together, key=lambda each: each[:2]):
            reaching = [other for other in reaching if other[1] > one[0]]
            for other in reaching:
                _refuse_overlap(other, one)
            reaching.append(one)


def _refuse_overlap(one: tuple[int, int, str, Parameter], other: tuple[int, int, str, Parameter]) -> None:
    (_, _, first, left), (_, _, second, right) = one, other
    if (left.requires_grad or right.requires_grad) and np.shares_memory(_Address(left), _Address(right)):
        raise UserError(
            "model",
            second,
            f"has elements in the same memory as {first}, and is another Parameter",
            f"Use the Parameter {first} itself in both places, which ties them, or clone() its data",
        )


class _Address:
    """Where a tensor lies in its memory, as NumPy is told of arrays: nobody looks into it, and it need not be there."""

    def __init__(self, tensor: Tensor) -> None:
        size = tensor.element_size()
        self.__array_interface__ = {
            "version": 3,
            "typestr": f"|V{size}",
            "data": ((1 + tensor.storage_offset()) * size, False),
            "shape": tuple(tensor.shape),
            "strides": tuple(stride * size for stride in tensor.stride()),
        }


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
