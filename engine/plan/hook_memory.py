"""What DDP's communication hooks hold beside its buckets (`engine/replica/ddp_hooks.py`). No torch here.

`fp16` and `bf16` sum a copy of a bucket in 16 bits, which is there until its sum is, and several may be under way.
`powersgd` keeps of each bucket what was lost, and its matrices' factors; while it works on one, which it does on one
after the other, it has a copy of the bucket and what is lost of it next. Source: PyTorch's
torch/distributed/algorithms/ddp_comm_hooks/{default_hooks,powerSGD_hook}.py.
"""

from __future__ import annotations

from math import prod

from engine.plan.description import DTYPE_BYTES, ModelDescription, ParameterDescription
from engine.plan.plan import CommHook, Wrapper

_MIN_RATE = 2
"""powersgd leaves matrices alone that its factors make less than so many times smaller."""


def kept_by_hook(wrapper: Wrapper, model: ModelDescription) -> int:
    """Bytes that it keeps from one step to the next."""
    hook = wrapper.hook
    if hook is None or hook.name != "powersgd":
        return 0
    return sum(p.nbytes + _factors(hook, p) for p in _trained(model))


def under_way(wrapper: Wrapper, model: ModelDescription, gradients: int) -> int:
    """Bytes that it holds beside that, at the most, when so many bytes of gradients have come."""
    sizes = [p.nbytes for p in _trained(model)]
    whole, bucket = sum(sizes), wrapper.bucket_bytes
    ready = whole if gradients >= whole else gradients // bucket * bucket
    if wrapper.hook is None:
        return 0
    if wrapper.hook.name == "powersgd":
        return 2 * min(ready, max(bucket, *sizes))
    return sum(p.nbytes // DTYPE_BYTES[p.dtype] * 2 for p in _trained(model)) * ready // max(whole, 1)


def _factors(hook: CommHook, parameter: ParameterDescription) -> int:
    """Bytes of the factors of one parameter, whose first dimension is rows; 0 where it is summed as it is."""
    rows = parameter.shape[0] if parameter.shape else 1
    columns = prod(parameter.shape[1:])
    rank = min(rows, columns, hook.rank)
    pays = (rows + columns) * rank * _MIN_RATE < rows * columns
    return pays * (rows + columns) * rank * DTYPE_BYTES[parameter.dtype]


def _trained(model: ModelDescription) -> list[ParameterDescription]:
    return [p for layer in model.layers for p in layer.parameters if p.trainable]
