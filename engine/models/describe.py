"""Describe a model without training it: layers in forward order, FLOPs, bytes; on meta tensors if possible.

    python -m engine.models < request.json > description.json

The request is {"model": SourceSpec, "data": SourceSpec, "precision": "float32"}. Errors are
{"error": {field, value, rule, remedy}}, status 1.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from engine.errors import UserError
from engine.inputs.batch import Tensors, count, of_type, on, repeated, shape, shown
from engine.inputs.build import find_task, load_dataset
from engine.inputs.entrypoint import check_directories, defaults
from engine.inputs.reading import read
from engine.inputs.source import Dataset, StagedSource
from engine.inputs.task import Task, UserLoss, classification
from engine.instrumentation.compiled import regions, uncompiled
from engine.instrumentation.own_hook import OwnHook
from engine.instrumentation.raw_memory import notice
from engine.instrumentation.uses import UseFinder, Uses, tensors_in
from engine.models import registry
from engine.models.answering import subject
from engine.models.build import build_model
from engine.models.cannot_cut import CannotCutError
from engine.models.cut import find_cuts
from engine.models.factors import counting_rows, find_factors
from engine.models.failed import failed_in
from engine.models.fit import fitted
from engine.models.mean_loss import is_cheap, is_mean
from engine.models.meta_kernels import quick
from engine.models.suited import check_suited
from engine.models.waits import WaitFinder
from engine.plan.description import (
    CutDescription,
    LayerDescription,
    ModelDescription,
    ParameterDescription,
)
from engine.plan.job import SourceSpec
from engine.plan.serde import from_plain
from engine.user_code import explain

MOST_LAYERS = 10_000
"""Of a model. Plans, tables and figures have a row for each; the deepest published network has two thousand."""
_SAMPLES = 2  # batch normalization needs more than one value per channel


@quick()
def describe(
    model: nn.Module,
    inputs: Tensors,
    targets: Tensors,
    name: str,
    task: Task = classification,
    scores: list[int] | None = None,
    *,
    autocast: bool = False,
) -> ModelDescription:
    """Run one forward pass and loss on an example batch (inputs (n, ...), targets (n, ...)) and describe.

    Model and batch must be on one device; `meta` costs neither memory nor time. Into `scores`: how many classes the
    model's own output tells apart. `autocast`: it will be trained under autocast.
    """
    check_suited(model, name)
    owners = {path: module for path, module in model.named_modules() if next(_own(module), None) is not None}
    if len(owners) > MOST_LAYERS:
        rule = f"has {len(owners):,} layers with parameters, and the most are {MOST_LAYERS:,}"
        raise UserError("model", name, rule, "Use fewer layers, or larger ones")
    parameters = _parameters_by_layer(model, owners)  # as it was built: a pass may freeze some
    samples, output_bytes = count(inputs), Counter[str]()

    def count_output(path: str, module: nn.Module, args: Any, output: Any) -> None:
        output_bytes[path] += sum(t.numel() * t.element_size() for t in tensors_in(output))

    def count_scores(module: nn.Module, args: Any, output: Any) -> None:
        if scores is not None and isinstance(output, Tensor) and output.ndim > 1:
            scores.append(output.shape[1])

    handles = [
        module.register_forward_hook(OwnHook(partial(count_output, path))) for path, module in owners.items()
    ]
    handles.append(model.register_forward_hook(OwnHook(count_scores)))
    try:
        with (
            uncompiled(),
            UseFinder(model) as finder,
            (waiting := WaitFinder(model)).watching(),
            _FlopsByLayer(finder, set(owners)) as flops,
            counting_rows(model) as once,
        ):
            task(model, inputs, targets)
    finally:
        for handle in handles:
            handle.remove()
    uses, waits = finder.uses(), waiting.found(parameters)
    with uncompiled():
        cuts, uncut = _cuts(model, inputs, targets, task, autocast)

    def loss(times: int) -> Tensor:
        return task(model, repeated(inputs, times), repeated(targets, times)).total

    with uncompiled():
        factors = find_factors(model, owners, parameters, uses, once, samples=samples, loss=loss)
    return ModelDescription(
        name=name,
        layers=tuple(
            LayerDescription(
                name=path,
                kind=type(owners[path]).__name__,
                index=index,
                parameters=parameters[path],
                forward_flops=round(flops.found[path] / samples),
                output_bytes=round(output_bytes[path] / samples),
                factors=factors[path][0],
                no_factors=factors[path][1],
                waits=waits.get(path, ""),
            )
            for index, path in enumerate(_forward_order(parameters, uses))
        ),
        buffer_bytes=sum(buffer.numel() * buffer.element_size() for buffer in model.buffers()),
        cuts=cuts,
        uncut=uncut,
    )


def _cuts(
    model: nn.Module, inputs: Tensors, targets: Tensors, task: Task, autocast: bool
) -> tuple[tuple[CutDescription, ...], str]:
    """Where the model can be cut, or why nowhere. A model that cannot be cut is as good as any other otherwise. Raises
    what a pass without values raises: who has values may ask again."""
    try:
        return find_cuts(model, inputs, targets, task, autocast=autocast), ""
    except CannotCutError as error:
        return (), str(error)
    except Exception as error:  # a traced pass that runs differently from the model's own
        if isinstance(inputs, Tensor) and inputs.is_meta:
            raise
        return (), f"its traced forward pass fails: {type(error).__name__}: {error}"


def describe_request(request: dict[str, Any]) -> ModelDescription:
    """Describe what a job names. Raises UserError for whatever the job got wrong."""
    notice()  # before a user's module keeps a pointer
    source = from_plain(SourceSpec, request.get("model"), "model")
    data = from_plain(SourceSpec, request.get("data"), "data")
    precision = request.get("precision", "float32")
    autocast = precision == "bf16"
    check_directories(source, data)
    dataset = load_dataset(fitted(data, source))
    task = find_task(source, data)
    inputs, targets = read(dataset.train, (np.arange(_SAMPLES) + dataset.example) % len(dataset.train))
    inputs = of_type(torch.float64 if precision == "float64" else None, inputs)
    name = subject(request)
    scores: list[int] = []
    model: nn.Module | None = None
    try:
        with quick():
            with torch.device("meta"):
                model = build_model(source, precision)
            _check_length(model, dataset)
            batch = on("meta", inputs), on("meta", targets)
            described = describe(model, *batch, name, task, scores, autocast=autocast)
    except Exception as meta_error:  # a model that looks at values cannot run without them
        try:
            model = build_model(source, precision)
            _check_length(model, dataset)
            described = describe(model, inputs, targets, name, task, autocast=autocast)
        except UserError:
            raise
        except Exception as error:
            module = "" if model is None else failed_in(model, error)
            if model is not None and regions(model):
                module = (
                    f"{module and f'{module}, '}where what torch.compile has compiled runs as it was written"
                )
            raise _fails(source, data, inputs, targets, error, module) from meta_error
    if task is classification and dataset.classes is not None and scores and min(scores) < dataset.classes:
        raise UserError(
            "model",
            name,
            f"gives scores for {min(scores)} classes (or words), and the data have {dataset.classes}",
            f"Set the model's option to {dataset.classes}, or choose other data",
        )
    _check_words(model, dataset)
    own = {"model": defaults(source, "model"), "data": defaults(data, "data")}
    return replace(
        described,
        samples=len(dataset.train),
        staged=isinstance(dataset.train, StagedSource),
        mean_loss=is_cheap(described)
        and isinstance(task, UserLoss)
        and _takes_mean(source, precision, task, dataset),
        defaults={part: found for part, found in own.items() if found},
    )


def _takes_mean(source: SourceSpec, precision: str, task: Task, dataset: Dataset) -> bool:
    """Whether a user's loss is certainly the mean over its batch; False where nobody can tell."""
    dtype, first = torch.float64 if precision == "float64" else None, dataset.example
    try:
        batches = []
        for places in ([first, first + 1], [first], [first + 1]):
            inputs, targets = read(dataset.train, np.array(places) % len(dataset.train))
            batches.append((of_type(dtype, inputs), targets))
        return is_mean(build_model(source, precision), task, batches)
    except Exception:  # a model or a loss that takes no single sample, or not in evaluation mode
        return False


