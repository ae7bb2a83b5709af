"""Jobs as the API shows them."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import ConfigDict

from backend.schemas.base import Schema, keep_schemas
from backend.schemas.plans import PlanView
from engine.plan.job import JobSpec

keep_schemas(JobSpec)

State = Literal[
    "queued",
    "placing",
    "starting",
    "running",
    "preempting",
    "stopping_cancelled",
    "stopping_failed",
    "stopping_succeeded",
    "succeeded",
    "failed",
    "cancelled",
]


class JobSummary(Schema):
    """One row of the list of jobs: from rollups only."""

    id: str
    """Opaque; sorts by creation."""
    name: str
    """As its owner called it."""
    owner: str | None = None
    """The user who made it. Null: made where nobody was asked who they are."""
    state: State
    """Where it is in its life."""
    reason: str | None
    """Code of why it is in this state; every end has one."""
    message: str | None
    """The same for a person; for a failure, the worker's own last error."""
    strategy: str
    """How its workers synchronize."""
    planned_by: str
    """The same for people: with the number of overrides, where some layers do otherwise, as in `p3 + 2 overrides`."""
    model: str
    """The model's name or entry point."""
    dataset: str
    """The data set's name or entry point."""
    workers: int
    """Number of workers."""
    global_batch: int
    """Samples of one step over all workers."""
    rate_bps: int | None
    """Rate of each host's port, in bits per second per direction; the slowest host's. Null: not limited."""
    fastest_bps: int | None
    """The fastest host's: another one where hosts' rates differ."""
    hosts: int | None
    """Hosts of the lab whose links keep the rate. Null: no lab, the rate is limited in software."""
    rehearsed: str | None
    """The label of a rehearsal, which stands beside each of its figures: what its compute times rest on, and by how
    much sizes and rates were divided. Null for a job that trains."""
    slowed: str | None
    """Which workers are slowed on purpose, and by how much. Null: none is."""
    priority: int
    """Higher runs first."""
    baseline_id: str | None
    """The job that its speed-up is measured against."""
    created_at: datetime
    retry_at: datetime | None
    """Of a queued job whose last attempt failed: not before this is it tried again. Null for every other."""
    started_at: datetime | None
    ended_at: datetime | None
    step: int | None
    """Steps that every worker finished. Null: none yet."""
    steps: int | None
    """How many it will run. Null where its length in epochs is not known in steps yet."""
    loss: float | None
    """Of the last step."""
    test_accuracy: float | None
    """Last measured share of the test data (0 to 1)."""
    accuracy_of: str | None
    """Of which model `test_accuracy` is, at which version, where workers drift: worker 0's own, or what all end with.
    Null where all workers hold the same in every step."""
    samples_per_s: float | None
    """Throughput over the window, warm-up left out: of each worker its mean samples per step over its own median
    iteration time, summed. So it is more than `global_batch` over `iteration_ms` where workers are not equally fast."""
    iteration_ms: float | None
    """Median iteration time over the window, warm-up left out, of the slowest worker."""
    speed_up: float | None
    """Throughput over the baseline's, as it was stored last. Null where there is none, or it cannot be compared. That
    over a baseline which was deleted stays."""
    speed_up_caveat: str | None
    """What a reader must know to trust it, such as another job that ran at the same time; where it cannot be compared,
    why."""
    revision: int
    """Goes up with every change of the job or of its telemetry."""
    attempt: str | None
    """Id of its latest attempt."""
    tags: list[str]
    """What people sort it under."""
    note: str | None
    """What a person wrote about it."""


class DroppedDetail(Schema):
    """Single events that should have been kept and could not be, for want of room; the totals have them."""

    party: str
    """The process that recorded them."""
    first_step: int
    last_step: int
    """Both -1 where they belong to no step."""
    events: int
    text: str
    """The same for a person."""


class Attempt(Schema):
    """One try at running the job."""

    id: str
    number: int
    """1 for the first."""
    state: str
    reason: str | None
    message: str | None
    parties: list[str]
    """Its processes by number: workers first, then servers."""
    devices: list[str]
    """What it was given, by worker: `cpu:0`, `cuda:1`."""
    device_models: list[str] | None
    """What each of them is, e.g. `NVIDIA H200`; empty text: the machine does not say. Null: nobody asked."""
    exit_code: int | None
    sealed: bool
    """Whether all its telemetry has arrived."""
    preempted_for: str | None
    """Id of the job with a higher priority that it made room for, or has to. Null: none, or a person asked."""
    resumed_step: int | None
    """The step of the checkpoint that it goes on from; null: it began at step 0. What earlier attempts recorded of that
    step and later ones was run again."""
    started_at: datetime | None
    ended_at: datetime | None
    dropped: list[DroppedDetail]
    """Where its detail is missing, by process and range of steps. Empty: nowhere."""
    lost: list[LostWorker]
    """Workers without which it went on, as its end says. Empty: none, or it has not ended yet."""


class LostWorker(Schema):
    """A worker without which an attempt went on (`cluster.worker_loss`: `go-on` or `rejoin`)."""

    worker: str
    steps: int
    """That it had contributed when it was lost."""
    text: str
    """Who was lost, after which step, why, where the attempt has ended, and what that means for the samples that are
    trained on."""


class Transition(Schema):
    """One change of the state of a job or of one of its attempts."""

    attempt: int | None
    """Number of the attempt that changed; null: the job itself."""
    from_state: str | None
    to_state: str
    reason: str | None
    message: str | None
    at: datetime


class Job(JobSummary):
    """One job, whole."""

    spec: JobSpec
    """What was submitted."""
    plan: PlanView
    """What its strategy made of it."""
    attempts: list[Attempt]
    """Oldest first."""
    history: list[Transition]
    """Every state the job went through, oldest first."""


class BaselineRequest(Schema):
    """What a job's speed-up is to be measured against from now on."""

    baseline: str | None
    """Id of another job. Null: against none, and what was measured goes."""


class Labels(Schema):
    """What a person says of a job. What is left out stays as it is."""

    model_config = ConfigDict(extra="forbid")

    tags: list[str] = []
    """All its tags from now on."""
    note: str | None = None
    """Null: none."""


class JobGroup(Schema):
    """Jobs that have one thing in common."""

    value: str | None
    """What they have in common: a model, a strategy, a tag, or a race's id. Null: those without a tag, or of no
    race."""
    name: str
    """The same for people."""
    jobs: int
    active: int
    """How many of them wait or run."""


class JobGroups(Schema):
    """Groups, that with the newest job first."""

    items: list[JobGroup]
    truncated: bool
    """Whether there are more groups than are listed."""


class Deletion(Schema):
    """How far a job with much telemetry is deleted."""

    rows_deleted: int
    """By this request."""
    rows_left: int


class Page(Schema):
    """A page of a list."""

    next_cursor: str | None
    """Give it as `cursor` for the next page. Null: this is the last one."""


class JobPage(Page):
    """A page of jobs, newest first."""

    items: list[JobSummary]


class AttemptPage(Page):
    """A page of a job's attempts, newest first."""

    items: list[Attempt]


class TransitionPage(Page):
    """A page of a job's history, oldest first."""

    items: list[Transition]
