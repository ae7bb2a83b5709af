"""Which layers of a model have factors: fully-connected ones whose gradient is the product of inputs and error
derivatives.

That holds where the layer's own calls are the only use of its parameters: a weight that another module shares, or that
some function takes directly, has a gradient with other parts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from torch import nn

from engine.models.uses import Uses
from engine.plan.description import Factors, ParameterDescription

_TYPES = ("float64", "float32", "float16", "bfloat16")


def rows_of(module: nn.Module, output: Any) -> int:
    """Rows of one call that answered `output`; 0 where `module` computes anything but x W^T + b: a subclass of
    Linear may have another forward."""
    if (
        not isinstance(module, nn.Linear)
        or getattr(module.forward, "__func__", None) is not nn.Linear.forward
    ):
        return 0
    return int(output.numel()) // max(1, module.out_features)


@contextmanager
def counting_rows(model: nn.Module) -> Iterator[Counter[str]]:
    """Rows of inputs of all calls of each fully-connected layer while the block runs, by path."""
    rows: Counter[str] = Counter()

    def counts(path: str) -> Any:
        def hook(module: nn.Module, args: Any, output: Any) -> None:
            rows[path] += rows_of(module, output)

        return hook

    handles = [
        module.register_forward_hook(counts(path))
        for path, module in model.named_modules()
        if isinstance(module, nn.Linear)
    ]
    try:
        yield rows
    finally:
        for handle in handles:
            handle.remove()


def rows_per_sample(once: Mapping[str, int], twice: Mapping[str, int], samples: int) -> dict[str, int]:
    """Rows of one sample by path, of the layers whose rows grow with the samples: from a pass of `samples` and one of
    twice as many. (A layer that computes some learned queries has as many rows for any number of samples.)"""
    return {
        path: rows // samples
        for path, rows in once.items()
        if rows % samples == 0 and twice.get(path) == 2 * rows
    }


def factors_of(
    path: str,
    module: nn.Module,
    parameters: Iterable[ParameterDescription],
    uses: Uses,
    *,
    rows: int,
) -> Factors | None:
    """The factors of the layer at `path`, which has `rows` rows of inputs for each sample (0: they do not grow with the
    samples), or None where its gradient is no such product."""
    if not isinstance(module, nn.Linear) or rows == 0:
        return None
    own = {p.name.rpartition(".")[2]: p for p in parameters}
    weight = own.get("weight")
    if weight is None or not weight.trainable or weight.dtype not in _TYPES:
        return None
    if len({p.dtype for p in own.values()}) > 1 or len(own) < sum(
        1 for _ in module.parameters(recurse=False)
    ):
        return None
    names = {p.name for p in own.values()}
    elsewhere = (
        names & {*uses.before_forward},
        *(names & {*used} for user, used in uses.waits.items() if user != path),
    )
    if any(elsewhere) or any(p.also_used_by for p in own.values()):
        return None
    return Factors(rows=rows, inputs=module.in_features, outputs=module.out_features)
