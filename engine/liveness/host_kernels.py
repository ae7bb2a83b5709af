"""Host kernels: what PyTorch computes otherwise on the host than on tensors without values, as far as memory shows it.

`on_the_host` lets operations that PyTorch composes of others on `meta` tensors be the single ones that it takes on the
host: oneDNN's LSTM, whose workspace is saved for backward, other recurrent layers (`host_recurrent.py`), and fused
attention. `needs` says what kernels hold while
they run beside what they return: oneDNN's copies of a convolution's tensors in blocks of channels.

Sizes are those of oneDNN as PyTorch 2.13 has it (rnn_utils.cpp of oneDNN: `set_workspace_sizes`), held to the
allocator's own count by a test. Other precisions than float32 are composed here as they are on `meta`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.library import _scoped_library

from engine.liveness.host_recurrent import COMPOSED

_PAGE = 4096
_FLOAT = 4
_ATEN = torch.ops.aten


def needs(operation: Any, arguments: tuple[Any, ...], result: Any) -> int:
    """See `engine.liveness.ledger.Kernels`."""
    known = _NEEDS.get(getattr(operation, "overloadpacket", None))
    return known(arguments, result) if known is not None else 0


@contextmanager
def on_the_host() -> Iterator[None]:
    """Around what runs on `meta` tensors in place of the host's."""
    with _scoped_library("aten", "IMPL") as library:
        for operation, computed in _COMPUTED.items():
            library.impl(operation, partial(_taken, operation, computed), "AutogradMeta")
        yield


