"""JobSpec: everything a person says about a training job. Validated at construction, field by field.

Every field carries its meaning, unit and sentinels in the string under it: the service derives the JSON
schema and the web form from these classes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Literal

from engine.catalogue import STRICT
from engine.errors import UserError, require_positive, require_within
from engine.plan.budget import MemorySpec
from engine.plan.checkpoint import CheckpointSpec
from engine.plan.faults import FaultsSpec
from engine.plan.inputs import Input
from engine.plan.network import NetworkSpec
from engine.plan.overrides import Override
from engine.plan.rehearsal import RehearsalSpec
from engine.plan.restarts import check_restarts
from engine.plan.retry import RetrySpec
from engine.plan.secrets import check_names
from engine.plan.telemetry import TelemetrySpec
from engine.plan.units_of_measure import LARGEST, LEAST_RATE_BPS, format_rate
from engine.plan.updates import OptimizerSpec, ScheduleSpec

LEAST_SILENCE_S, MOST_SILENCE_S = 3.0, 86_400.0
LONGEST_S = 366 * 86_400
"""That a job may declare."""


@dataclass(frozen=True, kw_only=True)
class SourceSpec:
    """A model or a data set: one of ours by name, or a function of your own."""

    __pydantic_config__ = STRICT

    name: str | None = None
    """A name from the catalogue. Leave empty for an entry point."""
    entrypoint: str | None = None
    """Your own: `package.module:function`, called with the options."""
    directory: str | None = None
    """The directory that holds the entry point's package, as an absolute path on the workers' machines."""
    options: dict[str, Any] = field(default_factory=dict)
    """Arguments of the builder."""

    def __post_init__(self) -> None:
        if (self.name is None) == (self.entrypoint is None):
            both = {"name": self.name, "entrypoint": self.entrypoint}
            raise UserError(
                "name", both, "exactly one of name and entrypoint must be given", "Remove or add one"
            )
        if self.entrypoint is not None:
            _check_entry_point(self.entrypoint)
            if self.directory is None:
                raise UserError(
                    "directory", None, "an entry point needs its directory", "Name the folder to import from"
                )


def _check_entry_point(text: str) -> None:
    module, _, function = text.partition(":")
    if "/" in module or module.endswith(".py"):
        file = PurePosixPath(module)
        rule = "names a file; here it must read module:function, and directory names the folder"
        remedy = f"Write {file.stem}:{function or 'function'}"
        folder = f", and {file.parent} as directory" if file.is_absolute() else ""
        raise UserError("entrypoint", text, rule, remedy + folder)
    if not all(part.isidentifier() for part in (*module.split("."), function)):
        rule, remedy = "must read module:function", "Example: net:build, or mymodel.net:build in a package"
        raise UserError("entrypoint", text, rule, remedy)


@dataclass(frozen=True, kw_only=True)
class StrategySpec:
    """Which strategy builds the plan."""

    __pydantic_config__ = STRICT

    name: str = "single"
    """A strategy of the catalogue."""
    options: dict[str, Any] = field(default_factory=dict)
    """The strategy's own options; those left out keep its defaults."""