def _fails(
    source: SourceSpec, data: SourceSpec, inputs: Tensors, targets: Tensors, error: Exception, module: str
) -> UserError:
    """The pass that describes the model has raised `error`, within `module` (`failed_in`)."""
    name = source.name or source.entrypoint
    given = shape(inputs)
    if source.name is not None and given != (wanted := registry.model(source.name).input_shape):
        return UserError(
            "data",
            data.name or data.entrypoint,
            f"the model {name} takes samples of the shape {wanted}, and these data give {given}:"
            f" {explain(error, [data.directory])}",
            "Choose data of that shape (synthetic data take the model's own), or another model",
        )
    return UserError(
        "model",
        name,
        f"its forward pass or its loss fails on inputs {shown(inputs)} and targets {shown(targets)}"
        f"{module and f', {module}'}: {explain(error, [source.directory, data.directory])}",
        "Correct the model, or choose data that fit it",
    )


def _check_length(model: nn.Module, dataset: Dataset) -> None:
    """Raises UserError where a sample of the data has more words than the model has positions for."""
    option, most = getattr(model, "most_words", ("", None))
    words = dataset.input_shape[-1]
    of_words = (
        len(dataset.input_shape) == 1
    )  # an image is refused by its shape: its width is no number of words
    if most is not None and of_words and words > most:
        raise UserError(
            f"model.options.{option}",
            most,
            f"a sample of the data has {words} words",
            f"Set it to {words} or more, or choose data with fewer words in a sample",
        )


