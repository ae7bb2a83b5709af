"""What a worker trains: the job's model on its data, or the replay device's stand-ins for both."""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from engine.axes.exchange import EXCHANGE
from engine.errors import UserError
from engine.inputs.build import find_task, load_dataset
from engine.inputs.processes import Processes
from engine.inputs.source import Source
from engine.inputs.task import Task
from engine.instrumentation import raw_memory
from engine.launch import REPLAY, Launch
from engine.models.build import build_model
from engine.models.cannot_cut import CannotCutError
from engine.models.cut import Parts, cut
from engine.models.fit import fitted
from engine.plan.job import EvaluationSpec, JobSpec
from engine.plan.plan import Plan, Wrapper
from engine.plan.traffic import factor_type
from engine.profile import Profile
from engine.replay.capture import ReplayCapture
from engine.replay.device import Node, Pace, ReplayModel, ReplaySource, replay_task
from engine.replay.parts import replayed_part
from engine.runtime.straggler import Slowness, lengthening
from engine.state.capture import Capture, LinearCapture
from engine.state.recording import Recording
from engine.tensor_bytes import as_bytes

if TYPE_CHECKING:
    from engine.state.choice import Choice


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A model, its data, and what is learned."""

    model: nn.Module
    """The whole model; in a rehearsal of a cut one, the part that is here."""
    task: Task
    train: Source
    test: Source
    pace: Pace | None = None
    """The replay device's clock, in a rehearsal."""
    processes: Processes | None = None
    """Those that prepare `train`, where the job has some."""
    parts: Parts | None = None
    """Where the plan cuts the model for a device: its parts. In a rehearsal, the back only where it is computed."""


def load_subject(launch: Launch, rank: int, recording: Recording, *, back: bool = False) -> Subject:
    """Build and load what worker `rank` trains. `back`: whether the back of a cut model is computed in this process.
    Raises UserError for whatever the job got wrong."""
    raw_memory.notice()  # before a user's module takes a function by its name, or a pointer
    job, cuts = launch.job, cuts_of(launch.plan)
    pipeline = launch.plan.pipeline if isinstance(launch.plan, Plan) else None
    if launch.profile is None:
        dataset = load_dataset(fitted(job.data, job.model))
        count = job.input.process_count
        # Before there is a model: they would keep its memory, too.
        processes = Processes(dataset.train, count) if count else None
        built = build_model(job.model, job.training.precision)
        return Subject(
            model=built,
            task=find_task(job.model, job.data),
            train=dataset.train,
            test=dataset.test,
            processes=processes,
            parts=_cut(built, cuts[0], launch) if cuts and pipeline is None else None,
        )
    pace = _pace(launch.profile, recording, slowness_of(job, rank))
    source = ReplaySource(launch.model.samples or job.training.global_batch)
    stages = 1 if pipeline is None else pipeline.stages
    replica = rank // stages, job.cluster.workers // stages
    part = partial(replayed_part, launch.model, cuts)
    parts = None
    if not cuts:
        model: nn.Module = ReplayModel(launch.model, launch.profile, pace, *replica)
    else:
        model = part(rank % stages, launch.profile, pace, *replica)
    if cuts and pipeline is None:
        parts = Parts(front=model, back=part(1, launch.profile, pace, *replica) if back else nn.Identity())
    return Subject(model=model, task=replay_task, train=source, test=source, pace=pace, parts=parts)


def load_back(launch: Launch, recording: Recording) -> tuple[nn.Module, Task]:
    """What a dedicated device computes, behind the cut, and what is learned: it needs no data. Raises UserError as
    `load_subject` does."""
    job, (place,) = launch.job, cuts_of(launch.plan)
    if launch.profile is not None:
        pace = _pace(launch.profile, recording, None)  # only workers are slowed
        workers = job.cluster.workers
        return replayed_part(launch.model, [place], 1, launch.profile, pace, 0, workers), replay_task
    model = build_model(job.model, job.training.precision)
    check_model(model, launch)
    return _cut(model, place, launch).back, find_task(job.model, job.data)


@contextlib.contextmanager
def cutting(launch: Launch) -> Iterator[None]:
    """Around what cuts the job's model: raises UserError for a model that could be cut when it was described."""
    try:
        yield
    except CannotCutError as error:
        raise UserError(
            "strategy.name",
            launch.job.strategy.name,
            f"{error}; in its later passes the model does not",
            "Let its first pass do what the others do, or choose a strategy that replicates every layer",
        ) from error


def _cut(model: nn.Module, place: str, launch: Launch) -> Parts:
    with cutting(launch):
        return cut(model, place)


def slowness_of(job: JobSpec, rank: int) -> Slowness | None:
    """How the job slows worker `rank`; None: not at all."""
    straggler = job.faults.of(rank)
    return None if straggler is None else Slowness(straggler, job.training.seed)


