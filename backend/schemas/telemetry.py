"""Series, events, logs and summary of one job."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from backend.schemas.base import Schema


class Point(Schema):
    """One value of a series."""

    step: int
    value: float | None
    """Null: not a number."""
    time_ns: int
    """On the attempt's clock."""


class Metrics(Schema):
    """Series by name (`loss`, `throughput`, `iteration_ms`, `test_accuracy`, ...), each at most 2,000 points:
    the first, the smallest, the largest and the last of every stretch, so that no spike is lost."""

    rehearsed: str | None
    """The label of a rehearsal, which stands beside every series; null for a job that trains."""
    slowed: str | None
    """Which workers are slowed on purpose, and by how much; it stands beside the rehearsal's label. Null: none is."""
    series: dict[str, list[Point]]
    revision: int


class Events(Schema):
    """Detailed events as columns of equal length, in order of their start."""

    rehearsed: str | None
    """The label of a rehearsal, which stands beside these times; null for a job that trains."""
    slowed: str | None
    """Which workers are slowed on purpose, and by how much; it stands beside the rehearsal's label. Null: none is."""
    worker: list[int]
    """Party that recorded it."""
    step: list[int]
    layer: list[int]
    """Index into `layers`; -1: none."""
    unit: list[int]
    """The slice; -1: none."""
    kind: list[str]
    track: list[str]
    peer: list[int]
    """The other side's party number; -1: none."""
    priority: list[int]
    queued_ns: list[int]
    """When it could have started; -1: not known."""
    start_ns: list[int]
    end_ns: list[int]
    bytes: list[int]
    clock: list[str]
    """Whose times these are: `host`, or `cuda`, the device that computed it."""
    layers: list[str]
    """Names by index."""
    layer_names: list[str]
    """The same as people read them: `4 (Conv2d)` of a layer called `4`."""
    buckets: dict[str, str]
    """What people read as names of units that carry several layers, by unit; `layer` is the first of them."""
    parties: list[str]
    """Names by number."""
    kinds: list[str]
    """Every kind that an event can have."""
    newest_step: int | None
    """The newest ended step of which every worker kept its events, whichever were asked for. Null: there is none."""
    truncated: bool
    """Whether there is more."""
    next_cursor: str | None
    """Give it as `cursor` for what follows. Null: this is all."""


class MetricName(Schema):
    """One series of a job."""

    name: str
    last_step: int
    """The last step that it has a value of."""


class MetricNames(Schema):
    """Every series that a job has."""

    items: list[MetricName]


class RecordRequest(Schema):
    """Which steps of a running job to keep every event of, besides those that its specification says."""

    steps: Annotated[int, Field(ge=1, le=1000)] = 20
    """So many, from the newest one that is known."""


class Recording(Schema):
    """The steps whose events are being kept; all processes of the job keep the same ones."""

    first_step: int
    last_step: int


class LogTimes(Schema):
    """When a log had how many bytes, as columns of equal length: a line that ends at a byte was written by the time of
    the first entry that reaches it, and after that of the one before; to about a second."""

    until: list[int]
    """The log's bytes."""
    unix_ms: list[int]
    """At that time, in ms since 1970."""


class Logs(Schema):
    """A piece of one process's output."""

    party: str
    parties: list[str]
    """All that have logs: the job's processes, and the supervisor that started them."""
    text: str
    next_offset: int
    """Give it as `offset` for what comes next."""
    size: int
    """Bytes that the log has now."""
    failed: str | None
    """The party that failed first, where the attempt has ended so."""
    times: LogTimes
    """Of the piece; empty for the supervisor, whose lines say theirs, and for attempts of earlier versions."""


class SpeedUp(Schema):
    """Throughput against a baseline job."""

    baseline_id: str | None
    """Null: it was deleted; what was measured against it stays."""
    baseline_name: str
    value: float | None
    low: float | None
    """Ends of the value's 95 % confidence interval. Null: too little was measured to tell."""
    high: float | None
    certainty: Literal["certain", "level", "chance"] | None
    """What value and interval prove: one is ahead, neither is, or who is ahead may be chance. Null: there is none."""
    kind: Literal["strong", "weak"] | None
    """`strong`: equal global batch. `weak`: equal batch per worker."""
    comparable: bool
    """Whether the two jobs may be compared. There may be no value yet, for want of steps."""
    why_not: str | None


