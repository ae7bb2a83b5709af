"""What a model must be like so that anything can be planned for it; refused before it runs, with what to change."""

from __future__ import annotations

from itertools import combinations

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from engine.errors import UserError
from engine.runtime.sharing import memory_of


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
    given = {*map(id, model.parameters())}
    if {name: id(p) for name, p in model.named_parameters()} != {
        n: id(p) for n, p in every.items()
    } or given != {*map(id, every.values())}:
        left_out = [name for name, parameter in every.items() if id(parameter) not in given]
        raise UserError(
            "model",
            left_out[0] if left_out else type(model).__name__,
            "is not what nn.Module.named_parameters() calls it: the model has a parameters() or named_parameters() of"
            " its own, and what is planned, exchanged and saved goes by PyTorch's",
            "Remove the method, and call requires_grad_(False) on what is not to be trained",
        )


def _has_no_overlaps(model: nn.Module) -> None:
    """Each would be updated by itself, and sent to another place."""
    by_memory: dict[int, list[tuple[str, Tensor]]] = {}
    for name, parameter in model.named_parameters():
        if parameter.layout == torch.strided and parameter.numel():
            by_memory.setdefault(memory_of(parameter), []).append((name, parameter))
    for together in by_memory.values():
        for (first, one), (second, other) in combinations(together, 2):
            if _overlap(one, other):
                raise UserError(
                    "model",
                    second,
                    f"has elements in the same memory as {first}, and is another Parameter",
                    f"Use the Parameter {first} itself in both places, which ties them, or clone() its data",
                )


def _overlap(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors in the same memory have an element in common."""
    starts = [t.storage_offset() * t.element_size() for t in (one, other)]
    ends = [
        start + t.element_size() * (1 + sum((n - 1) * s for n, s in zip(t.shape, t.stride(), strict=True)))
        for start, t in zip(starts, (one, other), strict=True)
    ]
    if max(starts) >= min(ends):
        return False
    begin, size = min(starts), max(ends) - min(starts)
    taken = []
    for start, tensor in zip(starts, (one, other), strict=True):
        element = tensor.element_size()
        where = torch.zeros(size, dtype=torch.bool)
        strides = (*(stride * element for stride in tensor.stride()), 1)
        torch.as_strided(where, (*tensor.shape, element), strides, start - begin).fill_(True)
        taken.append(where)
    return bool((taken[0] & taken[1]).any())


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
