"""Which layers of a model have factors: fully-connected ones whose gradient is the product of inputs and error
derivatives.

That holds where the layer's own calls are the only use of its parameters: a weight that another module shares, or that
some function takes directly, has a gradient with other parts. One training pass shows what else is so: hooks on
parameters, losses that are differentiated twice. What shows later only is found by the workers
(`engine/state/capture.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import is_parametrized

from engine.instrumentation.compiled import region_of, regions
from engine.instrumentation.own_hook import OwnHook
from engine.instrumentation.uses import Uses
from engine.models.late_linear import ELSEWHERE, LateLinear
from engine.plan.description import Factors, ParameterDescription

_TYPES = ("float64", "float32", "float16", "bfloat16")


def rows_of(module: nn.Module, output: Any) -> int:
    """Rows of one call that answered `output`; 0 where `module` computes anything but x W^T + b: a subclass of
    Linear may have another forward."""
    if not isinstance(module, nn.Linear) or not _is_product(module):
        return 0
    return int(output.numel()) // max(1, module.out_features)


def _is_product(module: nn.Linear) -> bool:
    """Whether it computes x W^T + b, of parameters of its own."""
    if is_parametrized(module) or getattr(module.forward, "__func__", None) is not nn.Linear.forward:
        return False
    own = dict(module.named_parameters(recurse=False))
    return own.get("weight") is module.weight and own.get("bias") is module.bias


@contextmanager
def counting_rows(model: nn.Module) -> Iterator[Counter[str]]:
    """Rows of inputs of all calls of each fully-connected layer while the block runs, by path."""
    rows: Counter[str] = Counter()

    def counts(path: str, module: nn.Module, args: Any, output: Any) -> None:
        rows[path] += rows_of(module, output)

    handles = [
        module.register_forward_hook(OwnHook(partial(counts, path)))
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


def find_factors(
    model: nn.Module,
    owners: Mapping[str, nn.Module],
    parameters: Mapping[str, Collection[ParameterDescription]],
    uses: Uses,
    once: dict[str, int],
    *,
    samples: int,
    loss: Callable[[int], Tensor],
) -> dict[str, tuple[Factors | None, str]]:
    """By path: a layer's factors, or None and, of a fully-connected one, why not. `owners`: layers by path, as
    the model was built, since a pass may move or remove some. `once`: the rows of a forward pass of `samples`.
    `loss(n)` runs one of n times as many."""
    first = training_pass(model, partial(loss, 1)) if once else None
    # A use that leaves no gradient sends none; what has no gradient in these passes may have one later.
    trained = {
        path: (first.rows.get(path) if first is not None else 0) or rows for path, rows in once.items()
    }
    # Where every use leaves one, the uses of twice as many samples are counted without backward, most of a pass's time.
    second = training_pass(model, partial(loss, 2)) if trained != once else None
    if second is not None:
        once = trained
        twice = {path: second.rows.get(path) or 2 * rows for path, rows in once.items()}
    else:
        twice = _rows_of(model, partial(loss, 2), as_trained=first is not None) if once else {}
        if first is not None and twice:  # a model may have put layers elsewhere meanwhile
            twice = {path: twice.get(path) or 2 * rows for path, rows in once.items()}
    rows, found, compiled = rows_per_sample(once, twice, samples), {}, regions(model)
    for path, own in parameters.items():
        module = owners[path]
        why = _why_not(path, module, own, uses, compiled) or (
            first.whole.get(path, "") if first is not None else ""
        )
        factors = None if why else factors_of(module, own, rows=rows.get(path, 0))
        found[path] = factors, why if isinstance(module, nn.Linear) else ""
    return found


def _rows_of(model: nn.Module, loss: Callable[[], Tensor], *, as_trained: bool) -> dict[str, int]:
    """Rows of a forward pass; none where the model takes no such number of samples."""
    try:
        with torch.set_grad_enabled(as_trained), counting_rows(model) as rows:
            loss()
    except Exception:
        return {}
    return rows


@dataclass(frozen=True, kw_only=True)
class TrainingPass:
    """What one forward and backward pass left of the gradients of fully-connected layers, by path."""

    rows: Mapping[str, int]
    """Rows of factors."""
    whole: Mapping[str, str]
    """Of those with a gradient that was not left to factors: why."""


def training_pass(model: nn.Module, loss: Callable[[], Tensor]) -> TrainingPass | None:
    """Watch one pass. None where it fails: then it is for the workers to find what factors cannot express."""
    layers = {
        path: LateLinear(module)
        for path, module in model.named_modules()
        if isinstance(module, nn.Linear) and _is_product(module)
    }
    try:
        total = loss()
        for late in layers.values():
            late.taking = True
        parameters = [p for late in layers.values() for p in late.parameters if p.requires_grad]
        if parameters:
            torch.autograd.backward(total, inputs=parameters)
    except Exception:
        return None
    finally:
        for late in layers.values():
            late.remove()
    found = {path: late for path, late in layers.items() if any(p.grad is not None for p in late.parameters)}
    return TrainingPass(
        rows={path: sum(len(kept.inputs) for kept in late.kept) for path, late in layers.items()},
        whole={path: late.why or ELSEWHERE for path, late in found.items()},
    )


def factors_of(
    module: nn.Module, parameters: Collection[ParameterDescription], *, rows: int
) -> Factors | None:
    """The factors of a layer that has `rows` rows of inputs for each sample (0: they do not grow with the samples), or
    None where its gradient is no such product."""
    trained = {p.name.rpartition(".")[2]: p for p in parameters if p.trainable}
    if not isinstance(module, nn.Linear) or rows == 0 or "weight" not in trained:
        return None
    if trained["weight"].dtype not in _TYPES or len({p.dtype for p in parameters}) > 1:
        return None
    return Factors(rows=rows, inputs=module.in_features, outputs=module.out_features)


def _why_not(
    path: str,
    module: nn.Module,
    parameters: Collection[ParameterDescription],
    uses: Uses,
    compiled: Collection[str],
) -> str:
    """Why the gradient of the layer at `path` is no product of its own inputs and error derivatives; empty where no
    use of it shows that. `compiled`: paths of what is compiled."""
    if region_of(path, compiled) is not None:
        return "it is inside of what torch.compile compiles, where the gradient is computed with all others"
    if not isinstance(module, nn.Linear) or not _is_product(module):
        return "it computes anything but x W^T + b of its own parameters"
    names = {p.name for p in parameters}
    if names & {*uses.unseen}:
        return "the pass that it was described with did not use it"
    used = [names & {*uses.before_forward}]
    used += [names & {*used} for user, used in uses.waits.items() if user != path]
    if any(used) or any(p.also_used_by for p in parameters):
        return ELSEWHERE
    return ELSEWHERE if len(names) < sum(1 for _ in module.parameters(recurse=False)) else ""
