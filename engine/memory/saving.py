"""Saving: what mechanisms that stand between autograd and what it saves have in common."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn import Parameter

from engine.memory.mechanism import Passes


class Stays(NamedTuple):
    """A tensor that autograd has saved and that has not moved, and how often it had been written to."""

    tensor: Tensor
    version: int


def stays(tensor: Tensor) -> Stays:
    """What is to be kept of it: its memory, and not how it was computed."""
    return Stays(tensor.detach(), version_of(tensor))


def unmoved(saved: Stays) -> Tensor:
    """The tensor. Raises RuntimeError, as PyTorch does, where it was written to since."""
    tensor, version = saved
    if version_of(tensor) != version:
        raise RuntimeError(
            "one of the variables needed for gradient computation has been modified by an inplace operation:"
            f" [{tensor.type()} {list(tensor.shape)}] is at version {tensor._version}; expected version {version}"
        )
    return tensor


def all_unmoved(ctx: Any) -> None:
    """Raise RuntimeError, as PyTorch does, where what a node of autograd's graph has saved was written to since, or is
    freed, as it is after a backward pass."""
    ctx.saved_tensors  # noqa: B018


def saves(passes: Passes) -> bool:
    """Whether what autograd saves now is for the backward part of a training pass, and may be anything but what it is:
    not without gradients, in an evaluation, inside a transform of torch.func, or within a checkpoint of the model's
    own, which drops it, and in backward compares what is saved then with what was saved first."""
    return (
        passes.forward
        and torch.is_grad_enabled()
        and not torch._C._are_functorch_transforms_active()
        and forward_ad._current_level < 0
        and not in_a_checkpoint()
    )


def in_a_checkpoint() -> bool:
    """Whether what is saved now is the business of a torch.utils.checkpoint (of the kind that is not reentrant)."""
    hooks = torch._C._autograd._top_saved_tensors_default_hooks(False)
    return hooks is not None and getattr(hooks[0], "__module__", None) == "torch.utils.checkpoint"


def is_plain(tensor: Tensor) -> bool:
    """Whether it is what its storage holds, and nothing more; on `meta`, what it would hold."""
    return type(tensor) in (Tensor, Parameter) and is_dense(tensor)


def lies_in_memory(tensor: Tensor) -> bool:
    """Whether its values are what its storage holds, whatever functions of PyTorch mean for its class."""
    return is_dense(tensor) and not tensor.is_meta


def is_dense(tensor: Tensor) -> bool:
    """Whether a storage is all that it is made of, with values or, on `meta`, without."""
    own: Any = type(tensor).__torch_dispatch__
    return (
        own is Tensor.__torch_dispatch__
        and tensor.layout == torch.strided
        and not (tensor.is_conj() or tensor.is_neg() or tensor.is_quantized or tensor._is_zerotensor())
    )


def of_parameter(tensor: Tensor) -> bool:
    """Whether it is a parameter, or a view of one."""
    return isinstance(tensor, Parameter) or isinstance(tensor._base, Parameter)


def address_of(tensor: Tensor) -> int:
    """Of its storage, as long as that lives."""
    return tensor.untyped_storage()._cdata


def memories_of(tensors: Iterable[Tensor]) -> dict[int, int]:
    """Bytes of the storages of those that are plain and no parameters, by address."""
    return {
        address_of(tensor): tensor.untyped_storage().nbytes()
        for tensor in tensors
        if is_plain(tensor) and not of_parameter(tensor)
    }


def version_of(tensor: Tensor) -> int:
    """How often it has been written to; of an inference tensor nobody counts."""
    return 0 if tensor.is_inference() else tensor._version


def laid_out_copy(tensor: Tensor) -> Tensor:
    """A copy that lies in its memory as the tensor does in its own: another layout may change the last bits of a
    product."""
    copy = tensor.clone()
    if copy.stride() == tensor.stride() or not tensor.numel():
        return copy
    count = 1 + sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True))
    flat = tensor.as_strided((count,), (1,)).clone()
    return flat.as_strided(tensor.shape, tensor.stride())


def autocast_now(device: torch.device) -> list[dict[str, Any]]:
    """What torch.autocast is to be given so that it is as it is now."""
    return [
        {
            "device_type": kind,
            "enabled": torch.is_autocast_enabled(kind),
            "dtype": torch.get_autocast_dtype(kind),
            "cache_enabled": torch.is_autocast_cache_enabled(),
        }
        for kind in dict.fromkeys(("cpu", device.type))
        if torch.amp.is_autocast_available(kind)
    ]