def _taken(operation: Any, computed: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """As the host computes it, or of other operations, as it is on `meta` tensors."""
    found = computed(*args, **kwargs)
    return operation.decompose(*args, **kwargs) if found is None else found


# --- convolutions ---


def _blocked(shape: Any) -> int:
    """Bytes of an activation (n, channels, ...) in oneDNN's blocks of channels."""
    return _FLOAT * shape[0] * _rounded(shape[1], _block()) * prod(shape[2:])


def _block() -> int:
    return 16 if torch.backends.cpu.get_cpu_capability() == "AVX512" else 8


def _plain(inputs: Tensor) -> bool:
    """Whether oneDNN's convolutions read it as it is: an image. So is what a transposed one has gradients of."""
    return inputs.shape[1] <= 3


def _in_onednn(
    inputs: Tensor,
    weight: Tensor,
    stride: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
) -> bool:
    """ATen/native/Convolution.cpp, `use_mkldnn`, before which a row is made an image of one line."""
    if inputs.dtype != torch.float32:
        return False
    if transposed and any(more >= step for more, step in zip(output_padding, stride, strict=True)):
        return False
    kernel = (1, *weight.shape[2:])[-2:]
    one_by_one = kernel == (1, 1)
    strided = any(step != 1 for step in (*stride, *dilation))
    large = groups > 1 or min(kernel) > 3 or len(inputs) > 1 or prod(inputs.shape[:4]) > 20480
    return large and (strided or len(inputs) >= 16 or not one_by_one or torch.get_num_threads() > 1)


def _weight_blocked(weight: Tensor, groups: int, *, plain: bool) -> int:
    """The same of its weights (out, in / groups, ...), of a transposed one (in, out / groups, ...). `plain`: what the
    second number counts is an image as it is."""
    first, second, *kernel = weight.shape
    if groups > 1:
        return weight.nbytes
    return (
        _FLOAT * _rounded(first, _block()) * (second if plain else _rounded(second, _block())) * prod(kernel)
    )


def _convolution(args: tuple[Any, ...], result: Tensor) -> int:
    inputs, weight, bias, stride, _, dilation, transposed, padding, groups = args[:9]
    if not _in_onednn(inputs, weight, stride, dilation, transposed, padding, groups):
        return 0
    if transposed:
        return _transposed(inputs, weight, bias is not None, stride, dilation, groups, result)
    out = _blocked(result.shape)
    read = 0 if _plain(inputs) else _blocked(inputs.shape)
    return max(read + _weight_blocked(weight, groups, plain=_plain(inputs)) + out - result.nbytes, out)


def _transposed(
    inputs: Tensor, weight: Tensor, bias: bool, stride: Any, dilation: Any, groups: int, result: Tensor
) -> int:
    """As a matrix product for each place of the kernel, where one goes over the output in strides: channels last, which
    PyTorch copies into their order. With a bias, sums of several such products are in a memory of their own."""
    kernel, out = weight.shape[2:], _blocked(result.shape)
    if _wide(stride) and _wide(dilation):
        columns = torch.get_num_threads() * _columns(weight, inputs.shape[2:])
        return max(bias * result.nbytes + columns, result.nbytes)
    if groups == 1 and _wide(stride):
        several = any(size % step for size, step in zip(kernel, stride, strict=True))
        by_place = _FLOAT * weight.shape[0] * _rounded(weight.shape[1], _block()) * prod(kernel)
        sums = result.nbytes if bias and several else 0
        return max(sums + inputs.nbytes + by_place, 2 * result.nbytes)
    read = _blocked(inputs.shape) + _weight_blocked(weight, groups, plain=False)
    return max(bias * out + read + out - result.nbytes, out)


def _convolution_backward(args: tuple[Any, ...], result: Any) -> int:
    """A transposed one goes backward as the other one goes forward, on its gradients."""
    gradient, inputs, weight, _, stride, _, dilation, transposed, padding, groups, wanted = args[:11]
    if not _in_onednn(inputs, weight, stride, dilation, transposed, padding, groups):
        return 0
    plain = _plain(gradient if transposed else inputs)
    of_out = 0 if transposed and plain else _blocked(gradient.shape)
    read = 0 if plain and not transposed else _blocked(inputs.shape)
    of_weight = _weight_blocked(weight, groups, plain=plain)
    if _sums_blocks(weight, groups, transposed and _wide(stride), _wide(dilation)):
        second = max(of_out + read + of_weight - weight.nbytes, of_weight)
    else:
        columns = _columns(weight, (inputs if transposed else gradient).shape[2:])
        second = torch.get_num_threads() * (columns + 4 * weight.nbytes)
    into = _blocked(inputs.shape)
    read_first = of_out + _weight_blocked(weight, groups, plain=plain and transposed)
    # At the end of it, what it has computed is there twice: in blocks, and as it is.
    first = into + max(read_first - inputs.nbytes, 0) - weight.nbytes if wanted[0] else 0
    return max(first, second if wanted[1] else 0, 0)


def _wide(steps: Any) -> bool:
    return any(step > 1 for step in steps)


def _columns(weight: Tensor, places: Any) -> int:
    """Bytes of what a group's kernels meet in one sample, laid out for a matrix product."""
    return _FLOAT * prod(weight.shape[1:]) * prod(places)


def _sums_blocks(weight: Tensor, groups: int, spread: bool, dilated: bool) -> bool:
    """Whether the weights' gradient is summed from blocks of channels: not where groups do not fill them. `spread`: a
    transposed one with strides."""
    first, second = weight.shape[0] // groups, weight.shape[1]
    if groups == 1 or not (first % _block() or second % _block()):
        return not (spread and dilated)
    return first == second == 1 and weight.ndim < 5 and not spread


# --- kernels that make a copy of their first argument where it does not lie in a row ---


def _contiguous(args: tuple[Any, ...], result: Any) -> int:
    first: Tensor = args[0]
    return 0 if first.is_contiguous() else first.nbytes


def _norm_backward(args: tuple[Any, ...], result: Any) -> int:
    """It makes a gradient of its input before it makes the one that it fills."""
    return 0 if result[0] is None else result[0].nbytes


_NEEDS: dict[Any, Callable[[tuple[Any, ...], Any], int]] = {
    _ATEN.convolution: _convolution,
    _ATEN.convolution_backward: _convolution_backward,
    _ATEN.native_batch_norm_backward: _norm_backward,
    _ATEN._log_softmax: _contiguous,
    _ATEN._softmax: _contiguous,
    _ATEN._scaled_dot_product_flash_attention_for_cpu_backward: _contiguous,
}


# --- recurrent layers ---


def _lstm(
    inputs: Tensor,
    state: list[Tensor],
    weights: list[Tensor],
    biases: bool,
    layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Tensor, Tensor, Tensor] | None:
    """(output, last hidden states, last cell states) of torch.lstm on padded sequences as oneDNN computes it; None
    where it does not: ATen/native/RNN.cpp, `use_mkldnn` and `mkldnn_rnn`."""
    hidden, cell = state
    if inputs.dtype != torch.float32 or not inputs.numel() or hidden.shape[2] != cell.shape[2]:
        return None
    if torch.is_autocast_enabled("cpu"):
        return None
    directions = 2 if bidirectional else 1
    each = 4 if biases else 2
    steps = (inputs.transpose(0, 1) if batch_first else inputs).contiguous()
    hidden, cell = hidden.contiguous(), cell.contiguous()
    last_hidden, last_cell = [], []
    for layer in range(layers):
        found = []
        for direction in range(directions):
            at = layer * directions + direction
            own = weights[at * each : (at + 1) * each]
            if not biases:
                own = [*own, *map(torch.zeros_like, own)]
            output, hy, cy = _Layer.apply(steps, hidden[at], cell[at], *own)
            found.append(output)
            last_hidden.append(hy)
            last_cell.append(cy)
        steps = found[0] if directions == 1 else torch.cat(found, -1)
        if dropout and train and layer < layers - 1:
            steps = torch.dropout(steps, dropout, True)
    output = steps.transpose(0, 1) if batch_first else steps
    return output, torch.stack(last_hidden, 0), torch.stack(last_cell, 0)


class _Layer(torch.autograd.Function):
    """One direction of one layer: (steps, n, inputs) -> (steps, n, hidden), and the last states."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, hidden: Tensor, cell: Tensor, *weights: Tensor) -> Any:
        steps, samples, _ = inputs.shape
        output = inputs.new_empty(steps, samples, hidden.shape[-1])
        last, last_cell = torch.empty_like(hidden), torch.empty_like(cell)
        workspace = inputs.new_empty(_workspace(inputs.shape, hidden.shape[-1]), dtype=torch.uint8)
        rows, states, gates = inputs.flatten(0, 1), output.flatten(0, 1), _scratch(inputs, hidden)
        torch.mm(rows, weights[0].t(), out=gates)  # for who counts operations
        torch.mm(states, weights[1].t(), out=gates)
        ctx.save_for_backward(inputs, hidden, cell, *weights, output, last, last_cell, workspace)
        return output, last, last_cell

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> Any:
        saved = ctx.saved_tensors  # all of it until this has ended
        inputs, hidden, cell, *weights = saved[:-4]
        states = saved[-4].flatten(0, 1)
        laid_out = [gradient.contiguous() for gradient in gradients if gradient is not None]
        found = [torch.empty_like(each) for each in (inputs, hidden, cell, *weights[:2])]
        found += [inputs.new_empty(weights[0].shape[0]) for _ in weights[2:]]
        gates = _scratch(inputs, hidden, backward=True)
        for weight, rows, into in ((weights[0], inputs.flatten(0, 1), 3), (weights[1], states, 4)):
            torch.mm(gates, weight, out=found[0].flatten(0, 1) if into == 3 else states)
            torch.mm(gates.t(), rows, out=found[into])
        del laid_out, saved
        return tuple(
            each if wanted else None for each, wanted in zip(found, ctx.needs_input_grad, strict=True)
        )


def _scratch(inputs: Tensor, hidden: Tensor, *, backward: bool = False) -> Tensor:
    """The gates of all steps (steps x n, 4 x hidden), in one memory with oneDNN's copies of both weights (in backward:
    of their derivatives), whose rows are gates. Backward reads the weights as they are, and copies those whose rows
    would meet in a cache or do not fill its lines."""
    steps, samples, width = inputs.shape
    own = hidden.shape[-1]
    count = (width + own + steps * samples) * _leading(4 * own) + 2 * samples * own
    if backward:
        count += sum(4 * own * _leading(each) for each in (width, own) if _leading(each) != each)
    return inputs.new_empty(count)[: steps * samples * 4 * own].view(steps * samples, 4 * own)


def _workspace(shape: torch.Size, hidden: int) -> int:
    """Bytes that oneDNN keeps of an LSTM layer for its backward pass."""
    steps, samples, inputs = shape
    wide, gates = _leading(max(inputs, hidden)), _leading(4 * hidden)
    rows = [steps * gates, steps * _leading(hidden)]
    rows += [2 * (steps + 1) * row for row in (wide, wide, wide, hidden, hidden)]
    return sum(_rounded(row * samples * _FLOAT, _PAGE) for row in rows)


def _leading(count: int) -> int:
    """Elements from one row of a matrix to the next, so that no two rows meet in a cache (`get_good_ld`)."""
    ld = _rounded(count, 64 // _FLOAT)
    return ld + 64 // _FLOAT if ld % 256 == 0 else ld


def _rounded(count: int, multiple: int) -> int:
    return -(-count // multiple) * multiple


# --- attention ---


def _attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor | None:
    """As the host's fused kernel computes it; None where that does not: ATen/native/transformers/sdp_utils_cpp.cpp."""
    several = all(each.ndim == 4 and each.numel() for each in (query, key, value))
    if not several or dropout_p or enable_gqa or query.shape[-1] != value.shape[-1]:
        return None
    if attn_mask is not None and (attn_mask.requires_grad or attn_mask.ndim not in (2, 4)):
        return None
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        attn_mask = torch.empty_like(attn_mask, dtype=query.dtype)
    fused = _ATEN._scaled_dot_product_flash_attention_for_cpu
    found: Tensor = fused(query, key, value, 0.0, is_causal, attn_mask=attn_mask, scale=scale)[0]
    return found