@dataclass(frozen=True, kw_only=True)
class ClusterSpec:
    """What the job runs on."""

    __pydantic_config__ = STRICT

    workers: int = 1
    """Number of workers: one process and one device each."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """`auto`: CUDA where there are enough devices for the workers, else CPU."""
    threads: int = 1
    """Compute threads of each worker (CPU)."""
    silence_s: float = 15.0
    """Seconds without a sign of life after which a process of the job is given up as lost, and the job ends. Give more
    where workers may stop for longer, e.g. in a debugger or while the machine swaps."""
    worker_loss: Literal["end", "go-on", "rejoin"] = "end"
    """What happens when a worker is killed, crashes or falls silent. `end`: the job fails. `go-on`: the others train on
    without it; for strategies in which workers do not wait for one another, with dedicated servers or without any
    (`decentralized-async`). `rejoin`: they do, with servers, and it is started anew, `restarts` times at most, and
    contributes again. A worker's own error ends the job, but under `rejoin`, where the next start may cure what
    Trainyard did not raise itself. Worker 0 evaluates and saves the model: without it the job fails."""
    restarts: int = 3
    """How often each worker is started anew, at most, under `worker_loss: rejoin`; after that, `go-on` holds for it.
    Without effect where `worker_loss` is another."""
    restart_pause_s: float = 1.0
    """Seconds between a worker's end and its first new start, under `worker_loss: rejoin`. Before each later one the
    pause is twice as long as before the one before it, a minute at most."""
    alone: bool = False
    """The job starts when no other job runs, and no other starts before it has ended: what it measures is its own."""
    nodes: Literal["pack", "spread"] = "pack"
    """How workers are dealt to machines, where the executor can run a job on several. `pack`: on as few as it takes; on
    one, for which the job waits, if any has enough devices. `spread`: over as many as have free devices, in turn.
    Without effect where a job runs on one machine."""
    mixed_gpus: bool = False
    """The job's GPUs may be of several models: the slowest sets the pace. Otherwise all are of one, for which the job
    waits."""

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise UserError("workers", self.workers, "a job needs at least one worker", "Use 1 or more")
        if self.workers > 1024:
            raise UserError("workers", self.workers, "more than 1024 workers cannot be trained", "Use fewer")
        if self.threads < 1:
            raise UserError("threads", self.threads, "a worker needs at least one thread", "Use 1 or more")
        if not LEAST_SILENCE_S <= self.silence_s <= MOST_SILENCE_S:
            raise UserError(
                "silence_s",
                self.silence_s,
                f"processes give a sign of life each second: from {LEAST_SILENCE_S:g} to {MOST_SILENCE_S:g} seconds",
                "15 is the default",
            )
        check_restarts(self.restarts, self.restart_pause_s)


@dataclass(frozen=True, kw_only=True)
class TrainingSpec:
    """How long, how much at once, in which precision."""

    __pydantic_config__ = STRICT

    steps: int | None = None
    """Length in steps. Give steps or epochs."""
    epochs: float | None = None
    """Length in passes over the training data."""
    global_batch: int = 32
    """Samples of one step over all workers."""
    micro_batches: int = 1
    """Gradient accumulation: forward and backward passes of each worker within one step."""
    precision: Literal["float32", "float64", "bf16"] = "float32"
    """`bf16`: float32 parameters, forward under bfloat16 autocast."""
    clip_norm: float | None = None
    """Scale all gradients down to this global norm. Null: no clipping. Needs all gradients at once."""
    seed: int = 0
    """Seeds initialization, data order and random masks."""
    deterministic: bool = False
    """Sums in a fixed order and deterministic kernels: the same job repeats bitwise."""
    target_accuracy: float | None = None
    """End the job when the test accuracy reaches this share (0 to 1). Null: run to the end."""

    def __post_init__(self) -> None:
        if (self.steps is None) == (self.epochs is None):
            both = {"steps": self.steps, "epochs": self.epochs}
            raise UserError(
                "steps", both, "exactly one of steps and epochs must be given", "Give one of the two"
            )
        require_positive("steps", self.steps, "steps")
        require_positive("epochs", self.epochs, "passes over the data")
        for name in ("steps", "epochs", "global_batch", "micro_batches"):
            if (getattr(self, name) or 0) > LARGEST:
                raise UserError(
                    name, getattr(self, name), f"must be at most {LARGEST}", "Use a smaller number"
                )
        require_positive("clip_norm", self.clip_norm, "a norm")
        if self.global_batch < 1:
            raise UserError(
                "global_batch", self.global_batch, "a step needs at least one sample", "Use 1 or more"
            )
        if self.micro_batches < 1:
            raise UserError(
                "micro_batches", self.micro_batches, "must be at least 1", "Use 1 for no accumulation"
            )
        if not 0 <= self.seed < 2**32:
            raise UserError("seed", self.seed, "must be from 0 to 4294967295", "Use a small number")
        if self.target_accuracy is not None and not 0 < self.target_accuracy <= 1:
            raise UserError("target_accuracy", self.target_accuracy, "is a share from 0 to 1", "97 % is 0.97")


@dataclass(frozen=True, kw_only=True)
class EvaluationSpec:
    """When the model is evaluated on the test data."""

    __pydantic_config__ = STRICT

    every_epochs: float | None = 1
    """Passes over the training data between evaluations. Null: only at the end."""
    every_steps: int | None = None
    """Steps between evaluations, in place of `every_epochs`, which may be null then or keep its default. Null: as that
    one says."""
    at_end: bool = True
    """Evaluate once more when training ends."""

    def __post_init__(self) -> None:
        require_positive("every_epochs", self.every_epochs, "passes over the data")
        if self.every_steps is not None:
            require_within("every_steps", self.every_steps, 1, LARGEST)
            if self.every_epochs not in (None, 1):  # a given 1 cannot be told from the default
                rule = f"every_epochs = {self.every_epochs:g} says something else"
                raise UserError("every_steps", self.every_steps, rule, "Leave one of the two out")


@dataclass(frozen=True, kw_only=True)
class JobSpec:
    """A training job."""

    __pydantic_config__ = STRICT

    name: str
    """What people call it."""
    model: SourceSpec
    """The model."""
    data: SourceSpec
    """The data set."""
    strategy: StrategySpec = StrategySpec()
    """How the workers synchronize."""
    overrides: tuple[Override, ...] = ()
    """Other choices for some layers, on top of the strategy's. Where several match a layer, later ones win."""
    cluster: ClusterSpec = ClusterSpec()
    """Workers and devices."""
    network: NetworkSpec = NetworkSpec()
    """Limits of the network."""
    input: Input = Input()
    """Where the data are prepared, and how far ahead. Without effect in a rehearsal, which reads none."""
    training: TrainingSpec
    """Length, batch and precision."""
    memory: MemorySpec = MemorySpec()
    """How much memory a worker may hold."""
    optimizer: OptimizerSpec = OptimizerSpec()
    """How parameters are updated."""
    schedule: ScheduleSpec = ScheduleSpec()
    """How the learning rate changes."""
    evaluation: EvaluationSpec = EvaluationSpec()
    """When accuracy is measured."""
    telemetry: TelemetrySpec = TelemetrySpec()
    """What is kept of the events."""
    fidelity: Literal["train", "rehearse", "simulate"] = "train"
    """`train`: everything real. `rehearse`: compute is replayed from a profile by waiting; processes, gradients and
    bytes are real. `simulate` is not built yet."""
    rehearsal: RehearsalSpec = RehearsalSpec()
    """What a rehearsal replays. Without effect where the fidelity is another."""
    faults: FaultsSpec = FaultsSpec()
    """What is made worse on purpose: workers that compute more slowly than they could."""
    baseline: str | None = None
    """The job (its id) that speed-up is measured against. Null: none."""
    retry: RetrySpec = RetrySpec()
    """What happens when it fails."""
    checkpoint: CheckpointSpec = CheckpointSpec()
    """Whether, and how often, its state is saved for another attempt to go on from."""
    secrets: tuple[str, ...] = ()
    """Names of secrets of whoever submits it: its processes find each in the environment variable of that name."""
    priority: int = 0
    """Higher runs first; equal priorities run by age."""
    project: str | None = None
    """Whose quota and share of the devices it counts for: one of the projects that admins made. Null: none."""
    duration_s: float | None = None
    """Seconds that one attempt is expected to take, at the most. Jobs whose duration is known may start before a wider
    one whose turn it is, on devices that are free until that one can start. A job that runs longer goes on: it is then
    one of which nobody knows when it ends. Null: not known."""

    def __post_init__(self) -> None:
        if not self.name.strip() or len(self.name) > 200:
            raise UserError("name", self.name, "must have 1 to 200 characters", "Give the job a short name")
        check_names(self.secrets)
        if self.fidelity == "simulate":
            rule = "not available: simulation is not built yet"
            raise UserError("fidelity", self.fidelity, rule, "Use train or rehearse")
        if self.fidelity == "rehearse":
            self._check_rehearsal()
        self.faults.check(self.cluster.workers)
        if not -1000 <= self.priority <= 1000:
            raise UserError("priority", self.priority, "must be from -1000 to 1000", "0 is the default")
        if self.duration_s is not None and not 1 <= self.duration_s <= LONGEST_S:
            rule = f"a job may declare from 1 to {LONGEST_S} seconds"
            raise UserError("duration_s", self.duration_s, rule, "Leave it out where you do not know")

    def _check_rehearsal(self) -> None:
        if self.cluster.device == "cuda":
            raise UserError(
                "cluster.device",
                "cuda",
                "a rehearsal computes nothing: it needs no device",
                "Use auto or cpu",
            )
        slowest = self.network.rate_bps
        if slowest is not None and slowest / self.rehearsal.scale < LEAST_RATE_BPS:
            raise UserError(
                "network.rate",
                format_rate(slowest),
                f"divided by rehearsal.scale ({self.rehearsal.scale:g}) it is below {format_rate(LEAST_RATE_BPS)}, the "
                "least that a link here can keep",
                "Give a higher rate or a smaller scale",
            )
        if self.training.target_accuracy is not None:
            raise UserError(
                "training.target_accuracy",
                self.training.target_accuracy,
                "a rehearsal learns nothing, so it has no accuracy",
                "Leave it out, or train",
            )

    @property
    def rehearsed(self) -> str | None:
        """The label of everything that a rehearsal yields; None for a job that trains."""
        return self.rehearsal.text if self.fidelity == "rehearse" else None

    @property
    def slowed(self) -> str | None:
        """The label of everything that a job with stragglers yields; None for a job without."""
        return self.faults.text

    @property
    def scale(self) -> float:
        """What tensors, units and link rates are divided by: 1 where the job is no rehearsal."""
        return self.rehearsal.scale if self.fidelity == "rehearse" else 1.0

    def pass_samples(self, replicas: int) -> int:
        """Samples of one forward pass, at the most, where so many replicas of the model share a batch."""
        return -(-self.training.global_batch // (replicas * self.training.micro_batches))
