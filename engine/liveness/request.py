"""A request to predict: the job's own model, on samples like those of its data, without values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch

from engine.axes.memory import ACTIVATIONS
from engine.errors import TrainingError, UserError
from engine.inputs.batch import every, of_type
from engine.inputs.build import find_task, load_dataset
from engine.inputs.entrypoint import check_directories
from engine.inputs.reading import read
from engine.instrumentation.raw_memory import notice
from engine.liveness.blocks import blocks_of
from engine.liveness.fitting import Fitter, Wanted
from engine.liveness.largest import Room, curve, find, find_mixture
from engine.liveness.passes import Stage
from engine.liveness.peak import peak_of
from engine.liveness.training import Training
from engine.memory.blocks import Asked
from engine.models.build import build_model
from engine.models.cut import cut_in_a_row
from engine.models.fit import fitted
from engine.models.memory_limit import DESCRIBED
from engine.models.meta_kernels import quick
from engine.plan.description import ModelDescription
from engine.plan.job import SourceSpec
from engine.plan.mechanism_options import options_of
from engine.plan.peak import Peak
from engine.plan.serde import from_plain, to_plain
from engine.plan.updates import OptimizerSpec
from engine.user_code import explain

_SAMPLES = 2


@quick()
def answer(request: dict[str, Any]) -> dict[str, Any]:
    """See `engine/liveness/__main__.py`. Raises UserError for whatever the job got wrong, and for a model that cannot
    run without values."""
    if "threads" in request:
        torch.set_num_threads(request["threads"])  # kernels choose by it
    notice()  # before a user's module keeps a pointer
    source = from_plain(SourceSpec, request.get("model"), "model")
    data = from_plain(SourceSpec, request.get("data"), "data")
    described = ModelDescription.from_dict(request["described"])
    check_directories(source, data)
    dataset = load_dataset(fitted(data, source))
    task = find_task(source, data)
    inputs, targets = read(dataset.train, (np.arange(_SAMPLES) + dataset.example) % len(dataset.train))
    inputs = of_type(torch.float64 if request["precision"] == "float64" else None, inputs)
    try:
        with torch.device("meta"):
            model = build_model(source, request["precision"])
        like = Training(model=model, described=described, inputs=inputs, targets=targets, task=task)
        of = partial(_without_values, like)
        if request.get("blocks"):
            return replace(described, blocks=blocks_of(of(_SAMPLES))).to_dict()
        choices = _choices(request)
        if "room" in request:
            room, asked = from_plain(Room, request["room"], "room"), from_plain(Wanted, request["wanted"], "")
            at = partial(_peak, request)
            if "curve" in request:
                return {"points": to_plain(curve(of, choices, at, request["curve"], room, asked))}
            if request.get("mixture"):
                return {"largest": to_plain(find_mixture(of, at, room, asked))}
            return {"largest": to_plain(find(of, choices, at, room, asked))}
        training = of(request["samples"])
        look = partial(_peak, request, training)
        if "budget" in request:
            asked = from_plain(Wanted, request["wanted"], "wanted")
            fitter = Fitter(training, choices, look, asked)
            return {"fitted": to_plain(fitter.fit(request["budget"]))}
        stages = request.get("stages")
        return {
            "peak": to_plain(look(choices) if stages is None else _fullest(training, stages, look, choices))
        }
    except UserError:
        raise
    except TrainingError as error:  # says what happened, and what to change
        raise UserError(
            "model",
            source.name or source.entrypoint,
            f"a worker's step would end the job: {error}",
            "Change what it names",
        ) from error
    except Exception as error:  # a model that looks at values cannot run without them
        raise UserError(
            "model",
            source.name or source.entrypoint,
            "what its steps hold in memory cannot be predicted, since it fails on tensors without values:"
            f" {explain(error, [source.directory, data.directory])}",
            "Let its forward and its loss look at no values, or measure a job",
        ) from error


def purpose(request: dict[str, Any]) -> str:
    """What a request asks for."""
    if request.get("blocks"):
        return DESCRIBED
    if "room" in request:
        return "for its largest batch to be found"
    return (
        "for its budget to be planned" if "budget" in request else "for what its steps hold to be predicted"
    )


def _choices(request: dict[str, Any]) -> dict[str, Asked]:
    return {
        layer: Asked(
            choice["activations"],
            options_of(
                ACTIVATIONS[choice["activations"]], choice["options"], f"layers.{layer}.activation_options"
            ),
        )
        for layer, choice in request["choices"].items()
    }


def _peak(
    request: dict[str, Any],
    training: Training,
    choices: Mapping[str, Asked],
    stage: Stage | None = None,
) -> Peak:
    return peak_of(
        training,
        from_plain(OptimizerSpec, request["optimizer"], "optimizer"),
        choices,
        micro_batches=request["micro_batches"],
        batches=request["batches"],
        updated=request["updated"],
        stage=stage,
    )


def _fullest(
    training: Training, asked: dict[str, Any], look: Callable[..., Peak], choices: Mapping[str, Asked]
) -> Peak:
    """Of the stages of a pipeline, with what each holds beside a step's."""
    cuts, described = asked["cuts"], training.described
    with torch.device("meta"):
        parts = cut_in_a_row(training.model, cuts)
    found = []
    for number, part in enumerate(parts):
        crossing = described.cut(cuts[number - 1]) if number else None
        entering = None
        if crossing is not None:
            shape, dtype = (training.samples, *crossing.shape), getattr(torch, crossing.dtype)
            entering = torch.empty(shape, dtype=dtype, device="meta")
        stage = Stage(
            part=part,
            number=number,
            stages=len(parts),
            schedule=asked["schedule"],
            entering=entering,
        )
        found.append(replace(look(choices, stage), stage=number))
    return max(found, key=lambda peak: peak.total + asked["beside"][peak.stage])


def _without_values(training: Training, samples: int) -> Training:
    """On so many samples like its own."""
    like = partial(_like, samples)
    return replace(training, inputs=every(like, training.inputs), targets=every(like, training.targets))


def _like(samples: int, tensor: torch.Tensor) -> torch.Tensor:
    return tensor.new_empty((samples, *tensor.shape[1:]), device="meta")