def _check_words(model: nn.Module, dataset: Dataset) -> None:
    """Raises UserError where the model has no place for a word of the data: two samples need not have it, and on meta
    tensors nobody looks one up."""
    for (option, known), words in zip(getattr(model, "input_words", ()), dataset.input_words, strict=False):
        if words > known:
            raise UserError(
                f"model.options.{option}",
                known,
                f"the data have {words} words there",
                f"Set it to {words} or more, or choose data with fewer words",
            )


class _FlopsByLayer(TorchDispatchMode):
    """Books the innermost active module's operations on the nearest module around it that owns parameters.

    Operations outside of any (products in a module without parameters) go to the last such layer.
    """

    def __init__(self, finder: UseFinder, owners: set[str]) -> None:
        super().__init__()
        self.found: Counter[str] = Counter()
        self._finder = finder
        self._owners = owners
        self._last = ""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        self._last = self._layer()
        formula = flop_registry.get(func._overloadpacket)
        if formula is not None:
            self.found[self._last] += formula(*args, **kwargs, out_val=result)
        return result

    def _layer(self) -> str:
        path = self._finder.active or ""
        while path not in self._owners and path:
            path = path.rpartition(".")[0]
        return path if path in self._owners else self._last


def _own(module: nn.Module) -> Any:
    return module.named_parameters(recurse=False)


def _parameters_by_layer(
    model: nn.Module, owners: dict[str, nn.Module]
) -> dict[str, tuple[ParameterDescription, ...]]:
    """Each layer's parameters; a tied one is listed by its first owner, with its further names."""
    names: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    found: dict[str, tuple[ParameterDescription, ...]] = {}
    for path, module in owners.items():
        mine = []
        for own_name, parameter in _own(module):
            first, *others = names[id(parameter)]
            if first == f"{path}.{own_name}".lstrip("."):
                mine.append(
                    ParameterDescription(
                        name=first,
                        shape=tuple(parameter.shape),
                        dtype=str(parameter.dtype).removeprefix("torch."),
                        trainable=parameter.requires_grad,
                        also_used_by=tuple(others),
                    )
                )
        if mine:
            found[path] = tuple(mine)
    return found


def _forward_order(parameters: dict[str, tuple[ParameterDescription, ...]], uses: Uses) -> list[str]:
    """Layers by when a forward pass first has to wait for one of their parameters; unused ones first."""
    rank = {name: position for position, name in enumerate(uses.order)}

    def first_use(path: str) -> float:
        return min((rank[p.name] for p in parameters[path] if p.name in rank), default=-math.inf)

    return sorted(parameters, key=first_use)