# --- products ---


def _linear(inputs: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor | None:
    """As ATen/native/Linear.cpp has it: the bias is added in place where the product is not fused with that."""
    if bias is None or inputs.ndim == 2 or (inputs.ndim == 3 and inputs.is_contiguous()):
        return None
    return torch.matmul(inputs, weight.t()).add_(bias)


def instead(operation: Any, arguments: tuple[Any, ...]) -> Tensor | None:
    """What autograd has where it adds two gradients: the first one, written to in place. On `meta` tensors it makes a
    third (torch/csrc/autograd/input_buffer.cpp). The second one is left alone: what a user's own backward adds
    may be in a variable of his there, and has as many references."""
    if operation is not _ATEN.add.Tensor or torch._C._current_graph_task_id() < 0 or torch.is_grad_enabled():
        return None
    first, second = arguments[:2]
    if not isinstance(second, Tensor) or first.shape != second.shape or first.dtype != second.dtype:
        return None
    return first if _nobody_elses(first) else None


_REFERENCES = 4, 2
"""To a gradient that autograd alone has, and to its storage, from within a dispatch mode."""


def _nobody_elses(gradient: Any) -> bool:
    if gradient.layout != torch.strided or gradient.untyped_storage().nbytes() != gradient.nbytes:
        return False
    address = gradient.untyped_storage()._cdata
    return (gradient._use_count(), torch._C._storage_Use_Count(address)) == _REFERENCES


_COMPUTED: dict[Any, Callable[..., Any]] = {
    _ATEN.lstm.input: _lstm,
    _ATEN.scaled_dot_product_attention.default: _attention,
    _ATEN.linear.default: _linear,
    **COMPOSED,
}