class SpeedUpSample(Schema):
    """A job's speed-up as it was measured at some time, and what it rests on."""

    step: int
    """Last step of the job's window; -1: before its first step ended."""
    first_step: int
    time_ns: int
    """When `step` ended, on the attempt's clock."""
    measured_at: datetime
    baseline_id: str
    baseline_name: str
    baseline_attempt: int | None
    """Number of the baseline's attempt. Null: it had none yet."""
    baseline_first_step: int
    baseline_last_step: int
    samples_per_s: float | None
    baseline_samples_per_s: float | None
    value: float | None
    """Null: not comparable."""
    low: float | None
    """Ends of the value's 95 % confidence interval. Null: too little was measured to tell."""
    high: float | None
    kind: Literal["strong", "weak"]
    refused: list[str]
    """Why it is not comparable; empty where it is."""
    caveats: list[str]
    """What a reader must know to trust the value."""
    final: bool
    """Both jobs had ended."""


class SpeedUps(Schema):
    """A job's speed-up over its baseline, over time: every few seconds at first, more rarely later, and at its end."""

    rehearsed: str | None
    """The label of a rehearsal, which stands beside every value; null for a job that trains."""
    slowed: str | None
    """Which workers are slowed on purpose, and by how much; it stands beside the rehearsal's label. Null: none is."""
    items: list[SpeedUpSample]
    """By step."""
    revision: int


class Processors(Schema):
    """How busy the processors of a job's machine were while its measured steps ran: shares (0 to 1) of all that the job
    may use."""

    busy: float
    """Not idle, whoever used them."""
    own: float
    """Taken by the job's own processes."""


class InputWait(Schema):
    """How long a worker waits for its data in a step, by the definition of waiting for input."""

    worker: int
    ms: float
    """Median over the window."""
    share: float | None
    """Of its own iteration (0 to 1). Null: no iteration of it has ended."""


class Summary(Schema):
    """The figures of one job by `engine/telemetry/definitions.py`: medians over a window, warm-up left
    out."""

    rehearsed: str | None
    """The label of a rehearsal, which stands beside each of these figures; null for a job that trains."""
    slowed: str | None
    """Which workers are slowed on purpose, and by how much; it stands beside the rehearsal's label. Null: none is."""
    steps: int
    """Finished by every worker."""
    window_steps: int
    """Steps that the medians are over."""
    iteration_ms: float | None
    """Start of forward to start of next forward: the median of the slowest worker."""
    compute_ms: float | None
    """Time of a step in which a worker computes: the median of the worker that has most."""
    exposed_ms: float | None
    """Time of a step in which a worker computes nothing because a version has not arrived: the median of the worker
    that has most."""
    compute_worker: int | None
    """The rank of the worker whose `compute_ms` that is, where another one has most of `exposed_ms`, and the two do not
    add up to any worker's iteration. Null: they do."""
    exposed_worker: int | None
    """Likewise of `exposed_ms`."""
    input_ms: float | None
    """Time of a step in which a worker computes nothing because its batch is not there: the median of the worker for
    which that is the largest share of its iteration."""
    inputs: list[InputWait]
    """The same of every worker that is there, by rank. Empty: not known yet."""
    input_hint: str | None
    """What to change where waiting for input limits the job. Null: it does not."""
    samples_per_s: float | None
    """Of each worker its mean samples per step over its own median iteration time, summed: more than the global batch
    over `iteration_ms` where workers are not equally fast."""
    processors: Processors | None
    """Null: not known, because the machine does not say it (it has no /proc), or too few steps were measured."""
    speed_up: SpeedUp | None
    """Null: no baseline."""
    convergence_speed_up: float | None
    """The baseline's `time_to_target_s` over this job's. Null: one of them has none, or `speed_up` refuses the
    comparison and says why."""
    wire_bytes_per_step: int | None
    """Declared by the plan: payload over all links, at true sizes where a rehearsal's are scaled."""
    counted_bytes_per_step: int | None
    """Where the plan declares none, as for `ddp`: what the kernel counted as sent on the job's own links, at true sizes
    where a rehearsal's are scaled: of a lab's hosts with headers, elsewhere what PyTorch's sockets carried. Null: the
    plan declares them, or nothing was counted."""
    rate_bps: int | None
    """Software-limited rate. Null: not limited."""
    loss: float | None
    test_accuracy: float | None
    accuracy_of: str | None
    """Of which model `test_accuracy` is, at which version, where workers drift: worker 0's own, or what all end with.
    Null where all workers hold the same in every step."""
    target_accuracy: float | None
    time_to_target_s: float | None
    """How long the job had trained when the test accuracy reached the target: from the start of the first step on, with
    all attempts whose steps this one rests on, without the time between them. Null: it has not reached it, or the job
    begins with another job's checkpoint, whose time is not its own."""
    duration_s: float | None
    """Of this attempt, from its first step's start to its last step's end."""
    revision: int