def _pace(profile: Profile, recording: Recording, slowness: Slowness | None) -> Pace:
    pace = partial(Pace, lambda: recording.exposed_ns, host_ahead=profile.device != "cpu")
    return pace() if slowness is None else pace(longer=lengthening(slowness, lambda: recording.step))


def cuts_of(plan: Plan | Wrapper) -> tuple[str, ...]:
    """The layers in front of which a plan cuts the model, in forward order."""
    return tuple(edge.destination for edge in plan.edges) if isinstance(plan, Plan) else ()


def check_model(model: nn.Module, launch: Launch) -> None:
    """The plan was made for a description; the model that was built must be the same."""
    if _checksum(model, launch) != launch.model.checksum:
        raise UserError(
            "model",
            launch.model.name,
            "its parameters differ from those that the plan was made for",
            "Build the same model every time: do not let names or shapes depend on time or chance",
        )


def check_norms(model: nn.Module, launch: Launch, device: torch.device) -> None:
    """SyncBatchNorm takes the statistics of all workers in a process group of PyTorch's, on CUDA devices. Without a
    group it is a BatchNorm, which nobody would see; with one it fails on the CPU."""
    plan = launch.plan
    if isinstance(plan, Wrapper):
        possible = device.type == "cuda"
    else:
        grouped = any(
            "ordered" in EXCHANGE[layer.exchange].traits for layer in plan.layers if layer.exchanges
        )
        possible = launch.job.cluster.workers == 1 and (device.type == "cuda" or not grouped)
    for name, module in model.named_modules():
        if isinstance(module, nn.SyncBatchNorm) and not possible:
            raise UserError(
                "model",
                name or "the model",
                "is a SyncBatchNorm: it takes the statistics of all workers only under PyTorch's own ddp and fsdp, on"
                " CUDA devices",
                "Build a BatchNorm, whose statistics are each worker's own, or choose ddp or fsdp on CUDA devices",
            )


def _checksum(model: nn.Module, launch: Launch) -> str:
    """The description's checksum with this model's own names, shapes and types."""
    actual = dict(model.named_parameters())
    described = {p.name for p in launch.model.parameters}
    if actual.keys() != described:
        return f"other parameters: {sorted(actual.keys() ^ described)[:5]}"
    layers = tuple(
        replace(
            layer,
            parameters=tuple(
                replace(
                    p,
                    shape=tuple(actual[p.name].shape),
                    dtype=str(actual[p.name].dtype).removeprefix("torch."),
                    trainable=actual[p.name].requires_grad,
                )
                for p in layer.parameters
            ),
        )
        for layer in launch.model.layers
    )
    return replace(launch.model, layers=layers).checksum


def captures_of(model: nn.Module, launch: Launch, choices: Mapping[int, Choice]) -> dict[int, Capture]:
    """Where the factors of the layers that travel by them are kept; by unit index."""
    assert isinstance(launch.plan, Plan)
    found: dict[int, Capture] = {}
    for index, choice in choices.items():
        if choice.flow.payload != "factors":
            continue
        layer = launch.model.layer(choice.layer.layer)
        module = model.get_submodule(layer.name)
        if isinstance(module, Node):
            assert launch.plan.workload is not None
            travels = getattr(torch, factor_type(layer, launch.plan.workload))
            found[index] = ReplayCapture(module, layer, travels)
        else:
            assert isinstance(module, nn.Linear), f"{layer.name} was a Linear when it was described"
            found[index] = LinearCapture(layer.name, module)
    return found


def effective_job(launch: Launch) -> JobSpec:
    """The job as the trainer runs it: a rehearsal learns nothing, so nothing is evaluated."""
    if launch.profile is None:
        return launch.job
    return replace(launch.job, evaluation=EvaluationSpec(every_epochs=None, at_end=False))


def torch_device(name: str) -> torch.device:
    """The device of `Launch.devices` as torch knows it: what replays a device has its tensors on the CPU."""
    return torch.device("cpu" if name == REPLAY else name)


def rehearsal_summary(launch: Launch, model: nn.Module, pace: Pace) -> dict[str, Any]:
    """What a rehearsal leaves in place of a trained model: its label; how far this machine was behind the profile at
    the end and at the worst; and a checksum of the parameters, which workers, and strategies, can compare."""
    checksum = 0
    for _, parameter in sorted(model.named_parameters()):
        checksum = zlib.crc32(as_bytes(parameter.detach().view(-1)), checksum)
    return {
        "rehearsed": launch.job.rehearsed,
        "scale": launch.job.scale,
        "behind_ns": pace.behind_ns,
        "worst_behind_ns": pace.worst_ns,
        "parameters_crc32": checksum,
    }
