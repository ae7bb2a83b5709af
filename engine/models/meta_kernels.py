"""Quick kernels on `meta` tensors: the shapes that PyTorch's own give, without what it composes them of.

PyTorch 2.13 has a structured kernel for `meta` in C++ for most of these operations and registers another one over it,
which composes the operation in Python of a dozen others, with type promotion and broadcasting in each: a batch
normalization takes a millisecond, an LSTM's sigmoid a third of one, and a description runs thousands. What is taken
here are the plain cases alone, in which shape, type and strides of the result are those of an argument: dense tensors
of one floating-point type whose strides fall. All else goes to PyTorch's own.

Cost: 10 to 20 µs an operation. It loses where a model has none of these, by a millisecond. A test holds each to
PyTorch's own kernel, also where it leaves a case to that.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch._C import DispatchKey
from torch.library import _scoped_library

_ATEN = torch.ops.aten
_TYPES = (torch.float32, torch.float64)
"""Of these, means and the like have the type of what they are of."""


_changing = threading.Lock()
_registered = ExitStack()
"""What gives PyTorch its own kernels back."""
_within = 0
"""How often `quick` has been entered and not left."""


@contextmanager
def quick() -> Iterator[None]:
    """Around what runs on `meta` tensors for their shapes, in any thread of this process. Who is within may enter it
    again, which costs nothing: a search for a plan asks for one peak after another."""
    global _within  # noqa: PLW0603
    with _changing:
        if not _within:
            library = _registered.enter_context(_scoped_library("aten", "IMPL"))
            for operation, kernel in _KERNELS.items():
                if plain := operation.py_kernels.get(DispatchKey.Meta):
                    library.impl(operation, _or_plain(kernel, plain), "Meta")
        _within += 1
    try:
        yield
    finally:
        with _changing:
            _within -= 1
            if not _within:
                _registered.close()


def _or_plain(kernel: Callable[..., Any], plain: Callable[..., Any]) -> Callable[..., Any]:
    def chosen(*args: Any, **kwargs: Any) -> Any:
        found = None if kwargs else kernel(*args)
        return plain(*args, **kwargs) if found is None else found

    return chosen


def _plain(tensor: Any) -> bool:
    """Whether it is one of the plain types, and has no values: a number on the host may stand beside those that have
    none."""
    return isinstance(tensor, Tensor) and tensor.dtype in _TYPES and tensor.is_meta


def _falls(tensor: Any) -> bool:
    """Whether it is plain, and its strides fall: what has its shape is contiguous then."""
    if not _plain(tensor):
        return False
    return all(one >= other for one, other in pairwise((*tensor.stride(), 1)))


def _alike(*tensors: Any) -> bool:
    """Whether all have one type and one shape, and fall."""
    first = tensors[0]
    return all(_falls(each) and (each.dtype, each.shape) == (first.dtype, first.shape) for each in tensors)


def _of_channels(inputs: Tensor, *vectors: Any) -> bool:
    """Whether each of these is absent, or a vector of the inputs' type with an element for each of their channels."""
    shape = inputs.shape[1:2]
    return all(each is None or (each.dtype == inputs.dtype and each.shape == shape) for each in vectors)


def _like_first(*args: Any) -> Tensor | None:
    """Of one tensor, and real numbers or names."""
    usual = _falls(args[0]) and not isinstance(args[-1], complex)
    return args[0].new_empty(args[0].shape) if usual else None


def _like_both(first: Any, second: Any, *_: Any) -> Tensor | None:
    """Of two tensors of one shape, and numbers or names."""
    return first.new_empty(first.shape) if _alike(first, second) else None


def _in_place(tensor: Any) -> Tensor | None:
    found: Tensor | None = tensor if _falls(tensor) else None
    return found


def _normal(tensor: Any, mean: float = 0.0, deviation: float = 1.0) -> Tensor | None:
    return _in_place(tensor) if deviation >= 0 else None


def _softmax(inputs: Any, dim: int, dtype: torch.dtype | None = None) -> Tensor | None:
    usual = _falls(inputs) and dtype is None and -inputs.ndim <= dim < inputs.ndim
    return inputs.new_empty(inputs.shape) if usual else None


def _addmm(bias: Any, first: Any, second: Any) -> Tensor | None:
    """Either matrix may be transposed."""
    if not all(map(_plain, (bias, first, second))):
        return None
    if first.ndim != 2 or second.ndim != 2 or len({bias.dtype, first.dtype, second.dtype}) > 1:
        return None
    shape = len(first), second.shape[1]
    if first.shape[1] != len(second) or bias.shape not in (shape, shape[1:]) or not math.prod(shape):
        return None
    return first.new_empty(shape)


def _batch_norm(
    inputs: Any, weight: Any, bias: Any, mean: Any, variance: Any, training: bool, *_: Any
) -> tuple[Tensor, Tensor, Tensor] | None:
    if not _falls(inputs) or inputs.ndim < 2 or inputs.numel() <= inputs.shape[1]:
        return None
    channels = inputs.shape[1]
    if not _of_channels(inputs, weight, bias, mean, variance):
        return None
    if not training and (mean is None or variance is None):
        return None
    return inputs.new_empty(inputs.shape), inputs.new_empty(channels), inputs.new_empty(channels)


def _layer_norm(
    inputs: Any, normalized: Sequence[int], weight: Any, bias: Any, *_: Any
) -> tuple[Tensor, Tensor, Tensor] | None:
    width = len(normalized)
    if not _falls(inputs) or not inputs.numel() or not 0 < width <= inputs.ndim:
        return None
    if tuple(normalized) != inputs.shape[-width:]:
        return None
    for each in (weight, bias):
        if each is not None and (each.dtype != inputs.dtype or each.shape != inputs.shape[-width:]):
            return None
    each_mean = (*inputs.shape[:-width], *[1] * width)
    return inputs.new_empty(inputs.shape), inputs.new_empty(each_mean), inputs.new_empty(each_mean)


def _layer_norm_backward(
    gradient: Any,
    inputs: Any,
    normalized: Sequence[int],
    mean: Any,
    deviation: Any,
    weight: Any,
    bias: Any,
    wanted: Sequence[bool],
) -> tuple[Tensor | None, ...] | None:
    if not _alike(inputs, gradient) or not inputs.numel():
        return None
    if any(each is None or each.dtype != inputs.dtype for each in (weight, bias)):
        return None
    shapes = (inputs.shape, weight.shape, bias.shape)
    return tuple(inputs.new_empty(s) if w else None for s, w in zip(shapes, wanted, strict=True))


_KERNELS: dict[Any, Callable[..., Any]] = {
    _ATEN.native_batch_norm.default: _batch_norm,
    _ATEN.native_layer_norm.default: _layer_norm,
    _ATEN.native_layer_norm_backward.default: _layer_norm_backward,
    _ATEN.addmm.default: _addmm,
    _ATEN._safe_softmax.default: _softmax,
    **dict.fromkeys(
        (_ATEN.sigmoid.default, _ATEN.tanh.default, _ATEN.gelu.default, _ATEN.mul.Scalar), _like_first
    ),
    **dict.fromkeys((_ATEN.add.Tensor, _ATEN.mul.Tensor), _like_both),
    **dict.fromkeys(
        (_ATEN.sigmoid_backward.default, _ATEN.tanh_backward.default, _ATEN.gelu_backward.default), _like_both
    ),
    **dict.fromkeys((_ATEN.sigmoid_.default, _ATEN.tanh_.default), _in_place),
    _ATEN.normal_.default: _normal,
}
